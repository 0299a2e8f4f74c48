//! Foreign text where people read it: what acts on a terminal, or cannot be seen, is shown as an escape.

use std::borrow::Cow;
use std::fmt::Write;

/// The text with control, bidi, zero-width, filler and tag characters written as escapes of JSON.
///
/// Line feeds and tabs stay, as do joiners where scripts and emoji need them.
///
/// ```
/// use agent_types::visible;
///
/// assert_eq!(visible("\u{1b}[2J pay\u{202e}001"), "\\u001b[2J pay\\u202e001");
/// assert_eq!(visible("two\nlines 中文 👩\u{200d}💻"), "two\nlines 中文 👩\u{200d}💻");
/// ```
#[must_use]
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    let (mut before, mut chars) = (' ', text.chars().peekable());
    while let Some(char) = chars.next() {
        let after = chars.peek().copied().unwrap_or(' ');
        // A line may end as on Windows.
        let is_line_end = char == '\r' && after == '\n';
        if is_hidden(char) && !is_line_end && !joins(before, char, after) {
            let mut units = [0; 2];
            for unit in char.encode_utf16(&mut units) {
                // Writing to a text cannot fail.
                let _ = write!(shown, "\\u{unit:04x}");
            }
        } else if !is_line_end {
            shown.push(char);
        }
        before = char;
    }
    Cow::Owned(shown)
}

/// Characters that act or cannot be seen.
fn is_hidden(char: char) -> bool {
    (char.is_control() && char != '\n' && char != '\t')
        || matches!(char,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Returns `true` for a joiner or selector that the characters around it need.
fn joins(before: char, char: char, after: char) -> bool {
    match char {
        '\u{fe0f}' => is_pictogram(before) || matches!(before, '0'..='9' | '#' | '*') && after == '\u{20e3}',
        '\u{200d}' => {
            (is_pictogram(before) || before == '\u{fe0f}') && is_pictogram(after)
                || is_joining(before) && is_joining(after)
        }
        '\u{200c}' => is_joining(before) && is_joining(after),
        _ => false,
    }
}

fn is_pictogram(char: char) -> bool {
    matches!(char, '\u{a9}' | '\u{ae}' | '\u{203c}'..='\u{3299}' | '\u{1f000}'..='\u{1faff}')
        && !is_hidden(char)
}

/// Scripts whose letters join: Arabic, Syriac, and those of India and its neighbours.
const fn is_joining(char: char) -> bool {
    matches!(char, '\u{620}'..='\u{8ff}' | '\u{900}'..='\u{dff}' | '\u{1780}'..='\u{17b3}' | '\u{fb50}'..='\u{fdff}')
}

#[cfg(test)]
mod tests {
    use super::visible;

    #[test]
    fn n09_what_cannot_be_seen_is_shown() {
        for (text, shown) in [
            ("\u{1b}]0;owned\u{7}title", "\\u001b]0;owned\\u0007title"),
            ("a\u{9b}2Jb\u{85}", "a\\u009b2Jb\\u0085"),
            ("a\u{202e}b\u{2066}c", "a\\u202eb\\u2066c"),
            ("pay\u{200b}pal\u{feff}\u{ad}", "pay\\u200bpal\\ufeff\\u00ad"),
            ("x\u{e0041}\u{e007f}", "x\\udb40\\udc41\\udb40\\udc7f"),
            ("a\u{fe0f}b\u{200d}c", "a\\ufe0fb\\u200dc"),
            ("two\r\nlines\tand\r", "two\nlines\tand\\u000d"),
            (
                "中文 ❤\u{fe0f} 👩\u{200d}💻 1\u{fe0f}\u{20e3} می\u{200c}خواهم",
                "中文 ❤\u{fe0f} 👩\u{200d}💻 1\u{fe0f}\u{20e3} می\u{200c}خواهم",
            ),
            ("<img onerror=x>", "<img onerror=x>"),
        ] {
            assert_eq!(visible(text), shown);
        }
    }
}

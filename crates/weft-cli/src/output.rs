//! Output on stdout, which the reader may close at any time.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use agent_types::Problem;
use serde::Serialize;

use crate::failure::{Exit, Failure};

/// Set once the reader has closed stdout.
static CLOSED: AtomicBool = AtomicBool::new(false);

/// Returns `true` once stdout is closed, so that a run need not continue for it.
pub(crate) fn is_closed() -> bool {
    CLOSED.load(Ordering::Relaxed)
}

/// Writes a line of data. A terminal is shown what it may show; a pipe gets the text as it is.
pub(crate) fn line(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    let text = if stdout.is_terminal() { printable(text) } else { text.into() };
    written(writeln!(stdout, "{text}").and_then(|()| stdout.flush()))
}

/// A text that changes nothing but the screen's next lines: foreign text may hold signs that move the cursor, rename the
/// window, or turn the reading direction around.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    let is_odd = |char: char| {
        (char.is_control() && char != '\n' && char != '\t')
            || matches!(char, '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
    };
    if !text.contains(is_odd) {
        return Cow::Borrowed(text);
    }
    text.chars().filter(|char| !is_odd(*char)).collect()
}

/// Writes a value on one line.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Failure> {
    line(&text_of(value)?)
}

/// Writes a value for people who read JSON.
pub(crate) fn pretty(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(|error| no_json(&error))?;
    line(&text)
}

/// A value as JSON on one line.
pub(crate) fn text_of(value: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(value).map_err(|error| no_json(&error))
}

/// Prints a problem on stderr: what it is, its place in a file, and the suggestion or else the fix.
pub(crate) fn problem(file: &str, problem: &Problem, fix: Option<&str>) {
    note!("{}[{}]: {}", problem.severity.as_str(), problem.code, problem.message);
    note!("  --> {}", format!("{file}{}", problem.place).trim_end_matches([',', ' ']));
    match (&problem.suggest, fix) {
        (Some(near), _) => note!("help: did you mean `{near}`?"),
        (None, Some(fix)) => note!("help: {fix}"),
        (None, None) => {}
    }
}

fn no_json(error: &serde_json::Error) -> Failure {
    Failure::new(Exit::Failed, "no_json", error.to_string())
}

fn written(result: io::Result<()>) -> Result<(), Failure> {
    match result {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            CLOSED.store(true, Ordering::Relaxed);
            Ok(())
        }
        Err(error) => Err(Failure::new(Exit::Failed, "output", error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::printable;

    #[test]
    fn s11_a_terminal_is_not_told_what_to_do() {
        for (text, shown) in [
            ("\u{1b}]0;owned\u{7}title", "]0;ownedtitle"),
            ("a\u{202e}b", "ab"),
            ("\u{1b}[2Jgone", "[2Jgone"),
            ("two\nlines\tand 中文", "two\nlines\tand 中文"),
            ("<img onerror=x>", "<img onerror=x>"),
        ] {
            assert_eq!(printable(text), shown);
        }
    }
}

//! Texts as patterns see them: differences of width, case and blanks do not count.

use std::borrow::Cow;

use unicode_normalization::{UnicodeNormalization, is_nfkc_quick};

/// A message as patterns see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    /// NFKC, blanks folded, case kept: what regular expressions are run on and groups are cut from.
    pub(crate) plain: String,
    /// The same with case folded: what texts are looked for in.
    pub(crate) folded: String,
}

impl Seen {
    pub(crate) fn new(message: &str) -> Self {
        let plain = plain(message);
        let folded = fold(&plain);
        Self { plain, folded }
    }
}

/// NFKC without invisible characters. Blanks become one space between words, and none beside Chinese or Japanese characters.
pub(crate) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut last = None;
    let mut blank = false;
    for c in composed(text).chars().filter(|c| !is_invisible(*c)) {
        if c.is_whitespace() {
            blank = true;
            continue;
        }
        if let Some(last) = last.filter(|_| blank)
            && !is_unspaced(last)
            && !is_unspaced(c)
        {
            out.push(' ');
        }
        blank = false;
        last = Some(c);
        out.push(c);
    }
    out
}

/// Case folded, character by character, so that a part of a text folds to a part of the folded text.
pub(crate) fn fold(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    // Down first: the capital sharp s has no capital but itself.
    let lower = text.chars().flat_map(char::to_lowercase);
    lower.flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect()
}

fn composed(text: &str) -> Cow<'_, str> {
    if text.is_ascii() || is_nfkc_quick(text.chars()) == unicode_normalization::IsNormalized::Yes {
        return text.into();
    }
    text.nfkc().collect::<String>().into()
}

/// Invisible characters, such as a zero-width space.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{AD}' | '\u{34F}' | '\u{61C}' | '\u{180B}'..='\u{180F}' | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}'
        | '\u{2060}'..='\u{206F}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' | '\u{E0000}'..='\u{E0FFF}')
}

/// Characters of scripts that put no blanks between words.
fn is_unspaced(c: char) -> bool {
    matches!(c,
        '\u{2E80}'..='\u{312F}' | '\u{31A0}'..='\u{31FF}' | '\u{3400}'..='\u{4DBF}' | '\u{4E00}'..='\u{9FFF}'
        | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{3FFFF}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn width_case_and_blanks_are_folded() {
        for (text, expected) in [
            ("我 要 请　假", "我要请假"),
            ("please ｒｅｓｅｔ　ｐｉｎ now", "please reset pin now"),
            ("  Reset\n\tPIN  ", "reset pin"),
            ("this hippo", "this hippo"),
            ("reset 密码 now", "reset密码now"),
            ("re\u{200B}set\u{AD} p\u{2060}in", "reset pin"),
            ("ＳＴＲＡSSE straße", "strasse strasse"),
            ("ΣΊΣΥΦΟΣ σίσυφος", "σίσυφοσ σίσυφοσ"),
            ("e\u{301}tat É", "état é"),
            ("", ""),
            (" \u{200B} ", ""),
        ] {
            assert_eq!(Seen::new(text).folded, expected, "{text}");
        }
    }

    /// Texts that differ only by simple case folding, which regular expressions use, fold to the same.
    #[test]
    fn folding_is_at_least_that_of_regular_expressions() {
        for c in ('\0'..=char::MAX).filter(|c| plain(&c.to_string()) == c.to_string()) {
            let mut class =
                regex_syntax::hir::ClassUnicode::new([regex_syntax::hir::ClassUnicodeRange::new(c, c)]);
            class.case_fold_simple();
            for range in class.ranges() {
                for other in range.start()..=range.end() {
                    assert_eq!(fold(&other.to_string()), fold(&c.to_string()), "{c} {other}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn a_message_is_seen_as_itself(text in "\\PC{0,40}") {
            let seen = Seen::new(&text);
            prop_assert_eq!(plain(&seen.plain), seen.plain.clone());
            prop_assert!(!seen.plain.contains("  "));
        }

        #[test]
        fn folding_goes_character_by_character(a in "\\PC{0,20}", b in "\\PC{0,20}") {
            prop_assert_eq!(fold(&format!("{a}{b}")), fold(&a) + &fold(&b));
        }
    }
}

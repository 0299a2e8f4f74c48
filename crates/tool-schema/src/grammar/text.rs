//! Characters of texts, in the words of regular expressions and of GBNF.

use super::GrammarScope;

/// Characters excluded from a text, without the brackets of a class and without `<` and `&`.
pub(super) fn excluded(scope: GrammarScope) -> &'static str {
    match scope {
        GrammarScope::Wide => r"\x00-\x08\x0B\x0C\x0E-\x1F",
        GrammarScope::Narrow => r"\x00-\x1F\x7F",
    }
}

/// Further characters that a text may not begin with: a line break there is layout, and a small model may emit blanks
/// endlessly.
pub(super) fn excluded_first(scope: GrammarScope) -> &'static str {
    match scope {
        GrammarScope::Wide => r"\n\r",
        GrammarScope::Narrow => " ",
    }
}

/// Characters that XML cannot hold, for regular expressions only.
pub(super) const NONCHARACTERS: &str = r"\x{FFFE}\x{FFFF}";

/// The five entities.
pub(super) const ENTITIES: [&str; 5] = ["amp", "lt", "gt", "quot", "apos"];

/// A text between quotes, as both languages write it.
pub(super) fn literal(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

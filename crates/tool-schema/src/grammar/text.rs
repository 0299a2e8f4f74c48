//! Characters of texts, in the words of regular expressions and of GBNF.

use super::GrammarScope;

/// What may stand in a text, without the brackets of a class and without `<` and `&`.
pub(super) fn excluded(breadth: GrammarScope) -> &'static str {
    match breadth {
        GrammarScope::Wide => r"\x00-\x08\x0B\x0C\x0E-\x1F",
        GrammarScope::Narrow => r"\x00-\x1F\x7F",
    }
}

/// What may not begin a text besides: a line break there is layout, and a small model begins with blanks for ever.
pub(super) fn excluded_first(breadth: GrammarScope) -> &'static str {
    match breadth {
        GrammarScope::Wide => r"\n\r",
        GrammarScope::Narrow => " ",
    }
}

/// What no XML holds, for regular expressions only.
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

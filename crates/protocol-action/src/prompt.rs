//! Prompt text that explains the form of calls to a model.

/// The language of the instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Lang {
    /// English.
    #[default]
    En,
    /// Chinese.
    Zh,
}

/// Instructions with examples: a simple call, a list, a nested value, CDATA, an answer without a
/// tool, and a correction after an error. The tools in the examples are placeholders; the catalogue
/// of the real ones goes beside this text.
///
/// ```
/// use protocol_action::{prompt_rules, Lang};
/// assert!(prompt_rules(Lang::En).contains("<ACTION>"));
/// ```
pub const fn prompt_rules(lang: Lang) -> &'static str {
    match lang {
        Lang::En => include_str!("prompt/en.md"),
        Lang::Zh => include_str!("prompt/zh.md"),
    }
}

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

/// Instructions around an example: the block of a call, best one of a tool that the model has.
///
/// The catalogue of the tools goes beside this text.
///
/// ```
/// use protocol_action::{prompt_rules, Lang};
/// let rules = prompt_rules(Lang::En, "<ACTION>\n  <now></now>\n</ACTION>");
/// assert!(rules.contains("\n  <now></now>\n"));
/// ```
pub fn prompt_rules(lang: Lang, example: &str) -> String {
    let rules = match lang {
        Lang::En => include_str!("prompt/en.md"),
        Lang::Zh => include_str!("prompt/zh.md"),
    };
    rules.trim_end().replacen("{example}", example, 1)
}

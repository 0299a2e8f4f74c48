//! Fixed sentences, in the agent's language.

use agent_runtime::Language;

/// Default texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sentence {
    /// A flow or an action failed.
    Failed,
    /// A person takes over.
    HandedOff,
    /// The conversation is closed.
    Closed,
    /// The profile was updated.
    Updated,
}

impl Sentence {
    pub(crate) const fn text(self, language: Language) -> &'static str {
        match (self, language) {
            (Self::Failed, Language::En) => "Sorry, that did not work. Please try again later.",
            (Self::Failed, Language::Zh) => "抱歉，操作未能完成，请稍后再试。",
            (Self::HandedOff, Language::En) => "You are being connected to a person...",
            (Self::HandedOff, Language::Zh) => "正在为您转接人工服务...",
            (Self::Closed, Language::En) => "This conversation is closed.",
            (Self::Closed, Language::Zh) => "会话已关闭。",
            (Self::Updated, Language::En) => "Your details are updated.",
            (Self::Updated, Language::Zh) => "信息已更新。",
        }
    }
}

//! Fixed sentences, in the session's language.

use std::collections::BTreeMap;

use agent_runtime::Language;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Sentences in place of the fixed ones, by language: `en`, `zh`, or any other that sessions have.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Texts(pub BTreeMap<String, Sentences>);

/// Sentences of one language; absent ones are the fixed ones.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Sentences {
    /// A flow or an action failed.
    pub failed: Option<String>,
    /// A person takes over.
    pub handed_off: Option<String>,
    /// The conversation is closed.
    pub closed: Option<String>,
    /// The profile was updated.
    pub updated: Option<String>,
}

impl Texts {
    /// Returns `true` where every sentence is the fixed one.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A sentence in the wanted language, else in that of the agent.
    pub(crate) fn sentence(&self, sentence: Sentence, wanted: Option<&str>, agent: Language) -> String {
        let own = code_of(agent);
        let wanted = wanted.unwrap_or(own);
        let language = wanted.split(['-', '_']).next().unwrap_or(wanted);
        let written = |code: &str| sentence.written(self.0.get(code)?);
        let built_in = match language {
            "en" => Some(Language::En),
            "zh" => Some(Language::Zh),
            _ => None,
        };
        let found = written(wanted).or_else(|| written(language));
        let found = found.or_else(|| built_in.map(|language| sentence.text(language)));
        found.or_else(|| written(own)).unwrap_or_else(|| sentence.text(agent)).to_owned()
    }
}

const fn code_of(language: Language) -> &'static str {
    match language {
        Language::En => "en",
        Language::Zh => "zh",
    }
}

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
    fn written(self, sentences: &Sentences) -> Option<&str> {
        let text = match self {
            Self::Failed => &sentences.failed,
            Self::HandedOff => &sentences.handed_off,
            Self::Closed => &sentences.closed,
            Self::Updated => &sentences.updated,
        };
        text.as_deref()
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_is_that_of_the_session_else_of_the_agent() {
        let german = Sentences { failed: Some("Leider nicht.".into()), ..Sentences::default() };
        let texts = Texts(BTreeMap::from([("de".to_owned(), german)]));
        let shown = |wanted, agent| texts.sentence(Sentence::Failed, wanted, agent);
        assert_eq!(shown(Some("de-AT"), Language::En), "Leider nicht.");
        assert_eq!(shown(Some("zh-CN"), Language::En), Sentence::Failed.text(Language::Zh));
        assert_eq!(shown(None, Language::Zh), Sentence::Failed.text(Language::Zh));
        assert_eq!(shown(Some("fr"), Language::En), Sentence::Failed.text(Language::En));
        assert_eq!(texts.sentence(Sentence::Closed, Some("de"), Language::Zh), "会话已关闭。");
    }
}

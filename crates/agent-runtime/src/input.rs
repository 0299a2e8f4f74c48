//! What sets an agent to work.

use llm_provider::Attachment;
use serde_json::Value;

use crate::history::Exchange;

/// What an agent is to answer.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentInput {
    /// What a person says.
    Message(String),
    /// What a person says, with images and files. A model that takes none of their kind is told of them in words.
    Attached {
        /// The text.
        text: String,
        /// What goes with it.
        attachments: Vec<Attachment>,
    },
    /// Something that happened outside, and that the agent listens to.
    Event {
        /// Its name.
        name: String,
        /// What it says.
        payload: Value,
    },
}

impl AgentInput {
    /// It in words, for lists of runs.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Message(text) | Self::Attached { text, .. } => text.clone(),
            Self::Event { name, .. } => format!("event {name}"),
        }
    }

    pub(crate) fn into_exchange(self) -> Exchange {
        match self {
            Self::Message(text) => Exchange::user(text),
            Self::Attached { text, attachments } => Exchange::User { text, attachments },
            Self::Event { name, payload } => Exchange::Event { name, payload },
        }
    }
}

impl From<String> for AgentInput {
    fn from(text: String) -> Self {
        Self::Message(text)
    }
}

impl From<&str> for AgentInput {
    fn from(text: &str) -> Self {
        Self::Message(text.to_owned())
    }
}

//! Inputs of an agent.

use llm_provider::Attachment;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::history::Exchange;

/// Input that an agent answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum AgentInput {
    /// Message of the user.
    Message(String),
    /// Message of the user with images and files. For a model that does not support their kind, text describes them.
    Attached {
        /// The text.
        text: String,
        /// Attachments of the message.
        attachments: Vec<Attachment>,
    },
    /// Something that happened outside, and that the agent listens to.
    Event {
        /// Its name.
        name: String,
        /// Payload of the event.
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

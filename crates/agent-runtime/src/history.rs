//! Conversation history as a typed list in which a call owns its one result.

use agent_types::{CallId, Observation, ToolId};
use llm_provider::{Attachment, NativeCall};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One call of a turn, with its result once there is one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallRecord {
    /// Unique in the conversation.
    pub id: CallId,
    /// The tool's canonical id, or the name that the model wrote where no tool has it.
    pub tool: String,
    /// The arguments as the model gave them; empty where they did not fit.
    pub arguments: Map<String, Value>,
    /// The arguments that it ran with, where a person changed them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edited: Option<Map<String, Value>>,
    /// Position among the native calls of the turn, where it is one of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<usize>,
    /// Images of the result, for models that take them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
    /// The one result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observation: Option<Observation>,
}

impl CallRecord {
    /// The tool as an id, where it is one.
    #[must_use]
    pub fn tool_id(&self) -> Option<ToolId> {
        self.tool.parse().ok()
    }
}

/// Reply of the model in one turn, with its results.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// The reply as it was written, without its reasoning.
    pub text: String,
    /// Delimiter of this turn's results for the model: unknown to the authors of the results.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub frame: String,
    /// Its calls in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<CallRecord>,
    /// Native calls as the provider sent them: each must get a result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub native: Vec<NativeCall>,
    /// Observations that belong to no call: a block that could not be read, notes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Observation>,
}

impl Turn {
    /// Every observation, those of calls first.
    pub fn observations(&self) -> impl Iterator<Item = &Observation> {
        self.calls.iter().filter_map(|call| call.observation.as_ref()).chain(&self.notes)
    }
}

/// A part of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Exchange {
    /// A person said something.
    User {
        /// The text.
        text: String,
        /// Images and files that go with it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attachments: Vec<Attachment>,
    },
    /// The model said something.
    Turn(Turn),
    /// Something outside happened that the agent listens to.
    Event {
        /// The event's name.
        name: String,
        /// Payload of the event.
        payload: Value,
    },
    /// Result of a task that started earlier.
    Observed {
        /// Observations for the model.
        observations: Vec<Observation>,
        /// Delimiter of the observations for the model.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        frame: String,
    },
    /// Summary of the older part of the conversation, which replaces it for the model.
    Summary {
        /// Text of the summary.
        text: String,
        /// Exchanges of the conversation that it stands for, from the first on.
        upto: usize,
    },
}

impl Exchange {
    /// A person said this.
    #[must_use]
    pub fn user(text: impl Into<String>) -> Self {
        Self::User { text: text.into(), attachments: Vec::new() }
    }
}

/// Part of a conversation that the model sees: the last summary, and the exchanges after the summarized part.
pub fn visible(history: &[Exchange]) -> (Option<&str>, impl Iterator<Item = (usize, &Exchange)>) {
    let last = history.iter().rev().find_map(|exchange| match exchange {
        Exchange::Summary { text, upto } => Some((text.as_str(), *upto)),
        _ => None,
    });
    let from = last.map_or(0, |(_, upto)| upto.min(history.len()));
    let seen = history.iter().enumerate().skip(from);
    let seen = seen.filter(|(_, exchange)| !matches!(exchange, Exchange::Summary { .. }));
    (last.map(|(text, _)| text), seen)
}

//! What was said and done, as a typed list in which a call owns its one result.

use agent_types::{CallId, Observation, ToolId};
use llm_provider::NativeCall;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One call of a turn, with its result once there is one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallRecord {
    /// Unique in the conversation.
    pub id: CallId,
    /// The tool's canonical id, or the name that the model wrote where no tool has it.
    pub tool: String,
    /// The arguments; empty where they did not fit.
    pub arguments: Map<String, Value>,
    /// Position among the native calls of the turn, where it is one of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<usize>,
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

/// What the model said in one turn, and what came of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// The reply as it was written.
    pub text: String,
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
    },
    /// The model said something.
    Turn(Turn),
}

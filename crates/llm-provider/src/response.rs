//! What comes back from a model.

use agent_types::Usage;
use serde::{Deserialize, Serialize};

use crate::NativeCall;

/// Why a model stopped.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// It was done.
    #[default]
    Stop,
    /// It reached its limit of tokens.
    Length,
    /// It called tools in its own form.
    ToolCalls,
    /// The provider held something back.
    ContentFilter,
    /// Something else, in the provider's word.
    #[serde(untagged)]
    Other(String),
}

impl Finish {
    /// The word on the wire.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ToolCalls => "tool_calls",
            Self::ContentFilter => "content_filter",
            Self::Other(word) => word,
        }
    }
}

/// A whole answer, in one form for all providers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StandardResponse {
    /// The text, with blocks as they were written.
    pub text: String,
    /// Reasoning that the provider gave apart from the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// Calls in the provider's own form.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<NativeCall>,
    /// Tokens read and written, zero where the provider does not say.
    pub usage: Usage,
    /// Why it stopped.
    pub finish: Finish,
}

/// A piece of an answer, as it comes.
#[derive(Debug, Clone, PartialEq)]
pub enum LlmEvent {
    /// More text.
    Text(String),
    /// More reasoning.
    Reasoning(String),
    /// More argument text of a native call.
    ToolCall {
        /// Position of the call in the answer, from 0.
        index: usize,
        /// Wire name of the tool, once known.
        name: String,
        /// The new piece.
        arguments: String,
    },
    /// The whole answer; the last event of a stream.
    Finished(StandardResponse),
}

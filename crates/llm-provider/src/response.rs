//! Responses of a model.

use std::sync::Arc;
use std::time::Duration;

use agent_types::{EventBody, Usage};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{LlmError, NativeCall};

/// Reason for which a model stopped.
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
    /// The provider withheld content.
    ContentFilter,
    /// Something else, in the provider's word.
    #[serde(untagged)]
    Other(String),
}

impl Finish {
    /// Reads a provider's word.
    #[must_use]
    pub fn from_word(word: &str) -> Self {
        match word.to_ascii_lowercase().as_str() {
            "stop" | "end_turn" | "stop_sequence" | "eos" | "eos_token" | "end" | "complete"
            | "completed" | "done" | "finished" | "end_of_turn" => Self::Stop,
            "tool_calls" | "tool_use" | "tool_call" | "function_call" => Self::ToolCalls,
            "length" | "max_tokens" | "max_output_tokens" | "model_length" => Self::Length,
            "content_filter" => Self::ContentFilter,
            // These words mark requests without an answer in the log of a run.
            "error" | "cancelled" => Self::Other(format!("server_{}", word.to_ascii_lowercase())),
            _ => Self::Other(word.to_owned()),
        }
    }

    /// Returns `true` when the answer came to its own end.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        match self {
            Self::Stop | Self::ToolCalls => true,
            Self::Length | Self::ContentFilter | Self::Other(_) => false,
        }
    }

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
    /// Tokens read and written; estimated where the provider does not say.
    pub usage: Usage,
    /// Reason for which the model stopped.
    pub finish: Finish,
}

impl StandardResponse {
    /// Reads the answer of an `agent.llm.finished` event; `None` for other events, and for requests without an answer.
    #[must_use]
    pub fn from_event(event: &EventBody) -> Option<Self> {
        let EventBody::AgentLlmFinished { text, reasoning, tool_calls, finish, usage, .. } = event else {
            return None;
        };
        if matches!(finish.as_str(), "error" | "cancelled") {
            return None;
        }
        let tool_calls = tool_calls.clone().unwrap_or_else(|| Arc::new(json!([])));
        let whole = json!({"text": text, "reasoning": reasoning, "tool_calls": tool_calls, "finish": finish, "usage": usage});
        serde_json::from_value(whole).ok()
    }

    /// Returns the answer as the events of a stream that emits it at once.
    #[must_use]
    pub fn into_events(self) -> Vec<LlmEvent> {
        let mut events = Vec::new();
        events.extend(self.reasoning.clone().map(LlmEvent::Reasoning));
        if !self.text.is_empty() {
            events.push(LlmEvent::Text(self.text.clone()));
        }
        events.extend(self.tool_calls.iter().enumerate().map(|(index, call)| LlmEvent::ToolCall {
            index,
            name: call.name.clone(),
            arguments: call.arguments.clone(),
        }));
        events.push(LlmEvent::Finished(self));
        events
    }
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
    /// Sign of life of the server, without new content.
    Heartbeat,
    /// A part of the answer that could not be read.
    Unread {
        /// Description of the part.
        message: String,
    },
    /// The request failed before anything of the answer came, and is put again after a wait.
    Retrying {
        /// The attempt that failed, from 1.
        attempt: u32,
        /// The wait before the next one.
        delay: Duration,
        /// Error of the failed attempt.
        error: LlmError,
    },
    /// The whole answer; the last event of a stream.
    Finished(StandardResponse),
}

impl LlmEvent {
    /// Returns `true` for a piece of the answer, after which the same request may not be retried.
    #[must_use]
    pub const fn is_answer(&self) -> bool {
        match self {
            Self::Text(_) | Self::Reasoning(_) | Self::ToolCall { .. } | Self::Finished(_) => true,
            Self::Heartbeat | Self::Unread { .. } | Self::Retrying { .. } => false,
        }
    }
}

/// Message about a retry, for the user.
#[must_use]
pub fn retry_message(attempt: u32, delay: Duration, error: &LlmError) -> String {
    format!(
        "attempt {attempt} of the request failed, the next one begins in {} ms: {error}",
        delay.as_millis()
    )
}

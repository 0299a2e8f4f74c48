//! The written form of a script: one reply a line.

use agent_types::Usage;
use serde::Deserialize;
use serde_json::Value;

use crate::script_request::RequestCheck;

/// One reply of a script, in the form of `REPLY` lines.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Reply {
    /// The text of the answer.
    pub text: Option<String>,
    /// The text in the pieces that it comes in.
    pub chunks: Vec<String>,
    /// Reasoning apart from the text.
    pub reasoning: Option<String>,
    /// Calls in the provider's own form.
    pub tool_calls: Vec<ScriptedCall>,
    /// An HTTP error in place of an answer.
    pub error: Option<ScriptedError>,
    /// No answer ever.
    pub hang: bool,
    /// Finish reason: `stop`, `length`, `tool_calls`.
    pub finish: Option<String>,
    /// Tokens read and written.
    pub usage: Option<ScriptedUsage>,
    /// Wait before the answer, in milliseconds.
    pub sleep_ms: u64,
    /// Reserves the reply for requests of this purpose, such as `summary`.
    #[serde(rename = "for")]
    pub purpose: Option<String>,
    /// On the last reply: answers every further request as well.
    pub repeat: bool,
    /// Expectations on the request.
    pub request: Option<RequestCheck>,
}

/// A native call of a scripted reply.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ScriptedCall {
    /// Its id; absent, one is made.
    #[serde(default)]
    pub id: Option<String>,
    /// Wire name of the tool.
    pub name: String,
    /// The arguments, an object or the text of one.
    #[serde(default)]
    pub arguments: Value,
}

/// An HTTP error of a scripted reply.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ScriptedError {
    /// The status.
    pub status: u16,
    /// Value of `Retry-After`, in milliseconds.
    #[serde(default)]
    pub retry_after_ms: Option<u64>,
}

/// Tokens of a scripted reply.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ScriptedUsage {
    /// Tokens read.
    pub input: u64,
    /// Tokens written.
    pub output: u64,
}

impl From<ScriptedUsage> for Usage {
    fn from(usage: ScriptedUsage) -> Self {
        Self::new(usage.input, usage.output)
    }
}

/// Reason for which a text is not a valid script.
#[derive(Debug, thiserror::Error)]
#[error("line {line} of the script: {source}")]
#[non_exhaustive]
pub struct ScriptError {
    /// Number of the line, from 1.
    pub line: usize,
    /// Underlying JSON error.
    #[source]
    pub source: serde_json::Error,
}

impl ScriptError {
    /// Stable code for logs, tests and the wire.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        "bad_script"
    }
}

/// Reads one reply a line; blank lines are passed over.
pub(crate) fn parse(text: &str) -> Result<Vec<Reply>, ScriptError> {
    text.lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(index, line)| {
            serde_json::from_str(line).map_err(|source| ScriptError { line: index + 1, source })
        })
        .collect()
}

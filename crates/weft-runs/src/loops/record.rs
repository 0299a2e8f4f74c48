//! Records of loops and their passes.

use agent_types::{LoopEnd, PassDecision, Timestamp, ToolStatus, Usage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Record of a loop or of one of its passes.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum LoopEntry {
    /// A pass that has ended, or is open where the log ends.
    Pass(PassRecord),
    /// A loop that has ended.
    Loop(LoopRecord),
}

impl LoopEntry {
    /// Path of the loop.
    #[must_use]
    pub fn path(&self) -> &str {
        match self {
            Self::Pass(pass) => &pass.r#loop,
            Self::Loop(own) => &own.r#loop,
        }
    }
}

/// A loop that has ended.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LoopRecord {
    /// Path of the loop.
    pub r#loop: String,
    /// The tool call that the loop runs in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// Number of its last event.
    pub seq: u64,
    /// `until`, `while`, `times` or `each`.
    pub mode: String,
    /// First carried values, in short.
    pub before: Map<String, Value>,
    /// Last carried values, in short.
    pub after: Map<String, Value>,
    /// Number of passes.
    pub passes: u64,
    /// Reason why it ended.
    pub why: LoopEnd,
    /// Duration in milliseconds.
    pub ms: u64,
    /// Tokens of all passes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

/// A pass of a loop.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PassRecord {
    /// Path of the loop.
    pub r#loop: String,
    /// The tool call that the loop runs in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// Number of the pass, from 0.
    pub pass: u64,
    /// Number of its last event; of its first one while it is open.
    pub seq: u64,
    /// Begin of the pass.
    pub started: Timestamp,
    /// Duration in milliseconds; absent while it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ms: Option<u64>,
    /// The item of mode `each`, in short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<Value>,
    /// Carried values at its begin, in short.
    pub before: Map<String, Value>,
    /// Carried values at its end, in short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Map<String, Value>>,
    /// Keys of the carried values that it changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<String>,
    /// Decision with which it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<PassDecision>,
    /// Nodes that have ended in it.
    pub nodes: u64,
    /// Replies of models, in short.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replies: Vec<PassReply>,
    /// Calls and what was observed of them, in short.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<PassCall>,
    /// Failures of nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<PassFailure>,
    /// Replies, calls and failures beyond those listed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: u64,
    /// Tokens that its nodes used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

/// Reply of a model in a pass.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PassReply {
    /// Beginning of its text.
    pub text: String,
    /// Reason why the model stopped.
    pub finish: String,
    /// Tokens.
    pub usage: Usage,
}

/// Call in a pass.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PassCall {
    /// Its id.
    pub call: String,
    /// The tool.
    pub tool: String,
    /// Outcome; absent while it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<ToolStatus>,
    /// Duration in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ms: Option<u64>,
    /// Beginning of the observation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observation: Option<String>,
    /// The blob with its whole result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<String>,
}

/// Failure of a node in a pass.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PassFailure {
    /// Path of the node.
    pub path: String,
    /// Its message.
    pub message: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

//! Outcome of a run.

use std::sync::Arc;

use agent_types::{AskKind, AskSummary, DefinitionDigests, ExitReason, RunId, RunStatus, ToolId, Usage};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::history::Exchange;

/// Call that waits for input or approval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PendingCall {
    /// Id that an answer names.
    pub ask: String,
    /// Subject of the question.
    pub kind: AskKind,
    /// The tool.
    pub tool: ToolId,
    /// Its arguments.
    pub arguments: Arc<Map<String, Value>>,
    /// The node inside the call that asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<Arc<str>>,
    /// Question for the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// Digests of the parts of what the call would do.
    #[serde(default, skip_serializing_if = "DefinitionDigests::is_empty")]
    pub definition: DefinitionDigests,
}

impl PendingCall {
    /// Awaited task, if it waits for one: the id without the calls around it.
    #[must_use]
    pub fn task(&self) -> &str {
        self.ask.rsplit_once('/').map_or(&self.ask, |(_, task)| task)
    }

    /// It as an open question of the run.
    pub(crate) fn summary(&self) -> AskSummary {
        AskSummary {
            ask: self.ask.as_str().into(),
            kind: self.kind,
            tool: Some(self.tool.clone()),
            arguments: Some(Arc::clone(&self.arguments)),
            path: self.path.clone(),
            prompt: self.prompt.clone(),
            definition: self.definition.clone(),
        }
    }
}

/// Outcome of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RunOutcome {
    /// The run.
    pub run: RunId,
    /// Reason for which it ended.
    pub exit: ExitReason,
    /// The last text for the user; may be empty.
    pub text: String,
    /// The answer as a value, where a tool or a schema gave one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// Set when the answer is incomplete.
    pub partial: bool,
    /// Tokens of the whole tree.
    pub usage: Usage,
    /// Calls that wait for a person.
    pub pending: Vec<PendingCall>,
    /// Description of the error, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Word for programs for the reason, where there is one.
    #[serde(skip)]
    pub kind: Option<String>,
    /// Warning about the answer, such as that it holds a call which was not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
    /// The conversation as it stands.
    #[serde(skip)]
    pub history: Vec<Exchange>,
}

impl RunOutcome {
    /// The answer as a value of one's own; see [`Agent::output`](crate::Agent::output).
    ///
    /// # Errors
    /// The value is missing, or does not fit the type.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        T::deserialize(self.value.as_ref().unwrap_or(&Value::Null))
    }
}

/// Status of a run with this exit reason.
#[must_use]
pub const fn exit_status(exit: ExitReason) -> RunStatus {
    match exit {
        ExitReason::Completed
        | ExitReason::HandedOff
        | ExitReason::Closed
        | ExitReason::FlowCompleted
        | ExitReason::FlowSilent => RunStatus::Ok,
        ExitReason::AwaitingApproval | ExitReason::AwaitingResult | ExitReason::NeedsReconciliation => {
            RunStatus::Waiting
        }
        ExitReason::Cancelled => RunStatus::Cancelled,
        _ => RunStatus::Error,
    }
}

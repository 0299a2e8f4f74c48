//! Results of calls.

use agent_types::{AskSummary, ExitReason, Observation, ToolFault, ToolStatus};
use llm_provider::Attachment;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::end::End;
use super::tasks::TaskChange;

/// A call that is over, or that waits inside.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallResult {
    /// Position in the turn.
    pub index: usize,
    /// Its result for the model.
    pub observation: Observation,
    /// Its status.
    pub status: ToolStatus,
    /// The value that the call ends the run with.
    pub value: Option<Value>,
    /// Change of the tasks that the run waits for.
    pub task: Option<TaskChange>,
    /// Images of its result.
    pub attachments: Vec<Attachment>,
    /// The call is not complete: a question inside it is pending.
    pub waits: Option<PendingInner>,
    /// Reason for ending the run with this call.
    pub end: Option<End>,
    /// Attempts after the first one.
    #[serde(default)]
    pub retries: u64,
    /// Fault of a call that failed, for programs.
    #[serde(default)]
    pub fault: Option<Box<ToolFault>>,
    /// The whole output of a call that succeeded, where it is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
}

/// Pending questions of a call that is not complete.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PendingInner {
    /// Exit reason of the inner run.
    pub exit: ExitReason,
    /// Questions inside it.
    pub asks: Vec<AskSummary>,
}

impl CallResult {
    /// A result without further consequences.
    #[must_use]
    pub fn new(index: usize, observation: Observation, status: ToolStatus) -> Self {
        let attachments = Vec::new();
        let fault = (status != ToolStatus::Ok).then(|| Box::new(ToolFault::new(status.as_str())));
        Self {
            index,
            observation,
            status,
            value: None,
            task: None,
            attachments,
            waits: None,
            end: None,
            retries: 0,
            fault,
            output: None,
        }
    }

    /// Returns `true` when nothing more is of use after this call.
    pub(super) fn is_fatal(&self) -> bool {
        self.end.as_ref().is_some_and(|end| end.exit == ExitReason::ToolError)
    }
}

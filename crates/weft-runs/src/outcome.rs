//! Outcomes of runs.

use agent_runtime::{PendingCall, exit_status};
use agent_types::{ExitReason, RunId, RunStatus, Usage};
use executors_flow_system::Handled;

/// The outcome of a run.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum RunOutcome {
    /// Of an agent's run.
    Agent(Box<agent_runtime::RunOutcome>),
    /// Of a message or a timer of a session.
    Session(Box<Handled>),
    /// Of a workflow's run.
    Workflow(Box<workflow_engine::RunOutcome>),
    /// Of a timer that was not due any more: nothing was run.
    Nothing(RunId),
}

impl RunOutcome {
    /// The run.
    #[must_use]
    pub fn run(&self) -> &RunId {
        match self {
            Self::Agent(outcome) => &outcome.run,
            Self::Session(handled) => &handled.run,
            Self::Workflow(outcome) => &outcome.run,
            Self::Nothing(run) => run,
        }
    }

    /// Status of the run.
    #[must_use]
    pub fn status(&self) -> RunStatus {
        match self {
            Self::Workflow(outcome) => outcome.status,
            other => other.exit().map_or(RunStatus::Ok, exit_status),
        }
    }

    /// The exit of an agent.
    #[must_use]
    pub fn exit(&self) -> Option<ExitReason> {
        match self {
            Self::Agent(outcome) => Some(outcome.exit),
            Self::Session(handled) => Some(handled.exit),
            Self::Workflow(_) | Self::Nothing(_) => None,
        }
    }

    /// The text for the user.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Agent(outcome) => &outcome.text,
            Self::Session(handled) => handled.text.as_deref().unwrap_or_default(),
            Self::Workflow(_) | Self::Nothing(_) => "",
        }
    }

    /// Tokens.
    #[must_use]
    pub fn usage(&self) -> Usage {
        match self {
            Self::Agent(outcome) => outcome.usage,
            Self::Session(handled) => handled.usage,
            Self::Workflow(outcome) => outcome.usage,
            Self::Nothing(_) => Usage::default(),
        }
    }

    /// Calls and questions of an agent that wait.
    #[must_use]
    pub fn pending(&self) -> &[PendingCall] {
        match self {
            Self::Agent(outcome) => &outcome.pending,
            Self::Session(handled) => &handled.pending,
            Self::Workflow(_) | Self::Nothing(_) => &[],
        }
    }

    /// Word for programs for the reason of an incomplete answer of an agent; `None` for a whole one.
    #[must_use]
    pub fn incomplete(&self) -> Option<&str> {
        let agent = match self {
            Self::Agent(outcome) => Some(&**outcome),
            Self::Session(handled) => handled.outcome.as_ref(),
            Self::Workflow(_) | Self::Nothing(_) => None,
        };
        agent.filter(|outcome| outcome.partial).map(|outcome| outcome.kind.as_deref().unwrap_or("partial"))
    }

    /// Returns `true` where a flow or a system action failed: the text is its reply to the user.
    #[must_use]
    pub fn is_failed_flow(&self) -> bool {
        let Self::Session(handled) = self else { return false };
        handled.exit == ExitReason::ToolError && handled.outcome.is_none()
    }

    /// Message of the failure, in a sentence.
    #[must_use]
    pub fn error(&self) -> Option<String> {
        match self {
            Self::Agent(outcome) => outcome.error.clone(),
            Self::Session(handled) => handled.error.clone(),
            Self::Workflow(outcome) => outcome.error.as_ref().map(ToString::to_string),
            Self::Nothing(_) => None,
        }
    }
}

//! Metadata of runs.

use agent_types::{AskSummary, ExitReason, RunId, RunStatus, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Phase of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunPhase {
    /// It was begun and has no end yet.
    Running,
    /// Only questions are left.
    Waiting,
    /// It ended as meant.
    Ok,
    /// It ended by an error.
    Error,
    /// It ended by a wish to end.
    Cancelled,
}

impl RunPhase {
    /// The word on the wire; never reworded.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Cancelled => "cancelled",
        }
    }

    /// The phase of a word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Running, Self::Waiting, Self::Ok, Self::Error, Self::Cancelled]
            .into_iter()
            .find(|phase| phase.as_str() == word)
    }

    /// Returns `true` if no further event follows.
    #[must_use]
    pub const fn has_ended(self) -> bool {
        matches!(self, Self::Ok | Self::Error | Self::Cancelled)
    }
}

impl From<RunStatus> for RunPhase {
    fn from(status: RunStatus) -> Self {
        match status {
            RunStatus::Ok => Self::Ok,
            RunStatus::Error => Self::Error,
            RunStatus::Cancelled => Self::Cancelled,
            RunStatus::Waiting => Self::Waiting,
        }
    }
}

/// Metadata known when a run begins.
#[derive(Debug, Clone, PartialEq)]
pub struct NewRun {
    /// Its id.
    pub run: RunId,
    /// The agent that runs, by id.
    pub agent: Option<String>,
    /// The workflow that runs, by id.
    pub workflow: Option<String>,
    /// The thread that the run belongs to.
    pub thread: Option<String>,
    /// The run that it was started or forked from.
    pub parent: Option<RunId>,
    /// Data that the program needs to resume the run: the definition that ran, its inputs.
    pub plan: Value,
}

impl NewRun {
    /// A run of which nothing more is known.
    #[must_use]
    pub fn new(run: RunId) -> Self {
        Self { run, agent: None, workflow: None, thread: None, parent: None, plan: Value::Null }
    }
}

/// State of a run; changes with its events.
#[derive(Debug, Clone, PartialEq)]
pub struct RunState {
    /// Phase of the run.
    pub phase: RunPhase,
    /// Reason why an agent run ended or is suspended.
    pub exit: Option<ExitReason>,
    /// The kind of the error that ended it.
    pub kind: Option<String>,
    /// Time at which the run ended.
    pub finished: Option<Timestamp>,
}

/// A run as the store knows it.
#[derive(Debug, Clone, PartialEq)]
pub struct RunRecord {
    /// Metadata known when the run began.
    pub new: NewRun,
    /// Place in the order in which the store took the runs, over all processes.
    pub order: u64,
    /// Time at which the run began.
    pub started: Timestamp,
    /// State of the run.
    pub state: RunState,
    /// Number of the last event; 0 before the first.
    pub last_seq: u64,
    /// Number of the first event that is still kept.
    pub first_seq: u64,
    /// The highest span number used.
    pub last_span: u64,
}

/// Filter of a list of runs, newest first.
#[derive(Debug, Clone, Default)]
pub struct RunFilter {
    /// Only those in this phase.
    pub phase: Option<RunPhase>,
    /// Set for only those that have no end.
    pub open: bool,
    /// Only those of this agent.
    pub agent: Option<String>,
    /// Only those of this workflow.
    pub workflow: Option<String>,
    /// Only those of this thread.
    pub thread: Option<String>,
    /// Only those that were started or forked from this run.
    pub parent: Option<RunId>,
    /// Only those that began before.
    pub before: Option<Timestamp>,
    /// So many at most; `None` means all.
    pub limit: Option<usize>,
}

impl RunFilter {
    pub(crate) fn accepts(&self, record: &RunRecord) -> bool {
        let same = |wanted: &Option<String>, own: &Option<String>| wanted.is_none() || wanted == own;
        self.phase.is_none_or(|phase| phase == record.state.phase)
            && !(self.open && record.state.phase.has_ended())
            && same(&self.agent, &record.new.agent)
            && same(&self.workflow, &record.new.workflow)
            && same(&self.thread, &record.new.thread)
            && (self.parent.is_none() || self.parent == record.new.parent)
            && self.before.is_none_or(|before| record.started < before)
    }
}

/// A question of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct AskRecord {
    /// Question itself.
    pub summary: AskSummary,
    /// Number of the event that put it.
    pub opened: u64,
    /// The answer, with the number of the last event before it.
    pub answer: Option<(Value, u64)>,
}

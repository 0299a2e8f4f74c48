//! Errors of starting, resuming and changing runs.

use agent_runtime::AgentError;
use agent_types::RunId;
use executors_flow_system::{OrchestratorError, SeatError};
use run_store::StoreError;
use serde_json::Value;
use weft_project::ProjectError;

/// Error of starting, resuming or changing a run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunsError {
    /// The project or its store refused.
    #[error(transparent)]
    Project(#[from] ProjectError),
    /// A session could not be used.
    #[error(transparent)]
    Session(#[from] OrchestratorError),
    /// The service shuts down.
    #[error("the server ends and begins no runs")]
    ShuttingDown,
    /// As many runs execute and wait as may.
    #[error("{running} runs execute and {queued} wait, which is the limit")]
    QueueFull {
        /// Runs that may execute at once.
        running: usize,
        /// Runs that may wait.
        queued: usize,
    },
    /// The process that executed the run left it: it can be resumed.
    #[error("the run `{run}` was left before its end")]
    Left {
        /// The run.
        run: String,
    },
    /// A run of the conversation waits for an answer.
    #[error("the run `{run}` of this conversation waits for an answer")]
    RunWaiting {
        /// The run.
        run: String,
    },
    /// A run of the conversation was interrupted, and has not been resumed or discarded.
    #[error("the run `{run}` of this conversation was interrupted before its end")]
    RunInterrupted {
        /// The run.
        run: String,
    },
    /// A run of the conversation executes.
    #[error("a run of this conversation executes")]
    ThreadBusy {
        /// The run, where it is known.
        run: Option<String>,
    },
    /// As many messages wait in the conversation as may.
    #[error("{queued} messages of this conversation wait, which is the limit")]
    ThreadFull {
        /// Messages that may wait.
        queued: usize,
    },
    /// The run has no such open question.
    #[error("the run `{run}` has no open question{}", named(.ask.as_deref()))]
    UnknownAsk {
        /// The run.
        run: String,
        /// The question that was named.
        ask: Option<String>,
        /// Those that are open.
        open: Vec<String>,
    },
    /// The log of the run does not have this request.
    #[error("the run `{run}` has no request of {request}")]
    UnknownRequest {
        /// The run.
        run: String,
        /// The place that was asked for.
        request: String,
        /// Places of those that it has.
        kept: Vec<String>,
    },
    /// The run has several open questions, and none was named.
    #[error("the run `{run}` has {} open questions", open.len())]
    WhichAsk {
        /// The run.
        run: String,
        /// Those that are open.
        open: Vec<String>,
    },
    /// A question was approved or denied.
    #[error("`{ask}` is a question, not a call")]
    NoApproval {
        /// The run.
        run: String,
        /// The question.
        ask: String,
    },
    /// Changed arguments do not fit their tool.
    #[error("{message}")]
    InvalidArguments {
        /// The tool.
        tool: String,
        /// Description of the mismatch.
        message: String,
    },
    /// Inputs do not fit the workflow.
    #[error("{message}")]
    InvalidInputs {
        /// Stable code of the first problem.
        code: String,
        /// All problems in words.
        message: String,
        /// All problems.
        problems: Value,
    },
    /// An event that does not start the agent.
    #[error("the agent `{agent}` {}", if *.listed { format!("listens to `{event}`, and its condition does not hold") } else { format!("does not listen to `{event}`") })]
    NotSubscribed {
        /// The agent.
        agent: String,
        /// The event.
        event: String,
        /// Set when its profile names the event.
        listed: bool,
        /// A similar event that its profile names.
        near: Option<String>,
    },
    /// Nodes of an agent's run were to be changed.
    #[error("the run of an agent has no nodes whose values could be set")]
    NoNodes,
    /// A value was set for something whose values follow from others.
    #[error("`{path}` cannot be set: its value follows from the nodes inside it or before it")]
    NotSettable {
        /// The path.
        path: String,
    },
    /// The workflow has changed where the run has been.
    #[error("the workflow has changed where the run has been: {}", nodes.join(", "))]
    PlanChanged {
        /// The nodes.
        nodes: Vec<String>,
    },
    /// The record of a run cannot be resumed.
    #[error("the run `{run}` cannot be resumed: {message}")]
    NotResumable {
        /// The run.
        run: String,
        /// Reason.
        message: String,
    },
    /// A part of a run that a recording cannot hold.
    #[error("the run `{run}` cannot be recorded: {message}")]
    NotRecordable {
        /// The run.
        run: String,
        /// Stable code, which says which part.
        part: &'static str,
        /// Reason.
        message: String,
    },
    /// A run that did not fail and was not cancelled.
    #[error("the run `{run}` has nothing to retry: {status}")]
    NotRetryable {
        /// The run.
        run: String,
        /// State of the run.
        status: String,
    },
    /// A run failed before it could say so itself.
    #[error("{message}")]
    Failed {
        /// Stable code.
        code: &'static str,
        /// Description of the failure.
        message: String,
    },
}

fn named(ask: Option<&str>) -> String {
    ask.map(|ask| format!(" `{ask}`")).unwrap_or_default()
}

impl From<StoreError> for RunsError {
    fn from(error: StoreError) -> Self {
        Self::Project(error.into())
    }
}

impl From<AgentError> for RunsError {
    fn from(error: AgentError) -> Self {
        Self::Project(error.into())
    }
}

impl RunsError {
    /// Returns `true` for an error that passes: the same can be tried again.
    pub(crate) const fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Project(ProjectError::Store(StoreError::RunBusy { .. } | StoreError::Locked))
                | Self::ThreadBusy { .. }
                | Self::QueueFull { .. }
                | Self::ShuttingDown
                | Self::Left { .. }
        )
    }

    /// Returns `true` where another message or process was faster: it has resumed, answered or ended the run.
    pub(crate) const fn is_lost_race(&self) -> bool {
        matches!(
            self,
            Self::Project(ProjectError::Store(
                StoreError::RunBusy { .. } | StoreError::RunEnded { .. } | StoreError::UnknownAsk { .. }
            )) | Self::ThreadBusy { .. }
                | Self::UnknownAsk { .. }
        )
    }

    pub(crate) fn not_resumable(run: &RunId, message: impl Into<String>) -> Self {
        Self::NotResumable { run: run.to_string(), message: message.into() }
    }

    /// Stable code for logs, tests and the wire.
    #[must_use]
    pub fn code(&self) -> &str {
        match self {
            Self::Project(error) => error.code(),
            Self::Session(error) => error.code(),
            Self::ShuttingDown | Self::Left { .. } => "shutting_down",
            Self::QueueFull { .. } => "queue_full",
            Self::RunWaiting { .. } => "run_waiting",
            Self::RunInterrupted { .. } => "run_interrupted",
            Self::ThreadBusy { .. } => "thread_busy",
            Self::ThreadFull { .. } => "thread_full",
            Self::UnknownAsk { .. } => "unknown_ask",
            Self::UnknownRequest { .. } => "unknown_request",
            Self::WhichAsk { .. } => "which_ask",
            Self::NoApproval { .. } => "no_approval",
            Self::InvalidArguments { .. } => "invalid_argument",
            Self::InvalidInputs { code, .. } => code,
            Self::NotSubscribed { .. } => "not_subscribed",
            Self::NoNodes => "no_nodes",
            Self::NotSettable { .. } => "not_settable",
            Self::PlanChanged { .. } => "plan_changed",
            Self::NotResumable { .. } => "not_resumable",
            Self::NotRecordable { part, .. } => part,
            Self::NotRetryable { .. } => "not_retryable",
            Self::Failed { code, .. } => code,
        }
    }

    /// The fix, in words that fit the command line and the page.
    #[must_use]
    pub fn help(&self) -> Option<String> {
        Some(match self {
            Self::Project(error) => return error.help(),
            Self::QueueFull { .. } => {
                "try again later, or raise max_runs and max_queue in [server] of weft.toml".into()
            }
            Self::Left { run } => format!("weft runs resume {run}"),
            Self::RunWaiting { run } => {
                format!("weft runs approve {run}, weft runs answer {run} VALUE, or weft runs cancel {run}")
            }
            Self::RunInterrupted { run } => {
                format!("weft runs resume {run}, or weft runs cancel {run} to discard what it had not done")
            }
            Self::ThreadFull { .. } => "send it again when some of them are answered".into(),
            Self::ThreadBusy { .. } => "wait for its end, or cancel it".into(),
            Self::UnknownAsk { ask: Some(ask), open, .. } if !open.is_empty() => {
                match agent_types::nearest(ask, open.iter().map(String::as_str)) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("open are: {}", open.join(", ")),
                }
            }
            Self::UnknownRequest { kept, .. } if kept.is_empty() => {
                "requests are kept of agents that a model answers for, from this version on".into()
            }
            Self::UnknownRequest { kept, .. } => format!("it has those of {}", kept.join(", ")),
            Self::WhichAsk { open, .. } => format!("name one with --ask: {}", open.join(", ")),
            Self::NoApproval { run, .. } => format!("weft runs answer {run} VALUE"),
            Self::InvalidArguments { tool, .. } => {
                format!("the call waits as before; see `weft tool show {tool}`")
            }
            Self::NotSubscribed { near: Some(near), listed: false, .. } => format!("did you mean `{near}`?"),
            Self::NotSubscribed { listed: false, .. } => {
                "name it in `subscribed_event_types` of its profile".into()
            }
            Self::NotSubscribed { .. } => {
                "see `filter_condition` in `subscribed_event_types` of its profile, and the payload".into()
            }
            Self::NotSettable { .. } => "set the node inside it that gives the value".into(),
            Self::PlanChanged { .. } => {
                "`--as-it-was` resumes with the workflow that the run began with; else start it anew".into()
            }
            Self::NotResumable { .. } => "start it anew".into(),
            Self::NotRecordable { .. } => "record a run of which all parts are kept".into(),
            Self::NotRetryable { run, .. } => {
                format!(
                    "`weft runs resume {run}` resumes what has not ended, `weft runs fork {run}` makes a new run"
                )
            }
            Self::Session(OrchestratorError::Seat(error)) => match error {
                SeatError::NotHandedOff => "take it first".into(),
                SeatError::Closed => "open it first".into(),
                SeatError::Taken { .. } => "they must give it back first".into(),
                _ => return None,
            },
            Self::Session(OrchestratorError::ById(error)) => format!("did you mean `{}`?", error.near()?),
            Self::Session(_)
            | Self::ShuttingDown
            | Self::UnknownAsk { .. }
            | Self::InvalidInputs { .. }
            | Self::NoNodes
            | Self::Failed { .. } => return None,
        })
    }
}

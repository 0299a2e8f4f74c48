//! Errors of nodes, plans and runs.

use std::sync::Arc;

use agent_types::NodeErrorKind;
use serde_json::{Map, Value};
use workflow_model::{Problem, Severity};

/// Reason why an attempt of a node failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct NodeError {
    /// Message for the user.
    pub message: String,
    /// A word for programs; the error slot hands it on.
    pub code: Option<String>,
    /// The kind that events and outcomes name.
    pub kind: NodeErrorKind,
    /// Set if a retry may help. Retries of the node are used only then.
    pub retryable: bool,
}

impl NodeError {
    /// Creates a failure that a retry may fix.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: None, kind: NodeErrorKind::Failed, retryable: true }
    }

    /// A failure that would only happen again.
    #[must_use]
    pub fn fatal(message: impl Into<String>) -> Self {
        Self { retryable: false, ..Self::new(message) }
    }

    /// The same failure with a word for programs.
    #[must_use]
    pub fn with_code(mut self, code: impl Into<String>) -> Self {
        self.code = Some(code.into());
        self
    }

    /// The same failure of another kind.
    #[must_use]
    pub fn with_kind(mut self, kind: NodeErrorKind) -> Self {
        self.kind = kind;
        self
    }
}

/// Reasons why a workflow cannot run, all at once.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", list(.problems))]
#[non_exhaustive]
pub struct PlanError {
    /// All problems, warnings included.
    pub problems: Vec<Problem>,
}

fn list(problems: &[Problem]) -> String {
    let errors = problems.iter().filter(|problem| problem.severity == Severity::Error);
    errors.map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Reason why a run ended without its results.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{}{message}", place(.path.as_deref()))]
#[non_exhaustive]
pub struct RunError {
    /// Kind of failure, as in events.
    pub kind: String,
    /// The word for programs that the node gave, such as `llm_failed`.
    pub code: Option<String>,
    /// Message for the user.
    pub message: String,
    /// The node that failed.
    pub path: Option<Arc<str>>,
    /// The innermost pass in which it failed.
    pub iteration: Option<u64>,
    /// The limit that was reached: milliseconds, passes or units of a budget.
    pub limit: Option<u64>,
    /// More that is known: `state` of a zone that ran out of passes, `item` of a pass over a list.
    pub details: Map<String, Value>,
}

fn place(path: Option<&str>) -> String {
    path.map(|path| format!("`{path}`: ")).unwrap_or_default()
}

impl RunError {
    /// A failure of the run itself.
    #[must_use]
    pub fn new(kind: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            kind: kind.into(),
            code: None,
            message: message.into(),
            path: None,
            iteration: None,
            limit: None,
            details: Map::new(),
        }
    }
}

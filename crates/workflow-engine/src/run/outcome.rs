//! Outcome of a run.

use std::sync::Arc;

use agent_types::{AskSummary, RunId, RunStatus, Usage};
use serde_json::{Map, Value};

use crate::error::RunError;

/// Outcome of a run: its status and results.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RunOutcome {
    /// The run.
    pub run: RunId,
    /// Final status.
    pub status: RunStatus,
    /// Results by name, those that were reached; a skipped one is absent, not null.
    pub outputs: Map<String, Value>,
    /// With the status `error`: why.
    pub error: Option<RunError>,
    /// The value of the node that stopped the run.
    pub stopped: Option<Arc<Value>>,
    /// Questions that are open.
    pub asks: Vec<AskSummary>,
    /// Tokens of all models.
    pub usage: Usage,
    /// Starts of nodes.
    pub node_starts: u64,
}

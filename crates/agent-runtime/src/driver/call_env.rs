//! Environment of the calls of a reply.

use std::sync::Arc;

use agent_types::{Budget, Clock};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use tool_registry::{Services, Snapshot, ToolContext, UsageMeter};

use super::trace::Trace;
use crate::machine::PlannedCall;

/// Environment of the calls of a reply.
#[derive(Debug)]
pub struct CallEnv {
    /// Emitter of the turn.
    pub trace: Trace,
    /// Offered tools.
    pub tools: Snapshot,
    /// Limits.
    pub budget: Budget,
    /// Tokens of agents inside calls.
    pub meter: Arc<UsageMeter>,
    /// Clock of the run.
    pub clock: Arc<dyn Clock>,
    /// Dependencies of calls, by type.
    pub services: Services,
    /// Values that tools may use and no model sees or sets.
    pub values: Arc<Map<String, Value>>,
    /// Cancels the calls.
    pub block: CancellationToken,
    /// Number of calls around these.
    pub level: u32,
    /// Tokens that the result of each call may have, where the model's window is known.
    pub result_tokens: Option<usize>,
    /// The whole output of each call is kept beside its observation, for a node that gives it on.
    pub keeps_output: bool,
}

impl CallEnv {
    pub(super) fn tool_context(&self, PlannedCall { call, .. }: &PlannedCall, trace: &Trace) -> ToolContext {
        let (id, tool) = (call.id.clone(), call.tool.clone());
        let (clock, budget) = (Arc::clone(&self.clock), self.budget.clone());
        ToolContext::new(id, tool, clock, budget, self.trace.sink(), trace.place())
            .with_cancel(self.block.clone())
            .with_services(self.services.clone())
            .with_values(Arc::clone(&self.values))
            .with_resume(self.trace.log().inside(&call.id, self.level))
    }
}

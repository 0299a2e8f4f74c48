//! Environment of a run.

use std::sync::Arc;

use agent_types::{Budget, BudgetKey, CallId, Clock, EventSink};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use tool_registry::{Services, Snapshot, UsageMeter};

use crate::machine::{ApprovalMode, Conversation};
use crate::profile::AgentProfile;
use crate::resume::RunLog;

/// Limits that end a whole tree of agents and workflows.
pub(crate) const SHARED: [BudgetKey; 4] =
    [BudgetKey::ToolCalls, BudgetKey::Tokens, BudgetKey::CostMicros, BudgetKey::NodeStarts];

/// Last message of the user, for agents inside calls.
#[derive(Debug)]
pub(crate) struct LastMessage(pub(crate) String);

/// Environment of a run: what it may use, and what it counts into.
#[derive(Debug)]
pub(crate) struct RunContext {
    pub(crate) profile: Arc<AgentProfile>,
    pub(crate) approval: ApprovalMode,
    /// Values for tools that the model can neither see nor set.
    pub(crate) values: Arc<Map<String, Value>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) services: Services,
    pub(crate) budget: Budget,
    /// Tokens of agents inside calls.
    pub(crate) meter: Arc<UsageMeter>,
    pub(crate) cancel: CancellationToken,
    pub(crate) log: Arc<RunLog>,
    /// The call that this agent answers, where it is one inside another.
    pub(crate) inside: Option<CallId>,
}

impl RunContext {
    /// Delimiter of results for the model: constant in one run, and secret outside.
    pub(crate) fn frame(&self) -> String {
        crate::prompt::text::frame_of(self.log.run())
    }

    /// Prefix of the ids of calls.
    pub(crate) fn call_prefix(&self) -> String {
        self.inside.as_ref().map_or_else(|| "c".to_owned(), |call| format!("{call}."))
    }

    /// Dependencies of calls, by type; nodes of workflows inside them find the profile and the tools there too.
    pub(crate) fn call_services(&self, conversation: &Conversation, offered: &Snapshot) -> Services {
        let services = self.services.clone().with(Arc::clone(&self.meter)).with(Arc::new(self.approval));
        let services = services.with(Arc::clone(&self.profile)).with(Arc::new(offered.clone()));
        match conversation.last_user_message() {
            Some(text) => services.with(Arc::new(LastMessage(text.to_owned()))),
            None => services,
        }
    }
}

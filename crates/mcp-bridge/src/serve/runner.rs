//! Execution of the calls of clients.

use std::fmt;
use std::sync::Arc;

use agent_types::{
    Budget, BudgetLimits, CallId, Clock, Delivery, EventLocation, EventSink, EventSubscription, Recorder,
    RunId, TraceEvent,
};
use async_trait::async_trait;
use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use tool_registry::{CallOutcome, Services, Tool, ToolContext, ToolError};

use super::McpPeer;

/// Events of one call that may wait for the client; more push out the oldest.
const BEHIND: usize = 1024;

/// A call of a client.
#[derive(Debug)]
#[non_exhaustive]
pub struct ClientCall {
    /// The tool.
    pub tool: Tool,
    /// Its arguments, typed.
    pub arguments: Map<String, Value>,
    /// The client, for tools that ask it.
    pub peer: Arc<McpPeer>,
    /// Cancelled when the client gives the call up.
    pub cancel: CancellationToken,
}

impl ClientCall {
    pub(super) fn new(
        tool: Tool,
        arguments: Map<String, Value>,
        peer: McpPeer,
        cancel: CancellationToken,
    ) -> Self {
        Self { tool, arguments, peer: Arc::new(peer), cancel }
    }
}

/// A call that executes. Dropping it gives the call up.
pub struct StartedCall {
    /// Its events, which end with it.
    pub events: BoxStream<'static, Vec<TraceEvent>>,
    /// Its outcome.
    pub outcome: BoxFuture<'static, Result<CallOutcome, ToolError>>,
}

impl fmt::Debug for StartedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StartedCall").finish_non_exhaustive()
    }
}

/// Executes the calls of clients.
#[async_trait]
pub trait CallRunner: Send + Sync + fmt::Debug {
    /// Begins a call.
    ///
    /// # Errors
    /// As many calls execute as may, or no new work is taken.
    async fn begin(&self, call: ClientCall) -> Result<StartedCall, ToolError>;
}

/// Executes calls without keeping anything of them.
#[derive(Debug, Clone)]
pub struct MemoryCalls {
    clock: Arc<dyn Clock>,
    services: Services,
}

impl MemoryCalls {
    /// Calls with this clock, and the services of their tools.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, services: Services) -> Self {
        Self { clock, services }
    }
}

#[async_trait]
impl CallRunner for MemoryCalls {
    async fn begin(&self, call: ClientCall) -> Result<StartedCall, ToolError> {
        let ClientCall { tool, arguments, peer, cancel } = call;
        let recorder = Recorder::new(RunId::generate(), Arc::clone(&self.clock));
        let events = events_of(recorder.subscribe(BEHIND));
        let id = CallId::new("c1");
        let place = EventLocation { call: Some(id.clone()), ..EventLocation::default() };
        let (budget, sink) =
            (Budget::new(BudgetLimits::default()), Arc::clone(&recorder) as Arc<dyn EventSink>);
        let cx = ToolContext::new(id, tool.id().clone(), Arc::clone(&self.clock), budget, sink, place)
            .with_cancel(cancel)
            .with_services(self.services.clone().with(peer));
        let outcome = async move {
            let outcome = tool.invoke(arguments, cx).await;
            recorder.close();
            Ok(outcome)
        };
        Ok(StartedCall { events, outcome: outcome.boxed() })
    }
}

/// The events of a subscription; those that were lost on the way are left out.
fn events_of(subscription: EventSubscription) -> BoxStream<'static, Vec<TraceEvent>> {
    let groups = stream::unfold(subscription, |mut subscription| async move {
        let group = match subscription.next().await? {
            Delivery::Events(group) => group.to_vec(),
            Delivery::Lagged(_) => Vec::new(),
        };
        Some((group, subscription))
    });
    groups.boxed()
}

//! Context of the calls of clients.

use std::fmt;
use std::sync::Arc;

use agent_types::{Budget, BudgetLimits, Clock, EventSink, EventSubscription, Recorder, RunId};
use serde_json::{Map, Value};
use tool_registry::{Services, Tool, ToolError};

/// Capacity for unread events of a call; further ones replace the oldest.
const BEHIND: usize = 1024;

/// Context of one call.
#[derive(Debug)]
pub struct CallScope {
    /// Sink for the call's events.
    pub sink: Arc<dyn EventSink>,
    /// The same events, for the client.
    pub subscription: EventSubscription,
    /// Source of time.
    pub clock: Arc<dyn Clock>,
    /// Limits.
    pub budget: Budget,
    /// Services that tools need.
    pub services: Services,
    /// Values that tools may use and clients and models never see.
    pub values: Arc<Map<String, Value>>,
    /// Dropped when the call is over.
    pub permit: Option<Box<dyn CallPermit>>,
}

/// Resource that is held while a call runs, such as a permit.
pub trait CallPermit: Send + fmt::Debug {}

/// Provider of the contexts of calls.
pub trait CallContextProvider: Send + Sync + fmt::Debug {
    /// Provides the context for a call of this tool.
    ///
    /// # Errors
    /// Too many calls are running, or the server is shutting down.
    fn scope(&self, tool: &Tool) -> Result<CallScope, ToolError>;
}

/// Call contexts in memory: events are not persisted.
#[derive(Debug, Clone)]
pub struct MemoryCallContexts {
    clock: Arc<dyn Clock>,
    services: Services,
}

impl MemoryCallContexts {
    /// A provider with this clock and these services.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, services: Services) -> Self {
        Self { clock, services }
    }
}

impl CallContextProvider for MemoryCallContexts {
    fn scope(&self, _tool: &Tool) -> Result<CallScope, ToolError> {
        let recorder = Recorder::new(RunId::generate(), Arc::clone(&self.clock));
        Ok(CallScope {
            subscription: recorder.watch(BEHIND),
            sink: recorder,
            clock: Arc::clone(&self.clock),
            budget: Budget::new(BudgetLimits::default()),
            services: self.services.clone(),
            values: Arc::default(),
            permit: None,
        })
    }
}

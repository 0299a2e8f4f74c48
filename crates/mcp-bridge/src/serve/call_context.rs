//! Where the calls of clients happen.

use std::fmt;
use std::sync::Arc;

use agent_types::{Budget, BudgetLimits, Clock, EventSink, EventSubscription, Recorder, RunId};
use serde_json::{Map, Value};
use tool_registry::{Services, Tool, ToolError};

/// Events of one call that may wait to be told; more push out the oldest.
const BEHIND: usize = 1024;

/// Where one call happens.
#[derive(Debug)]
pub struct CallScope {
    /// Where its events go.
    pub sink: Arc<dyn EventSink>,
    /// The same events, for the client.
    pub watcher: EventSubscription,
    /// Where time comes from.
    pub clock: Arc<dyn Clock>,
    /// Limits.
    pub budget: Budget,
    /// What tools need from outside.
    pub services: Services,
    /// Values that tools may use and nobody sees.
    pub values: Arc<Map<String, Value>>,
    /// Dropped when the call is over.
    pub hold: Option<Box<dyn CallPermit>>,
}

/// Something that is held while a call goes on, such as its room among others.
pub trait CallPermit: Send + fmt::Debug {}

/// Gives calls their place.
pub trait CallContextProvider: Send + Sync + fmt::Debug {
    /// A place for a call of this tool.
    ///
    /// # Errors
    /// There is no room, or no new work is taken.
    fn place(&self, tool: &Tool) -> Result<CallScope, ToolError>;
}

/// A desk that keeps nothing.
#[derive(Debug, Clone)]
pub struct MemoryDesk {
    clock: Arc<dyn Clock>,
    services: Services,
}

impl MemoryDesk {
    /// A desk with this clock, and what tools need.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, services: Services) -> Self {
        Self { clock, services }
    }
}

impl CallContextProvider for MemoryDesk {
    fn place(&self, _tool: &Tool) -> Result<CallScope, ToolError> {
        let recorder = Recorder::new(RunId::generate(), Arc::clone(&self.clock));
        Ok(CallScope {
            watcher: recorder.watch(BEHIND),
            sink: recorder,
            clock: Arc::clone(&self.clock),
            budget: Budget::new(BudgetLimits::default()),
            services: self.services.clone(),
            values: Arc::default(),
            hold: None,
        })
    }
}

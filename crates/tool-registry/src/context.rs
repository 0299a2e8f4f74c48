//! What a call knows of the run that it is part of.

use std::sync::Arc;
use std::time::Duration;

use agent_types::{Budget, CallId, Clock, Draft, EventBody, EventSink, Place, ToolId};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

/// What a call knows of the run that it is part of. Cheap to clone.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ToolContext {
    /// The call.
    pub call: CallId,
    /// The tool that is called.
    pub tool: ToolId,
    /// Set when the run ends early; long work should look at it.
    pub cancel: CancellationToken,
    /// Where time comes from.
    pub clock: Arc<dyn Clock>,
    /// Limits shared by the tree of agents and workflows.
    pub budget: Budget,
    /// When the call must have answered, since the clock's start.
    pub deadline: Option<Duration>,
    /// Values that tools may use and the model can neither see nor set, by name.
    pub values: Arc<Map<String, Value>>,
    sink: Arc<dyn EventSink>,
    place: Place,
}

impl ToolContext {
    /// A context for one call; events go to `sink` at `place`.
    #[must_use]
    pub fn new(
        call: CallId,
        tool: ToolId,
        clock: Arc<dyn Clock>,
        budget: Budget,
        sink: Arc<dyn EventSink>,
        place: Place,
    ) -> Self {
        let cancel = CancellationToken::new();
        Self { call, tool, cancel, clock, budget, deadline: None, values: Arc::default(), sink, place }
    }

    /// The same with a token that ends the call.
    #[must_use]
    pub fn with_cancel(mut self, cancel: CancellationToken) -> Self {
        self.cancel = cancel;
        self
    }

    /// The same with values that the model can neither see nor set.
    #[must_use]
    pub fn with_values(mut self, values: Arc<Map<String, Value>>) -> Self {
        self.values = values;
        self
    }

    /// Gives a piece of the result while the call goes on.
    pub fn chunk(&self, text: impl Into<String>) {
        self.emit(EventBody::AgentToolChunk { tool: self.tool.clone(), text: text.into() });
    }

    /// Records an event at the place of this call.
    pub fn emit(&self, body: EventBody) {
        self.sink.record(&mut vec![Draft::new(self.place.clone(), body)]);
    }

    /// A sink for work inside this call: its events carry the call.
    #[must_use]
    pub fn inner_sink(&self) -> Arc<dyn EventSink> {
        Arc::new(InnerSink { outer: Arc::clone(&self.sink), place: self.place.clone() })
    }
}

/// Adds the call to the events of what runs inside it.
#[derive(Debug)]
struct InnerSink {
    outer: Arc<dyn EventSink>,
    place: Place,
}

impl EventSink for InnerSink {
    fn record(&self, drafts: &mut Vec<Draft>) {
        for draft in drafts.iter_mut() {
            let inner = std::mem::take(&mut draft.place);
            // What already belongs to a deeper call keeps it, with this one around it.
            let parent_call = match &inner.call {
                Some(_) => inner.parent_call.clone().or_else(|| self.place.call.clone()),
                None => self.place.parent_call.clone(),
            };
            draft.place = Place {
                turn: inner.turn.or(self.place.turn),
                call: inner.call.clone().or_else(|| self.place.call.clone()),
                parent_call,
                depth: inner.depth.or(self.place.depth),
                // What begins at the root of an inner run begins at the call.
                parent: inner.parent.filter(|parent| *parent != 0).or(Some(self.place.span)),
                ..inner
            };
        }
        self.outer.record(drafts);
    }

    fn new_span(&self) -> u64 {
        self.outer.new_span()
    }

    fn run(&self) -> &agent_types::RunId {
        self.outer.run()
    }
}

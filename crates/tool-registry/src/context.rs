//! Context of a tool call: its run, clock, budget and services.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agent_types::{
    Budget, CallId, Clock, EventBody, EventLocation, EventPersister, EventSink, ResumeLog, Services, ToolId,
    UnsequencedEvent,
};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::dependency::Dep;
use crate::output::{ToolError, ToolErrorKind};
use crate::tasks::TaskRuns;

/// Most bytes of pieces that one call may give.
const MAX_CHUNK_BYTES: usize = 1024 * 1024;

/// Room for further pieces of a call's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChunkLimit {
    /// The call may give more.
    Open,
    /// The call gave 1 MiB; further pieces are dropped.
    Reached,
}

/// Context of a tool call: its run, clock, budget and services. Cheap to clone.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ToolContext {
    /// The call.
    pub call: CallId,
    /// The tool that is called.
    pub tool: ToolId,
    /// Set when the run ends early; long work should look at it.
    pub cancel: CancellationToken,
    /// Source of time.
    pub clock: Arc<dyn Clock>,
    /// Limits shared by the tree of agents and workflows.
    pub budget: Budget,
    /// Deadline of the call, since the clock's start.
    pub deadline: Option<Duration>,
    /// Services that tools need, by type.
    pub services: Services,
    /// Values that tools may use and the model can neither see nor set, by name.
    pub values: Arc<Map<String, Value>>,
    /// Recorded events of the call from before the run was interrupted.
    pub resume: Option<Arc<ResumeLog>>,
    /// State that a task stored before its process ended.
    pub saved: Option<Arc<Value>>,
    sink: Arc<dyn EventSink>,
    place: EventLocation,
    /// Bytes of pieces given so far, shared by all copies.
    given: Arc<AtomicUsize>,
    /// Pieces kept for a later read of the task.
    pub(crate) kept: Option<Arc<crate::tasks::Output>>,
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
        place: EventLocation,
    ) -> Self {
        let cancel = CancellationToken::new();
        Self {
            call,
            tool,
            cancel,
            clock,
            budget,
            deadline: None,
            services: Services::new(),
            values: Arc::default(),
            resume: None,
            saved: None,
            sink,
            place,
            given: Arc::default(),
            kept: None,
        }
    }

    /// The same with a token that ends the call.
    #[must_use]
    pub fn with_cancel(mut self, cancel: CancellationToken) -> Self {
        self.cancel = cancel;
        self
    }

    /// The same, resuming from the recorded events of the interrupted run.
    #[must_use]
    pub fn with_resume(mut self, log: Option<ResumeLog>) -> Self {
        self.resume = log.map(Arc::new);
        self
    }

    /// The same with what its task stored in another process.
    #[must_use]
    pub fn with_saved(mut self, saved: Option<Value>) -> Self {
        self.saved = saved.map(Arc::new);
        self
    }

    /// Stores what a task needs to resume in another process; nothing outside of a task.
    pub fn save(&self, saved: &Value) {
        if self.kept.is_some()
            && let Some(runs) = self.services.get::<dyn TaskRuns>()
        {
            runs.save(self.run(), saved);
        }
    }

    /// The same with values that the model can neither see nor set.
    #[must_use]
    pub fn with_values(mut self, values: Arc<Map<String, Value>>) -> Self {
        self.values = values;
        self
    }

    /// The same with what tools need from outside.
    #[must_use]
    pub fn with_services(mut self, services: Services) -> Self {
        self.services = services;
        self
    }

    /// Something that the tool needs, by its type.
    ///
    /// # Errors
    /// The service is missing. An agent reports that before its first turn for tools that declare their needs.
    pub fn dependency<T: ?Sized + Send + Sync + 'static>(&self) -> Result<Dep<T>, ToolError> {
        self.services.get::<T>().map(Dep::from).ok_or_else(|| {
            ToolError::new(ToolErrorKind::Failed, "the tool is not set up")
                .with_detail(format!("nothing of type {} was given", std::any::type_name::<T>()))
        })
    }

    /// Emits a piece of the result while the call runs, up to 1 MiB in all.
    pub fn chunk(&self, text: impl Into<String>) -> ChunkLimit {
        let text = text.into();
        let before = self.given.fetch_add(text.len(), Ordering::Relaxed);
        if before.saturating_add(text.len()) > MAX_CHUNK_BYTES {
            return ChunkLimit::Reached;
        }
        if let Some(kept) = &self.kept {
            kept.push(&text);
        }
        self.emit(EventBody::AgentToolChunk { tool: self.tool.clone(), text });
        ChunkLimit::Open
    }

    /// Records an event at the place of this call.
    pub fn emit(&self, body: EventBody) {
        self.sink.record(&mut vec![UnsequencedEvent::new(self.place.clone(), body)]);
    }

    /// The same with its events in a run of their own.
    pub(crate) fn in_own_run(mut self, sink: Arc<dyn EventSink>) -> Self {
        self.sink = sink;
        self.place = EventLocation::default();
        self.resume = None;
        self
    }

    /// The run that this call is part of.
    #[must_use]
    pub fn run(&self) -> &agent_types::RunId {
        self.sink.run()
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
    place: EventLocation,
}

impl EventSink for InnerSink {
    fn record(&self, drafts: &mut Vec<UnsequencedEvent>) {
        for draft in drafts.iter_mut() {
            let inner = std::mem::take(&mut draft.place);
            // A result that belongs to no call is none of this call either: it has its own.
            let is_its_own = inner.call.is_some() || matches!(draft.body, EventBody::AgentObservation { .. });
            // What already belongs to a deeper call keeps it, with this one around it.
            let (call, parent_call) = if is_its_own {
                (inner.call.clone(), inner.parent_call.clone().or_else(|| self.place.call.clone()))
            } else {
                (self.place.call.clone(), self.place.parent_call.clone())
            };
            draft.place = EventLocation {
                turn: inner.turn.or(self.place.turn),
                call,
                parent_call,
                depth: inner.depth.or(self.place.depth),
                // What begins at the root of an inner run begins at the call.
                parent: inner.parent.filter(|parent| *parent != 0).or(Some(self.place.span)),
                ..inner
            };
        }
        self.outer.record(drafts);
    }

    fn replayed(&self, event: &UnsequencedEvent, seq: u64) {
        self.outer.replayed(event, seq);
    }

    fn new_span(&self) -> u64 {
        self.outer.new_span()
    }

    fn run(&self) -> &agent_types::RunId {
        self.outer.run()
    }

    fn persister(&self) -> Option<&dyn EventPersister> {
        self.outer.persister()
    }
}

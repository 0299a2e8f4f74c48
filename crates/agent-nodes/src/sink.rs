//! Event sink of nodes: it emits at the node's location, as the built-in loop does at the root of its run.

use std::collections::HashMap;
use std::sync::Arc;

use agent_types::{
    ApprovalState, CallId, Durable, EventBody, EventLocation, EventPersister, EventRole, EventSink,
    EventSubject, KeepError, ResumeLog, RunId, StoredEvent, Timestamp, TraceEvent, UnsequencedEvent,
};
use futures::channel::mpsc::UnboundedSender;
use parking_lot::Mutex;
use run_journal::call_at_level;
use serde_json::Value;
use workflow_engine::NodeContext;

use crate::agent_env::AgentEnv;
use agent_runtime::driver::trace::Trace;
use agent_runtime::resume::RunLog;

/// Adds the node to events that know only their call.
#[derive(Debug)]
pub(crate) struct NodeSink {
    inner: Arc<dyn EventSink>,
    node: EventLocation,
    /// Levels of calls above the node, as the log of a run counts them.
    level: u32,
    /// Events emitted so far, in this process and before.
    emitted: Mutex<Vec<StoredEvent>>,
    /// Channel for pieces of results.
    pieces: Option<UnboundedSender<String>>,
}

impl NodeSink {
    pub(crate) fn new(
        ctx: &NodeContext,
        env: &AgentEnv<'_>,
        pieces: Option<UnboundedSender<String>>,
    ) -> Arc<Self> {
        let (node, level) = (ctx.place(), env.level());
        let emitted = ctx.past().iter().map(|stored| as_of_a_run(stored, &node, level)).collect();
        Arc::new(Self { inner: ctx.sink(), node, level, emitted: Mutex::new(emitted), pieces })
    }

    /// Log of the events emitted so far, from which work resumes.
    pub(crate) fn log(self: &Arc<Self>, waited: bool, answers: HashMap<String, Value>) -> Arc<RunLog> {
        let sink = Arc::clone(self) as Arc<dyn EventSink>;
        let mut events = self.emitted.lock().clone();
        if events.is_empty() {
            return RunLog::new(sink, self.level);
        }
        if waited && self.all_ask_inside(&events) {
            // Open calls have waited for input, and resume now.
            let body = EventBody::RunWaiting { exit: None, asks: Vec::new() };
            events.push(self.stored(EventLocation::default(), body));
        }
        RunLog::resumed(sink, ResumeLog { snapshot: None, events, answers }, self.level)
    }

    /// Returns `true` if something inside each open call has asked. A call that only ran was interrupted.
    fn all_ask_inside(&self, events: &[StoredEvent]) -> bool {
        let mut open: HashMap<&CallId, bool> = HashMap::new();
        for StoredEvent { event, .. } in events {
            let Some(call) = event.place.call.as_ref().or(event.place.parent_call.as_ref()) else { continue };
            let is_own = self.is_own(&event.place);
            match &event.body {
                EventBody::AgentToolStarted { .. } if is_own => {
                    open.insert(call, false);
                }
                EventBody::AgentToolFinished { .. } if is_own => {
                    open.remove(call);
                }
                EventBody::NodeWaiting { .. } | EventBody::AgentToolApproval { .. } if !is_own => {
                    let around = call_at_level(call, self.level);
                    if let Some(asks) = open.get_mut(&around) {
                        *asks = true;
                    }
                }
                _ => {}
            }
        }
        open.into_values().all(|asks| asks)
    }

    /// A trace at the node.
    pub(crate) fn trace(&self, log: Arc<RunLog>) -> Trace {
        Trace::root(log, self.level)
    }

    fn stored(&self, place: EventLocation, body: EventBody) -> StoredEvent {
        let event = TraceEvent::new(self.inner.run().clone(), 0, Timestamp::default(), place, body);
        StoredEvent { event, record: None }
    }

    /// Returns `true` for the question about a call that has been put.
    fn is_asked(&self, UnsequencedEvent { place, body, .. }: &UnsequencedEvent) -> bool {
        let is_question = matches!(body, EventBody::AgentToolApproval { state: ApprovalState::Asked, .. });
        let is_same =
            |stored: &StoredEvent| stored.event.place.call == place.call && stored.event.body == *body;
        is_question && self.is_own(place) && self.emitted.lock().iter().any(is_same)
    }

    /// Returns `true` for the location of a call of the node itself.
    fn is_own(&self, place: &EventLocation) -> bool {
        place.path.is_none() && place.depth == own_depth(self.level)
    }

    /// Stores events that a resumed run needs; pieces of texts are left out.
    fn remember(&self, event: &UnsequencedEvent) {
        let info = event.body.info();
        // Nodes inside a call resume with the pieces of their streams.
        if info.role != EventRole::Piece || info.subject == EventSubject::Node {
            let record = event.record.as_deref().cloned();
            let stored = StoredEvent { record, ..self.stored(event.place.clone(), event.body.clone()) };
            self.emitted.lock().push(stored);
        }
    }
}

impl EventSink for NodeSink {
    fn record(&self, drafts: &mut Vec<UnsequencedEvent>) {
        // A node resumes with its run, which emits that; questions that still wait are not put again.
        drafts.retain(|event| !matches!(event.body, EventBody::RunResumed { .. }) && !self.is_asked(event));
        for event in drafts.iter_mut() {
            self.remember(event);
            if let (EventBody::AgentToolChunk { text, .. }, Some(pieces)) = (&event.body, &self.pieces) {
                // Without a reader the node has ended.
                let _ = pieces.unbounded_send(text.clone());
            }
            let place = &mut event.place;
            let is_own = self.is_own(place);
            if place.span == 0 {
                place.span = self.node.span;
                place.parent = self.node.parent;
            } else if place.parent.is_none_or(|parent| parent == 0) {
                place.parent = Some(self.node.span);
            }
            if is_own {
                place.path.clone_from(&self.node.path);
                (place.iteration, place.attempt) = (self.node.iteration, self.node.attempt);
                place.depth = None;
            }
        }
        self.inner.record(drafts);
    }

    fn new_span(&self) -> u64 {
        self.inner.new_span()
    }

    fn run(&self) -> &RunId {
        self.inner.run()
    }

    fn persister(&self) -> Option<&dyn EventPersister> {
        // Without another persister, it stores the events that the node itself needs to resume.
        Some(self)
    }
}

impl EventPersister for NodeSink {
    fn durable(&self) -> Durable {
        match self.inner.persister() {
            Some(persister) => persister.durable(),
            None => Box::pin(std::future::ready(Ok(()))),
        }
    }

    fn is_behind(&self) -> bool {
        self.inner.persister().is_some_and(EventPersister::is_behind)
    }

    fn fault(&self) -> Option<KeepError> {
        self.inner.persister().and_then(EventPersister::fault)
    }

    fn snapshot(&self, _state: String) {
        // The run of the node has its own.
    }

    fn answered(&self, ask: &str, value: &Value) {
        if let Some(persister) = self.inner.persister() {
            persister.answered(ask, value);
        }
    }
}

fn own_depth(level: u32) -> Option<u32> {
    (level > 0).then_some(level)
}

/// Converts an event of the node to the form that an agent's run would have emitted.
fn as_of_a_run(stored: &StoredEvent, node: &EventLocation, level: u32) -> StoredEvent {
    let mut stored = stored.clone();
    let place = &mut stored.event.place;
    let is_at_node = place.path == node.path;
    // Ids of the calls of this node have one point for each level above.
    let is_own_call = |id: &str| id.matches('.').count() == level as usize;
    let is_own = match &place.call {
        None => is_at_node,
        Some(call) => {
            let info = stored.event.body.info();
            let is_about_call = info.subject == EventSubject::Call && info.role != EventRole::Piece;
            is_at_node && is_own_call(call.as_str()) && is_about_call
        }
    };
    if is_own {
        // The turn was added outside of the workflow.
        (place.path, place.turn) = (None, None);
        place.depth = own_depth(level);
    }
    stored
}

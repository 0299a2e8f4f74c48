//! Emitter of a run's events at one location.

use std::sync::Arc;

use agent_types::{EventBody, EventLocation, EventPersister, EventSink, ReplayData, RunId, UnsequencedEvent};

use crate::resume::RunLog;

/// Emitter of a run's events at one location.
#[derive(Debug, Clone)]
pub(crate) struct Trace {
    log: Arc<RunLog>,
    place: EventLocation,
}

impl Trace {
    /// The root of a run; `depth` are the agents and workflows above it.
    pub(crate) fn root(log: Arc<RunLog>, depth: u32) -> Self {
        Self { log, place: EventLocation { depth: (depth > 0).then_some(depth), ..EventLocation::default() } }
    }

    pub(crate) fn emit(&self, body: EventBody) {
        self.emit_at(self.place.clone(), body);
    }

    pub(crate) fn emit_at(&self, place: EventLocation, body: EventBody) {
        self.log.record(&mut vec![UnsequencedEvent::new(place, body)]);
    }

    /// Emits an event with data that a resumed run needs, if the sink persists it.
    pub(crate) fn emit_kept(&self, body: EventBody, record: impl FnOnce() -> ReplayData) {
        let record = self.log.keeper().map(|_| Box::new(record()));
        self.log.record(&mut vec![UnsequencedEvent { place: self.place.clone(), body, record }]);
    }

    /// Returns an emitter at another location.
    pub(crate) fn at(&self, place: EventLocation) -> Self {
        Self { log: Arc::clone(&self.log), place }
    }

    /// Log of the run.
    pub(crate) fn log(&self) -> &RunLog {
        &self.log
    }

    pub(crate) fn place(&self) -> EventLocation {
        self.place.clone()
    }

    pub(crate) fn sink(&self) -> Arc<dyn EventSink> {
        Arc::clone(&self.log) as Arc<dyn EventSink>
    }

    /// A new span inside this one.
    pub(crate) fn span(&self, change: impl FnOnce(&mut EventLocation)) -> Self {
        let mut place = self.place.clone();
        place.parent = Some(place.span);
        place.span = self.log.new_span();
        change(&mut place);
        Self { log: Arc::clone(&self.log), place }
    }
}

/// Sink for work inside a turn: events get the turn and keep the rest of their location.
pub(crate) fn inner(trace: &Trace) -> Arc<dyn EventSink> {
    Arc::new(TurnSink { log: Arc::clone(&trace.log), place: trace.place() })
}

/// Adds the turn to events of what runs inside it.
#[derive(Debug)]
struct TurnSink {
    log: Arc<RunLog>,
    place: EventLocation,
}

impl EventSink for TurnSink {
    fn record(&self, drafts: &mut Vec<UnsequencedEvent>) {
        for UnsequencedEvent { place, .. } in drafts.iter_mut() {
            place.turn = place.turn.or(self.place.turn);
            place.depth = place.depth.or(self.place.depth);
            // What begins at the root of an inner run begins at the turn.
            place.parent = place.parent.filter(|parent| *parent != 0).or(Some(self.place.span));
        }
        self.log.record(drafts);
    }

    fn new_span(&self) -> u64 {
        self.log.new_span()
    }

    fn run(&self) -> &RunId {
        self.log.run()
    }

    fn keeper(&self) -> Option<&dyn EventPersister> {
        self.log.keeper()
    }
}

//! Emitter of a run's events at one location.

use std::sync::Arc;

use agent_types::{EventBody, EventLocation, EventPersister, EventSink, ReplayData, RunId, UnsequencedEvent};

use crate::machine::{At, Effect, Emission};
use crate::resume::RunLog;

/// Emitter of a run's events at one location.
#[derive(Debug, Clone)]
pub struct Trace {
    log: Arc<RunLog>,
    place: EventLocation,
}

impl Trace {
    /// The root of a run; `depth` are the agents and workflows above it.
    pub fn root(log: Arc<RunLog>, depth: u32) -> Self {
        Self { log, place: EventLocation { depth: (depth > 0).then_some(depth), ..EventLocation::default() } }
    }

    /// Emits an event here.
    pub fn emit(&self, body: EventBody) {
        self.emit_at(self.place.clone(), body);
    }

    /// Emits an event at another location.
    pub fn emit_at(&self, place: EventLocation, body: EventBody) {
        self.log.record(&mut vec![UnsequencedEvent::new(place, body)]);
    }

    /// Emits an event with data that a resumed run needs, if the sink persists it.
    pub fn emit_kept(&self, body: EventBody, record: impl FnOnce() -> ReplayData) {
        let record = self.log.persister().map(|_| Box::new(record()));
        self.log.record(&mut vec![UnsequencedEvent { place: self.place.clone(), body, record }]);
    }

    /// Emits an event of the machine; this is the emitter of the turn, and `root` that of the run.
    pub(crate) fn perform(&self, emission: Emission, root: &Self) {
        let Emission { at, event, record } = emission;
        let place = match at {
            At::Run => root.place.clone(),
            At::Turn => self.place.clone(),
            At::Call(call) => EventLocation { call: Some(call), ..self.place.clone() },
        };
        let stated = matches!(event, EventBody::AgentObservation { .. })
            .then(|| self.log.take_stated(place.call.as_ref()?))
            .flatten();
        let record = record
            .map(|(name, value)| ReplayData::from_values(vec![(Arc::from(name), Arc::new(value))]))
            .or(stated)
            .filter(|_| self.log.persister().is_some())
            .map(Box::new);
        self.log.record(&mut vec![UnsequencedEvent { place, body: event, record }]);
    }

    /// Emits events among effects of the machine.
    pub fn perform_all(&self, effects: impl IntoIterator<Item = Effect>) {
        for effect in effects {
            if let Effect::Emit(emission) = effect {
                self.perform(*emission, self);
            }
        }
    }

    /// Returns an emitter at another location.
    #[must_use]
    pub fn at(&self, place: EventLocation) -> Self {
        Self { log: Arc::clone(&self.log), place }
    }

    /// Log of the run.
    pub fn log(&self) -> &RunLog {
        &self.log
    }

    /// Location of its events.
    pub fn place(&self) -> EventLocation {
        self.place.clone()
    }

    /// Sink of the run.
    pub fn sink(&self) -> Arc<dyn EventSink> {
        Arc::clone(&self.log) as Arc<dyn EventSink>
    }

    /// The span of a turn inside this one: the recorded one of a turn that is replayed.
    #[must_use]
    pub(crate) fn turn(&self, turn: u32) -> Self {
        let (parent, span) = (Some(self.place.span), self.log.span_of_turn(turn));
        self.at(EventLocation { parent, span, turn: Some(turn), ..self.place.clone() })
    }

    /// A new span inside this one.
    #[must_use]
    pub fn span(&self, change: impl FnOnce(&mut EventLocation)) -> Self {
        let mut place = self.place.clone();
        place.parent = Some(place.span);
        place.span = self.log.new_span();
        change(&mut place);
        Self { log: Arc::clone(&self.log), place }
    }
}

/// Sink for work inside a turn: events get the turn and keep the rest of their location.
pub fn inner(trace: &Trace) -> Arc<dyn EventSink> {
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

    fn persister(&self) -> Option<&dyn EventPersister> {
        self.log.persister()
    }
}

//! Index of the recorded events of a run, used during replay.

use std::collections::{HashMap, VecDeque};
use std::mem::{Discriminant, discriminant};
use std::sync::Arc;

use agent_types::{CallId, EventBody, EventLocation, StoredEvent, UnsequencedEvent};

use crate::run::graph_state::frame::Key;
use crate::run::resume::restart::AtWork;

/// Subject of an event: path, pass and type.
type About = (Arc<str>, Option<u64>, Discriminant<EventBody>);

/// Index of a log during replay.
#[derive(Debug, Default)]
pub(in crate::run) struct ReplayIndex {
    /// Events of the log that work done again may stand for: number and span.
    recorded: HashMap<About, VecDeque<(u64, u64)>>,
    /// Events that the log lacks.
    pub(in crate::run) missing: Vec<UnsequencedEvent>,
    /// Frames by what stands before the paths of their nodes.
    pub(in crate::run) frames: HashMap<Arc<str>, u32>,
    pub(in crate::run) nodes: HashMap<u32, HashMap<Arc<str>, u32>>,
    pub(in crate::run) at_work: HashMap<Key, AtWork>,
    /// Events from inside running nodes.
    pub(in crate::run) inner: HashMap<Key, Vec<StoredEvent>>,
    /// The nodes that made calls.
    pub(in crate::run) callers: HashMap<CallId, Key>,
}

fn about(place: &EventLocation, body: &EventBody) -> About {
    (place.path.clone().unwrap_or_default(), place.iteration, discriminant(body))
}

impl ReplayIndex {
    pub(in crate::run) fn new(events: &[StoredEvent]) -> Self {
        let mut replay = Self::default();
        // What happened inside calls is done again by the nodes that made them.
        for StoredEvent { event, .. } in events.iter().filter(|kept| kept.event.place.call.is_none()) {
            let about = about(&event.place, &event.body);
            replay.recorded.entry(about).or_default().push_back((event.seq, event.place.span));
        }
        replay
    }

    /// Takes a recorded event; `false` if the log does not have it, or has it no more.
    pub(in crate::run) fn take(&mut self, place: &EventLocation, body: &EventBody) -> bool {
        self.recorded.get_mut(&about(place, body)).and_then(VecDeque::pop_front).is_some()
    }

    /// An event of work done again: dropped if the log has it.
    pub(in crate::run) fn emit(&mut self, draft: UnsequencedEvent) {
        if !self.take(&draft.place, &draft.body) {
            self.missing.push(draft);
        }
    }

    /// The span that the log has for what is about to start.
    pub(in crate::run) fn span(&self, place: &EventLocation, body: &EventBody) -> Option<u64> {
        self.next(place, body).map(|(_, span)| span)
    }

    /// The next event of the log of that kind: number and span.
    pub(in crate::run) fn next(&self, place: &EventLocation, body: &EventBody) -> Option<(u64, u64)> {
        self.recorded.get(&about(place, body))?.front().copied()
    }

    /// Returns `true` if replay has not matched the event yet.
    pub(in crate::run) fn is_open(&self, kept: &StoredEvent) -> bool {
        let event = &kept.event;
        let events = self.recorded.get(&about(&event.place, &event.body));
        events.is_some_and(|events| events.iter().any(|(seq, _)| *seq == event.seq))
    }
}

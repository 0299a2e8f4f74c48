//! The matcher: an event is recorded already, or it must be emitted.

use std::collections::{HashMap, VecDeque};

use agent_types::{EventBody, EventLocation, StoredEvent, UnsequencedEvent};

use crate::key::EventKey;

/// Number and span of a recorded event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Recorded {
    /// Number of the event in the log.
    pub seq: u64,
    /// Span of the event.
    pub span: u64,
}

/// Events that a run has recorded, matched with those that the resumed run emits.
#[derive(Debug, Default)]
pub struct Journal {
    recorded: HashMap<EventKey, VecDeque<Recorded>>,
    missing: Vec<UnsequencedEvent>,
}

impl Journal {
    /// Creates the journal of the run's own events, in the order of their numbers.
    pub fn new<'e>(events: impl IntoIterator<Item = &'e StoredEvent>) -> Self {
        let mut journal = Self::default();
        events.into_iter().for_each(|stored| journal.add(stored));
        journal
    }

    /// Adds the next recorded event.
    pub fn add(&mut self, stored: &StoredEvent) {
        let event = &stored.event;
        let recorded = Recorded { seq: event.seq, span: event.place.span };
        self.recorded.entry(EventKey::new(&event.place, &event.body)).or_default().push_back(recorded);
    }

    /// Drops the recorded events of an identity, which later ones have made void: the next of them is emitted.
    pub fn forget(&mut self, place: &EventLocation, body: &EventBody) {
        self.recorded.remove(&EventKey::new(place, body));
    }

    /// Takes an event out of the log; `None` means that it must be emitted.
    pub fn take(&mut self, place: &EventLocation, body: &EventBody) -> Option<Recorded> {
        self.recorded.get_mut(&EventKey::new(place, body)).and_then(VecDeque::pop_front)
    }

    /// Returns the recorded event that [`take`](Self::take) would take.
    #[must_use]
    pub fn peek(&self, place: &EventLocation, body: &EventBody) -> Option<Recorded> {
        self.recorded.get(&EventKey::new(place, body))?.front().copied()
    }

    /// Returns `true` if a recorded event has not been matched yet.
    #[must_use]
    pub fn holds(&self, stored: &StoredEvent) -> bool {
        let event = &stored.event;
        let same = self.recorded.get(&EventKey::new(&event.place, &event.body));
        same.is_some_and(|same| same.iter().any(|recorded| recorded.seq == event.seq))
    }

    /// Matches an event of the replay. One that the log lacks is emitted when the run is live again.
    pub fn emit(&mut self, event: UnsequencedEvent) {
        self.matched(event);
    }

    /// The same, which gives a matched event with the number of the recorded one.
    pub fn matched(&mut self, event: UnsequencedEvent) -> Option<(u64, UnsequencedEvent)> {
        if let Some(recorded) = self.take(&event.place, &event.body) {
            return Some((recorded.seq, event));
        }
        self.missing.push(event);
        None
    }

    /// Returns `true` if the replay has emitted an event that the log lacks.
    #[must_use]
    pub fn has_missing(&self) -> bool {
        !self.missing.is_empty()
    }

    /// Takes the events that the replay emitted and the log lacks, in their order.
    pub fn take_missing(&mut self) -> Vec<UnsequencedEvent> {
        std::mem::take(&mut self.missing)
    }
}

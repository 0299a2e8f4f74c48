//! The one writer that numbers the events of a run.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Batch, Clock, EventBody, EventBroadcast, EventLocation, EventSubscription, RunId, TraceEvent, Usage,
};

/// A fact that has no number yet.
#[derive(Debug, Clone, PartialEq)]
pub struct UnsequencedEvent {
    /// Location of the event within the run.
    pub place: EventLocation,
    /// Kind of the event and its data.
    pub body: EventBody,
    /// Data that only replay needs.
    pub record: Option<Box<ReplayData>>,
}

impl UnsequencedEvent {
    /// A fact that says all there is to know.
    #[must_use]
    pub fn new(place: EventLocation, body: EventBody) -> Self {
        Self { place, body, record: None }
    }
}

/// Data that a resumed run needs beyond the event itself. It is persisted with the event and never shown.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ReplayData {
    /// Values by name, such as the results of a run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<(Arc<str>, Arc<Value>)>,
    /// Detail of the outcome that the event leaves open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub how: Option<Arc<str>>,
    /// Token usage of the model calls behind the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

impl ReplayData {
    /// Creates replay data of values by name only.
    #[must_use]
    pub fn from_values(values: Vec<(Arc<str>, Arc<Value>)>) -> Self {
        Self { values, ..Self::default() }
    }
}

/// An event as it was persisted.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredEvent {
    /// Event as it was emitted.
    pub event: TraceEvent,
    /// Replay data persisted with the event.
    pub record: Option<ReplayData>,
}

/// Log from which a run resumes where it stopped.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ResumeLog {
    /// The state after some event, as the run gave it to its [`EventPersister`], with the number of that event.
    pub snapshot: Option<(u64, String)>,
    /// Events persisted after it, large values in place.
    pub events: Vec<StoredEvent>,
    /// Answers by question.
    pub answers: HashMap<String, Value>,
}

/// Sink that numbers emitted events.
///
/// A wrapper may extend the location of the events that pass through it, as a tool call does for the events
/// of its workflow.
pub trait EventSink: Send + Sync + fmt::Debug {
    /// Numbers the drafts in order and leaves the vector empty.
    fn record(&self, drafts: &mut Vec<UnsequencedEvent>);

    /// Returns a span number that is unique in this run.
    fn new_span(&self) -> u64;

    /// The run that the events belong to.
    fn run(&self) -> &RunId;

    /// Receives an event that a resumed run did again, with the number of the recorded one that it matches. It is not
    /// emitted.
    fn replayed(&self, _event: &UnsequencedEvent, _seq: u64) {}

    /// Returns the persister of the events, from which the run can be resumed; `None` where events are only
    /// shown.
    fn persister(&self) -> Option<&dyn EventPersister> {
        None
    }
}

/// Resolves when everything recorded before is safe, or can no longer become so.
pub type Durable = Pin<Box<dyn Future<Output = Result<(), KeepError>> + Send>>;

/// Reason why events could not be persisted. Events acknowledged before are safe.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct KeepError {
    /// Stable code for logs, tests and the wire.
    pub code: &'static str,
    /// Description of the fault.
    pub message: String,
}

/// Keeps the events of a run beyond the life of the process.
pub trait EventPersister: Send + Sync {
    /// Waits for the commit that covers all that was recorded so far.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the commit under way.
    fn durable(&self) -> Durable;

    /// More is waiting to be written than should; the run had better wait for [`durable`](Self::durable).
    fn is_behind(&self) -> bool;

    /// Returns the reason why no more events can be persisted.
    fn fault(&self) -> Option<KeepError>;

    /// Keeps the whole state of the run as it is after all that was recorded so far.
    /// A later resume begins there, and older events may be pruned.
    fn snapshot(&self, state: String);

    /// Keeps an answer to an open question.
    fn answered(&self, ask: &str, value: &Value);
}

/// Numbers the events of one run from 1 without holes and delivers them to subscribers.
///
/// It never waits: a subscriber that does not keep up loses its oldest events and receives their number.
#[derive(Debug)]
pub struct Recorder {
    run: RunId,
    clock: Arc<dyn Clock>,
    spans: AtomicU64,
    seq: Mutex<u64>,
    feed: EventBroadcast,
}

impl Recorder {
    /// A writer for `run` whose events carry the time of `clock`.
    #[must_use]
    pub fn new(run: RunId, clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self {
            run,
            clock,
            spans: AtomicU64::new(1),
            seq: Mutex::new(0),
            feed: EventBroadcast::new(),
        })
    }

    /// A reader of all that is recorded from now on, which holds `capacity` events at most; more push out the oldest.
    #[must_use]
    pub fn subscribe(&self, capacity: usize) -> EventSubscription {
        self.feed.subscribe(capacity)
    }

    /// Closes the recorder. Subscriptions end after the events that they have buffered.
    pub fn close(&self) {
        self.feed.close();
    }

    /// The number of the last event.
    #[must_use]
    pub fn last_seq(&self) -> u64 {
        *self.seq.lock()
    }

    /// Records one fact.
    pub fn emit(&self, place: EventLocation, body: EventBody) {
        self.record(&mut vec![UnsequencedEvent::new(place, body)]);
    }
}

impl EventSink for Recorder {
    fn record(&self, drafts: &mut Vec<UnsequencedEvent>) {
        if drafts.is_empty() {
            return;
        }
        // Watchers are fed under the lock, so that every one of them sees the order of the numbers.
        let mut seq = self.seq.lock();
        if !self.feed.is_watched() {
            *seq += drafts.len() as u64;
            drafts.clear();
            return;
        }
        let ts = self.clock.now();
        let events = drafts.drain(..).map(|UnsequencedEvent { place, body, .. }| {
            *seq += 1;
            TraceEvent::new(self.run.clone(), *seq, ts, place, body)
        });
        self.feed.push(&Batch::new(events));
    }

    fn new_span(&self) -> u64 {
        self.spans.fetch_add(1, Ordering::Relaxed)
    }

    fn run(&self) -> &RunId {
        &self.run
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use crate::{Delivery, Timestamp, VirtualClock};

    fn recorder() -> Arc<Recorder> {
        Recorder::new(RunId::new("r"), Arc::new(VirtualClock::new(Timestamp::default())))
    }

    fn seqs(subscriber: &mut EventSubscription) -> (Vec<u64>, u64) {
        let (mut seen, mut missed) = (Vec::new(), 0);
        while let Some(watched) = subscriber.try_next() {
            match watched {
                Delivery::Events(batch) => seen.extend(batch.iter().map(|event| event.seq)),
                Delivery::Lagged(count) => missed += count,
            }
        }
        (seen, missed)
    }

    #[test]
    fn numbers_have_no_holes_and_every_watcher_sees_them() {
        let recorder = recorder();
        let mut first = recorder.subscribe(10);
        recorder.emit(EventLocation::default(), EventBody::RunQueued { place: None });
        let mut second = recorder.subscribe(10);
        recorder.emit(EventLocation::default(), EventBody::AgentThinking {});
        assert_eq!(seqs(&mut first), (vec![1, 2], 0));
        assert_eq!(seqs(&mut second), (vec![2], 0));
    }

    #[test]
    fn a_slow_watcher_is_told_what_it_missed() {
        let recorder = recorder();
        let mut slow = recorder.subscribe(3);
        for _ in 0..10 {
            recorder.emit(EventLocation::default(), EventBody::AgentThinking {});
        }
        assert_eq!(seqs(&mut slow), (vec![8, 9, 10], 7));
    }

    #[test]
    fn a_closed_recorder_ends_its_watchers() {
        let recorder = recorder();
        let mut subscriber = recorder.subscribe(3);
        recorder.emit(EventLocation::default(), EventBody::RunQueued { place: None });
        recorder.close();
        let mut cx = Context::from_waker(Waker::noop());
        let mut poll = || pin!(subscriber.next()).poll(&mut cx);
        assert!(matches!(poll(), Poll::Ready(Some(Delivery::Events(_)))));
        assert!(matches!(poll(), Poll::Ready(None)));
    }
}

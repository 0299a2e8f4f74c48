//! A sink that keeps what a run records, and can be cut anywhere.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use agent_types::{
    Durable, EventPersister, EventSink, KeepError, ResumeLog, RunId, StoredEvent, Timestamp, TraceEvent,
    UnsequencedEvent,
};
use serde_json::Value;

/// Keeps what a run records, in memory.
#[derive(Debug, Default)]
pub(crate) struct Log {
    state: Mutex<State>,
}

#[derive(Debug, Default, Clone)]
pub(crate) struct State {
    pub(crate) events: Vec<StoredEvent>,
    snapshots: Vec<(u64, String)>,
    answers: HashMap<String, Value>,
    spans: u64,
    /// Events before it are those of an earlier life.
    pub(crate) resumed_at: usize,
}

static RUN: std::sync::LazyLock<RunId> = std::sync::LazyLock::new(|| RunId::new("r"));

impl Log {
    /// Returns the log as a store would give it, with the newest checkpoint.
    pub(crate) fn whole(&self) -> ResumeLog {
        let state = self.state();
        ResumeLog {
            snapshot: state.snapshots.last().cloned(),
            events: state.events.clone(),
            ..ResumeLog::default()
        }
    }

    /// Returns a log that another process wrote.
    pub(crate) fn written(log: ResumeLog) -> Self {
        let spans = log.events.iter().map(|kept| kept.event.place.span).max().unwrap_or_default();
        let snapshots = log.snapshot.into_iter().collect();
        Self { state: Mutex::new(State { events: log.events, snapshots, spans, ..State::default() }) }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Returns the log found after a crash behind the event `upto`, with the newest checkpoint or without
    /// any.
    pub(crate) fn cut(&self, upto: usize, with_snapshot: bool) -> (Arc<Self>, ResumeLog) {
        let state = self.state();
        let snapshots: Vec<_> =
            state.snapshots.iter().filter(|(seq, _)| *seq <= upto as u64).cloned().collect();
        let snapshot = snapshots.last().cloned().filter(|_| with_snapshot);
        let after = snapshot.as_ref().map_or(0, |(seq, _)| *seq);
        let events = state.events[..upto].to_vec();
        let log = ResumeLog {
            snapshot,
            events: events.iter().filter(|kept| kept.event.seq > after).cloned().collect(),
            answers: state.answers.clone(),
        };
        let spans = state.spans;
        let left = State { events, snapshots, answers: state.answers.clone(), spans, resumed_at: upto };
        (Arc::new(Self { state: Mutex::new(left) }), log)
    }
}

impl EventSink for Log {
    fn record(&self, drafts: &mut Vec<UnsequencedEvent>) {
        let mut state = self.state();
        for draft in drafts.drain(..) {
            let seq = state.events.len() as u64 + 1;
            let event = TraceEvent::new(RUN.clone(), seq, Timestamp::default(), draft.place, draft.body);
            // As a store would have it.
            let event = serde_json::from_str(&serde_json::to_string(&event).unwrap()).unwrap();
            state.events.push(StoredEvent { event, record: draft.record.map(|record| *record) });
        }
    }

    fn new_span(&self) -> u64 {
        let mut state = self.state();
        state.spans += 1;
        state.spans
    }

    fn run(&self) -> &RunId {
        &RUN
    }

    fn persister(&self) -> Option<&dyn EventPersister> {
        Some(self)
    }
}

impl EventPersister for Log {
    fn durable(&self) -> Durable {
        Box::pin(async { Ok(()) })
    }

    fn is_behind(&self) -> bool {
        false
    }

    fn fault(&self) -> Option<KeepError> {
        None
    }

    fn snapshot(&self, state: String) {
        let seq = self.state().events.len() as u64;
        self.state().snapshots.push((seq, state));
    }

    fn answered(&self, ask: &str, value: &Value) {
        self.state().answers.insert(ask.to_owned(), value.clone());
    }
}

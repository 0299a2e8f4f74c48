//! A run that is persisted while it executes.

use std::future::ready;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use agent_types::{
    Clock, Durable, EventBroadcast, EventPersister, EventSink, EventSubscription, KeepError, ResumeLog,
    RunId, TraceEvent, UnsequencedEvent,
};
use parking_lot::Mutex;
use serde_json::Value;

use crate::held::Answered;
use crate::lock::RunLock;
use crate::store::StoreInner;
use crate::writer::Job;
use crate::{Change, StoreError};

/// Events that may wait to be written before a run should wait for them.
const BEHIND: usize = 4 * 1024;

/// State of a run that the writer keeps.
#[derive(Debug)]
pub(crate) struct RunCore {
    pub(crate) run: RunId,
    pub(crate) feed: EventBroadcast,
    fault: OnceLock<StoreError>,
}

impl RunCore {
    pub(crate) fn new(run: RunId) -> Self {
        Self { run, feed: EventBroadcast::new(), fault: OnceLock::new() }
    }

    pub(crate) fn fault(&self) -> Option<StoreError> {
        self.fault.get().cloned()
    }

    pub(crate) fn set_fault(&self, error: &StoreError) {
        // The first fault counts: what follows is only its consequence.
        let _ = self.fault.set(error.clone());
    }
}

/// A run that is persisted while it executes. It numbers the run's events and holds the right to work on it.
#[derive(Debug)]
pub struct StoredRun {
    store: Arc<StoreInner>,
    core: Arc<RunCore>,
    clock: Arc<dyn Clock>,
    seq: Mutex<u64>,
    spans: AtomicU64,
    /// Nothing more is taken.
    left: AtomicBool,
    _lock: RunLock,
}

impl StoredRun {
    pub(crate) fn core(&self) -> Arc<RunCore> {
        Arc::clone(&self.core)
    }

    pub(crate) fn new(
        store: Arc<StoreInner>,
        run: RunId,
        clock: Arc<dyn Clock>,
        (last_seq, last_span): (u64, u64),
        lock: RunLock,
    ) -> Arc<Self> {
        let core = Arc::new(RunCore::new(run));
        let spans = AtomicU64::new(last_span + 1);
        Arc::new(Self {
            store,
            core,
            clock,
            seq: Mutex::new(last_seq),
            spans,
            left: AtomicBool::new(false),
            _lock: lock,
        })
    }

    /// A reader of all that is committed from now on, which holds `capacity` events at most; more push out the oldest.
    #[must_use]
    pub fn subscribe(&self, capacity: usize) -> EventSubscription {
        self.core.feed.subscribe(capacity)
    }

    /// Number of the last event, committed or not.
    #[must_use]
    pub fn last_seq(&self) -> u64 {
        *self.seq.lock()
    }

    /// Closes the run. Subscriptions end after the events that they have buffered.
    ///
    /// # Errors
    /// The last events could not be kept.
    pub async fn close(&self) -> Result<(), StoreError> {
        let result = self.wait().await;
        self.core.feed.close();
        result
    }

    /// Abandons the run as a crash of the process would. Events emitted from now on are dropped, so that the
    /// remaining work can be stopped and the run can be resumed later.
    pub fn leave(&self) {
        // Under the lock: a batch that is being emitted is taken whole.
        let _seq = self.seq.lock();
        self.left.store(true, Ordering::Relaxed);
    }

    fn is_left(&self) -> bool {
        self.left.load(Ordering::Relaxed)
    }

    async fn wait(&self) -> Result<(), StoreError> {
        let done = self.store.writer.flush(Some(Arc::clone(&self.core)));
        done.await.unwrap_or_else(|_| Err(StoreError::io("the writer has stopped")))
    }
}

impl EventSink for StoredRun {
    fn record(&self, drafts: &mut Vec<UnsequencedEvent>) {
        if drafts.is_empty() {
            return;
        }
        let ts = self.clock.now();
        // Jobs are sent under the lock, so that they reach the writer in the order of the numbers.
        let mut seq = self.seq.lock();
        if self.is_left() {
            drafts.clear();
            return;
        }
        let numbered = drafts.drain(..).map(|draft| {
            *seq += 1;
            let event = TraceEvent::new(self.core.run.clone(), *seq, ts, draft.place, draft.body);
            (event, draft.record)
        });
        let last_span = self.spans.load(Ordering::Relaxed);
        self.store.writer.send_events(&self.core, numbered, last_span, self.clock.busy());
    }

    fn new_span(&self) -> u64 {
        self.spans.fetch_add(1, Ordering::Relaxed)
    }

    fn run(&self) -> &RunId {
        &self.core.run
    }

    fn persister(&self) -> Option<&dyn EventPersister> {
        Some(self)
    }
}

impl EventPersister for StoredRun {
    fn durable(&self) -> Durable {
        // Whoever is too fast for the writer waits all the same.
        if !self.store.backend.is_lasting() && !self.is_behind() {
            return Box::pin(ready(self.fault().map_or(Ok(()), Err)));
        }
        let done = self.store.writer.flush(Some(Arc::clone(&self.core)));
        let hold = self.clock.busy();
        Box::pin(async move {
            let result = done.await.unwrap_or_else(|_| Err(StoreError::io("the writer has stopped")));
            drop(hold);
            result.map_err(|error| keep_error(&error))
        })
    }

    fn is_behind(&self) -> bool {
        self.store.writer.pending() > BEHIND
    }

    fn fault(&self) -> Option<KeepError> {
        self.core.fault().map(|error| keep_error(&error))
    }

    fn snapshot(&self, state: String) {
        if self.is_left() {
            return;
        }
        let (run, seq) = (self.core.run.clone(), self.last_seq());
        let state = self.store.masks.mask(&state).into_owned().into_bytes();
        self.store.writer.send(Job::Write(Change::Snapshot { run: run.clone(), seq, state }));
        let keep = self.store.options.log_bytes;
        self.store.writer.send(Job::Write(Change::Trim { run, seq, keep }));
    }

    fn answered(&self, ask: &str, value: &Value) {
        if self.is_left() {
            return;
        }
        let value = crate::encode::masked_value(value, &self.store.masks);
        self.store.writer.send(Job::Write(Change::Answer {
            run: self.core.run.clone(),
            ask: ask.to_owned(),
            value,
            seq: self.last_seq(),
        }));
    }
}

fn keep_error(error: &StoreError) -> KeepError {
    KeepError { code: error.code(), message: error.to_string() }
}

impl StoredRun {
    /// Takes over answers of another run, as the log's and as its own.
    pub(crate) fn take_answers(&self, log: &mut ResumeLog, answers: Vec<Answered>) {
        log.answers.clear();
        for Answered { ask, value, seq } in answers {
            log.answers.insert(ask.clone(), value.clone());
            let run = self.core.run.clone();
            self.store.writer.send(Job::Write(Change::Answer { run, ask, value, seq }));
        }
    }

    /// Takes over the events of another run as they are.
    pub(crate) fn copy(&self, log: &ResumeLog, last_span: u64) {
        let last = log.events.last().map(|kept| kept.event.seq);
        let last = last.or(log.snapshot.as_ref().map(|(seq, _)| *seq)).unwrap_or(0);
        self.spans.fetch_max(last_span + 1, Ordering::Relaxed);
        *self.seq.lock() = last;
        if let Some((seq, state)) = &log.snapshot {
            let state = state.clone().into_bytes();
            let change = Change::Snapshot { run: self.core.run.clone(), seq: *seq, state };
            self.store.writer.send(Job::Write(change));
        }
        let numbered: Vec<_> =
            log.events.iter().map(|kept| (kept.event.clone(), kept.record.clone().map(Box::new))).collect();
        if !numbered.is_empty() {
            let last_span = self.spans.load(Ordering::Relaxed);
            self.store.writer.send_events(&self.core, numbered.into_iter(), last_span, self.clock.busy());
        }
    }
}

//! Emission of events: each is emitted once, in order, unless the log of a resumed run has it.

use std::sync::Arc;

use agent_types::{
    Durable, EventBody, EventLocation, EventPersister, EventSink, ReplayData, StoredEvent, UnsequencedEvent,
};
use run_journal::Journal;
use serde_json::Value;

use super::graph_state::frame::Key;
use super::options::RunOptions;
use super::resume::inner::Inner;
use super::resume::replay_index::ReplayIndex;
use crate::error::RunError;
use crate::hash::NumberMap;

/// Events that are handed on together.
const BATCH: usize = 64;
/// Bytes of a checkpoint that stand against one event.
const BYTES_AN_EVENT: usize = 64;

/// Events of a run, and what the log of a resumed run still has of them.
pub(crate) struct RunEvents<'p> {
    sink: &'p dyn EventSink,
    drafts: Vec<UnsequencedEvent>,
    /// Index of the log during replay.
    replay: Option<Box<ReplayIndex>>,
    /// Rest of the log of a run that was about to end.
    pending_log: Option<Journal>,
    /// Events that running nodes emitted through their sinks.
    inner: NumberMap<Key, Inner>,
    /// Events that resuming nodes emitted through their sinks before the process ended.
    pasts: NumberMap<Key, Vec<StoredEvent>>,
    /// The reason why events could not be persisted.
    fault: Option<RunError>,
    checkpoints: Option<Checkpoints>,
}

/// Price of a checkpoint against the events since the last one.
struct Checkpoints {
    /// Events that stand against a checkpoint at least.
    interval: usize,
    /// Events since the last one.
    events: usize,
    /// Size of the last one.
    bytes: usize,
    is_due: bool,
}

impl<'p> RunEvents<'p> {
    pub(crate) fn new(sink: &'p dyn EventSink, options: &RunOptions) -> Self {
        let interval = options.snapshot_events;
        let checkpoints = Checkpoints { interval, events: 0, bytes: 0, is_due: false };
        Self {
            sink,
            drafts: Vec::new(),
            replay: None,
            pending_log: None,
            inner: NumberMap::default(),
            pasts: NumberMap::default(),
            fault: None,
            checkpoints: (sink.persister().is_some() && !options.nested).then_some(checkpoints),
        }
    }

    /// Returns `true` if events are persisted, so that the run can be resumed.
    pub(crate) fn persists(&self) -> bool {
        self.sink.persister().is_some()
    }

    pub(crate) fn emit(&mut self, place: EventLocation, body: EventBody) {
        self.emit_with(place, body, None);
    }

    /// Emits an event together with the replay data that a resumed run needs.
    pub(crate) fn emit_with(
        &mut self,
        place: EventLocation,
        body: EventBody,
        record: Option<Box<ReplayData>>,
    ) {
        if let Some(replay) = &mut self.replay {
            return replay.journal.emit(UnsequencedEvent { place, body, record });
        }
        self.drafts.push(UnsequencedEvent { place, body, record });
        if self.drafts.len() >= BATCH {
            self.flush();
        }
    }

    /// Emits an event of the end of the run, unless the log has it.
    pub(crate) fn emit_once(&mut self, place: EventLocation, body: EventBody) {
        let is_recorded = self.pending_log.as_mut().is_some_and(|log| log.take(&place, &body).is_some());
        if !is_recorded {
            self.emit(place, body);
        }
    }

    pub(crate) fn flush(&mut self) {
        if self.drafts.is_empty() {
            return;
        }
        if let Some(checkpoints) = &mut self.checkpoints {
            checkpoints.events += self.drafts.len();
        }
        self.sink.record(&mut self.drafts);
        if self.fault.is_none() {
            let fault = self.sink.persister().and_then(EventPersister::fault);
            self.fault = fault.map(|fault| RunError::new(fault.code, fault.message));
        }
    }

    pub(crate) fn has_fault(&self) -> bool {
        self.fault.is_some()
    }

    pub(crate) fn take_fault(&mut self) -> Option<RunError> {
        self.fault.take()
    }

    /// Resolves when everything emitted so far is safe; none where events are only shown.
    pub(crate) fn durable(&self) -> Option<Durable> {
        self.sink.persister().map(EventPersister::durable)
    }

    /// The same if events are made faster than they can be written.
    pub(crate) fn catch_up(&self) -> Option<Durable> {
        self.sink.persister().filter(|persister| persister.is_behind()).map(EventPersister::durable)
    }

    /// Persists the answer of a question.
    pub(crate) fn keep_answer(&self, ask: &str, value: &Value) {
        if let Some(persister) = self.sink.persister() {
            persister.answered(ask, value);
        }
    }

    pub(crate) fn new_span(&self) -> u64 {
        self.sink.new_span()
    }

    /// A span for what is about to start: the one that the log has for it, or a new one.
    pub(crate) fn span_for(&self, place: &EventLocation, body: &EventBody) -> u64 {
        let log = self.replay.as_ref().map(|replay| &replay.journal).or(self.pending_log.as_ref());
        let recorded = log.and_then(|log| log.peek(place, body));
        recorded.map_or_else(|| self.new_span(), |recorded| recorded.span)
    }

    /// Emits an event of work inside a node.
    pub(crate) fn emit_inner(&mut self, key: Key, draft: UnsequencedEvent) {
        if self.inner.entry(key).or_default().note(&draft) {
            self.emit_with(draft.place, draft.body, draft.record);
        }
    }

    /// Ends what was started inside an attempt of a node that is over.
    pub(crate) fn close_inner(&mut self, key: Key, cause: &Arc<str>) {
        if self.inner.is_empty() {
            return;
        }
        let ends = self.inner.get_mut(&key).map(|inner| inner.close(cause)).unwrap_or_default();
        for end in ends {
            self.emit(end.place, end.body);
        }
    }

    /// The same for a node that has ended, of which nothing more is heard.
    pub(crate) fn forget_inner(&mut self, key: Key, cause: &Arc<str>) {
        self.close_inner(key, cause);
        if !self.inner.is_empty() {
            self.inner.remove(&key);
        }
    }

    /// Returns `true` if a running node has open work that can resume only from its events.
    pub(crate) fn needs_its_log(&self, is_running: impl Fn(Key) -> bool) -> bool {
        let kept = |(key, inner): (&Key, &Inner)| inner.keeps() && is_running(*key);
        self.inner.iter().any(kept) || self.pasts.keys().any(|key| is_running(*key))
    }

    /// Returns the earlier events of a node that resumes.
    pub(crate) fn past_of(&mut self, key: Key) -> Option<Arc<[StoredEvent]>> {
        if self.pasts.is_empty() {
            return None;
        }
        self.pasts.remove(&key).map(Arc::from)
    }

    /// Begins replay: events that the log has are not emitted again.
    pub(crate) fn begin_replay(&mut self, log: &[StoredEvent]) {
        self.replay = Some(Box::new(ReplayIndex::new(log)));
    }

    /// Index of the log during replay.
    pub(crate) fn replay(&self) -> Option<&ReplayIndex> {
        self.replay.as_deref()
    }

    pub(crate) fn replay_mut(&mut self) -> Option<&mut ReplayIndex> {
        self.replay.as_deref_mut()
    }

    /// Ends replay; from now on events are emitted.
    pub(crate) fn end_replay(&mut self) -> Option<Box<ReplayIndex>> {
        let mut replay = self.replay.take()?;
        self.pasts.extend(std::mem::take(&mut replay.inner));
        Some(replay)
    }

    /// Emits what the log lacks. The log of a run that is about to end may have some of its last events already.
    pub(crate) fn emit_missing(&mut self, mut log: Journal, is_ending: bool) {
        self.drafts.append(&mut log.take_missing());
        self.pending_log = is_ending.then_some(log);
    }

    /// A pass has ended: enough may have happened since the last checkpoint.
    pub(crate) fn consider_checkpoint(&mut self) {
        if let Some(checkpoints) = &mut self.checkpoints
            && checkpoints.events >= checkpoints.interval.max(checkpoints.bytes / BYTES_AN_EVENT)
        {
            checkpoints.is_due = self.replay.is_none();
        }
    }

    /// Returns `true` once if a checkpoint is due.
    pub(crate) fn take_due(&mut self) -> bool {
        self.checkpoints.as_mut().is_some_and(|checkpoints| std::mem::take(&mut checkpoints.is_due))
    }

    /// Passes a checkpoint to the persister of the events.
    pub(crate) fn keep_checkpoint(&mut self, text: String) {
        if let Some(checkpoints) = &mut self.checkpoints {
            (checkpoints.events, checkpoints.bytes) = (0, text.len());
        }
        if let Some(persister) = self.sink.persister() {
            persister.snapshot(text);
        }
    }
}

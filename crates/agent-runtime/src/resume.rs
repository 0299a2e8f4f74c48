//! Resumes an agent's run from its log.
//!
//! The loop replays everything: it gets the model's recorded replies instead of requesting them, and the recorded
//! results of calls instead of running them. Events of the replay are in the log already and are not emitted twice.
//! The run resumes with the first step that the log does not have.

mod recorded;

use std::sync::Arc;

use agent_types::{
    CallId, EventBody, EventLocation, EventPersister, EventSink, ResumeLog, RunId, ToolStatus,
    UnsequencedEvent,
};
use llm_provider::StandardResponse;
use parking_lot::Mutex;
use run_journal::{Journal, log_in_call, log_in_turn};
use serde_json::{Map, Value};

pub use recorded::record_of_cost;
pub(crate) use recorded::{PastCall, PastSummary, PastTooLong, record_of, record_of_too_long};

use crate::machine::TaskEnd;
use recorded::{PastReply, Queues, Recorded};

/// Status text of a call that was running when the process ended.
const INTERRUPTED: &str = "interrupted";

/// Log of a resumed run, and the sink for its next events.
#[derive(Debug)]
pub struct RunLog {
    sink: Arc<dyn EventSink>,
    /// Matcher of the log; `None` as soon as the run is live. Nothing that can panic runs under the lock.
    journal: Mutex<Option<Journal>>,
    queues: Mutex<Queues>,
    recorded: Recorded,
    log: ResumeLog,
    /// It is the log of an agent inside a call, so many levels down.
    depth: u32,
}

impl RunLog {
    /// A run without a past.
    pub fn new(sink: Arc<dyn EventSink>, depth: u32) -> Arc<Self> {
        let log = Self::resumed(sink, ResumeLog::default(), depth);
        log.journal.lock().take();
        log
    }

    /// Resumes a run from its log.
    pub fn resumed(sink: Arc<dyn EventSink>, log: ResumeLog, depth: u32) -> Arc<Self> {
        let mut recorded = Recorded::new(&log.events, depth);
        let journal = Mutex::new(Some(std::mem::take(&mut recorded.journal)));
        let queues = Mutex::new(std::mem::take(&mut recorded.queues));
        Arc::new(Self { sink, journal, queues, recorded, log, depth })
    }

    /// Makes the run live: interrupted calls have ended, and from now on every event is emitted.
    pub fn resume(&self) {
        self.resume_because(if self.recorded.was_waiting { "waiting" } else { INTERRUPTED });
    }

    /// Makes the run live if there is a new event; otherwise it stays suspended.
    pub fn resume_with_news(&self) {
        if self.journal.lock().as_ref().is_some_and(Journal::has_missing) {
            self.resume();
        }
    }

    /// Makes the run live for a given reason.
    pub(crate) fn resume_because(&self, cause: &str) {
        let Some(mut journal) = self.journal.lock().take() else { return };
        // Calls that were open when the run suspended wait themselves; others were interrupted.
        let open = self.recorded.open.values().filter(|_| !self.recorded.was_waiting);
        let mut open: Vec<_> = open.cloned().collect();
        open.sort_by_key(|(place, _)| std::cmp::Reverse(place.span));
        let ended = |(place, tool)| {
            let body = EventBody::AgentToolFinished {
                tool,
                status: ToolStatus::Cancelled,
                summary: INTERRUPTED.to_owned(),
                blob: None,
                ms: 0,
                error: None,
            };
            UnsequencedEvent::new(place, body)
        };
        let resumed = EventBody::RunResumed { cause: Some(cause.to_owned()) };
        let mut drafts: Vec<UnsequencedEvent> = open.into_iter().map(ended).collect();
        if self.depth == 0 {
            drafts.push(UnsequencedEvent::new(EventLocation::default(), resumed));
        }
        drafts.extend(journal.take_missing());
        self.sink.record(&mut drafts);
    }

    /// Returns `true` when events are new, not replayed.
    pub(crate) fn is_live(&self) -> bool {
        self.journal.lock().is_none()
    }

    /// The next reply that the log has, with what it cost.
    pub fn reply(&self) -> Option<(StandardResponse, u64)> {
        let mut queues = self.queues.lock();
        match queues.replies.pop_front()? {
            PastReply::Whole(reply, cost) => Some((*reply, cost)),
            too_long @ PastReply::TooLong(_) => {
                queues.replies.push_front(too_long);
                None
            }
        }
    }

    /// The refusal of the server, where the log says that it found the next request too long.
    pub(crate) fn too_long(&self) -> Option<PastTooLong> {
        let mut queues = self.queues.lock();
        match queues.replies.pop_front()? {
            PastReply::TooLong(past) => Some(past),
            reply @ PastReply::Whole(..) => {
                queues.replies.push_front(reply);
                None
            }
        }
    }

    /// Returns `true` when the log has a reply that the run has not replayed yet.
    pub(crate) fn has_reply(&self) -> bool {
        !self.is_live() && !self.queues.lock().replies.is_empty()
    }

    /// Next summary that the log has, if it was made in this turn.
    pub(crate) fn summary(&self, turn: u32) -> Option<PastSummary> {
        let summaries = &mut self.queues.lock().summaries;
        summaries.pop_front_if(|past| past.turn.is_none_or(|own| own == turn))
    }

    /// Returns `true` when the log has a summary of this turn.
    pub(crate) fn has_summary(&self, turn: u32) -> bool {
        let queues = self.queues.lock();
        queues.summaries.front().is_some_and(|past| past.turn.is_none_or(|own| own == turn))
    }

    /// The next ends of tasks that the log has.
    pub(crate) fn woken(&self) -> Option<Vec<TaskEnd>> {
        self.queues.lock().woken.pop_front()
    }

    /// Recorded state of a call.
    pub(crate) fn call(&self, call: &CallId) -> Option<&PastCall> {
        self.recorded.calls.get(call)
    }

    /// Location of a call that waits for answers inside it.
    pub(crate) fn waits(&self, call: &CallId) -> Option<&EventLocation> {
        self.recorded.open.get(call).filter(|_| self.recorded.was_waiting).map(|(place, _)| place)
    }

    /// Answer of the user about a call.
    pub fn answer(&self, ask: &str) -> Option<&Value> {
        self.log.answers.get(ask)
    }

    /// Events inside a call, as the log of a separate run.
    pub fn inside(&self, call: &CallId, level: u32) -> Option<ResumeLog> {
        log_in_call(&self.log, call, level)
    }

    /// Events during the deliberation of a turn, as the log of a separate run. `prefix` is the prefix of the ids of
    /// calls that it made.
    pub fn inside_turn(&self, turn: u32, prefix: &str) -> Option<ResumeLog> {
        log_in_turn(&self.log, turn, prefix)
    }
}

impl EventSink for RunLog {
    fn record(&self, drafts: &mut Vec<UnsequencedEvent>) {
        let mut journal = self.journal.lock();
        match journal.as_mut() {
            Some(journal) => drafts.drain(..).for_each(|event| journal.emit(event)),
            None => self.sink.record(drafts),
        }
    }

    fn new_span(&self) -> u64 {
        let span = self.journal.lock().as_mut().and_then(Journal::next_span);
        span.unwrap_or_else(|| self.sink.new_span())
    }

    fn run(&self) -> &RunId {
        self.sink.run()
    }

    fn persister(&self) -> Option<&dyn EventPersister> {
        self.sink.persister()
    }
}

/// Decision of the user about a call that needs approval.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Decision {
    Approve,
    Edit(Map<String, Value>),
    Deny(String),
}

/// Reads an answer: `{"approve": true, "arguments"?}` or `{"deny": reason}`. With a digest it counts only for the
/// arguments that it was given for.
pub(crate) fn decision(answer: &Value, digest: &str) -> Option<Decision> {
    if answer.get("digest").and_then(Value::as_str).is_some_and(|own| own != digest) {
        return None;
    }
    if let Some(reason) = answer.get("deny") {
        return Some(Decision::Deny(reason.as_str().unwrap_or_default().to_owned()));
    }
    match (answer.get("arguments").and_then(Value::as_object), answer.get("approve")) {
        (Some(arguments), _) => Some(Decision::Edit(arguments.clone())),
        (None, Some(Value::Bool(true))) => Some(Decision::Approve),
        (None, _) => None,
    }
}

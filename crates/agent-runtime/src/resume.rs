//! Resumes an agent's run from its log.
//!
//! The loop replays everything: it gets the model's recorded replies instead of requesting them, and the recorded
//! results of calls instead of running them. Events of the replay are in the log already and are not emitted twice.
//! The run resumes with the first step that the log does not have. Each reply, summary and end of a task belongs to its
//! turn, and each result to its call: a step that goes another way than before never takes what belongs to another one.

mod recorded;

use std::collections::BTreeSet;
use std::sync::Arc;

use agent_types::{
    CallId, DefinitionDigests, EventBody, EventLocation, EventPersister, EventSink, KeepError, ReplayData,
    ResumeLog, RunId, ToolStatus, UnsequencedEvent,
};
use llm_provider::StandardResponse;
use parking_lot::Mutex;
use run_journal::{Journal, log_in_call, log_in_turn};
use serde_json::{Map, Value};

pub use recorded::record_of_cost;
pub(crate) use recorded::{PastCall, PastSummary, PastTooLong, record_of, record_of_too_long};

use crate::machine::TaskEnd;
use recorded::{Recorded, TurnValues};

/// Status text of a call that was running when the process ended.
const INTERRUPTED: &str = "interrupted";

/// Log of a resumed run, and the sink for its next events.
#[derive(Debug)]
pub struct RunLog {
    sink: Arc<dyn EventSink>,
    /// Matcher of the log; `None` as soon as the run is live. Nothing that can panic runs under the lock.
    journal: Mutex<Option<Journal>>,
    values: Mutex<TurnValues>,
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
        let values = Mutex::new(std::mem::take(&mut recorded.values));
        Arc::new(Self { sink, journal, values, recorded, log, depth })
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

    /// Takes the recorded refusal of a server that found the request of a turn too long.
    pub(crate) fn too_long(&self, turn: u32) -> Option<PastTooLong> {
        self.values.lock().too_long.remove(&Some(turn))
    }

    /// Waits until all that led to a request is safe: one that is sent belongs to the log from which the run resumes.
    ///
    /// # Errors
    /// It cannot be kept.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the commit under way.
    pub async fn durable(&self) -> Result<(), KeepError> {
        match self.persister() {
            Some(persister) => persister.durable().await,
            None => Ok(()),
        }
    }

    /// Takes the recorded reply of a turn, with what it cost.
    pub(crate) fn reply(&self, turn: u32) -> Option<(StandardResponse, u64)> {
        self.values.lock().replies.remove(&Some(turn))
    }

    /// Takes the next recorded reply of work that is not a turn, with what it cost.
    pub fn next_reply(&self) -> Option<(StandardResponse, u64)> {
        let mut values = self.values.lock();
        let first = values.replies.pop_first().map(|(_, reply)| reply);
        first.or_else(|| values.further.pop_front())
    }

    /// Returns `true` when the log has the reply of a turn, or the refusal to give one.
    pub(crate) fn has_reply(&self, turn: u32) -> bool {
        let values = self.values.lock();
        values.replies.contains_key(&Some(turn)) || values.too_long.contains_key(&Some(turn))
    }

    /// Takes the next recorded summary that a turn made.
    pub(crate) fn summary(&self, turn: u32) -> Option<PastSummary> {
        self.values.lock().summaries.get_mut(&Some(turn))?.pop_front()
    }

    /// Returns `true` when the log has a summary of this turn.
    pub(crate) fn has_summary(&self, turn: u32) -> bool {
        self.values.lock().summaries.get(&Some(turn)).is_some_and(|past| !past.is_empty())
    }

    /// Takes the recorded ends of tasks that the model was shown behind a turn.
    pub(crate) fn woken(&self, turn: u32) -> Option<Vec<TaskEnd>> {
        self.values.lock().woken.remove(&Some(turn))
    }

    /// Returns the recorded span of a turn, or a new one.
    pub(crate) fn span_of_turn(&self, turn: u32) -> u64 {
        self.recorded.spans.get(&turn).copied().unwrap_or_else(|| self.sink.new_span())
    }

    /// Recorded state of a call.
    pub(crate) fn call(&self, call: &CallId) -> Option<&PastCall> {
        self.recorded.calls.get(call)
    }

    /// Notes the result of a call whose outcome was stated, to be recorded with its observation.
    pub(crate) fn note_stated(&self, call: &CallId, record: ReplayData) {
        self.values.lock().stated.insert(call.clone(), record);
    }

    /// Takes what is to be recorded with the observation of a call.
    pub(crate) fn take_stated(&self, call: &CallId) -> Option<ReplayData> {
        self.values.lock().stated.remove(call)
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
            Some(journal) => {
                for (seq, event) in drafts.drain(..).filter_map(|event| journal.matched(event)) {
                    self.sink.replayed(&event, seq);
                }
            }
            None => self.sink.record(drafts),
        }
    }

    fn new_span(&self) -> u64 {
        self.sink.new_span()
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

/// Returns `true` if an answer was given for what has this digest: the tool, its arguments and its definition.
pub(crate) fn counts_for(answer: &Value, digest: &str) -> bool {
    answer.get("digest").and_then(Value::as_str).is_none_or(|own| own == digest)
}

/// Describes what has changed since an answer was given.
pub(crate) fn changes(tool: &str, answer: &Value, now: &DefinitionDigests) -> String {
    let was = answer.get("definition").and_then(Value::as_object).cloned().unwrap_or_default();
    let changed = now.iter().filter(|(part, digest)| was.get(*part).and_then(Value::as_str) != Some(*digest));
    let gone = was.iter().map(|(part, _)| part).filter(|part| !now.contains_key(*part));
    let parts: BTreeSet<&str> = changed.map(|(part, _)| part).chain(gone).map(String::as_str).collect();
    let parts: Vec<&str> = parts.into_iter().collect();
    match parts.as_slice() {
        [] => "its arguments have changed since it was approved".to_owned(),
        parts => format!("`{tool}` has changed since it was approved: {}", parts.join(", ")),
    }
}

/// Reads an answer: `{"approve": true, "arguments"?}` or `{"deny": reason}`.
pub(crate) fn decision(answer: &Value) -> Option<Decision> {
    if let Some(reason) = answer.get("deny") {
        return Some(Decision::Deny(reason.as_str().unwrap_or_default().to_owned()));
    }
    match (answer.get("arguments").and_then(Value::as_object), answer.get("approve")) {
        (Some(arguments), _) => Some(Decision::Edit(arguments.clone())),
        (None, Some(Value::Bool(true))) => Some(Decision::Approve),
        (None, _) => None,
    }
}

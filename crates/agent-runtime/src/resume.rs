//! Resumes an agent's run from its log.
//!
//! The loop replays everything: it gets the model's recorded replies instead of requesting them, and the recorded
//! results of calls instead of running them. Events of the replay are in the log already and are not emitted twice.
//! The run resumes with the first step that the log does not have.

use std::collections::{HashMap, HashSet, VecDeque};
use std::mem::{Discriminant, discriminant};
use std::sync::Arc;

use agent_types::{
    ApprovalState, CallId, EventBody, EventLocation, EventPersister, EventSink, Observation, ReplayData,
    ResumeLog, RunId, StoredEvent, ToolId, ToolStatus, UnsequencedEvent, Usage,
};
use llm_provider::{Attachment, StandardResponse};
use parking_lot::{Mutex, MutexGuard};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::compact::SUMMARY;
use crate::tasks::{TaskChange, TaskEnd, WOKEN};

/// Status text of a call that was running when the process ended.
const INTERRUPTED: &str = "interrupted";
/// Names of the values that are recorded with the end of a call.
const OBSERVATION: &str = "observation";
const VALUE: &str = "value";
const TASK: &str = "task";
const ATTACHMENTS: &str = "attachments";
/// Name of the value that is recorded with a reply: its cost besides the tokens, in millionths of a dollar.
const COST: &str = "cost";

/// Recorded state of a call.
#[derive(Debug, Clone)]
pub(crate) enum PastCall {
    /// It ended, so.
    Done(Box<PastEnd>),
    /// It was interrupted, after this many starts; `asked` when the user was asked about it before.
    AtWork { starts: u32, asked: bool },
}

/// Recorded end of a call.
#[derive(Debug, Clone)]
pub(crate) struct PastEnd {
    pub(crate) observation: Observation,
    pub(crate) status: ToolStatus,
    pub(crate) value: Option<Value>,
    /// Change of the tasks that the run waits for.
    pub(crate) task: Option<TaskChange>,
    /// Images of its result.
    pub(crate) attachments: Vec<Attachment>,
    /// Tokens of the agents inside it.
    pub(crate) usage: Usage,
}

/// Log of a resumed run, and the sink for its next events.
#[derive(Debug)]
pub(crate) struct RunLog {
    sink: Arc<dyn EventSink>,
    /// Past of the run; `None` as soon as the run is live.
    past: Mutex<Option<Past>>,
    /// Replies, with what they cost besides where the log says so.
    replies: Mutex<VecDeque<(StandardResponse, u64)>>,
    /// Summaries of older parts, with their authors.
    summaries: Mutex<VecDeque<(String, String)>>,
    /// Ends of tasks that the model was shown, by turn.
    woken: Mutex<VecDeque<Vec<TaskEnd>>>,
    calls: HashMap<CallId, PastCall>,
    /// Answers of the user, by call.
    answers: HashMap<String, Value>,
    /// Events that a call needs to resume inside.
    events: Vec<StoredEvent>,
    /// Calls that wait for answers inside them.
    waiting: HashMap<CallId, EventLocation>,
    was_waiting: bool,
    /// It is the log of an agent inside a call, so many levels down.
    depth: u32,
}

#[derive(Debug, Default)]
struct Past {
    emitted: HashMap<About, usize>,
    spans: VecDeque<u64>,
    /// Events that the replay emitted but the log lacks.
    missing: Vec<UnsequencedEvent>,
    /// Interrupted calls.
    open: HashMap<CallId, (EventLocation, ToolId)>,
}

/// Any event of a suspended run.
const fn waits() -> EventBody {
    EventBody::RunWaiting { exit: None, asks: Vec::new() }
}

/// Identity of an event: call, turn, type, and approval state.
type About = (Option<CallId>, Option<u32>, Discriminant<EventBody>, Option<&'static str>);

fn about(place: &EventLocation, body: &EventBody) -> About {
    let state = match body {
        EventBody::AgentToolApproval { state, .. } => Some(state.as_str()),
        _ => None,
    };
    (place.call.clone(), place.turn, discriminant(body), state)
}

impl RunLog {
    /// A run without a past.
    pub(crate) fn new(sink: Arc<dyn EventSink>, depth: u32) -> Arc<Self> {
        Arc::new(Self {
            sink,
            depth,
            past: Mutex::new(None),
            replies: Mutex::default(),
            summaries: Mutex::default(),
            woken: Mutex::default(),
            calls: HashMap::new(),
            answers: HashMap::new(),
            events: Vec::new(),
            waiting: HashMap::new(),
            was_waiting: false,
        })
    }

    /// Resumes a run from its log.
    pub(crate) fn resumed(sink: Arc<dyn EventSink>, log: ResumeLog, level: u32) -> Arc<Self> {
        let mut past = Past::default();
        let (mut replies, mut calls) = (VecDeque::new(), HashMap::new());
        let (mut summaries, mut woken) = (VecDeque::new(), Woken::default());
        let mut usages: HashMap<CallId, Usage> = HashMap::new();
        let mut was_waiting = false;
        let mut asked = HashSet::new();
        let own_depth = (level > 0).then_some(level);
        for stored in &log.events {
            let EventLocation { call, path, span, turn, depth, .. } = &stored.event.place;
            // What happened inside calls belongs to them.
            let own = path.is_none() && *depth == own_depth;
            if own {
                *past.emitted.entry(about(&stored.event.place, &stored.event.body)).or_default() += 1;
                if (turn.is_some() || call.is_some()) && past.spans.back().is_none_or(|last| last < span) {
                    past.spans.push_back(*span);
                }
            }
            if let (Some(usage), false, Some(call)) = (usage_of(stored), own, call) {
                *usages.entry(outermost(call, level)).or_default() += usage;
            }
            match (&stored.event.body, call) {
                (EventBody::AgentLlmFinished { .. }, None) if own => {
                    let cost = value_of(stored.record.as_ref(), COST).and_then(Value::as_u64).unwrap_or(0);
                    replies
                        .extend(StandardResponse::from_event(&stored.event.body).map(|reply| (reply, cost)));
                }
                (EventBody::AgentToolStarted { tool }, Some(call)) if own => {
                    let before = match calls.get(call) {
                        Some(PastCall::AtWork { starts, .. }) => *starts,
                        _ => 0,
                    };
                    let asked = asked.contains(call);
                    calls.insert(call.clone(), PastCall::AtWork { starts: before + 1, asked });
                    past.open.insert(call.clone(), (stored.event.place.clone(), tool.clone()));
                }
                (EventBody::AgentCompacted { by }, _) if own => {
                    let text = value_of(stored.record.as_ref(), SUMMARY).and_then(Value::as_str);
                    summaries.extend(text.map(|text| (text.to_owned(), by.clone())));
                }
                (EventBody::AgentObservation { .. }, None) if own => {
                    woken.add(*turn, value_of(stored.record.as_ref(), WOKEN));
                }
                (EventBody::AgentToolApproval { state: ApprovalState::Asked, .. }, Some(call))
                    if own && !calls.contains_key(call) =>
                {
                    asked.insert(call.clone());
                }
                (EventBody::AgentToolApproval { .. }, Some(_)) if own => {
                    // What is asked about the call from now on is another question.
                    let (call, turn, kind, _) = about(&stored.event.place, &stored.event.body);
                    past.emitted.remove(&(call, turn, kind, Some(ApprovalState::Asked.as_str())));
                }
                (EventBody::AgentToolFinished { status, summary, .. }, Some(call)) if own => {
                    past.open.remove(call);
                    let usage = usages.remove(call).unwrap_or_default();
                    if let Some(done) = done_of(stored.record.as_ref(), *status, usage) {
                        calls.insert(call.clone(), PastCall::Done(Box::new(done)));
                    } else if summary != INTERRUPTED {
                        calls.remove(call);
                    }
                }
                (EventBody::RunWaiting { .. }, _) => was_waiting = true,
                (EventBody::RunResumed { .. }, _) => {
                    was_waiting = false;
                    // If the run suspends again, that is emitted again.
                    past.emitted.retain(|(_, _, kind, _), _| *kind != discriminant(&waits()));
                }
                _ => {}
            }
        }
        // Calls that were open when the run suspended wait themselves.
        let waiting = if was_waiting { std::mem::take(&mut past.open) } else { HashMap::new() };
        let waiting = waiting.into_iter().map(|(call, (place, _))| (call, place)).collect();
        Arc::new(Self {
            sink,
            waiting,
            past: Mutex::new(Some(past)),
            replies: Mutex::new(replies),
            summaries: Mutex::new(summaries),
            woken: Mutex::new(woken.turns),
            depth: level,
            calls,
            answers: log.answers,
            events: log.events,
            was_waiting,
        })
    }

    fn past(&self) -> MutexGuard<'_, Option<Past>> {
        // Nothing that can panic runs under this lock.
        self.past.lock()
    }

    /// Makes the run live: interrupted calls have ended, and from now on every event is emitted.
    pub(crate) fn resume(&self) {
        self.resume_because(if self.was_waiting { "waiting" } else { INTERRUPTED });
    }

    /// Makes the run live if there is a new event; otherwise it stays suspended.
    pub(crate) fn resume_with_news(&self) {
        if self.past().as_ref().is_some_and(|past| !past.missing.is_empty()) {
            self.resume();
        }
    }

    /// Makes the run live for a given reason.
    pub(crate) fn resume_because(&self, cause: &str) {
        let Some(past) = self.past().take() else { return };
        let mut open: Vec<_> = past.open.into_values().collect();
        open.sort_by_key(|(place, _)| std::cmp::Reverse(place.span));
        let ended = |(place, tool)| {
            let body = EventBody::AgentToolFinished {
                tool,
                status: ToolStatus::Cancelled,
                summary: INTERRUPTED.to_owned(),
                blob: None,
                ms: 0,
            };
            UnsequencedEvent::new(place, body)
        };
        let resumed = EventBody::RunResumed { cause: Some(cause.to_owned()) };
        let mut drafts: Vec<UnsequencedEvent> = open.into_iter().map(ended).collect();
        if self.depth == 0 {
            drafts.push(UnsequencedEvent::new(EventLocation::default(), resumed));
        }
        drafts.extend(past.missing);
        self.sink.record(&mut drafts);
    }

    /// Returns `true` when events are new, not replayed.
    pub(crate) fn is_live(&self) -> bool {
        self.past().is_none()
    }

    /// The next reply that the log has, with what it cost.
    pub(crate) fn reply(&self) -> Option<(StandardResponse, u64)> {
        self.replies.lock().pop_front()
    }

    /// Returns `true` when the log has a reply that the run has not replayed yet.
    pub(crate) fn has_reply(&self) -> bool {
        !self.is_live() && !self.replies.lock().is_empty()
    }

    /// Next summary that the log has.
    pub(crate) fn summary(&self) -> Option<(String, String)> {
        self.summaries.lock().pop_front()
    }

    /// The next ends of tasks that the log has.
    pub(crate) fn woken(&self) -> Option<Vec<TaskEnd>> {
        self.woken.lock().pop_front()
    }

    /// Recorded state of a call.
    pub(crate) fn call(&self, call: &CallId) -> Option<&PastCall> {
        self.calls.get(call)
    }

    /// Location of a call that waits for answers inside it.
    pub(crate) fn waits(&self, call: &CallId) -> Option<&EventLocation> {
        self.waiting.get(call)
    }

    /// Answer of the user about a call.
    pub(crate) fn answer(&self, ask: &str) -> Option<&Value> {
        self.answers.get(ask)
    }

    /// Events inside a call, as the log of a separate run.
    pub(crate) fn inside(&self, call: &CallId, level: u32) -> Option<ResumeLog> {
        inside(&self.events, &self.answers, call, level)
    }

    /// Events during the deliberation of a turn, as the log of a separate run. `prefix` is the prefix of the ids of
    /// calls that it made.
    pub(crate) fn inside_turn(&self, turn: u32, prefix: &str) -> Option<ResumeLog> {
        let inner = self.events.iter().filter(|stored| {
            let EventLocation { call, path, turn: own, .. } = &stored.event.place;
            match call {
                None => path.is_some() && *own == Some(turn),
                Some(call) => call.as_str().starts_with(prefix),
            }
        });
        let events: Vec<StoredEvent> = inner.cloned().collect();
        let answers = answers_below(&self.answers, &asks_of_turn(turn));
        (!events.is_empty()).then(|| ResumeLog { snapshot: None, events, answers })
    }
}

/// Prefix of the ids of questions during the deliberation of a turn.
pub(crate) fn asks_of_turn(turn: u32) -> String {
    format!("t{turn}/")
}

fn answers_below(answers: &HashMap<String, Value>, prefix: &str) -> HashMap<String, Value> {
    let below = answers.iter();
    below.filter_map(|(ask, value)| Some((ask.strip_prefix(prefix)?.to_owned(), value.clone()))).collect()
}

/// Events inside a call, as the log of a separate run.
pub(crate) fn inside(
    events: &[StoredEvent],
    answers: &HashMap<String, Value>,
    call: &CallId,
    level: u32,
) -> Option<ResumeLog> {
    let deeper = format!("{call}.");
    let inner = events.iter().filter(|stored| {
        let EventLocation { call: own, parent_call, path, depth, .. } = &stored.event.place;
        // A result without a call names the call around it.
        let own = own.as_ref().or(parent_call.as_ref());
        let at_it = own == Some(call) && (path.is_some() || depth.unwrap_or_default() > level);
        at_it || own.is_some_and(|own| own.as_str().starts_with(&deeper))
    });
    let events: Vec<StoredEvent> = inner
        .cloned()
        .map(|mut stored| {
            for own in [&mut stored.event.place.call, &mut stored.event.place.parent_call] {
                own.take_if(|own| own == call);
            }
            stored
        })
        .collect();
    let answers = answers_below(answers, &format!("{call}/"));
    (!events.is_empty()).then(|| ResumeLog { snapshot: None, events, answers })
}

impl EventSink for RunLog {
    fn record(&self, drafts: &mut Vec<UnsequencedEvent>) {
        let mut past = self.past();
        let Some(past) = past.as_mut() else { return self.sink.record(drafts) };
        for event in drafts.drain(..) {
            match past.emitted.get_mut(&about(&event.place, &event.body)) {
                Some(count) if *count > 0 => *count -= 1,
                Some(_) | None => past.missing.push(event),
            }
        }
    }

    fn new_span(&self) -> u64 {
        let span = self.past().as_mut().and_then(|past| past.spans.pop_front());
        span.unwrap_or_else(|| self.sink.new_span())
    }

    fn run(&self) -> &RunId {
        self.sink.run()
    }

    fn keeper(&self) -> Option<&dyn EventPersister> {
        self.sink.keeper()
    }
}

/// Data recorded with a reply.
pub(crate) fn record_of_cost(cost: u64) -> ReplayData {
    ReplayData::from_values(vec![(Arc::from(COST), Arc::new(cost.into()))])
}

/// Data recorded with the end of a call.
pub(crate) fn record_of(
    observation: &Observation,
    value: Option<&Value>,
    task: Option<&TaskChange>,
    attachments: &[Attachment],
) -> ReplayData {
    let observation = serde_json::to_value(observation).unwrap_or_default();
    let mut values = vec![(Arc::from(OBSERVATION), Arc::new(observation))];
    values.extend(value.map(|value| (Arc::from(VALUE), Arc::new(value.clone()))));
    values
        .extend(task.map(|task| (Arc::from(TASK), Arc::new(serde_json::to_value(task).unwrap_or_default()))));
    if !attachments.is_empty() {
        let attachments = serde_json::to_value(attachments).unwrap_or_default();
        values.push((Arc::from(ATTACHMENTS), Arc::new(attachments)));
    }
    ReplayData::from_values(values)
}

fn done_of(record: Option<&ReplayData>, status: ToolStatus, usage: Usage) -> Option<PastEnd> {
    let observation = Observation::deserialize(value_of(record, OBSERVATION)?).ok()?;
    let task = value_of(record, TASK).and_then(|value| TaskChange::deserialize(value).ok());
    let attachments = value_of(record, ATTACHMENTS).and_then(|value| Vec::deserialize(value).ok());
    let (value, attachments) = (value_of(record, VALUE).cloned(), attachments.unwrap_or_default());
    Some(PastEnd { observation, status, value, task, attachments, usage })
}

fn value_of<'r>(record: Option<&'r ReplayData>, name: &str) -> Option<&'r Value> {
    record?.values.iter().find(|(own, _)| **own == *name).map(|(_, value)| &**value)
}

/// Ends of tasks, by the turn in which they were reported.
#[derive(Debug, Default)]
struct Woken {
    turns: VecDeque<Vec<TaskEnd>>,
    last: Option<u32>,
}

impl Woken {
    fn add(&mut self, turn: Option<u32>, value: Option<&Value>) {
        let Some(end) = value.and_then(|value| TaskEnd::deserialize(value).ok()) else { return };
        if self.turns.is_empty() || self.last != turn {
            self.turns.push_back(Vec::new());
            self.last = turn;
        }
        if let Some(ends) = self.turns.back_mut() {
            ends.push(end);
        }
    }
}

/// Token usage of work inside a call that ended: a reply of an agent, or a node of a workflow.
fn usage_of(stored: &StoredEvent) -> Option<Usage> {
    let EventLocation { path, call, depth, .. } = &stored.event.place;
    if path.is_none() {
        return match &stored.event.body {
            EventBody::AgentLlmFinished { usage, .. } => Some(*usage),
            _ => None,
        };
    }
    // What nodes count while an agent inside the call deliberates is in its reply.
    let calls_around = call.as_ref().map_or(0, |call| call.as_str().matches('.').count());
    let deliberates = depth.is_some_and(|depth| depth as usize > calls_around);
    stored.record.as_ref().filter(|_| !deliberates)?.usage
}

/// The call of this level that a call inside it belongs to.
fn outermost(call: &CallId, level: u32) -> CallId {
    let levels = level as usize + 1;
    let end = call.as_str().match_indices('.').nth(levels - 1).map_or(call.as_str().len(), |(at, _)| at);
    CallId::new(&call.as_str()[..end])
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

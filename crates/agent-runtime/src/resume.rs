//! Taking an agent's run up again from its log.
//!
//! The loop does everything again: it is given the model's recorded replies instead of asking, and the recorded
//! results of calls instead of running them. What it tells meanwhile is in the log already and is not told twice.
//! With the first thing that the log does not have, the run goes on.

use std::collections::{HashMap, HashSet, VecDeque};
use std::mem::{Discriminant, discriminant};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent_types::{
    ApprovalState, CallId, EventBody, EventLocation, EventPersister, EventSink, Observation, ReplayData,
    ResumeLog, RunId, StoredEvent, ToolId, ToolStatus, UnsequencedEvent, Usage,
};
use llm_provider::{Attachment, StandardResponse};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::compact::SUMMARY;
use crate::tasks::{TaskChange, TaskEnd, WOKEN};

/// The word for what was at work when the process ended.
const INTERRUPTED: &str = "interrupted";
/// Names of the values that are kept with the end of a call.
const OBSERVATION: &str = "observation";
const VALUE: &str = "value";
const TASK: &str = "task";
const ATTACHMENTS: &str = "attachments";
/// The name of the value that is kept with a reply: what it cost besides its tokens, in millionths of a dollar.
const COST: &str = "cost";

/// What the log knows of a call.
#[derive(Debug, Clone)]
pub(crate) enum PastCall {
    /// It ended, so.
    Done(Box<PastEnd>),
    /// It was at work: how often it had started, and whether a person was asked before.
    AtWork { starts: u32, asked: bool },
}

/// How a call ended.
#[derive(Debug, Clone)]
pub(crate) struct PastEnd {
    pub(crate) observation: Observation,
    pub(crate) status: ToolStatus,
    pub(crate) value: Option<Value>,
    /// What it does to the tasks that the run waits for.
    pub(crate) task: Option<TaskChange>,
    /// Images of its result.
    pub(crate) attachments: Vec<Attachment>,
    /// Tokens of the agents inside it.
    pub(crate) usage: Usage,
}

/// The log of a run that goes on, and the way to where its next events are kept.
#[derive(Debug)]
pub(crate) struct RunLog {
    sink: Arc<dyn EventSink>,
    /// None as soon as the run goes on.
    past: Mutex<Option<Past>>,
    /// Replies, with what they cost besides where the log says so.
    replies: Mutex<VecDeque<(StandardResponse, u64)>>,
    /// Short forms of older parts, with who made them.
    summaries: Mutex<VecDeque<(String, String)>>,
    /// Ends of tasks that the model was told, a turn each.
    woken: Mutex<VecDeque<Vec<TaskEnd>>>,
    calls: HashMap<CallId, PastCall>,
    /// What people said, by call.
    answers: HashMap<String, Value>,
    /// What is needed to go on inside a call.
    events: Vec<StoredEvent>,
    /// Calls that wait for answers inside them.
    waiting: HashMap<CallId, EventLocation>,
    was_waiting: bool,
    /// It is the log of an agent inside a call, so many levels down.
    depth: u32,
}

#[derive(Debug, Default)]
struct Past {
    told: HashMap<About, usize>,
    spans: VecDeque<u64>,
    /// Told again, and not in the log.
    missing: Vec<UnsequencedEvent>,
    /// Calls that were at work.
    open: HashMap<CallId, (EventLocation, ToolId)>,
}

/// Any event that says that a run waits.
const fn waits() -> EventBody {
    EventBody::RunWaiting { exit: None, asks: Vec::new() }
}

/// What an event is about: call, turn, type, and how an approval stands.
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

    /// A run that goes on behind its log.
    pub(crate) fn resumed(sink: Arc<dyn EventSink>, log: ResumeLog, level: u32) -> Arc<Self> {
        let mut past = Past::default();
        let (mut replies, mut calls) = (VecDeque::new(), HashMap::new());
        let (mut summaries, mut woken) = (VecDeque::new(), Woken::default());
        let mut usages: HashMap<CallId, Usage> = HashMap::new();
        let mut was_waiting = false;
        let mut asked = HashSet::new();
        let own_depth = (level > 0).then_some(level);
        for kept in &log.events {
            let EventLocation { call, path, span, turn, depth, .. } = &kept.event.place;
            // What happened inside calls belongs to them.
            let own = path.is_none() && *depth == own_depth;
            if own {
                *past.told.entry(about(&kept.event.place, &kept.event.body)).or_default() += 1;
                if (turn.is_some() || call.is_some()) && past.spans.back().is_none_or(|last| last < span) {
                    past.spans.push_back(*span);
                }
            }
            if let (Some(usage), false, Some(call)) = (usage_of(kept), own, call) {
                *usages.entry(outermost(call, level)).or_default() += usage;
            }
            match (&kept.event.body, call) {
                (EventBody::AgentLlmFinished { .. }, None) if own => {
                    let cost = value_of(kept.record.as_ref(), COST).and_then(Value::as_u64).unwrap_or(0);
                    replies.extend(StandardResponse::from_event(&kept.event.body).map(|reply| (reply, cost)));
                }
                (EventBody::AgentToolStarted { tool }, Some(call)) if own => {
                    let before = match calls.get(call) {
                        Some(PastCall::AtWork { starts, .. }) => *starts,
                        _ => 0,
                    };
                    let asked = asked.contains(call);
                    calls.insert(call.clone(), PastCall::AtWork { starts: before + 1, asked });
                    past.open.insert(call.clone(), (kept.event.place.clone(), tool.clone()));
                }
                (EventBody::AgentCompacted { by }, _) if own => {
                    let text = value_of(kept.record.as_ref(), SUMMARY).and_then(Value::as_str);
                    summaries.extend(text.map(|text| (text.to_owned(), by.clone())));
                }
                (EventBody::AgentObservation { .. }, None) if own => {
                    woken.add(*turn, value_of(kept.record.as_ref(), WOKEN));
                }
                (EventBody::AgentToolApproval { state: ApprovalState::Asked, .. }, Some(call))
                    if own && !calls.contains_key(call) =>
                {
                    asked.insert(call.clone());
                }
                (EventBody::AgentToolApproval { .. }, Some(_)) if own => {
                    // What is asked about the call from now on is another question.
                    let (call, turn, kind, _) = about(&kept.event.place, &kept.event.body);
                    past.told.remove(&(call, turn, kind, Some(ApprovalState::Asked.as_str())));
                }
                (EventBody::AgentToolFinished { status, summary, .. }, Some(call)) if own => {
                    past.open.remove(call);
                    let usage = usages.remove(call).unwrap_or_default();
                    if let Some(done) = done_of(kept.record.as_ref(), *status, usage) {
                        calls.insert(call.clone(), PastCall::Done(Box::new(done)));
                    } else if summary != INTERRUPTED {
                        calls.remove(call);
                    }
                }
                (EventBody::RunWaiting { .. }, _) => was_waiting = true,
                (EventBody::RunResumed { .. }, _) => {
                    was_waiting = false;
                    // Where it waits again, that is told again.
                    past.told.retain(|(_, _, kind, _), _| *kind != discriminant(&waits()));
                }
                _ => {}
            }
        }
        // What was open when the run began to wait waits itself.
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
        self.past.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The run goes on: what was at work has ended, and from now on everything is told.
    pub(crate) fn go_on(&self) {
        self.go_on_because(if self.was_waiting { "waiting" } else { INTERRUPTED });
    }

    /// The same where there is something to tell; else it stays where it stopped.
    pub(crate) fn go_on_with_news(&self) {
        if self.past().as_ref().is_some_and(|past| !past.missing.is_empty()) {
            self.go_on();
        }
    }

    /// The same, for a reason of its own.
    pub(crate) fn go_on_because(&self, cause: &str) {
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

    /// Whether what happens now is new, and not told again.
    pub(crate) fn is_live(&self) -> bool {
        self.past().is_none()
    }

    /// The next reply that the log has, with what it cost.
    pub(crate) fn reply(&self) -> Option<(StandardResponse, u64)> {
        self.replies.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// Whether there is a reply that the log has and the run has not come to.
    pub(crate) fn has_reply(&self) -> bool {
        !self.is_live() && !self.replies.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// The next short form that the log has.
    pub(crate) fn summary(&self) -> Option<(String, String)> {
        self.summaries.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// The next ends of tasks that the log has.
    pub(crate) fn woken(&self) -> Option<Vec<TaskEnd>> {
        self.woken.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// What the log knows of a call.
    pub(crate) fn call(&self, call: &CallId) -> Option<&PastCall> {
        self.calls.get(call)
    }

    /// Where a call started that waits for answers inside it.
    pub(crate) fn waits(&self, call: &CallId) -> Option<&EventLocation> {
        self.waiting.get(call)
    }

    /// What a person said about a call.
    pub(crate) fn answer(&self, ask: &str) -> Option<&Value> {
        self.answers.get(ask)
    }

    /// What happened inside a call, as the log of a run of its own.
    pub(crate) fn inside(&self, call: &CallId, level: u32) -> Option<ResumeLog> {
        inside(&self.events, &self.answers, call, level)
    }

    /// What happened while a turn deliberated, as the log of a run of its own. `prefix` is what the ids of calls
    /// begin with that it made.
    pub(crate) fn inside_turn(&self, turn: u32, prefix: &str) -> Option<ResumeLog> {
        let inner = self.events.iter().filter(|kept| {
            let EventLocation { call, path, turn: own, .. } = &kept.event.place;
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

/// What ids of questions begin with that are put while a turn deliberates.
pub(crate) fn asks_of_turn(turn: u32) -> String {
    format!("t{turn}/")
}

fn answers_below(answers: &HashMap<String, Value>, prefix: &str) -> HashMap<String, Value> {
    let below = answers.iter();
    below.filter_map(|(ask, value)| Some((ask.strip_prefix(prefix)?.to_owned(), value.clone()))).collect()
}

/// What happened inside a call, as the log of a run of its own.
pub(crate) fn inside(
    events: &[StoredEvent],
    answers: &HashMap<String, Value>,
    call: &CallId,
    level: u32,
) -> Option<ResumeLog> {
    let deeper = format!("{call}.");
    let inner = events.iter().filter(|kept| {
        let EventLocation { call: own, parent_call, path, depth, .. } = &kept.event.place;
        // A result of no call of its own says around which call it is.
        let own = own.as_ref().or(parent_call.as_ref());
        let at_it = own == Some(call) && (path.is_some() || depth.unwrap_or_default() > level);
        at_it || own.is_some_and(|own| own.as_str().starts_with(&deeper))
    });
    let events: Vec<StoredEvent> = inner
        .cloned()
        .map(|mut kept| {
            for own in [&mut kept.event.place.call, &mut kept.event.place.parent_call] {
                own.take_if(|own| own == call);
            }
            kept
        })
        .collect();
    let answers = answers_below(answers, &format!("{call}/"));
    (!events.is_empty()).then(|| ResumeLog { snapshot: None, events, answers })
}

impl EventSink for RunLog {
    fn record(&self, drafts: &mut Vec<UnsequencedEvent>) {
        let mut past = self.past();
        let Some(past) = past.as_mut() else { return self.sink.record(drafts) };
        for draft in drafts.drain(..) {
            match past.told.get_mut(&about(&draft.place, &draft.body)) {
                Some(count) if *count > 0 => *count -= 1,
                Some(_) | None => past.missing.push(draft),
            }
        }
    }

    fn new_span(&self) -> u64 {
        let told = self.past().as_mut().and_then(|past| past.spans.pop_front());
        told.unwrap_or_else(|| self.sink.new_span())
    }

    fn run(&self) -> &RunId {
        self.sink.run()
    }

    fn keeper(&self) -> Option<&dyn EventPersister> {
        self.sink.keeper()
    }
}

/// What is kept with a reply.
pub(crate) fn record_of_cost(cost: u64) -> ReplayData {
    ReplayData::of(vec![(Arc::from(COST), Arc::new(cost.into()))])
}

/// What is kept with the end of a call.
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
    ReplayData::of(values)
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

/// Ends of tasks, by the turn in which they were told.
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

/// What models read and wrote for what ended inside a call: a reply of an agent, or a node of a workflow.
fn usage_of(kept: &StoredEvent) -> Option<Usage> {
    let EventLocation { path, call, depth, .. } = &kept.event.place;
    if path.is_none() {
        return match &kept.event.body {
            EventBody::AgentLlmFinished { usage, .. } => Some(*usage),
            _ => None,
        };
    }
    // What nodes count while an agent inside the call deliberates is in its reply.
    let calls_around = call.as_ref().map_or(0, |call| call.as_str().matches('.').count());
    let deliberates = depth.is_some_and(|depth| depth as usize > calls_around);
    kept.record.as_ref().filter(|_| !deliberates)?.usage
}

/// The call of this level that a call inside it belongs to.
fn outermost(call: &CallId, level: u32) -> CallId {
    let levels = level as usize + 1;
    let end = call.as_str().match_indices('.').nth(levels - 1).map_or(call.as_str().len(), |(at, _)| at);
    CallId::new(&call.as_str()[..end])
}

/// What a person said about a call that must be approved.
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

//! Values that the log of an agent's run has: replies, summaries, ends of tasks and of calls.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use agent_types::{
    ApprovalState, CallId, EventBody, EventLocation, Observation, ObservationCode, ReplayData, StoredEvent,
    ToolId, ToolStatus, Usage,
};
use llm_provider::{Attachment, StandardResponse};
use run_journal::{Journal, call_at_level};
use serde::Deserialize;
use serde_json::Value;

use super::INTERRUPTED;
use crate::machine::{CallResult, End, SUMMARY, TaskChange, TaskEnd, WOKEN};

/// Names of the values that are recorded with the end of a call.
const OBSERVATION: &str = "observation";
const VALUE: &str = "value";
const TASK: &str = "task";
const ATTACHMENTS: &str = "attachments";
const END: &str = "end";
const RETRIES: &str = "retries";
const OUTPUT: &str = "output";
/// Name of the value that is recorded with a reply: its cost besides the tokens, in millionths of a dollar.
const COST: &str = "cost";

/// Name of the value that is recorded with a request that was too long: the window that the server named, or null.
const TOO_LONG: &str = "too_long";

/// Recorded state of a call.
#[derive(Debug, Clone)]
pub(crate) enum PastCall {
    /// It ended, so.
    Done(Box<PastEnd>),
    /// It was interrupted, after this many starts; `asked` when the user was asked about it before.
    AtWork { starts: u32, asked: bool },
}

impl PastCall {
    /// Starts without an end.
    pub(crate) fn starts(&self) -> u32 {
        match self {
            Self::AtWork { starts, .. } => *starts,
            Self::Done(_) => 0,
        }
    }
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
    /// Reason for ending the run with it.
    pub(crate) end: Option<End>,
    /// Attempts after the first one, those of starts that were interrupted too.
    pub(crate) retries: u64,
    /// Its whole output, where that is kept.
    pub(crate) output: Option<Value>,
    /// Tokens of the agents inside it.
    pub(crate) usage: Usage,
}

/// Values of a log, in their order.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    pub(crate) journal: Journal,
    pub(crate) values: TurnValues,
    /// Spans of turns.
    pub(crate) spans: HashMap<u32, u64>,
    pub(crate) calls: HashMap<CallId, PastCall>,
    /// Calls without an end.
    pub(crate) open: HashMap<CallId, (EventLocation, ToolId)>,
    pub(crate) was_waiting: bool,
    /// Suspensions since the run was resumed last.
    waits: Vec<EventBody>,
    asked: HashSet<CallId>,
    usages: HashMap<CallId, Usage>,
}

/// Recorded request that the server found too long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PastTooLong {
    /// The window that the server named.
    pub(crate) window: Option<u64>,
}

/// Recorded summary of an older part.
#[derive(Debug)]
pub(crate) struct PastSummary {
    pub(crate) text: String,
    pub(crate) by: String,
    /// Tokens of its author.
    pub(crate) usage: Usage,
}

impl PastSummary {
    /// Reads what was recorded: the text, in logs of earlier versions nothing else.
    fn new(by: &str, value: &Value) -> Option<Self> {
        let text = value.as_str().or_else(|| value["text"].as_str())?.to_owned();
        let usage = Usage::deserialize(&value["usage"]).unwrap_or_default();
        Some(Self { text, by: by.to_owned(), usage })
    }
}

/// Values that the loop takes, by the turns that they belong to. Of several of one turn the first counts: what followed
/// from it is in the log.
#[derive(Debug, Default)]
pub(crate) struct TurnValues {
    /// Replies, with what they cost besides where the log says so.
    pub(crate) replies: BTreeMap<Option<u32>, (StandardResponse, u64)>,
    /// Further replies of work that is not a turn, in order.
    pub(crate) further: VecDeque<(StandardResponse, u64)>,
    /// Refusals of requests that were too long; the reply to the shorter one belongs to the same turn.
    pub(crate) too_long: HashMap<Option<u32>, PastTooLong>,
    /// Summaries of older parts, in order.
    pub(crate) summaries: HashMap<Option<u32>, VecDeque<PastSummary>>,
    /// Ends of tasks that the model was shown.
    pub(crate) woken: HashMap<Option<u32>, Vec<TaskEnd>>,
    /// Results of calls whose outcomes were stated, until their observations are emitted.
    pub(crate) stated: HashMap<CallId, ReplayData>,
}

impl Recorded {
    /// Reads the log of an agent `level` levels down.
    pub(crate) fn new(events: &[StoredEvent], level: u32) -> Self {
        let mut recorded = Self::default();
        for stored in events {
            let EventLocation { call, path, depth, .. } = &stored.event.place;
            // What happened inside calls belongs to them.
            if path.is_none() && *depth == (level > 0).then_some(level) {
                recorded.journal.add(stored);
                recorded.add(stored);
            } else if let (Some(usage), Some(call)) = (usage_of(stored), call) {
                *recorded.usages.entry(call_at_level(call, level)).or_default() += usage;
            }
            match &stored.event.body {
                waits @ EventBody::RunWaiting { .. } => {
                    recorded.was_waiting = true;
                    recorded.waits.push(waits.clone());
                }
                EventBody::RunResumed { .. } => {
                    recorded.was_waiting = false;
                    // If the run suspends again, that is emitted again.
                    for waits in recorded.waits.drain(..) {
                        recorded.journal.forget(&EventLocation::default(), &waits);
                    }
                }
                _ => {}
            }
        }
        recorded
    }

    /// Adds an event of the agent itself.
    fn add(&mut self, stored: &StoredEvent) {
        let (place, record) = (&stored.event.place, stored.record.as_ref());
        match (&stored.event.body, &place.call) {
            (body @ EventBody::AgentLlmFinished { .. }, None) => {
                let cost = value_of(record, COST).and_then(Value::as_u64).unwrap_or(0);
                if let Some(window) = value_of(record, TOO_LONG) {
                    let past = PastTooLong { window: window.as_u64() };
                    self.values.too_long.entry(place.turn).or_insert(past);
                } else if let Some(reply) = StandardResponse::from_event(body) {
                    let reply = (reply, cost);
                    if place.turn.is_none() && self.values.replies.contains_key(&None) {
                        self.values.further.push_back(reply);
                    } else {
                        self.values.replies.entry(place.turn).or_insert(reply);
                    }
                }
            }
            (EventBody::AgentCompacted { by }, _) => {
                let past = value_of(record, SUMMARY).and_then(|value| PastSummary::new(by, value));
                self.values.summaries.entry(place.turn).or_default().extend(past);
            }
            (EventBody::AgentTurnStarted {}, _) => {
                if let Some(turn) = place.turn {
                    self.spans.entry(turn).or_insert(place.span);
                }
            }
            (EventBody::AgentObservation { .. }, None) => {
                if let Some(end) = value_of(record, WOKEN).and_then(|value| TaskEnd::deserialize(value).ok())
                {
                    self.values.woken.entry(place.turn).or_default().push(end);
                }
            }
            (EventBody::AgentObservation { .. }, Some(call)) => self.add_stated(call, record),
            (EventBody::AgentToolStarted { tool }, Some(call)) => {
                let before = self.calls.get(call).map_or(0, PastCall::starts);
                let asked = self.asked.contains(call);
                self.calls.insert(call.clone(), PastCall::AtWork { starts: before + 1, asked });
                self.open.insert(call.clone(), (place.clone(), tool.clone()));
                self.forget_question(place, tool);
            }
            (EventBody::AgentToolApproval { state: ApprovalState::Asked, .. }, Some(call))
                if !self.calls.contains_key(call) =>
            {
                self.asked.insert(call.clone());
            }
            (EventBody::AgentToolApproval { state: ApprovalState::Asked, .. }, Some(_)) => {}
            (EventBody::AgentToolApproval { tool, .. }, Some(_)) => self.forget_question(place, tool),
            (EventBody::AgentToolFinished { status, summary, .. }, Some(call)) => {
                self.open.remove(call);
                // What was used before an interruption counts with what is used after it.
                let usage = self.usages.get(call).copied().unwrap_or_default();
                if let Some(mut done) = done_of(record, *status, usage) {
                    self.usages.remove(call);
                    done.retries += self.interrupted(call);
                    self.calls.insert(call.clone(), PastCall::Done(Box::new(done)));
                } else if summary != INTERRUPTED {
                    self.usages.remove(call);
                    self.calls.remove(call);
                }
            }
            _ => {}
        }
    }

    /// Adds the outcome of a call that was stated: it is recorded with the observation.
    fn add_stated(&mut self, call: &CallId, record: Option<&ReplayData>) {
        let usage = self.usages.get(call).copied().unwrap_or_default();
        if let Some(mut done) = done_of(record, ToolStatus::Ok, usage) {
            if done.observation.code == ObservationCode::Refused {
                done.status = ToolStatus::Refused;
            }
            done.retries += self.interrupted(call);
            self.calls.insert(call.clone(), PastCall::Done(Box::new(done)));
        }
    }

    /// Starts of a call before the last one.
    fn interrupted(&self, call: &CallId) -> u64 {
        self.calls.get(call).map_or(0, PastCall::starts).saturating_sub(1).into()
    }

    /// Lets the next question about a call be emitted: it is another one than before.
    fn forget_question(&mut self, place: &EventLocation, tool: &ToolId) {
        let (tool, state) = (tool.clone(), ApprovalState::Asked);
        self.journal.forget(place, &EventBody::AgentToolApproval { tool, state, reason: None });
    }
}

/// Data recorded with a reply.
pub fn record_of_cost(cost: u64) -> ReplayData {
    ReplayData::from_values(vec![(Arc::from(COST), Arc::new(cost.into()))])
}

/// Data recorded with a request that the server found too long.
pub(crate) fn record_of_too_long(window: Option<u64>) -> ReplayData {
    ReplayData::from_values(vec![(Arc::from(TOO_LONG), Arc::new(window.into()))])
}

/// Data recorded with the end of a call.
pub(crate) fn record_of(result: &CallResult) -> ReplayData {
    let CallResult { observation, value, task, attachments, end, output, .. } = result;
    let observation = serde_json::to_value(observation).unwrap_or_default();
    let mut values = vec![(Arc::from(OBSERVATION), Arc::new(observation))];
    values.extend(value.as_ref().map(|value| (Arc::from(VALUE), Arc::new(value.clone()))));
    let task = task.as_ref().map(|task| serde_json::to_value(task).unwrap_or_default());
    values.extend(task.map(|task| (Arc::from(TASK), Arc::new(task))));
    if !attachments.is_empty() {
        let attachments = serde_json::to_value(attachments).unwrap_or_default();
        values.push((Arc::from(ATTACHMENTS), Arc::new(attachments)));
    }
    let end = end.as_ref().map(|end| serde_json::to_value(end).unwrap_or_default());
    values.extend(end.map(|end| (Arc::from(END), Arc::new(end))));
    if result.retries > 0 {
        values.push((Arc::from(RETRIES), Arc::new(result.retries.into())));
    }
    values.extend(output.as_ref().map(|output| (Arc::from(OUTPUT), Arc::new(output.clone()))));
    ReplayData::from_values(values)
}

fn done_of(record: Option<&ReplayData>, status: ToolStatus, usage: Usage) -> Option<PastEnd> {
    let observation = Observation::deserialize(value_of(record, OBSERVATION)?).ok()?;
    let task = value_of(record, TASK).and_then(|value| TaskChange::deserialize(value).ok());
    let attachments = value_of(record, ATTACHMENTS).and_then(|value| Vec::deserialize(value).ok());
    let (value, attachments) = (value_of(record, VALUE).cloned(), attachments.unwrap_or_default());
    let end = value_of(record, END).and_then(|value| End::deserialize(value).ok());
    let retries = value_of(record, RETRIES).and_then(Value::as_u64).unwrap_or_default();
    let output = value_of(record, OUTPUT).cloned();
    Some(PastEnd { observation, status, value, task, attachments, end, retries, output, usage })
}

fn value_of<'r>(record: Option<&'r ReplayData>, name: &str) -> Option<&'r Value> {
    record?.values.iter().find(|(own, _)| **own == *name).map(|(_, value)| &**value)
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

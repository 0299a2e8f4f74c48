//! Values that the log of an agent's run has: replies, summaries, ends of tasks and of calls.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use agent_types::{
    ApprovalState, CallId, EventBody, EventLocation, Observation, ReplayData, StoredEvent, ToolId,
    ToolStatus, Usage,
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
    /// Tokens of the agents inside it.
    pub(crate) usage: Usage,
}

/// Values of a log, in their order.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    pub(crate) journal: Journal,
    pub(crate) queues: Queues,
    pub(crate) calls: HashMap<CallId, PastCall>,
    /// Calls without an end.
    pub(crate) open: HashMap<CallId, (EventLocation, ToolId)>,
    pub(crate) was_waiting: bool,
    last_woken: Option<u32>,
    asked: HashSet<CallId>,
    usages: HashMap<CallId, Usage>,
}

/// Recorded end of a request.
#[derive(Debug)]
pub(crate) enum PastReply {
    /// A reply, with its cost besides the tokens.
    Whole(Box<StandardResponse>, u64),
    /// The server said that the conversation is too long.
    TooLong(PastTooLong),
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
    pub(crate) turn: Option<u32>,
    pub(crate) text: String,
    pub(crate) by: String,
    /// Tokens of its author.
    pub(crate) usage: Usage,
}

impl PastSummary {
    /// Reads what was recorded: the text, in logs of earlier versions nothing else.
    fn new(turn: Option<u32>, by: &str, value: &Value) -> Option<Self> {
        let text = value.as_str().or_else(|| value["text"].as_str())?.to_owned();
        let usage = Usage::deserialize(&value["usage"]).unwrap_or_default();
        Some(Self { turn, text, by: by.to_owned(), usage })
    }
}

/// Values that the loop takes one after the other.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    /// Replies, with what they cost besides where the log says so.
    pub(crate) replies: VecDeque<PastReply>,
    /// Summaries of older parts, with their turns and authors.
    pub(crate) summaries: VecDeque<PastSummary>,
    /// Ends of tasks that the model was shown, by turn.
    pub(crate) woken: VecDeque<Vec<TaskEnd>>,
}

/// Any event of a suspended run.
const fn waits() -> EventBody {
    EventBody::RunWaiting { exit: None, asks: Vec::new() }
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
                EventBody::RunWaiting { .. } => recorded.was_waiting = true,
                EventBody::RunResumed { .. } => {
                    recorded.was_waiting = false;
                    // If the run suspends again, that is emitted again.
                    recorded.journal.forget(&EventLocation::default(), &waits());
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
                let whole = |reply| PastReply::Whole(Box::new(reply), cost);
                let too_long = value_of(record, TOO_LONG)
                    .map(|window| PastReply::TooLong(PastTooLong { window: window.as_u64() }));
                self.queues
                    .replies
                    .extend(too_long.or_else(|| StandardResponse::from_event(body).map(whole)));
            }
            (EventBody::AgentCompacted { by }, _) => {
                let past = |value| PastSummary::new(place.turn, by, value);
                self.queues.summaries.extend(value_of(record, SUMMARY).and_then(past));
            }
            (EventBody::AgentObservation { .. }, None) => self.add_woken(place.turn, value_of(record, WOKEN)),
            (EventBody::AgentToolStarted { tool }, Some(call)) => {
                let before = match self.calls.get(call) {
                    Some(PastCall::AtWork { starts, .. }) => *starts,
                    _ => 0,
                };
                let asked = self.asked.contains(call);
                self.calls.insert(call.clone(), PastCall::AtWork { starts: before + 1, asked });
                self.open.insert(call.clone(), (place.clone(), tool.clone()));
            }
            (EventBody::AgentToolApproval { state, tool, .. }, Some(call)) => {
                if *state == ApprovalState::Asked && !self.calls.contains_key(call) {
                    self.asked.insert(call.clone());
                    return;
                }
                // What is asked about the call from now on is another question.
                let (tool, state) = (tool.clone(), ApprovalState::Asked);
                self.journal.forget(place, &EventBody::AgentToolApproval { tool, state, reason: None });
            }
            (EventBody::AgentToolFinished { status, summary, .. }, Some(call)) => {
                self.open.remove(call);
                let usage = self.usages.remove(call).unwrap_or_default();
                if let Some(done) = done_of(record, *status, usage) {
                    self.calls.insert(call.clone(), PastCall::Done(Box::new(done)));
                } else if summary != INTERRUPTED {
                    self.calls.remove(call);
                }
            }
            _ => {}
        }
    }

    fn add_woken(&mut self, turn: Option<u32>, value: Option<&Value>) {
        let Some(end) = value.and_then(|value| TaskEnd::deserialize(value).ok()) else { return };
        match self.queues.woken.back_mut().filter(|_| self.last_woken == turn) {
            Some(ends) => ends.push(end),
            None => self.queues.woken.push_back(vec![end]),
        }
        self.last_woken = turn;
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
    let CallResult { observation, value, task, attachments, end, .. } = result;
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
    ReplayData::from_values(values)
}

fn done_of(record: Option<&ReplayData>, status: ToolStatus, usage: Usage) -> Option<PastEnd> {
    let observation = Observation::deserialize(value_of(record, OBSERVATION)?).ok()?;
    let task = value_of(record, TASK).and_then(|value| TaskChange::deserialize(value).ok());
    let attachments = value_of(record, ATTACHMENTS).and_then(|value| Vec::deserialize(value).ok());
    let (value, attachments) = (value_of(record, VALUE).cloned(), attachments.unwrap_or_default());
    let end = value_of(record, END).and_then(|value| End::deserialize(value).ok());
    Some(PastEnd { observation, status, value, task, attachments, end, usage })
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

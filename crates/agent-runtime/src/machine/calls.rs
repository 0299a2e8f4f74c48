//! The calls of one reply, from their review to their results.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use agent_types::ToolStatus;
use serde::{Deserialize, Serialize};

use super::approval::{review, split_waiting};
use super::effect::{CallOrder, Effect, Input};
use super::observe;
use super::plan::{CallDisposition, PlannedCall};
use super::result::CallResult;

/// Calls of one reply, from their review to their results: read-only neighbours run side by side, others in order.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct CallBatch {
    /// Text of the reply before its calls.
    reason: String,
    /// Calls that were not started.
    queue: VecDeque<PlannedCall>,
    running: BTreeSet<usize>,
    /// The call under way beside which no other starts.
    exclusive: Option<usize>,
    /// Calls that wait for a person, or for one that does.
    held: Vec<PlannedCall>,
    results: BTreeMap<usize, CallResult>,
    /// Arguments that a person changed, by position.
    edits: Vec<PlannedCall>,
    is_reviewed: bool,
    /// No further call starts: one ended the run, or the run is cancelled.
    is_stopped: bool,
}

impl CallBatch {
    /// Creates a batch of planned calls; `reason` is the text of the reply before them.
    pub(super) fn new(calls: Vec<PlannedCall>, reason: String) -> Self {
        Self { reason, queue: calls.into(), ..Self::default() }
    }

    /// First effect of the batch.
    pub(super) fn begin(&self) -> Effect {
        Effect::Review(self.queue.iter().cloned().collect())
    }

    /// Takes a review, the result of a call, or the end of the run; other inputs change nothing. Denials are
    /// remembered in `denied` by their digest.
    pub(super) fn step(&mut self, input: Input, denied: &mut BTreeMap<String, String>) -> Vec<Effect> {
        match input {
            Input::Reviewed(reviews) if !self.is_reviewed => {
                let mut effects = Vec::new();
                let mut calls: Vec<PlannedCall> = std::mem::take(&mut self.queue).into();
                let mut reviews = reviews.into_iter();
                for call in &mut calls {
                    review(call, reviews.next().unwrap_or_default(), denied, &mut effects);
                }
                self.edits = calls.iter().filter(|call| call.is_edited).cloned().collect();
                let (run, held) = split_waiting(calls);
                (self.queue, self.held, self.is_reviewed) = (run.into(), held, true);
                effects.extend(self.start());
                effects
            }
            Input::Called(result) => self.take(*result),
            Input::Cancelled => {
                self.is_stopped = true;
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    /// Takes the one result of a call under way.
    fn take(&mut self, result: CallResult) -> Vec<Effect> {
        if !self.running.remove(&result.index) {
            return Vec::new();
        }
        self.exclusive.take_if(|index| *index == result.index);
        let mut effects = Vec::new();
        if result.is_fatal() && !self.is_stopped {
            self.is_stopped = true;
            effects.push(Effect::CancelCalls);
        }
        self.results.insert(result.index, result);
        effects.extend(self.start());
        effects
    }

    /// Starts the calls whose turn it is.
    fn start(&mut self) -> Vec<Effect> {
        let mut effects = Vec::new();
        while let Some(call) = self.queue.front() {
            // What is known already does not wait.
            let is_alone = !call.call.facts.is_read_only && !is_known(call);
            if is_alone && !self.running.is_empty() || self.exclusive.is_some() && !is_known(call) {
                break;
            }
            let Some(call) = self.queue.pop_front() else { break };
            if self.is_stopped && !is_known(&call) {
                self.results.insert(call.call.index, not_started(&call));
            } else if is_alone && self.results.values().any(|result| result.waits.is_some()) {
                // What changes something comes behind what is before it.
            } else {
                self.running.insert(call.call.index);
                self.exclusive = self.exclusive.or(is_alone.then_some(call.call.index));
                effects.push(Effect::Call(Box::new(CallOrder { call, reason: self.reason.clone() })));
            }
        }
        effects
    }

    /// Returns `true` when no call runs and none will.
    pub(super) fn is_over(&self) -> bool {
        self.is_reviewed && self.queue.is_empty() && self.running.is_empty()
    }

    /// Calls that wait for a person, or for one that does.
    pub(super) fn held(&self) -> &[PlannedCall] {
        &self.held
    }

    /// Calls whose arguments a person changed.
    pub(super) fn edits(&self) -> &[PlannedCall] {
        &self.edits
    }

    /// Results in the order of the calls.
    pub(super) fn into_results(self) -> impl Iterator<Item = CallResult> {
        self.results.into_values()
    }
}

/// Returns `true` for a call whose result the log has or the user stated.
fn is_known(call: &PlannedCall) -> bool {
    let is_stated = |outcome: &serde_json::Value| {
        let word = outcome.get("outcome").and_then(serde_json::Value::as_str).or(outcome.as_str());
        matches!(word, Some("done" | "skip"))
    };
    match &call.disposition {
        CallDisposition::Reconcile { outcome: Some(outcome), .. } => is_stated(outcome),
        _ => call.is_recorded,
    }
}

/// Result of a call behind one that ended the run, or behind the end of the run.
fn not_started(call: &PlannedCall) -> CallResult {
    let observation = observe::refused(&call.call.id, call.call.tool.as_str(), "the run ended before it");
    CallResult::new(call.call.index, observation, ToolStatus::Refused)
}

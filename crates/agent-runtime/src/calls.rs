//! Calls of one turn: their planning, execution and observations.

use std::collections::HashSet;
use std::sync::Arc;

use agent_types::{EventBody, EventLocation, ToolStatus};
use tool_registry::{Services, Snapshot, ToolContext};

use crate::approve::{decide_approvals, split_waiting};
use crate::decide::Reply;
use crate::dispatch::{self, Finished, PendingInner, Tree};
use crate::driver::Driver;
use crate::end::End;
use crate::loop_guard::Repetition;
use crate::observe;
use crate::plan::{CallDisposition, PlannedCall, beyond, plan};
use crate::state::{AgentState, OpenTask};
use crate::subagent::LastMessage;
use crate::tasks::TaskChange;
use crate::trace::Trace;

/// Results of the calls of a turn.
#[derive(Default)]
struct Results {
    /// The value that a call ends the run with.
    ended: Option<serde_json::Value>,
    stop: Option<End>,
    /// Calls that contain a pending question.
    waits: Vec<(usize, PendingInner)>,
}

impl Driver {
    /// Runs what may run, refuses the rest, gives every call its observation.
    pub(crate) async fn run_calls(
        &self,
        state: &mut AgentState,
        offered: &Snapshot,
        trace: &Trace,
        reply: Reply,
        last: bool,
    ) -> Option<End> {
        let mut planned = plan(reply.ready, offered, &self.profile, self.approval, |at| beyond(at, last));
        self.guard_calls(&mut planned).await;
        decide_approvals(&mut planned, &mut state.denied, trace, |call| trace.log().answer(call.as_str()));
        note_edits(&planned, state);
        let (planned, waiting) = split_waiting(planned, trace.log());
        let held: HashSet<usize> = waiting.iter().map(|call| call.call.index).collect();
        let services = self.call_services(state, offered);
        let block = self.cancel.child_token();
        let context = |call: &PlannedCall, place: EventLocation| {
            ToolContext::new(
                call.call.id.clone(),
                call.call.tool.clone(),
                Arc::clone(&self.clock),
                self.budget.clone(),
                trace.sink(),
                place,
            )
            .with_cancel(block.clone())
            .with_services(services.clone())
            .with_values(Arc::clone(&self.values))
            .with_resume(self.log.inside(&call.call.id, self.budget.depth()))
        };
        let tree = Tree { budget: &self.budget, meter: &self.meter };
        let finished = dispatch::run(planned, trace, tree, &reply.message, &block, context).await;
        let mut results = settle(state, trace, finished);
        results.stop = results.stop.map(|stop| stop.emit_limit(trace));
        let waits = !held.is_empty() || !results.waits.is_empty();
        if waits && results.stop.is_none() && !self.cancel.is_cancelled() {
            return Some(End::waiting(trace, state, &waiting, results.waits));
        }
        close_open_calls(state);
        Self::emit_observations(state, trace);
        if self.cancel.is_cancelled() {
            return Some(End::new(agent_types::ExitReason::Cancelled));
        }
        if let Some(value) = results.ended {
            return self.take_value(state, trace, value);
        }
        if last && results.stop.is_none() {
            return Some(End::new(agent_types::ExitReason::MaxTurns));
        }
        results.stop
    }

    /// Dependencies of calls, by type; nodes of workflows inside them find the profile and the tools there too.
    pub(crate) fn call_services(&self, state: &AgentState, offered: &Snapshot) -> Services {
        let services = self.services.clone().with(Arc::clone(&self.meter)).with(Arc::new(self.approval));
        let services = services.with(Arc::clone(&self.profile)).with(Arc::new(offered.clone()));
        match state.last_user_message() {
            Some(text) => services.with(Arc::new(LastMessage(text.to_owned()))),
            None => services,
        }
    }

    async fn guard_calls(&self, planned: &mut [PlannedCall]) {
        for call in planned {
            for guard in &self.guardrails {
                if matches!(call.verdict, CallDisposition::Refuse(_)) {
                    break;
                }
                if let Err(blocked) = guard.call(&call.call.tool, &call.call.arguments).await {
                    call.verdict = CallDisposition::Refuse(format!("denied: {}", blocked.reason));
                }
            }
        }
    }

    /// Emits the observations of the last turn, in the order of its calls.
    pub(crate) fn emit_observations(state: &mut AgentState, trace: &Trace) {
        let Some(turn) = state.last_turn() else { return };
        for observation in turn.observations() {
            emit_observation(observation, trace);
        }
    }
}

/// Gives the calls that are over their results.
fn settle(state: &mut AgentState, trace: &Trace, finished: Vec<Finished>) -> Results {
    let mut results = Results::default();
    for finished in finished {
        let Finished { index, observation, status, value, task, attachments, waits, end } = finished;
        if let Some(waits) = waits {
            results.waits.push((index, waits));
            continue;
        }
        let call = state.last_turn().and_then(|turn| turn.calls.get(index));
        match (task, call) {
            (Some(TaskChange::Began(task)), Some(call)) => {
                let arguments = call.edited.as_ref().unwrap_or(&call.arguments).clone();
                let open = call.tool_id().map(|tool| OpenTask { task, tool, arguments });
                state.tasks.extend(open);
            }
            (Some(TaskChange::Read(task)), _) => state.tasks.retain(|open| open.task != task),
            _ => {}
        }
        if let Some(call) = state.last_turn().and_then(|turn| turn.calls.get_mut(index)) {
            call.attachments = attachments;
        }
        results.ended = results.ended.or(value);
        results.stop = results.stop.or(end);
        if status == ToolStatus::Refused {
            state.settle_refused(index, observation);
            continue;
        }
        match state.settle(index, observation) {
            Repetition::None => {}
            Repetition::Warn(_) => trace.emit(EventBody::AgentWarning {
                kind: "loop".into(),
                message: "the same call gave the same result again and again".into(),
            }),
            Repetition::Stop => {
                results.stop.get_or_insert(End::new(agent_types::ExitReason::LoopDetected));
            }
        }
    }
    results
}

pub(crate) fn emit_observation(observation: &agent_types::Observation, trace: &Trace) {
    let place = EventLocation { call: observation.call.clone().or(trace.place().call), ..trace.place() };
    trace.emit_at(
        place,
        EventBody::AgentObservation {
            tool: Some(observation.tool.clone()).filter(|tool| !tool.is_empty()),
            text: observation.line(),
        },
    );
}

/// The history keeps what the model wrote and what a person made of it.
fn note_edits(planned: &[PlannedCall], state: &mut AgentState) {
    let Some(turn) = state.last_turn() else { return };
    for planned in planned.iter().filter(|planned| planned.edited) {
        if let Some(call) = turn.calls.get_mut(planned.call.index) {
            call.edited = Some(planned.call.arguments.clone());
        }
    }
}

/// A run that ends while calls of its turn wait gives each of them its result.
fn close_open_calls(state: &mut AgentState) {
    let Some(turn) = state.last_turn() else { return };
    for call in turn.calls.iter_mut().filter(|call| call.observation.is_none()) {
        call.observation = Some(observe::refused(&call.id, &call.tool, "the run ended"));
    }
}

//! Calls of one reply.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use agent_types::{AskKind, ExitReason, Problem};
use run_journal::{ask_about_digest, ask_once_more};
use serde_json::{Map, Value};
use tokio::task::JoinSet;
use tool_registry::Tool;

use super::call_env::CallEnv;
use super::dispatch::{known, run_call, start};
use crate::machine::{
    AgentMachine, CallDisposition, CallOrder, CallResult, Effect, End, Input, Past, PlannedCall, Review,
    Verdict, approval_digest, definition_digests,
};
use crate::resume::{Decision, PastCall, changes, counts_for, decision};

/// Calls of one reply under way, each in its own task.
#[derive(Debug)]
pub struct Calls {
    env: CallEnv,
    running: JoinSet<CallResult>,
}

impl Calls {
    /// Creates an environment without running calls.
    #[must_use]
    pub fn new(env: CallEnv) -> Self {
        Self { env, running: JoinSet::new() }
    }

    /// Steps a machine to the end of the calls that its `first` effect is about. Gives the end that they had, unless
    /// another turn may follow, and their results by position.
    ///
    /// # Cancel safety
    /// Dropping the future drops the calls with `self`.
    pub async fn run(
        &mut self,
        machine: &mut AgentMachine,
        first: Effect,
    ) -> (Option<End>, BTreeMap<usize, CallResult>) {
        let mut results = BTreeMap::new();
        let mut effects = VecDeque::from([first]);
        let mut knows_cancel = false;
        loop {
            let input = match effects.pop_front() {
                Some(Effect::Finish(end)) => return (Some(*end), results),
                Some(Effect::Grant) => return (None, results),
                Some(effect) => self.perform(effect),
                None => match self.next().await {
                    Some(result) => Some(Input::Called(Box::new(result))),
                    None => return (Some(End::new(ExitReason::Cancelled)), results),
                },
            };
            let Some(input) = input else { continue };
            if !knows_cancel && self.env.block.is_cancelled() {
                knows_cancel = true;
                effects.extend(machine.step(Input::Cancelled));
            }
            if let Input::Called(result) = &input {
                results.insert(result.index, (**result).clone());
            }
            effects.extend(machine.step(input));
        }
    }

    fn perform(&mut self, effect: Effect) -> Option<Input> {
        match effect {
            Effect::Review(calls) => Some(Input::Reviewed(self.review(&calls))),
            Effect::Call(order) => Some(Input::Called(Box::new(self.start(*order)?))),
            Effect::CancelCalls => {
                self.cancel();
                None
            }
            Effect::Emit(emission) => {
                self.env.trace.perform(*emission, &self.env.trace);
                None
            }
            _ => None,
        }
    }

    /// Asks the user's answers and the log about calls.
    pub(super) fn review(&self, planned: &[PlannedCall]) -> Vec<Review> {
        let review = |planned: &PlannedCall| {
            let tool = self.env.tools.get(planned.call.tool.as_str());
            let definition = tool.map(definition_digests).unwrap_or_default();
            let mut review = Review { past: self.past(planned), definition, ..Review::default() };
            if planned.disposition == CallDisposition::Ask {
                self.take_answer(planned, &mut review);
            }
            review
        };
        planned.iter().map(review).collect()
    }

    /// Applies the answer about a call to its review. One that was given for something else does not count: the call is
    /// asked about anew, under the name of what it would do now.
    fn take_answer(&self, planned: &PlannedCall, review: &mut Review) {
        let (call, log) = (&planned.call, self.env.trace.log());
        let Some(answer) = log.answer(call.id.as_str()) else { return };
        let digest = approval_digest(call.tool.as_str(), &call.arguments, &review.definition);
        if counts_for(answer, &digest) {
            review.verdict = self.verdict(planned, answer);
            return;
        }
        let ask = ask_about_digest(call.id.as_str(), &digest);
        review.verdict = log.answer(&ask).and_then(|answer| self.verdict(planned, answer));
        review.ask_anew = Some((ask, changes(call.tool.as_str(), answer, &review.definition)));
    }

    fn verdict(&self, planned: &PlannedCall, answer: &Value) -> Option<Verdict> {
        let call = &planned.call;
        Some(match decision(answer)? {
            Decision::Approve => Verdict::Approve,
            Decision::Deny(reason) => Verdict::Deny(reason),
            Decision::Edit(arguments) => match typed(self.env.tools.get(call.tool.as_str())?, arguments) {
                Ok(arguments) => Verdict::Edit(Arc::new(arguments)),
                Err(faults) => Verdict::BadEdit(faults),
            },
        })
    }

    fn past(&self, planned: &PlannedCall) -> Past {
        let log = self.env.trace.log();
        let id = planned.call.id.as_str();
        let ask = match log.call(&planned.call.id) {
            None => return Past::None,
            Some(PastCall::Done(_)) => return Past::Ended,
            // The call's own id, unless something else was asked under that, as whether it is approved.
            Some(PastCall::AtWork { starts, asked }) if *starts > 1 || *asked => ask_once_more(id, *starts),
            Some(PastCall::AtWork { .. }) => id.to_owned(),
        };
        let outcome = log.answer(&ask).filter(|answer| AskKind::Outcome.takes(answer)).cloned();
        Past::Interrupted { ask, outcome }
    }

    /// Starts a call; returns its result if the call is refused, or the log has it.
    pub(super) fn start(&mut self, order: CallOrder) -> Option<CallResult> {
        let Self { env, running } = self;
        if let Some(known) = known(&order.call, env) {
            return Some(known);
        }
        // From here on the run does what its log does not have.
        env.trace.log().resume();
        let trace = match start(&order, env) {
            Ok(trace) => trace,
            Err(refused) => return Some(*refused),
        };
        let call = order.call;
        // The reader knows only tools of this snapshot.
        let tool = env.tools.get(call.call.tool.as_str())?.clone();
        let cx = env.tool_context(&call, &trace);
        running.spawn(run_call(call, tool, trace, cx, (env.result_tokens, env.keeps_output)));
        None
    }

    /// Cancels the calls under way.
    pub(super) fn cancel(&self) {
        self.env.block.cancel();
    }

    /// Result of the next call that ends; `None` when none runs.
    pub(super) async fn next(&mut self) -> Option<CallResult> {
        loop {
            // A call's own panic is its outcome, so a task that fails was dropped with the run.
            if let Ok(result) = self.running.join_next().await? {
                return Some(result);
            }
        }
    }
}

/// Arguments that a person wrote, typed as the model's are, or their faults.
pub(crate) fn typed(tool: &Tool, arguments: Map<String, Value>) -> Result<Map<String, Value>, String> {
    let typed = tool.schema().map_err(|error| error.to_string())?.type_json(Value::Object(arguments));
    if typed.problems.is_empty() { Ok(typed.arguments) } else { Err(Problem::messages(&typed.problems)) }
}

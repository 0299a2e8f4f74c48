//! The loop around the state machine: asks the model, runs the calls, tells what happens.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use agent_types::{
    ApprovalState, AskSummary, Budget, BudgetKey, CallSummary, Clock, Draft, EventBody, EventSink,
    ExitReason, Place, Record, Spent, ToolStatus, Usage,
};
use futures::future::{Either, select};
use llm_provider::{LlmError, LlmProvider, LlmRequest, ModelParameters};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use tool_registry::{Services, Snapshot, ToolContext, ToolSource};

use crate::agent::ApprovalMode;
use crate::approve::{decide_approvals, hold};
use crate::ask::{Answer, NoAnswer, ask};
use crate::decide::{Reply, decide};
use crate::dispatch::{self, Finished};
use crate::loop_guard::Repetition;
use crate::observe;
use crate::offer::Offer;
use crate::outcome::{PendingCall, RunOutcome, exit_status};
use crate::plan::{PlannedCall, Verdict, plan};
use crate::profile::{AgentProfile, OnLimit};
use crate::prompt::{self, Protocol};
use crate::resume::RunLog;
use crate::state::{AgentState, Next};

/// Where events of a run go, at one place of it.
#[derive(Debug, Clone)]
pub(crate) struct Trace {
    log: Arc<RunLog>,
    place: Place,
}

impl Trace {
    pub(crate) fn emit(&self, body: EventBody) {
        self.emit_at(self.place.clone(), body);
    }

    pub(crate) fn emit_at(&self, place: Place, body: EventBody) {
        self.log.record(&mut vec![Draft::new(place, body)]);
    }

    /// Tells an event, with what a resumed run must know besides where somebody keeps it.
    pub(crate) fn emit_kept(&self, body: EventBody, record: impl FnOnce() -> Record) {
        let record = self.log.keeper().map(|_| Box::new(record()));
        self.log.record(&mut vec![Draft { place: self.place.clone(), body, record }]);
    }

    /// The same at another place.
    pub(crate) fn at(&self, place: Place) -> Self {
        Self { log: Arc::clone(&self.log), place }
    }

    /// What the log of the run has.
    pub(crate) fn log(&self) -> &RunLog {
        &self.log
    }

    pub(crate) fn place(&self) -> Place {
        self.place.clone()
    }

    pub(crate) fn sink(&self) -> Arc<dyn EventSink> {
        Arc::clone(&self.log) as Arc<dyn EventSink>
    }

    /// A new span inside this one.
    pub(crate) fn span(&self, change: impl FnOnce(&mut Place)) -> Self {
        let mut place = self.place.clone();
        place.parent = Some(place.span);
        place.span = self.log.new_span();
        change(&mut place);
        Self { log: Arc::clone(&self.log), place }
    }
}

/// Everything that a run needs and does not change.
pub(crate) struct Driver {
    pub(crate) profile: Arc<AgentProfile>,
    pub(crate) model: Arc<dyn LlmProvider>,
    pub(crate) source: Arc<dyn ToolSource>,
    /// The tools of the beginning.
    pub(crate) offer: Offer,
    pub(crate) protocol: Protocol,
    pub(crate) parameters: ModelParameters,
    pub(crate) approval: ApprovalMode,
    /// Values for tools that the model can neither see nor set.
    pub(crate) values: Arc<Map<String, Value>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) services: Services,
    pub(crate) budget: Budget,
    pub(crate) cancel: CancellationToken,
    pub(crate) log: Arc<RunLog>,
}

/// Why a run ended.
#[derive(Debug)]
struct End {
    exit: ExitReason,
    kind: Option<String>,
    error: Option<String>,
    pending: Vec<PendingCall>,
}

impl End {
    fn new(exit: ExitReason) -> Self {
        Self { exit, kind: None, error: None, pending: Vec::new() }
    }

    fn waits(&self) -> bool {
        exit_status(self.exit) == agent_types::RunStatus::Waiting
    }

    /// Questions inside calls, named by the call and their own name.
    fn add_asked(&mut self, state: &mut AgentState, asked: Vec<(usize, Vec<AskSummary>)>) {
        let Some(turn) = state.last_turn() else { return };
        for (index, asks) in asked {
            let Some((call, tool)) = turn.calls.get(index).and_then(|call| Some((call, call.tool_id()?)))
            else {
                continue;
            };
            self.pending.extend(asks.into_iter().map(|ask| PendingCall {
                ask: format!("{}/{}", call.id, ask.ask),
                tool: tool.clone(),
                arguments: Arc::new(call.arguments.clone()),
                path: ask.path,
                prompt: ask.prompt,
            }));
        }
    }

    fn spent(spent: Spent) -> Self {
        let exit =
            if spent.key == BudgetKey::Turns { ExitReason::MaxTurns } else { ExitReason::BudgetExceeded };
        Self { kind: Some(spent.key.as_str().into()), error: Some(spent.to_string()), ..Self::new(exit) }
    }

    fn llm(error: &LlmError) -> Self {
        Self {
            kind: Some(error.code().into()),
            error: Some(error.to_string()),
            ..Self::new(ExitReason::LlmFailed)
        }
    }
}

impl Driver {
    /// Answers one message. Always ends with `run.finished` (or `run.waiting`) and an outcome.
    pub(crate) async fn run(&self, state: &mut AgentState, message: String) -> RunOutcome {
        let trace = Trace { log: Arc::clone(&self.log), place: Place::default() };
        trace.emit(EventBody::RunStarted {
            agent: Some(self.profile.id.clone()),
            workflow: None,
            message: Some(message.clone()),
            inputs: None,
        });
        state.begin(message);
        let end = self.within_wall_time(state, &trace).await;
        self.finish(state, &trace, end)
    }

    /// The turns, with the limit of the whole run's time around them.
    async fn within_wall_time(&self, state: &mut AgentState, trace: &Trace) -> End {
        let Some(limit) = self.budget.limits().wall_ms else { return self.turns(state, trace).await };
        let turns = std::pin::pin!(self.turns(state, trace));
        match select(turns, self.clock.sleep(Duration::from_millis(limit))).await {
            Either::Left((end, _)) => end,
            Either::Right(((), turns)) => {
                // Calls under way end as cancelled, so that each has its result.
                self.cancel.cancel();
                turns.await;
                End {
                    kind: Some("wall_ms".into()),
                    error: Some(format!("limit of {limit} ms reached")),
                    ..End::new(ExitReason::BudgetExceeded)
                }
            }
        }
    }

    async fn turns(&self, state: &mut AgentState, trace: &Trace) -> End {
        let mut offer = self.offer.clone();
        loop {
            if self.cancel.is_cancelled() {
                return End::new(ExitReason::Cancelled);
            }
            if let Some(spent) = self.spent() {
                return End::spent(spent);
            }
            state.turn += 1;
            let turn = state.turn;
            let trace = trace.span(|place| place.turn = Some(turn));
            trace.emit(EventBody::AgentTurnStarted {});
            if let Some(change) = offer.refresh(&*self.source) {
                trace.emit(change.into_event());
            }
            let end = self.turn(state, &offer, &trace).await;
            // A turn that waits goes on when the run does.
            if !end.as_ref().is_some_and(End::waits) {
                trace.emit(EventBody::AgentTurnFinished {});
            }
            if let Some(end) = end {
                return end;
            }
        }
    }

    /// Takes a turn out of the budget, or says what is used up.
    fn spent(&self) -> Option<Spent> {
        let before = [BudgetKey::Tokens, BudgetKey::CostMicros];
        let used_up = before.into_iter().find_map(|key| self.budget.spent(key));
        used_up.or_else(|| self.budget.take(BudgetKey::Turns).err())
    }

    /// One pass: ask, read, run. `None` when another pass follows.
    async fn turn(&self, state: &mut AgentState, offer: &Offer, trace: &Trace) -> Option<End> {
        let last = self.is_last_turn();
        if let Some(before) = state.last_turn().filter(|_| last) {
            before.notes.push(observe::note("this is the last turn"));
        }
        let request = self.request(state, &offer.tools);
        let first_call = state.calls + 1;
        let answer = ask(&*self.model, request, &offer.set, trace, &self.cancel, first_call).await;
        let Answer { response, parsed } = match answer {
            Ok(answer) => answer,
            Err(NoAnswer::Cancelled) => return Some(End::new(ExitReason::Cancelled)),
            Err(NoAnswer::Llm(error)) => return Some(End::llm(&error)),
        };
        self.count(state, response.usage);
        let mut reply = decide(&response, &parsed, &offer.set, first_call);
        Self::tell_reply(trace, &reply);
        let corrections = self.budget.limits().corrections.unwrap_or(u64::MAX);
        let next = state.take_reply(&mut reply, corrections);
        if !matches!(next, Next::Answer) && !reply.message.is_empty() {
            trace.emit(EventBody::AgentMessage { text: reply.message.clone(), r#final: false });
        }
        match next {
            Next::Answer => {
                trace.emit(EventBody::AgentMessage { text: reply.message, r#final: true });
                let exit = if last { ExitReason::MaxTurns } else { ExitReason::Completed };
                Some(End::new(exit))
            }
            Next::Correct | Next::GiveUp => {
                Self::tell_observations(state, trace);
                (next == Next::GiveUp).then(|| End::new(ExitReason::SelfCorrectionFailed))
            }
            Next::Run => self.run_calls(state, &offer.tools, trace, reply, last).await,
        }
    }

    /// Whether this turn is the last one and the model should answer in it.
    fn is_last_turn(&self) -> bool {
        let wants_answer = self.profile.on_limit == Some(OnLimit::FinalAnswer);
        wants_answer && self.budget.spent(BudgetKey::Turns).is_some()
    }

    fn request(&self, state: &AgentState, offered: &Snapshot) -> LlmRequest {
        let system = prompt::system_text(&self.profile, offered, self.protocol);
        let boundary = self.log.run().as_str();
        let boundary = &boundary[boundary.len().saturating_sub(8)..];
        let messages = prompt::messages(&system, state.history(), self.protocol, boundary);
        let tools = match self.protocol {
            Protocol::Text => Vec::new(),
            Protocol::Native => prompt::direct(offered).map(|tool| tool.definition().spec()).collect(),
        };
        LlmRequest::new(messages).with_tools(tools).with_parameters(self.parameters.clone())
    }

    fn count(&self, state: &mut AgentState, usage: Usage) {
        state.usage += usage;
        self.budget.add(BudgetKey::Tokens, usage.total);
        let info = self.model.info();
        // A price for a million tokens is a price in millionths of a dollar for one.
        let cost = price(usage.input, info.price_in) + price(usage.output, info.price_out);
        self.budget.add(BudgetKey::CostMicros, cost);
    }

    fn tell_reply(trace: &Trace, reply: &Reply) {
        let calls =
            reply.ready.iter().map(|call| CallSummary { call: call.id.clone(), tool: call.tool.clone() });
        trace.emit(EventBody::AgentParsed { calls: calls.collect(), diagnostics: reply.diagnostics.clone() });
        if let Some(refusal) = &reply.refusal {
            trace.emit(EventBody::AgentParseFailed {
                code: refusal.code.clone(),
                errors: refusal.errors.clone(),
            });
        }
        for call in &reply.ready {
            let place = Place { call: Some(call.id.clone()), ..trace.place() };
            trace.emit_at(
                place,
                EventBody::AgentCallReady {
                    tool: call.tool.clone(),
                    arguments: Arc::new(call.arguments.clone()),
                    repairs: call.repairs.clone(),
                },
            );
        }
    }

    /// Runs what may run, refuses the rest, gives every call its observation.
    async fn run_calls(
        &self,
        state: &mut AgentState,
        offered: &Snapshot,
        trace: &Trace,
        reply: Reply,
        last: bool,
    ) -> Option<End> {
        let mut planned = plan(reply.ready, offered, &self.profile, self.approval, last);
        decide_approvals(&mut planned, state, trace);
        let (mut planned, waiting) = hold(planned, trace.log());
        let held: HashSet<usize> = waiting.iter().map(|call| call.call.index).collect();
        let context = |call: &PlannedCall, place: Place| {
            ToolContext::new(
                call.call.id.clone(),
                call.call.tool.clone(),
                Arc::clone(&self.clock),
                self.budget.clone(),
                trace.sink(),
                place,
            )
            .with_cancel(self.cancel.clone())
            .with_services(self.services.clone())
            .with_values(Arc::clone(&self.values))
            .with_resume(self.log.inside(&call.call.id))
        };
        let planned = std::mem::take(&mut planned);
        let finished = dispatch::run(planned, trace, &self.budget, &reply.message, context).await;
        let mut stop = None;
        let mut ended = None;
        let mut asked = Vec::new();
        for Finished { index, observation, status, value, blob, asks } in finished {
            if !asks.is_empty() {
                asked.push((index, asks));
                continue;
            }
            if let (Some(blob), Some(turn)) = (blob, state.last_turn()) {
                let text = format!("the whole result is at blob:{blob}, read it with system:read_blob");
                turn.notes.push(observe::note(&text));
            }
            if status == ToolStatus::Refused {
                state.settle_refused(index, observation);
                continue;
            }
            let (_, repetition) = state.settle(index, observation);
            match repetition {
                Repetition::None => {}
                Repetition::Warn(_) => trace.emit(EventBody::AgentWarning {
                    kind: "loop".into(),
                    message: "the same call gave the same result again and again".into(),
                }),
                Repetition::Stop => stop = Some(End::new(ExitReason::LoopDetected)),
            }
            ended = ended.or(value);
        }
        let waits = !held.is_empty() || !asked.is_empty();
        if waits && !self.cancel.is_cancelled() {
            let mut end = wait_for_people(trace, &waiting);
            end.add_asked(state, asked);
            return Some(end);
        }
        Self::tell_observations(state, trace);
        if self.cancel.is_cancelled() {
            return Some(End::new(ExitReason::Cancelled));
        }
        if let Some(value) = ended {
            state.text = Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned));
            state.value = Some(value);
            return Some(End::new(ExitReason::Completed));
        }
        if last {
            return Some(End::new(ExitReason::MaxTurns));
        }
        stop
    }

    /// Tells the observations of the last turn, in the order of its calls.
    fn tell_observations(state: &mut AgentState, trace: &Trace) {
        let Some(turn) = state.last_turn() else { return };
        for observation in turn.observations() {
            let place = Place { call: observation.call.clone(), ..trace.place() };
            trace.emit_at(
                place,
                EventBody::AgentObservation {
                    tool: Some(observation.tool.clone()).filter(|tool| !tool.is_empty()),
                    text: observation.line(),
                },
            );
        }
    }

    fn finish(&self, state: &AgentState, trace: &Trace, end: End) -> RunOutcome {
        self.log.go_on();
        let partial = AgentState::is_partial(end.exit);
        let status = exit_status(end.exit);
        if status == agent_types::RunStatus::Waiting {
            let asks = end.pending.iter().map(|pending| agent_types::AskSummary {
                ask: pending.ask.as_str().into(),
                tool: Some(pending.tool.clone()),
                arguments: Some(Arc::clone(&pending.arguments)),
                path: pending.path.clone(),
                prompt: pending.prompt.clone(),
            });
            trace.emit(EventBody::RunWaiting { exit: Some(end.exit), asks: asks.collect() });
        } else {
            trace.emit(EventBody::RunFinished {
                status,
                exit: Some(end.exit),
                kind: end.kind,
                partial: Some(partial),
                message: end.error.clone(),
            });
        }
        RunOutcome {
            run: self.log.run().clone(),
            exit: end.exit,
            text: state.text.clone().unwrap_or_default(),
            value: state.value.clone(),
            partial,
            usage: state.usage,
            pending: end.pending,
            error: end.error,
            history: state.history().to_vec(),
        }
    }
}

/// Ends the run for now: these calls need a person.
fn wait_for_people(trace: &Trace, waiting: &[PlannedCall]) -> End {
    let unknown = |call: &&PlannedCall| call.verdict == Verdict::Reconcile;
    let exit = if waiting.iter().any(|call| unknown(&call)) {
        ExitReason::NeedsReconciliation
    } else {
        ExitReason::AwaitingApproval
    };
    let mut end = End::new(exit);
    for PlannedCall { call, verdict, .. } in waiting {
        if *verdict == Verdict::Run {
            continue;
        }
        let place = Place { call: Some(call.id.clone()), ..trace.place() };
        let state = ApprovalState::Asked;
        let reason = (*verdict == Verdict::Reconcile)
            .then(|| "it was at work when the process ended: `retry`, `skip` or `done`?".to_owned());
        trace.emit_at(place, EventBody::AgentToolApproval { tool: call.tool.clone(), state, reason });
        end.pending.push(PendingCall {
            ask: call.id.to_string(),
            tool: call.tool.clone(),
            arguments: Arc::new(call.arguments.clone()),
            path: None,
            prompt: None,
        });
    }
    end
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a price times tokens, far below what a double counts exactly"
)]
fn price(tokens: u64, millionth: Option<f64>) -> u64 {
    millionth.map_or(0, |price| (tokens as f64 * price.max(0.0)).round() as u64)
}

/// The parameters of a profile as the provider's.
pub(crate) fn parameters(profile: &AgentProfile) -> ModelParameters {
    let own = profile.llm.as_ref().map(|llm| llm.parameters.clone()).unwrap_or_default();
    let known = own.into_iter().filter(|(name, _)| name != "context_window");
    serde_json::from_value(Value::Object(known.collect())).unwrap_or_default()
}

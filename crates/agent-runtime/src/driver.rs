//! Loop around the state machine: asks the model, runs the calls, emits events.

use std::sync::Arc;
use std::time::Duration;

use agent_types::{
    Budget, BudgetExceeded, BudgetKey, CallId, CallSummary, Clock, EventBody, EventLocation, EventSink,
    ExitReason, RunStatus, Usage,
};
use futures::future::{Either, select};
use llm_provider::{Constraint, LlmProvider, LlmRequest, ModelParameters};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use tool_registry::{Services, ToolSource, UsageMeter};

use crate::agent::ApprovalMode;
use crate::ask::{Answer, AskContext, NoAnswer, Question, ask, finished, started};
use crate::calls::emit_observation;
use crate::decide::{Reply, decide};
use crate::deliberate::{Account, Deliberation, DeliberationFault, Deliberator, replayed};
use crate::end::End;
use crate::guardrail::Guardrail;
use crate::input::AgentInput;
use crate::observe;
use crate::offer::ToolOffer;
use crate::outcome::{RunOutcome, exit_status};
use crate::profile::{AgentProfile, OnLimit};
use crate::prompt::{self, Protocol};
use crate::resume::{RunLog, record_of_cost};
use crate::state::{AgentState, Next};
use crate::structured::AnswerSchema;
use crate::trace::Trace;
use crate::window::{View, Window};

/// Everything that a run needs and does not change.
pub(crate) struct Driver {
    pub(crate) profile: Arc<AgentProfile>,
    pub(crate) model: Arc<dyn LlmProvider>,
    /// Author of the replies: the model, or its replacement.
    pub(crate) deliberator: Arc<dyn Deliberator>,
    /// Something stands in for the model.
    pub(crate) stands_in: bool,
    pub(crate) source: Arc<dyn ToolSource>,
    /// The tools of the beginning.
    pub(crate) offer: ToolOffer,
    pub(crate) protocol: Protocol,
    pub(crate) parameters: ModelParameters,
    pub(crate) answers: Option<AnswerSchema>,
    pub(crate) guardrails: Vec<Arc<dyn Guardrail>>,
    pub(crate) approval: ApprovalMode,
    /// Values for tools that the model can neither see nor set.
    pub(crate) values: Arc<Map<String, Value>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) services: Services,
    pub(crate) budget: Budget,
    /// Tokens of agents inside calls.
    pub(crate) meter: Arc<UsageMeter>,
    pub(crate) cancel: CancellationToken,
    pub(crate) log: Arc<RunLog>,
    /// The call that this agent answers, where it is one inside another.
    pub(crate) inside: Option<CallId>,
}

impl Driver {
    /// Answers one input. Always ends with an outcome; a top-level run ends with `run.finished` or `run.waiting` too.
    pub(crate) async fn run(&self, state: &mut AgentState, input: AgentInput) -> RunOutcome {
        let trace = Trace::root(Arc::clone(&self.log), self.budget.depth());
        if self.inside.is_none() {
            trace.emit(EventBody::RunStarted {
                agent: Some(self.profile.id.clone()),
                workflow: None,
                message: Some(input.text()),
                inputs: None,
            });
        }
        let text = input.text();
        state.begin(input);
        warn_of_orphans(state, &trace);
        let end = match self.guarded(&text).await {
            Some(end) => end,
            None => self.within_wall_time(state, &trace).await,
        };
        if end.exit == ExitReason::Cancelled {
            self.end_tasks(state).await;
        }
        self.finish(state, &trace, end)
    }

    /// The end that a guardrail gives a run before it begins.
    async fn guarded(&self, text: &str) -> Option<End> {
        for guard in &self.guardrails {
            if let Err(blocked) = guard.input(text).await {
                return Some(End::blocked(guard.name(), blocked.reason));
            }
        }
        None
    }

    /// Runs the turns within the run's wall time.
    async fn within_wall_time(&self, state: &mut AgentState, trace: &Trace) -> End {
        let Some(limit) = self.budget.limits().wall_ms else { return self.turns(state, trace).await };
        let turns = std::pin::pin!(self.turns(state, trace));
        match select(turns, self.clock.sleep(Duration::from_millis(limit))).await {
            Either::Left((end, _)) => end,
            Either::Right(((), turns)) => {
                // Calls under way end as cancelled, so that each has its result.
                self.cancel.cancel();
                turns.await;
                End::wall_time(limit).emit_limit(trace)
            }
        }
    }

    async fn turns(&self, state: &mut AgentState, trace: &Trace) -> End {
        let mut offer = self.offer.clone();
        let mut limit_met: Option<End> = None;
        loop {
            if self.cancel.is_cancelled() && !self.log.has_reply() {
                return End::new(ExitReason::Cancelled);
            }
            if let Some(exceeded) = self.exceeded_budget() {
                return limit_met.unwrap_or_else(|| End::budget_exceeded(exceeded).emit_limit(trace));
            }
            state.turn += 1;
            let turn = state.turn;
            let trace = trace.span(|place| place.turn = Some(turn));
            trace.emit(EventBody::AgentTurnStarted {});
            if let Some(change) = offer.refresh(&*self.source) {
                trace.emit(change.into_event());
            }
            let last = limit_met.is_some() || self.is_last_turn();
            let (began, used) = (self.clock.elapsed(), state.usage);
            let end = self.turn(state, &offer, &trace, last).await;
            log_turn(state, &trace, used, self.clock.elapsed().saturating_sub(began));
            if !end.as_ref().is_some_and(|end| end.within_turn) {
                trace.emit(EventBody::AgentTurnFinished {});
            }
            match end {
                None => {}
                Some(end)
                    if end.exit == ExitReason::AwaitingResult
                        && !end.within_turn
                        && self.wake(state, &trace) => {}
                Some(end) if end.exit == ExitReason::AwaitingResult => return end,
                // The model may say what it has, once.
                Some(end) if end.is_limit() && limit_met.is_none() && self.wants_final_answer() => {
                    limit_met = Some(end);
                }
                Some(end) => return limit_met.map_or(end, |met| End { pending: Vec::new(), ..met }),
            }
        }
    }

    /// Takes a turn out of the budget, or says what is used up.
    fn exceeded_budget(&self) -> Option<BudgetExceeded> {
        let before = [BudgetKey::Tokens, BudgetKey::CostMicros];
        let used_up = before.into_iter().find_map(|key| self.budget.spent(key));
        used_up.or_else(|| self.budget.take(BudgetKey::Turns).err())
    }

    /// One pass: ask, read, run. `None` when another pass follows.
    async fn turn(
        &self,
        state: &mut AgentState,
        offer: &ToolOffer,
        trace: &Trace,
        last: bool,
    ) -> Option<End> {
        if let Some(before) = state.last_turn().filter(|_| last) {
            before.notes.push(observe::note("this is the last turn"));
        }
        let request = self.request(state, offer, trace).await;
        let prefix = self.inside.as_ref().map_or_else(|| "c".to_owned(), |call| format!("{call}."));
        let question = Question { tools: &offer.set, first_call: state.calls + 1, prefix: &prefix };
        let Answer { response, parsed } = match self.ask(state, request, offer, &question, trace).await {
            Ok(answer) => answer,
            Err(NoAnswer::Cancelled) => return Some(End::new(ExitReason::Cancelled)),
            Err(NoAnswer::Fault(DeliberationFault::Waiting(asks))) => {
                return Some(End::asked(state.turn, self.deliberator.asks_as().as_ref(), asks));
            }
            Err(NoAnswer::Fault(fault)) => return Some(End::llm(&fault)),
        };
        let mut reply = decide(&response, &parsed, &question, &state.suspects);
        reply.turn.frame = self.frame();
        Self::emit_reply(trace, &reply);
        let corrections = self.budget.limits().corrections.unwrap_or(u64::MAX);
        let next = state.take_reply(&mut reply, corrections);
        if next != Next::Answer && !reply.message.is_empty() {
            trace.emit(EventBody::AgentMessage { text: reply.message.clone(), r#final: false });
        }
        match next {
            Next::Answer => self.answer(state, trace, reply.message, last).await,
            Next::Correct | Next::GiveUp => {
                Self::emit_observations(state, trace);
                (next == Next::GiveUp).then(|| End::new(ExitReason::SelfCorrectionFailed))
            }
            Next::Run => self.run_calls(state, &offer.tools, trace, reply, last).await,
        }
    }

    /// The reply of the log, or a new one.
    async fn ask(
        &self,
        state: &mut AgentState,
        request: LlmRequest,
        offer: &ToolOffer,
        question: &Question<'_>,
        trace: &Trace,
    ) -> Result<Answer, NoAnswer> {
        let digest = state.window.0.as_ref().map(Window::digest).unwrap_or_default();
        let beginning = started(self.deliberator.name(), &request, digest);
        let account = Account::default();
        let known = self.log.reply();
        let known_cost = known.as_ref().map(|(_, cost)| *cost);
        let turn = Deliberation { driver: self, state, offer, trace, request, account: &account };
        let reply = async {
            if let Some((response, _)) = known {
                return Ok(replayed(response));
            }
            self.log.resume();
            self.deliberator.deliberate(turn).await
        };
        let winds_down = self.deliberator.winds_down();
        let context =
            AskContext { clock: &*self.clock, cancel: &self.cancel, winds_down, emits_pieces: true };
        let answer = ask(context, beginning, reply, question, trace).await?;
        let cost = known_cost.unwrap_or_else(|| account.counted(BudgetKey::CostMicros));
        if known_cost.is_some() {
            self.budget.add(BudgetKey::CostMicros, cost);
        }
        if self.stands_in {
            trace.emit_kept(finished(&answer), || record_of_cost(cost));
        } else {
            trace.emit(finished(&answer));
        }
        self.count_beyond(state, answer.response.usage, &account);
        Ok(answer)
    }

    /// Takes a text as the answer, if it may be one.
    async fn answer(&self, state: &mut AgentState, trace: &Trace, text: String, last: bool) -> Option<End> {
        for guard in &self.guardrails {
            if let Err(blocked) = guard.output(&text).await {
                state.text = None;
                return Some(End::blocked(guard.name(), blocked.reason));
            }
        }
        if let Some(schema) = &self.answers {
            match schema.read(&text) {
                Ok(value) => state.value = Some(value),
                Err(faults) => return self.refuse_answer(state, trace, &faults),
            }
        }
        state.faulty = 0;
        trace.emit(EventBody::AgentMessage { text, r#final: true });
        if !state.tasks.is_empty() && !last {
            return Some(End::awaits(&state.tasks));
        }
        Some(End::new(if last { ExitReason::MaxTurns } else { ExitReason::Completed }))
    }

    /// Takes a value that a tool ends the run with as the answer, if it may be one.
    pub(crate) fn take_value(&self, state: &mut AgentState, trace: &Trace, value: Value) -> Option<End> {
        let value = match self.answers.as_ref().map(|schema| schema.check(value.clone())) {
            Some(Err(faults)) => return self.refuse_answer(state, trace, &faults),
            Some(Ok(value)) => value,
            None => value,
        };
        state.text = Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        state.value = Some(value);
        Some(End::new(ExitReason::Completed))
    }

    /// Reports the faults of its answer to the model.
    fn refuse_answer(&self, state: &mut AgentState, trace: &Trace, faults: &str) -> Option<End> {
        let observation = observe::unfit(faults);
        emit_observation(&observation, trace);
        if let Some(turn) = state.last_turn() {
            turn.notes.push(observation);
        }
        let corrections = self.budget.limits().corrections.unwrap_or(u64::MAX);
        let gives_up = state.take_fault(corrections) == Next::GiveUp;
        gives_up.then(|| End::new(ExitReason::SelfCorrectionFailed))
    }

    fn wants_final_answer(&self) -> bool {
        self.profile.on_limit == Some(OnLimit::FinalAnswer)
    }

    /// Returns `true` in the last turn, in which the model should answer.
    fn is_last_turn(&self) -> bool {
        self.wants_final_answer() && self.budget.spent(BudgetKey::Turns).is_some()
    }

    /// Delimiter of results for the model: constant in one run, and secret outside.
    pub(crate) fn frame(&self) -> String {
        let run = self.log.run().as_str();
        run[run.len().saturating_sub(8)..].to_owned()
    }

    /// Builds the next request; an older part that has become too long is compacted first.
    async fn request(&self, state: &mut AgentState, offer: &ToolOffer, trace: &Trace) -> LlmRequest {
        let offered = &offer.tools;
        let frame = self.frame();
        let view = View { profile: &self.profile, protocol: self.protocol, frame: &frame };
        let limit = self.compact_from().unwrap_or(usize::MAX);
        if state.window.of(&view, offered, &state.history).tokens() > limit
            && self.compact(state, trace, true).await
        {
            state.window.of(&view, offered, &state.history);
        }
        let messages = state.window.of(&view, offered, &state.history).messages();
        let tools = match self.protocol {
            Protocol::Text => Vec::new(),
            Protocol::Native => {
                prompt::direct(offered).map(|tool| tool_schema::tool_spec(tool.definition())).collect()
            }
        };
        let mut request =
            LlmRequest::new(messages).with_tools(tools).with_parameters(self.parameters.clone());
        // A server that holds the model to a schema would keep it from calling tools in text.
        if offered.is_empty() || self.protocol == Protocol::Native {
            request.response_schema.clone_from(&self.profile.output_schema);
        }
        if self.protocol == Protocol::Text && request.response_schema.is_none() {
            request.constraint = self.constraint(offer, trace);
        }
        request
    }

    /// Constraint on the reply, where the model asks for a grammar. Tools that the grammar does not support are
    /// reported once.
    fn constraint(&self, offer: &ToolOffer, trace: &Trace) -> Option<Constraint> {
        let (grammar, is_first) = offer.constraint(self.model.info());
        for tool in grammar.refused.iter().filter(|_| is_first) {
            trace.emit(EventBody::AgentWarning {
                kind: "not_in_grammar".into(),
                message: format!(
                    "no call of {} can be written under its grammar: {}: {}",
                    tool.tool, tool.path, tool.why
                ),
            });
        }
        grammar.constraint.clone()
    }

    pub(crate) fn count(&self, state: &mut AgentState, usage: Usage) {
        state.usage += usage;
        self.budget.add(BudgetKey::Tokens, usage.total);
        self.budget.add(BudgetKey::CostMicros, self.model.info().cost_micros(usage));
    }

    /// The same for a reply; what was counted while it was made is not counted again.
    fn count_beyond(&self, state: &mut AgentState, usage: Usage, account: &Account) {
        if !self.stands_in {
            return self.count(state, usage);
        }
        state.usage += usage;
        self.budget.add(BudgetKey::Tokens, usage.total.saturating_sub(account.counted(BudgetKey::Tokens)));
    }

    pub(crate) fn emit_reply(trace: &Trace, reply: &Reply) {
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
            let place = EventLocation { call: Some(call.id.clone()), ..trace.place() };
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

    fn finish(&self, state: &AgentState, trace: &Trace, end: End) -> RunOutcome {
        let partial = AgentState::is_partial(end.exit);
        let status = exit_status(end.exit);
        if status != RunStatus::Waiting {
            self.log.resume();
        }
        match status {
            _ if self.inside.is_some() => {}
            RunStatus::Waiting => {
                self.log.resume_with_news();
                let asks = end.pending.iter().map(crate::outcome::PendingCall::summary);
                trace.emit(EventBody::RunWaiting { exit: Some(end.exit), asks: asks.collect() });
            }
            status => trace.emit(EventBody::RunFinished {
                status,
                exit: Some(end.exit),
                kind: end.kind,
                partial: Some(partial),
                message: end.error.clone(),
            }),
        }
        // A run that waits for the same as before emits nothing.
        self.log.resume_with_news();
        RunOutcome {
            run: self.log.run().clone(),
            exit: end.exit,
            text: state.text.clone().unwrap_or_default(),
            value: state.value.clone(),
            partial,
            usage: {
                let mut usage = state.usage;
                usage += self.meter.total();
                usage
            },
            pending: end.pending,
            error: end.error,
            history: state.history().to_vec(),
        }
    }
}

/// A line of the developer log: what a turn did, and what it cost.
fn log_turn(state: &AgentState, trace: &Trace, before: Usage, took: Duration) {
    // A turn that is done again has its line already.
    if !trace.log().is_live() {
        return;
    }
    let calls = match state.history.last() {
        Some(crate::Exchange::Turn(turn)) => turn.calls.iter().map(|call| call.tool.as_str()).collect(),
        _ => Vec::new(),
    };
    let calls = if calls.is_empty() { "no calls".to_owned() } else { format!("calls {}", calls.join(", ")) };
    let (read, written) = (state.usage.input - before.input, state.usage.output - before.output);
    let message = format!("{calls}; {read} tokens read, {written} written; {} ms", took.as_millis());
    let path = Some(Arc::from(format!("turn[{}]", state.turn)));
    let place = EventLocation { path, ..trace.place() };
    trace.emit_at(place, EventBody::LogLine { level: "debug".to_owned(), message });
}

fn warn_of_orphans(state: &mut AgentState, trace: &Trace) {
    let count = std::mem::take(&mut state.orphans);
    if count > 0 {
        trace.emit(EventBody::AgentWarning {
            kind: "interrupted".into(),
            message: format!("{count} calls of the conversation have no result; they count as interrupted"),
        });
    }
}

/// The parameters of a profile as the provider's.
pub(crate) fn parameters(profile: &AgentProfile) -> ModelParameters {
    let own = profile.llm.as_ref().map(|llm| llm.parameters.clone()).unwrap_or_default();
    let known = own.into_iter().filter(|(name, _)| name != "context_window");
    serde_json::from_value(Value::Object(known.collect())).unwrap_or_default()
}

//! One run: the machine, and the effects that it orders.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use agent_types::{BudgetKey, EventBody, EventLocation, ExitReason, Usage, estimate_tokens};
use futures::future::{Either, select};

use super::call_env::CallEnv;
use super::calls::Calls;
use super::compact::{MAX_COMPACTIONS, Need, compaction};
use super::finish::finish;
use super::offer::ToolOffer;
use super::parts::Driver;
use super::request::{TooLong, answer, request, shown};
use super::tasks::{cancel_tasks, ended_tasks};
use super::trace::Trace;
use crate::guardrail::Blocked;
use crate::input::AgentInput;
use crate::machine::{
    AgentMachine, Answer, Block, CallDisposition, Effect, End, Grant, Input, Judgement, NoReply, PlannedCall,
};
use crate::outcome::RunOutcome;
use crate::prompt::window::{Shown, Window};
use crate::requests::record_of_request;
use crate::state::AgentState;

/// Answers one input. Always ends with an outcome; a top-level run ends with `run.finished` or `run.waiting` too.
pub(crate) async fn run(driver: &Driver, state: &mut AgentState, input: AgentInput) -> RunOutcome {
    let root = Trace::root(Arc::clone(&driver.context.log), driver.context.budget.depth());
    let mut session = Session {
        machine: AgentMachine::new(driver.rules(), std::mem::take(&mut state.conversation)),
        window: std::mem::take(&mut state.window).begin_run(),
        offer: driver.offer.clone(),
        turn: root.clone(),
        root,
        began: (Duration::ZERO, Usage::default()),
        calls: None,
        knows_cancel: false,
        learned: None,
        driver,
    };
    let end = Box::pin(session.within_wall_time(Input::Begin(input))).await;
    let Session { machine, window, root, .. } = session;
    if end.exit == ExitReason::Cancelled {
        cancel_tasks(&driver.context, machine.conversation()).await;
    }
    let outcome = finish(&driver.context, machine.conversation(), &root, end);
    *state = AgentState { conversation: machine.into_conversation(), window };
    outcome
}

/// A run under way.
struct Session<'d> {
    driver: &'d Driver,
    machine: AgentMachine,
    window: Shown,
    /// The tools of the turn.
    offer: ToolOffer,
    root: Trace,
    /// Emitter of the turn; that of the run outside of turns.
    turn: Trace,
    /// Time and tokens at the beginning of the turn.
    began: (Duration, Usage),
    /// Calls of the turn.
    calls: Option<Calls>,
    /// The machine was given the cancellation of the run.
    knows_cancel: bool,
    /// Window that the model's server taught in this run.
    learned: Option<u64>,
}

impl Session<'_> {
    /// Runs the turns within the run's wall time.
    async fn within_wall_time(&mut self, input: Input) -> End {
        let context = &self.driver.context;
        let Some(limit) = context.budget.limits().wall_ms else { return self.drive(input).await };
        {
            let driving = std::pin::pin!(self.drive(input));
            let timer = context.clock.sleep(Duration::from_millis(limit));
            match select(driving, timer).await {
                Either::Left((end, _)) => return end,
                Either::Right(((), driving)) => {
                    // Calls under way end as cancelled, so that each has its result.
                    context.cancel.cancel();
                    driving.await;
                }
            }
        }
        self.drive(Input::OutOfTime(limit)).await
    }

    /// Gives the machine an input and performs its effects until it finishes.
    async fn drive(&mut self, input: Input) -> End {
        let mut effects = VecDeque::new();
        self.step(input, &mut effects);
        loop {
            while let Some(effect) = effects.pop_front() {
                let input = match effect {
                    Effect::Finish(end) => return *end,
                    effect => self.perform(effect).await,
                };
                if let Some(input) = input {
                    self.step(input, &mut effects);
                }
            }
            let called = match &mut self.calls {
                Some(calls) => calls.next().await,
                None => None,
            };
            // A call that was dropped was dropped with the run.
            let Some(result) = called else { return End::new(ExitReason::Cancelled) };
            self.step(Input::Called(Box::new(result)), &mut effects);
        }
    }

    fn step(&mut self, input: Input, effects: &mut VecDeque<Effect>) {
        let is_about_calls = matches!(input, Input::Reviewed(_) | Input::Called(_));
        if is_about_calls && !self.knows_cancel && self.driver.context.cancel.is_cancelled() {
            self.knows_cancel = true;
            effects.extend(self.machine.step(Input::Cancelled));
        }
        effects.extend(self.machine.step(input));
    }

    /// Performs an effect; returns its result where there is one at once.
    async fn perform(&mut self, effect: Effect) -> Option<Input> {
        match effect {
            Effect::Emit(emission) => {
                self.turn.perform(*emission, &self.root);
                None
            }
            Effect::Admit(text) => Some(Input::Admitted(self.admit(&text).await)),
            Effect::Grant => Some(Input::Granted(self.grant())),
            Effect::OpenTurn(turn) => {
                self.open_turn(turn);
                None
            }
            Effect::Ask { compactions } => Some(self.ask(compactions).await),
            Effect::Review(calls) => Some(self.review(&calls).await),
            Effect::Call(order) => {
                let result = self.calls.as_mut()?.start(*order)?;
                Some(Input::Called(Box::new(result)))
            }
            Effect::CancelCalls => {
                self.calls.as_ref()?.cancel();
                None
            }
            Effect::Judge(answer) => Some(Input::Judged(self.judge(answer).await)),
            Effect::CloseTurn { is_over } => {
                self.close_turn(is_over);
                None
            }
            Effect::Wake => {
                let ends = ended_tasks(&self.driver.context, self.machine.conversation());
                Some(Input::Woken(ends))
            }
            Effect::Finish(_) => None,
        }
    }

    /// The block that a guardrail gives a run before it begins.
    async fn admit(&self, text: &str) -> Option<Block> {
        for guard in &self.driver.guardrails {
            if let Err(Blocked { reason }) = guard.input(text).await {
                return Some(Block { guard: guard.name().to_owned(), reason });
            }
        }
        None
    }

    /// Takes a turn out of the budget, or says what is used up.
    fn grant(&mut self) -> Grant {
        self.turn = self.root.clone();
        let context = &self.driver.context;
        if context.cancel.is_cancelled() && !context.log.has_reply(self.machine.conversation().turn() + 1) {
            return Grant::Cancelled;
        }
        let before = [BudgetKey::Tokens, BudgetKey::CostMicros];
        let used_up = before.into_iter().find_map(|key| context.budget.spent(key));
        match used_up.map_or_else(|| context.budget.take(BudgetKey::Turns), Err) {
            Err(exceeded) => Grant::Exceeded(Box::new(End::budget_exceeded(exceeded))),
            Ok(()) => Grant::Turn { is_last: context.budget.spent(BudgetKey::Turns).is_some() },
        }
    }

    fn open_turn(&mut self, turn: u32) {
        self.turn = self.root.turn(turn);
        self.turn.emit(EventBody::AgentTurnStarted {});
        if let Some(change) = self.offer.refresh(&*self.driver.source) {
            self.turn.emit(change.into_event());
        }
        self.began = (self.driver.context.clock.elapsed(), self.machine.conversation().usage());
    }

    fn close_turn(&self, is_over: bool) {
        // A turn that is replayed has its line already.
        if self.driver.context.log.is_live() {
            self.log_turn();
        }
        if is_over {
            self.turn.emit(EventBody::AgentTurnFinished {});
        }
    }

    /// Emits a line of the developer log: the calls of a turn, and its cost.
    fn log_turn(&self) {
        let (began, before) = self.began;
        let took = self.driver.context.clock.elapsed().saturating_sub(began);
        let conversation = self.machine.conversation();
        let calls = conversation.last_turn().map(|turn| turn.calls.as_slice()).unwrap_or_default();
        let calls: Vec<&str> = calls.iter().map(|call| call.tool.as_str()).collect();
        let calls =
            if calls.is_empty() { "no calls".to_owned() } else { format!("calls {}", calls.join(", ")) };
        let usage = conversation.usage();
        let (read, written) = (usage.input - before.input, usage.output - before.output);
        let message = format!("{calls}; {read} tokens read, {written} written; {} ms", took.as_millis());
        let path = Some(Arc::from(format!("turn[{}]", conversation.turn())));
        let place = EventLocation { path, ..self.turn.place() };
        self.turn.emit_at(place, EventBody::LogLine { level: "debug".to_owned(), message });
    }

    /// Asks for a reply. An older part of the conversation that has become too long is compacted first; a conversation
    /// that does not fit all the same is not sent.
    async fn ask(&mut self, compactions: u8) -> Input {
        let Self { driver, machine, window, offer, turn, learned, .. } = self;
        let (conversation, log) = (machine.conversation(), &driver.context.log);
        let window_now = shown(driver, conversation, window, offer);
        let used = window_now.tokens();
        // Neither the instructions nor the message can be compacted.
        let least = window_now.pinned() + conversation.last_user_message().map_or(0, estimate_tokens);
        let room = driver.room(*learned).map(|room| room.beside(window_now.pinned()));
        // What the log has was decided before; it is not decided anew by another estimate.
        let is_free = !log.has_reply(conversation.turn());
        let may_fit = room.filter(|room| least <= room.most);
        if let Some(need) = may_fit.and_then(|room| room.need(used, compactions))
            && (is_free || log.has_summary(conversation.turn()))
            && let Some(summary) = compaction(driver, conversation, need, room).await
        {
            *window = Shown::default();
            return Input::Compacted(summary);
        }
        if let Some(room) = room.filter(|room| used > room.most && is_free)
            && !driver.is_replaced
            && !driver.context.cancel.is_cancelled()
        {
            return Input::Unanswered(NoReply::TooLong { used: used as u64, limit: room.most as u64 });
        }
        let mut requested = request(driver, conversation, window, offer, turn);
        if is_free && !driver.is_replaced {
            requested.record = record_of_request(window, &requested.request, log);
        }
        match answer(driver, conversation, offer, turn, requested).await {
            Ok(input) => input,
            Err(too_long) => self.shorten(too_long, used, compactions).await,
        }
    }

    /// Believes a server that found the conversation too long: compacts it for one more request, once in a run.
    async fn shorten(&mut self, TooLong { message, window }: TooLong, used: usize, compactions: u8) -> Input {
        let Self { driver, machine, turn, learned, .. } = self;
        let is_first = learned.is_none();
        let shorter = (used as u64) / 4 * 3;
        *learned = Some(window.map_or(shorter, |window| window.min(shorter)));
        let room = driver.room(*learned);
        if is_first && compactions < MAX_COMPACTIONS {
            let taken = window.map_or_else(|| format!("fewer than {used}"), |window| window.to_string());
            turn.emit(EventBody::AgentWarning {
                kind: "context_window".into(),
                message: format!(
                    "the model's server takes {taken} tokens; set `context_window` of the model's entry to that"
                ),
            });
            if let Some(summary) = compaction(driver, machine.conversation(), Need::WindowSpace, room).await {
                self.window = Shown::default();
                return Input::Compacted(summary);
            }
        }
        let code = "llm_context_too_long".to_owned();
        Input::Unanswered(NoReply::Failed { code, message, shown: String::new() })
    }

    /// Tokens that each result of so many calls may have beside the rest of the conversation.
    fn result_tokens(&self, calls: usize) -> Option<usize> {
        let room = self.driver.room(self.learned)?;
        let sent = self.window.0.as_ref().map_or(0, Window::tokens);
        let turn = self.machine.conversation().last_turn();
        let written = turn.map_or(0, |turn| {
            let native = turn.native.iter().map(|call| estimate_tokens(&call.arguments)).sum::<usize>();
            estimate_tokens(&turn.text) + native
        });
        Some(room.most.saturating_sub(sent + written) / calls.max(1))
    }

    /// Asks guardrails, the user's answers and the log about the calls of a reply.
    async fn review(&mut self, planned: &[PlannedCall]) -> Input {
        let result_tokens = self.result_tokens(planned.len());
        let Self { driver, machine, offer, turn, .. } = self;
        let context = &driver.context;
        let calls = self.calls.insert(Calls::new(CallEnv {
            trace: turn.clone(),
            tools: offer.tools.clone(),
            budget: context.budget.clone(),
            meter: Arc::clone(&context.meter),
            clock: Arc::clone(&context.clock),
            services: context.call_services(machine.conversation(), &offer.tools),
            values: Arc::clone(&context.values),
            block: context.cancel.child_token(),
            level: context.budget.depth(),
            result_tokens,
            keeps_output: false,
        }));
        let mut reviews = calls.review(planned);
        for (review, PlannedCall { call, disposition, .. }) in reviews.iter_mut().zip(planned) {
            if matches!(disposition, CallDisposition::Refuse(_)) {
                continue;
            }
            for guard in &driver.guardrails {
                if let Err(Blocked { reason }) = guard.call(&call.tool, &call.arguments).await {
                    review.blocked = Some(reason);
                    break;
                }
            }
        }
        Input::Reviewed(reviews)
    }

    /// Checks an answer with the guardrails and the schema of answers.
    async fn judge(&self, answer: Answer) -> Judgement {
        let Driver { guardrails, answers, .. } = self.driver;
        if let Answer::Text(text) = &answer {
            for guard in guardrails {
                if let Err(Blocked { reason }) = guard.output(text).await {
                    return Judgement::Blocked(Block { guard: guard.name().to_owned(), reason });
                }
            }
        }
        let Some(schema) = answers else { return Judgement::Accepted(None) };
        let value = match answer {
            Answer::Text(text) => schema.read(&text),
            Answer::Value(value) => schema.check(value),
        };
        match value {
            Ok(value) => Judgement::Accepted(Some(value)),
            Err(faults) => Judgement::Unfit(faults),
        }
    }
}

//! The machine of an agent's run.

use agent_types::{EventBody, ExitReason, Observation, ToolStatus, Usage};
use llm_provider::Finish;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::calls::CallBatch;
use super::effect::{Answer, At, Effect, Grant, Input, Judgement, NoReply, WOKEN};
use super::emit::{self, event, observed, recorded, reply_events};
use super::end::End;
use super::loop_guard::Repetition;
use super::observe;
use super::plan::{beyond, plan};
use super::reply::{ReadyCall, Reply};
use super::result::{CallResult, PendingInner};
use super::state::{Conversation, Rules};
use super::tasks::TaskEnd;
use super::waiting::waiting;
use crate::history::Turn;
use crate::input::AgentInput;

/// The machine of an agent's run: takes inputs, gives effects, and does nothing itself.
///
/// It serialises: a machine that is read back between two steps behaves the same. An input that does not belong to
/// the step under way changes nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentMachine {
    rules: Rules,
    conversation: Conversation,
    phase: Phase,
    /// The limit after which the model may say what it has.
    limit: Option<Box<End>>,
    /// The end of the run whose text broke off and is checked; `true` when the text is a reply, which is then shown.
    cut: Option<(Box<End>, bool)>,
    is_cancelled: bool,
}

/// Step under way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Phase {
    Idle,
    Admitting,
    Granting,
    Asking { is_last: bool, compactions: u8 },
    Calling { batch: Box<CallBatch>, is_last: bool },
    Judging { answer: Answer, is_last: bool },
    Waking(Box<End>),
    Over,
}

impl AgentMachine {
    /// Creates the machine of a run that continues a conversation.
    #[must_use]
    pub const fn new(rules: Rules, conversation: Conversation) -> Self {
        Self { rules, conversation, phase: Phase::Idle, limit: None, cut: None, is_cancelled: false }
    }

    /// Creates the machine of calls that were decided on elsewhere, as by another node of a workflow: the turn that holds
    /// them is its conversation. `refuse` gives the reason for refusing the call of a position. Gives its first effect;
    /// when the calls are over, it asks for another turn or finishes.
    #[must_use]
    pub fn with_calls(
        rules: Rules,
        turn: Turn,
        ready: Vec<ReadyCall>,
        refuse: impl Fn(usize) -> Option<String>,
    ) -> (Self, Effect) {
        let batch = CallBatch::new(plan(ready, &rules.profile, rules.approval, refuse), String::new());
        let begin = batch.begin();
        let mut machine = Self::new(rules, Conversation::with_turn(turn));
        machine.phase = Phase::Calling { batch: Box::new(batch), is_last: false };
        (machine, begin)
    }

    /// The conversation so far.
    #[must_use]
    pub const fn conversation(&self) -> &Conversation {
        &self.conversation
    }

    /// The conversation for the next run.
    #[must_use]
    pub fn into_conversation(self) -> Conversation {
        self.conversation
    }

    /// Takes an input and decides.
    pub fn step(&mut self, input: Input) -> Vec<Effect> {
        let mut effects = Vec::new();
        let phase = std::mem::replace(&mut self.phase, Phase::Over);
        match (phase, input) {
            (Phase::Idle, Input::Begin(input)) => self.begin(input, &mut effects),
            (Phase::Admitting, Input::Admitted(None)) => self.next_turn(&mut effects),
            (Phase::Admitting, Input::Admitted(Some(block))) => {
                self.finish(End::blocked(block.guard, block.reason), &mut effects);
            }
            (Phase::Granting, Input::Granted(grant)) => self.granted(grant, &mut effects),
            (Phase::Asking { is_last, compactions }, Input::Compacted(summary)) => {
                let compactions = compactions.saturating_add(1);
                effects.push(self.conversation.compact(summary));
                effects.push(Effect::Ask { compactions });
                self.phase = Phase::Asking { is_last, compactions };
            }
            (Phase::Asking { is_last, .. }, Input::Replied { reply, usage }) => {
                self.replied(*reply, usage, is_last, &mut effects);
            }
            (Phase::Asking { is_last, .. }, Input::Unanswered(none)) => {
                self.unanswered(none, is_last, &mut effects);
            }
            (Phase::Calling { mut batch, is_last }, input) => {
                self.is_cancelled |= input == Input::Cancelled;
                effects = batch.step(input, &mut self.conversation.denied);
                if batch.is_over() {
                    self.called(*batch, is_last, &mut effects);
                } else {
                    self.phase = Phase::Calling { batch, is_last };
                }
            }
            (Phase::Judging { answer, is_last }, Input::Judged(judgement)) => {
                self.judged(answer, judgement, is_last, &mut effects);
            }
            (Phase::Waking(end), Input::Woken(ends)) => self.woken(*end, ends, &mut effects),
            (Phase::Over, Input::OutOfTime(limit)) => self.finish(End::out_of_time(limit), &mut effects),
            (phase, input) => {
                self.is_cancelled |= input == Input::Cancelled;
                self.phase = phase;
            }
        }
        effects
    }

    fn begin(&mut self, input: AgentInput, effects: &mut Vec<Effect>) {
        let text = input.text();
        if self.rules.inside.is_none() {
            let agent = Some(self.rules.profile.id.clone());
            let message = Some(text.clone());
            effects
                .push(event(At::Run, EventBody::RunStarted { agent, workflow: None, message, inputs: None }));
        }
        let orphans = self.conversation.begin(input);
        if orphans > 0 {
            let message =
                format!("{orphans} calls of the conversation have no result; they count as interrupted");
            effects.push(emit::warning(At::Run, "interrupted", message));
        }
        if self.rules.is_guarded {
            effects.push(Effect::Admit(text));
            self.phase = Phase::Admitting;
        } else {
            self.next_turn(effects);
        }
    }

    fn next_turn(&mut self, effects: &mut Vec<Effect>) {
        effects.push(Effect::Grant);
        self.phase = Phase::Granting;
    }

    fn granted(&mut self, grant: Grant, effects: &mut Vec<Effect>) {
        let is_last = match grant {
            Grant::Cancelled => return self.finish(End::new(ExitReason::Cancelled), effects),
            Grant::Exceeded(end) => {
                let end = self.limit.take().unwrap_or_else(|| {
                    effects.extend(limit_event(&end, At::Run));
                    end
                });
                return self.finish(*end, effects);
            }
            Grant::Turn { is_last } => self.limit.is_some() || is_last && self.rules.wants_final_answer(),
        };
        self.conversation.run.turn += 1;
        effects.push(Effect::OpenTurn(self.conversation.run.turn));
        if let Some(before) = self.conversation.last_turn_mut().filter(|_| is_last) {
            before.notes.push(observe::note("this is the last turn"));
        }
        effects.push(Effect::Ask { compactions: 0 });
        self.phase = Phase::Asking { is_last, compactions: 0 };
    }

    fn unanswered(&mut self, none: NoReply, is_last: bool, effects: &mut Vec<Effect>) {
        let (shown, end) = match none {
            NoReply::Cancelled => (String::new(), End::new(ExitReason::Cancelled)),
            NoReply::Failed { code, message, shown } => (shown, End::failed(code, message)),
            NoReply::TooLong { used, limit } => {
                let end = End::too_long(used, limit);
                effects.extend(limit_event(&end, At::Turn));
                (String::new(), end)
            }
            NoReply::Waiting(asks) => {
                let asked = End::asked(self.conversation.run.turn, self.rules.asks_as.as_ref(), asks);
                (String::new(), asked)
            }
        };
        self.break_off(shown, (end, false), is_last, effects);
    }

    /// Ends the turn with a text that broke off; the text is kept, if it may be shown. `true` beside the end when it
    /// is a reply, which is shown as the final message.
    fn break_off(
        &mut self,
        text: String,
        (end, is_reply): (End, bool),
        is_last: bool,
        effects: &mut Vec<Effect>,
    ) {
        if text.is_empty() {
            return self.close_turn(Some(end), effects);
        }
        if self.rules.judges_text {
            effects.push(Effect::Judge(Answer::Text(text.clone())));
            self.cut = Some((Box::new(end), is_reply));
            self.phase = Phase::Judging { answer: Answer::Text(text), is_last };
            return;
        }
        self.keep_cut(text, (end, is_reply), effects);
    }

    /// Keeps a text that broke off and may be shown.
    fn keep_cut(&mut self, text: String, (end, is_reply): (End, bool), effects: &mut Vec<Effect>) {
        if is_reply {
            effects.push(emit::message(text.clone(), true));
        }
        self.conversation.run.text = Some(text);
        self.close_turn(Some(end), effects);
    }

    /// Takes a reply without text and calls: the model is asked once more, with the reason. Nothing of it is kept.
    fn replied_nothing(&mut self, finish: &Finish, usage: Usage, is_last: bool, effects: &mut Vec<Effect>) {
        self.conversation.run.usage += usage;
        let (note, end) = match finish {
            Finish::Other(word) if is_malformed(word) => (unreadable(word), self.count_fault()),
            finish if finish.is_whole() || finish.as_str() == "load" => {
                let is_second = std::mem::replace(&mut self.conversation.run.was_empty, true);
                let end = (is_second || is_last).then(End::empty);
                ("the reply was empty; write the answer, or a call".to_owned(), end)
            }
            finish => (String::new(), Some(End::cut(finish, ""))),
        };
        if end.is_none() {
            let observation = observe::note(&note);
            effects.push(observed(&observation));
            self.conversation.note(observation, &self.rules.frame);
        }
        self.close_turn(end, effects);
    }

    /// The end of a run whose reply did not reach its own end, unless the model may correct that.
    fn cut_off(&self, reply: &Reply) -> Option<End> {
        let is_corrected = match &reply.finish {
            Finish::Other(word) => is_malformed(word) && (reply.refusal.is_some() || !reply.has_calls()),
            Finish::ContentFilter => false,
            // A call that was cut off is asked for once more.
            Finish::Length => reply.refusal.is_some() && !self.conversation.run.was_cut,
            Finish::Stop | Finish::ToolCalls => reply.refusal.is_some(),
        };
        let is_cut = !self.rules.is_replaced && !reply.finish.is_whole() && !is_corrected;
        is_cut.then(|| End::cut(&reply.finish, &reply.message))
    }

    /// Warns once where a budget of tokens or dollars is kept by an estimate.
    fn warn_of_estimate(&mut self, usage: Usage, effects: &mut Vec<Effect>) {
        if usage.estimated
            && self.rules.is_metered
            && !std::mem::replace(&mut self.conversation.run.was_estimated, true)
        {
            let message = "the model's server does not report its tokens; the budget is kept by an estimate";
            effects.push(emit::warning(At::Turn, "usage_estimated", message.to_owned()));
        }
    }

    fn replied(&mut self, reply: Reply, usage: Usage, is_last: bool, effects: &mut Vec<Effect>) {
        effects.extend(reply_events(&reply));
        self.warn_of_estimate(usage, effects);
        if reply.is_empty() && !self.rules.is_replaced && self.conversation.tasks().is_empty() {
            return self.replied_nothing(&reply.finish, usage, is_last, effects);
        }
        let (has_calls, cut) = (reply.has_calls(), self.cut_off(&reply));
        self.conversation.run.was_cut = reply.finish == Finish::Length;
        let Reply { turn, message, ready, refusal, finish, unread, .. } = reply;
        let mut turn = Turn { frame: self.rules.frame.clone(), ..turn };
        let unread = match finish {
            // Some servers give nothing of a call that the model could not write.
            Finish::Other(word) if !has_calls && !self.rules.is_replaced && is_malformed(&word) => {
                Some(observe::note(&unreadable(&word)))
            }
            _ => self.attempt_to_correct(unread, is_last, effects),
        };
        turn.notes.extend(unread.clone());
        self.conversation.take_reply(turn, &message, usage);
        if let Some(end) = cut {
            self.observe_turn(effects);
            self.break_off(message, (end, !has_calls), is_last, effects);
        } else if refusal.is_some() || unread.is_some() {
            if unread.is_some() && !message.is_empty() {
                effects.push(emit::message(message, false));
            }
            let end = self.count_fault();
            self.observe_turn(effects);
            self.close_turn(end, effects);
        } else if has_calls {
            self.conversation.run.faulty = 0;
            let Rules { profile, approval, .. } = &self.rules;
            let calls = plan(ready, profile, *approval, |position| beyond(position, is_last));
            let batch = Box::new(CallBatch::new(calls, message));
            effects.push(batch.begin());
            self.phase = Phase::Calling { batch, is_last };
        } else if self.rules.judges_text {
            effects.push(Effect::Judge(Answer::Text(message.clone())));
            self.phase = Phase::Judging { answer: Answer::Text(message), is_last };
        } else {
            self.accept_text(message, is_last, effects);
        }
    }

    /// Returns the observation about a call that was not read, the first time. The next reply that holds one is the
    /// answer all the same, with a warning: people talk about calls too.
    fn attempt_to_correct(
        &mut self,
        unread: Option<Observation>,
        is_last: bool,
        effects: &mut Vec<Effect>,
    ) -> Option<Observation> {
        let was_unread = std::mem::replace(&mut self.conversation.run.was_unread, unread.is_some());
        self.conversation.run.warning = None;
        let unread = unread.filter(|_| !self.rules.is_replaced)?;
        let is_answer = was_unread || is_last;
        effects.extend(emit::unread_events(&unread, is_answer));
        if is_answer {
            self.conversation.run.warning = Some(emit::UNREAD_ANSWER.to_owned());
        }
        (!is_answer).then_some(unread)
    }

    /// Counts a faulty reply; too many in a row end the run.
    fn count_fault(&mut self) -> Option<End> {
        self.conversation.run.faulty += 1;
        let gives_up = self.rules.corrections.is_some_and(|limit| self.conversation.run.faulty >= limit);
        gives_up.then(|| End::new(ExitReason::SelfCorrectionFailed))
    }

    /// Emits the observations of the last turn, in the order of its calls.
    fn observe_turn(&self, effects: &mut Vec<Effect>) {
        effects.extend(self.conversation.last_turn().into_iter().flat_map(Turn::observations).map(observed));
    }

    fn called(&mut self, batch: CallBatch, is_last: bool, effects: &mut Vec<Effect>) {
        self.conversation.note_edits(batch.edits());
        let held = batch.held().to_vec();
        let (mut value, mut stop, mut inside) = (None, None, Vec::new());
        for result in batch.into_results() {
            let CallResult {
                index,
                observation,
                status,
                value: own,
                task,
                attachments,
                waits,
                end,
                retries: _,
                fault: _,
                output: _,
            } = result;
            if let Some(waits) = waits {
                inside.push((index, waits));
                continue;
            }
            if let Some(task) = task {
                self.conversation.change_tasks(index, task);
            }
            if let Some(call) = self.conversation.last_turn_mut().and_then(|turn| turn.calls.get_mut(index)) {
                call.attachments = attachments;
            }
            value = value.or(own);
            stop = stop.or(end);
            if status == ToolStatus::Refused {
                self.conversation.settle_refused(index, observation);
                continue;
            }
            match self.conversation.settle(index, observation) {
                Repetition::None => {}
                Repetition::Warn(_) => {
                    let message = "the same call gave the same result again and again".to_owned();
                    effects.push(emit::warning(At::Turn, "loop", message));
                }
                Repetition::Stop => stop = stop.or_else(|| Some(End::new(ExitReason::LoopDetected))),
            }
        }
        effects.extend(stop.as_ref().and_then(|stop| limit_event(stop, At::Turn)));
        let waits = !held.is_empty() || !inside.is_empty();
        if waits && stop.is_none() && !self.is_cancelled {
            let end = self.wait(&held, inside, effects);
            return self.close_turn(Some(end), effects);
        }
        self.conversation.close_open_calls();
        self.observe_turn(effects);
        if self.is_cancelled {
            self.close_turn(Some(End::new(ExitReason::Cancelled)), effects);
        } else if let Some(value) = value {
            self.take_value(value, is_last, effects);
        } else {
            let last = is_last.then(|| End::new(ExitReason::MaxTurns));
            self.close_turn(stop.or(last), effects);
        }
    }

    /// The end of a run whose calls wait.
    fn wait(
        &self,
        held: &[super::plan::PlannedCall],
        inside: Vec<(usize, PendingInner)>,
        effects: &mut Vec<Effect>,
    ) -> End {
        let turn = self.conversation.last_turn();
        let call = |index: usize| turn.and_then(|turn| turn.calls.get(index));
        let inside = inside.into_iter().filter_map(|(at, waits)| Some((at, call(at)?, waits))).collect();
        waiting(held, inside, effects)
    }

    /// Takes a value that a tool ends the run with as the answer, if it may be one.
    fn take_value(&mut self, value: Value, is_last: bool, effects: &mut Vec<Effect>) {
        let answer = Answer::Value(value);
        if self.rules.judges_values {
            effects.push(Effect::Judge(answer.clone()));
            self.phase = Phase::Judging { answer, is_last };
        } else {
            self.judged(answer, Judgement::Accepted(None), is_last, effects);
        }
    }

    fn judged(&mut self, answer: Answer, judgement: Judgement, is_last: bool, effects: &mut Vec<Effect>) {
        let cut = self.cut.take().filter(|_| !matches!(judgement, Judgement::Blocked(_)));
        if let (Some((end, is_reply)), Answer::Text(text)) = (cut, &answer) {
            return self.keep_cut(text.clone(), (*end, is_reply), effects);
        }
        match (judgement, answer) {
            (Judgement::Blocked(block), _) => {
                self.conversation.run.text = None;
                self.close_turn(Some(End::blocked(block.guard, block.reason)), effects);
            }
            (Judgement::Unfit(faults), _) => {
                let observation = observe::unfit(&faults);
                effects.push(observed(&observation));
                if let Some(turn) = self.conversation.last_turn_mut() {
                    turn.notes.push(observation);
                }
                let end = self.count_fault();
                self.close_turn(end, effects);
            }
            (Judgement::Accepted(value), Answer::Text(text)) => {
                self.conversation.run.value = value.or_else(|| self.conversation.run.value.take());
                self.accept_text(text, is_last, effects);
            }
            (Judgement::Accepted(value), Answer::Value(own)) => {
                let value = value.unwrap_or(own);
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                self.conversation.run.text = Some(text);
                self.conversation.run.value = Some(value);
                self.close_turn(Some(End::new(ExitReason::Completed)), effects);
            }
        }
    }

    fn accept_text(&mut self, text: String, is_last: bool, effects: &mut Vec<Effect>) {
        self.conversation.run.faulty = 0;
        effects.push(emit::answer(text, self.conversation.run.warning.clone()));
        let tasks = self.conversation.tasks();
        let end = if is_last {
            End::new(ExitReason::MaxTurns)
        } else if tasks.is_empty() {
            End::new(ExitReason::Completed)
        } else {
            End::awaits(tasks)
        };
        self.close_turn(Some(end), effects);
    }

    /// Ends the turn, and the run unless another turn follows.
    fn close_turn(&mut self, end: Option<End>, effects: &mut Vec<Effect>) {
        let is_over = !end.as_ref().is_some_and(|end| end.is_within_turn);
        effects.push(Effect::CloseTurn { is_over });
        match end {
            None => self.next_turn(effects),
            Some(end) if end.exit == ExitReason::AwaitingResult && is_over => {
                effects.push(Effect::Wake);
                self.phase = Phase::Waking(Box::new(end));
            }
            Some(end) if end.exit == ExitReason::AwaitingResult => self.finish(end, effects),
            // The model may say what it has, once.
            Some(end)
                if end.allows_final_answer() && self.limit.is_none() && self.rules.wants_final_answer() =>
            {
                self.limit = Some(Box::new(end));
                self.next_turn(effects);
            }
            Some(end) => {
                let met = self.limit.take().filter(|_| end.exit != ExitReason::Cancelled);
                let end = met.map_or(end, |met| End { pending: Vec::new(), ..*met });
                self.finish(end, effects);
            }
        }
    }

    /// Reports ended tasks to the model; without any the run waits for them.
    fn woken(&mut self, end: End, ends: Vec<TaskEnd>, effects: &mut Vec<Effect>) {
        if ends.is_empty() {
            return self.finish(end, effects);
        }
        for end in &ends {
            let tool = Some(end.observation.tool.clone()).filter(|tool| !tool.is_empty());
            let body = EventBody::AgentObservation { tool, text: end.observation.line() };
            effects.push(recorded(body, WOKEN, serde_json::to_value(end).unwrap_or_default()));
        }
        self.conversation.report_tasks(ends, &self.rules.frame);
        self.next_turn(effects);
    }

    fn finish(&mut self, end: End, effects: &mut Vec<Effect>) {
        if end.kind.as_deref() == Some(super::end::WALL_TIME) {
            effects.extend(limit_event(&end, At::Run));
        }
        effects.push(Effect::Finish(Box::new(end)));
        self.phase = Phase::Over;
    }
}

/// Says that a call could not be read, with the server's word for it.
fn unreadable(word: &str) -> String {
    format!("the call could not be read ({word}); write it again")
}

/// Returns `true` for the words that servers have for a call that the model could not write.
fn is_malformed(word: &str) -> bool {
    let word = word.to_ascii_uppercase();
    ["MALFORMED_FUNCTION_CALL", "MALFORMED_TOOL_CALL", "UNEXPECTED_TOOL_CALL"]
        .iter()
        .any(|known| word.contains(known))
}

/// The event of the reached limit, if there is one.
fn limit_event(end: &End, at: At) -> Option<Effect> {
    let limit = end.limit.as_ref()?;
    let body = EventBody::AgentBudget { key: limit.key.clone(), used: limit.used, limit: limit.limit };
    Some(event(at, body))
}

//! The conversation, and the progress of the run in it.

use std::collections::BTreeMap;
use std::sync::Arc;

use agent_types::{CallId, EventBody, ExitReason, Observation, ObservationCode, ToolId, Usage};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::effect::{Effect, REQUEST, SUMMARY, Summary};
use super::emit::recorded;
use super::loop_guard::{LoopGuard, Repetition};
use super::observe;
use super::plan::{ApprovalMode, PlannedCall};
use super::tasks::{OpenTask, TaskChange, TaskEnd};
use crate::history::{Exchange, Turn};
use crate::input::AgentInput;
use crate::profile::{AgentProfile, OnLimit};
use crate::prompt::injection_guard::UntrustedTexts;

/// Rules of a run, which do not change in it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "independent rules, not states")]
pub struct Rules {
    /// Profile of the agent.
    pub profile: Arc<AgentProfile>,
    /// Policy for calls that need human approval.
    pub approval: ApprovalMode,
    /// Delimiter of results for the model.
    pub frame: String,
    /// The call that the agent answers, where it runs inside another.
    pub inside: Option<CallId>,
    /// The tool that questions during a deliberation are about.
    pub asks_as: Option<ToolId>,
    /// Messages are checked before the model is asked.
    pub is_guarded: bool,
    /// Texts are checked before they are the answer.
    pub judges_text: bool,
    /// Values are checked before they are the answer.
    pub judges_values: bool,
    /// Faulty replies in a row that end the run.
    pub corrections: Option<u64>,
    /// Something stands in for the model.
    pub is_replaced: bool,
    /// Tokens or dollars are limited.
    pub is_metered: bool,
}

impl Rules {
    pub(super) fn wants_final_answer(&self) -> bool {
        self.profile.on_limit == Some(OnLimit::FinalAnswer)
    }
}

/// A conversation between runs, and the progress of the run in it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Conversation {
    history: Vec<Exchange>,
    /// Calls so far; ids count on from here.
    calls: u64,
    guard: LoopGuard,
    /// Calls that a person does not want, by their digest, with the reason.
    pub(super) denied: BTreeMap<String, String>,
    /// Foreign texts that look like calls.
    suspects: UntrustedTexts,
    /// Tasks that calls of this conversation started and whose end was not reported yet.
    tasks: Vec<OpenTask>,
    /// Calls that were found without a result when the conversation was loaded.
    orphans: usize,
    pub(super) run: Progress,
}

/// Progress of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own about the last reply")]
pub(super) struct Progress {
    /// Position in the conversation of the input that started this run.
    asked_at: usize,
    pub(super) turn: u32,
    /// Faulty replies in a row.
    pub(super) faulty: u64,
    /// The last reply was empty.
    pub(super) was_empty: bool,
    /// A call was cut off at the limit of tokens, and asked for once more.
    pub(super) was_cut: bool,
    /// The last reply held a call that was not read, which was reported to the model.
    #[serde(default)]
    pub(super) was_unread: bool,
    /// Warning about the answer: it holds such a call all the same.
    #[serde(default)]
    pub(super) warning: Option<String>,
    /// It was said that tokens are estimated.
    pub(super) was_estimated: bool,
    pub(super) usage: Usage,
    /// The last text for the user.
    pub(super) text: Option<String>,
    /// The answer as a value.
    pub(super) value: Option<Value>,
}

impl Conversation {
    /// The state of a conversation that has been so far.
    ///
    /// A call without a result, as left by a process that died, is recorded as interrupted: its outcome is unknown.
    pub(crate) fn from_history(mut history: Vec<Exchange>) -> Self {
        let mut calls = 0;
        let mut orphans = 0;
        let mut suspects = UntrustedTexts::default();
        for exchange in &mut history {
            let Exchange::Turn(turn) = exchange else { continue };
            calls += turn.calls.len() as u64;
            for call in &mut turn.calls {
                if call.observation.is_none() {
                    orphans += 1;
                    call.observation = Some(observe::interrupted(&call.id, &call.tool));
                }
            }
            // A call that was not read is the model's own.
            let foreign = turn.observations().filter(|own| own.code != ObservationCode::UnreadCall);
            foreign.for_each(|observation| suspects.note(&observation.text));
        }
        Self { history, calls, suspects, orphans, ..Self::default() }
    }

    /// The state of a conversation that consists of a turn.
    pub(super) fn with_turn(turn: Turn) -> Self {
        Self { history: vec![Exchange::Turn(turn)], ..Self::default() }
    }

    /// The conversation so far.
    #[must_use]
    pub fn history(&self) -> &[Exchange] {
        &self.history
    }

    /// Number of calls so far.
    pub(crate) fn calls(&self) -> u64 {
        self.calls
    }

    /// Foreign texts that look like calls.
    pub(crate) fn suspects(&self) -> &UntrustedTexts {
        &self.suspects
    }

    /// Tasks whose end was not reported yet.
    #[must_use]
    pub fn tasks(&self) -> &[OpenTask] {
        &self.tasks
    }

    /// Turn of the run, from 1.
    #[must_use]
    pub fn turn(&self) -> u32 {
        self.run.turn
    }

    /// Tokens of the run.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.run.usage
    }

    /// Warning about the answer of the run.
    #[must_use]
    pub fn warning(&self) -> Option<&str> {
        self.run.warning.as_deref()
    }

    /// The last text for the user in this run.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        self.run.text.as_deref()
    }

    /// The answer as a value.
    #[must_use]
    pub fn value(&self) -> Option<&Value> {
        self.run.value.as_ref()
    }

    /// The input that started the run, with its position.
    pub(crate) fn input(&self) -> Option<(usize, &Exchange)> {
        let at = self.run.asked_at;
        self.history.get(at).map(|exchange| (at, exchange))
    }

    /// Last message of the user in this run.
    pub(crate) fn last_user_message(&self) -> Option<&str> {
        match self.input() {
            Some((_, Exchange::User { text, .. })) => Some(text.as_str()),
            _ => None,
        }
    }

    /// Replaces the older part of the conversation for the model; returns the event of that.
    pub(crate) fn compact(&mut self, summary: Summary) -> Effect {
        let Summary { text, upto, by, usage, request } = summary;
        let mut record = json!({"text": text, "usage": usage});
        if let Some(request) = request {
            record[REQUEST] = request;
        }
        self.run.usage += usage;
        self.history.push(Exchange::Summary { text, upto });
        recorded(EventBody::AgentCompacted { by }, SUMMARY, record)
    }

    /// Begins a run with what sets it to work. Returns the number of calls without a result.
    pub(crate) fn begin(&mut self, input: AgentInput) -> usize {
        self.run = Progress { asked_at: self.history.len(), ..Progress::default() };
        self.history.push(input.into_exchange());
        // What was done or refused for another message says nothing about this one.
        self.guard = LoopGuard::default();
        self.denied.clear();
        std::mem::take(&mut self.orphans)
    }

    /// Notes something for the model in place of a reply that is not kept.
    pub(super) fn note(&mut self, observation: Observation, frame: &str) {
        self.history.push(Exchange::Observed { observations: vec![observation], frame: frame.to_owned() });
    }

    /// Appends a reply. Its text is the last one for the user.
    pub(super) fn take_reply(&mut self, turn: Turn, message: &str, usage: Usage) {
        self.run.usage += usage;
        self.run.was_empty = false;
        self.calls += turn.calls.len() as u64;
        self.history.push(Exchange::Turn(turn));
        if !message.is_empty() {
            self.run.text = Some(message.to_owned());
        }
    }

    /// Sets the one result of a call of the last turn. Reports a call that repeatedly gives the same result.
    pub(super) fn settle(&mut self, index: usize, mut observation: Observation) -> Repetition {
        let Self { history, guard, suspects, .. } = self;
        let Some(Exchange::Turn(turn)) = history.last_mut() else { return Repetition::None };
        let Some(call) = turn.calls.get_mut(index) else { return Repetition::None };
        let arguments = call.edited.as_ref().unwrap_or(&call.arguments);
        let repetition = guard.note(&call.tool, arguments, &observation.text);
        if let Repetition::Warn(count) = repetition {
            observation.text =
                format!("{}\nNote - the same call gave the same result {count} times", observation.text);
        }
        suspects.note(&observation.text);
        call.observation = Some(observation);
        repetition
    }

    /// Sets a result of the runtime for a call of the last turn: it was not started.
    pub(super) fn settle_refused(&mut self, index: usize, observation: Observation) {
        if let Some(call) = self.last_turn_mut().and_then(|turn| turn.calls.get_mut(index)) {
            call.observation = Some(observation);
        }
    }

    /// Applies the change that a call makes to the tasks that the run waits for.
    pub(super) fn change_tasks(&mut self, index: usize, change: TaskChange) {
        match change {
            TaskChange::Read(task) => self.tasks.retain(|open| open.task != task),
            TaskChange::Began(task) => {
                let Some(call) = self.last_turn().and_then(|turn| turn.calls.get(index)) else { return };
                let arguments = call.edited.as_ref().unwrap_or(&call.arguments).clone();
                let open = call.tool_id().map(|tool| OpenTask { task, tool, arguments });
                self.tasks.extend(open);
            }
        }
    }

    /// Reports ended tasks to the model.
    pub(super) fn report_tasks(&mut self, ends: Vec<TaskEnd>, frame: &str) {
        self.tasks.retain(|open| ends.iter().all(|end| end.task != open.task));
        let observations: Vec<Observation> = ends.into_iter().map(|end| end.observation).collect();
        observations.iter().for_each(|observation| self.suspects.note(&observation.text));
        self.history.push(Exchange::Observed { observations, frame: frame.to_owned() });
    }

    /// Keeps what a person made of the arguments of calls beside what the model wrote.
    pub(super) fn note_edits(&mut self, edited: &[PlannedCall]) {
        let Some(turn) = self.last_turn_mut() else { return };
        for planned in edited {
            if let Some(call) = turn.calls.get_mut(planned.call.index) {
                call.edited = Some((*planned.call.arguments).clone());
            }
        }
    }

    /// Gives each open call of a run that ends its result.
    pub(super) fn close_open_calls(&mut self) {
        let Some(turn) = self.last_turn_mut() else { return };
        for call in turn.calls.iter_mut().filter(|call| call.observation.is_none()) {
            call.observation = Some(observe::refused(&call.id, &call.tool, "the run ended"));
        }
    }

    /// The turn that is under way.
    #[must_use]
    pub fn last_turn(&self) -> Option<&Turn> {
        match self.history.last() {
            Some(Exchange::Turn(turn)) => Some(turn),
            _ => None,
        }
    }

    pub(super) fn last_turn_mut(&mut self) -> Option<&mut Turn> {
        match self.history.last_mut() {
            Some(Exchange::Turn(turn)) => Some(turn),
            _ => None,
        }
    }
}

/// Returns `true` for exit reasons without a complete answer.
pub(crate) const fn is_partial(exit: ExitReason) -> bool {
    !matches!(
        exit,
        ExitReason::Completed
            | ExitReason::HandedOff
            | ExitReason::Closed
            | ExitReason::FlowCompleted
            | ExitReason::FlowSilent
    )
}

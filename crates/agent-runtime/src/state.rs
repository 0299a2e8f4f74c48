//! The state of a conversation, and the decisions of the loop. No I/O happens here.

use std::collections::BTreeMap;

use agent_types::{ExitReason, Observation, ToolId, Usage};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::decide::Reply;
use crate::history::{Exchange, Turn};
use crate::injection_guard::UntrustedTexts;
use crate::input::AgentInput;
use crate::loop_guard::{LoopGuard, Repetition};
use crate::observe;
use crate::window::Shown;

/// State of a conversation between runs. Serialisable.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AgentState {
    /// The conversation.
    pub(crate) history: Vec<Exchange>,
    /// Calls so far; ids count on from here.
    pub(crate) calls: u64,
    /// Position in the conversation of the input that started this run.
    #[serde(default)]
    pub(crate) asked_at: usize,
    /// Turns of this run.
    pub(crate) turn: u32,
    /// Faulty replies in a row.
    pub(crate) faulty: u64,
    pub(crate) guard: LoopGuard,
    /// Calls that a person does not want, by their digest, with the reason.
    #[serde(default)]
    pub(crate) denied: BTreeMap<String, String>,
    /// Foreign texts that look like calls.
    #[serde(default)]
    pub(crate) suspects: UntrustedTexts,
    /// Tasks that calls of this conversation started and whose end was not reported yet.
    #[serde(default)]
    pub(crate) tasks: Vec<OpenTask>,
    /// Tokens of this run.
    pub(crate) usage: Usage,
    /// The last text for the user in this run.
    pub(crate) text: Option<String>,
    /// The answer as a value.
    pub(crate) value: Option<Value>,
    /// Tools as shown to the model; rebuilt when a conversation is loaded.
    #[serde(skip)]
    pub(crate) window: Shown,
    /// Calls that were found without a result when the conversation was loaded.
    #[serde(skip)]
    pub(crate) orphans: usize,
}

/// Running task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct OpenTask {
    pub(crate) task: String,
    pub(crate) tool: ToolId,
    pub(crate) arguments: Map<String, Value>,
}

/// Consequence of a reply.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// It is the answer.
    Answer,
    /// It was faulty; the model gets a correction.
    Correct,
    /// It was faulty too often.
    GiveUp,
    /// Its calls run.
    Run,
}

impl AgentState {
    /// The conversation so far.
    #[must_use]
    pub fn history(&self) -> &[Exchange] {
        &self.history
    }

    /// The state of a conversation that has been so far.
    ///
    /// A call without a result, as left by a process that died, is recorded as interrupted: its outcome is unknown.
    #[must_use]
    pub fn from_history(mut history: Vec<Exchange>) -> Self {
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
            turn.observations().for_each(|observation| suspects.note(&observation.text));
        }
        Self { history, calls, suspects, orphans, ..Self::default() }
    }

    /// Begins a run with what sets it to work.
    pub(crate) fn begin(&mut self, input: AgentInput) {
        self.asked_at = self.history.len();
        self.history.push(input.into_exchange());
        self.turn = 0;
        self.faulty = 0;
        // What was done or refused for another message says nothing about this one.
        self.guard = LoopGuard::default();
        self.denied.clear();
        self.usage = Usage::default();
        self.text = None;
        self.value = None;
    }

    /// Last message of the user in this run.
    pub(crate) fn last_user_message(&self) -> Option<&str> {
        match self.history.get(self.asked_at) {
            Some(Exchange::User { text, .. }) => Some(text.as_str()),
            _ => None,
        }
    }

    /// Takes a reply in.
    pub(crate) fn take_reply(&mut self, reply: &mut Reply, max_corrections: u64) -> Next {
        let turn = std::mem::take(&mut reply.turn);
        self.calls += turn.calls.len() as u64;
        let has_calls = !turn.calls.is_empty();
        self.history.push(Exchange::Turn(turn));
        if !reply.message.is_empty() {
            self.text = Some(reply.message.clone());
        }
        if reply.refusal.is_some() {
            return self.take_fault(max_corrections);
        }
        if has_calls {
            self.faulty = 0;
            return Next::Run;
        }
        Next::Answer
    }

    /// Counts a faulty reply.
    pub(crate) fn take_fault(&mut self, max_corrections: u64) -> Next {
        self.faulty += 1;
        if self.faulty >= max_corrections { Next::GiveUp } else { Next::Correct }
    }

    /// Sets the one result of a call of the last turn. Reports a call that repeatedly gives the same result.
    pub(crate) fn settle(&mut self, index: usize, mut observation: Observation) -> Repetition {
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
    pub(crate) fn settle_refused(&mut self, index: usize, observation: Observation) {
        if let Some(call) = self.last_turn().and_then(|turn| turn.calls.get_mut(index)) {
            call.observation = Some(observation);
        }
    }

    /// The turn that is under way.
    pub(crate) fn last_turn(&mut self) -> Option<&mut Turn> {
        match self.history.last_mut() {
            Some(Exchange::Turn(turn)) => Some(turn),
            _ => None,
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
}

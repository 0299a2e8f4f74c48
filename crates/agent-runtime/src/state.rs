//! The state of a conversation, and the decisions of the loop. No I/O happens here.

use std::collections::BTreeMap;

use agent_types::{ExitReason, Observation, Usage};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::decide::Reply;
use crate::history::{Exchange, Turn};
use crate::loop_guard::{LoopGuard, Repetition};

/// What a run is at, as far as the next run must know. Serialisable.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AgentState {
    /// The conversation.
    pub(crate) history: Vec<Exchange>,
    /// Calls so far; ids count on from here.
    pub(crate) calls: u64,
    /// Turns of this run.
    pub(crate) turn: u32,
    /// Faulty replies in a row.
    pub(crate) faulty: u64,
    pub(crate) guard: LoopGuard,
    /// Calls that a person does not want, by their digest, with the reason.
    #[serde(default)]
    pub(crate) denied: BTreeMap<String, String>,
    /// Tokens of this run.
    pub(crate) usage: Usage,
    /// The last text for the user in this run.
    pub(crate) text: Option<String>,
    /// The answer as a value.
    pub(crate) value: Option<Value>,
}

/// What a reply leads to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// It is the answer.
    Answer,
    /// It was faulty; the model is told.
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
    #[must_use]
    pub fn of_history(history: Vec<Exchange>) -> Self {
        let calls = history.iter().map(|exchange| match exchange {
            Exchange::Turn(turn) => turn.calls.len() as u64,
            Exchange::User { .. } => 0,
        });
        Self { calls: calls.sum(), history, ..Self::default() }
    }

    /// Begins a run with what a person said.
    pub(crate) fn begin(&mut self, message: String) {
        self.history.push(Exchange::User { text: message });
        self.turn = 0;
        self.faulty = 0;
        self.usage = Usage::default();
        self.text = None;
        self.value = None;
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
            self.faulty += 1;
            return if self.faulty >= max_corrections { Next::GiveUp } else { Next::Correct };
        }
        self.faulty = 0;
        if has_calls { Next::Run } else { Next::Answer }
    }

    /// Gives a call of the last turn its one result. Says so when the same call gives the same result again and again.
    pub(crate) fn settle(&mut self, index: usize, mut observation: Observation) -> (Observation, Repetition) {
        let Self { history, guard, .. } = self;
        let Some(Exchange::Turn(turn)) = history.last_mut() else { return (observation, Repetition::None) };
        let Some(call) = turn.calls.get_mut(index) else { return (observation, Repetition::None) };
        let repetition = guard.note(&call.tool, &call.arguments, &observation.text);
        if let Repetition::Warn(count) = repetition {
            observation.text =
                format!("{}\nNote - the same call gave the same result {count} times", observation.text);
        }
        call.observation = Some(observation.clone());
        (observation, repetition)
    }

    /// Gives a call of the last turn a result that is none of its own: it was not started.
    pub(crate) fn settle_refused(&mut self, index: usize, observation: Observation) {
        if let Some(call) = self.last_turn().and_then(|turn| turn.calls.get_mut(index)) {
            call.observation = Some(observation);
        }
    }

    /// The turn that is under way.
    pub(crate) fn last_turn(&mut self) -> Option<&mut Turn> {
        match self.history.last_mut() {
            Some(Exchange::Turn(turn)) => Some(turn),
            Some(Exchange::User { .. }) | None => None,
        }
    }

    /// Whether a run that ends for this reason has no complete answer.
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

//! A conversation between runs.

use serde::{Deserialize, Serialize};

use crate::history::Exchange;
use crate::machine::{Conversation, Effect, Summary};
use crate::prompt::window::Shown;

/// A conversation between runs. Serialisable.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AgentState {
    pub(crate) conversation: Conversation,
    /// Messages as sent to the model; rebuilt when a conversation is loaded.
    #[serde(skip)]
    pub(crate) window: Shown,
}

impl AgentState {
    /// The conversation so far.
    #[must_use]
    pub fn history(&self) -> &[Exchange] {
        self.conversation.history()
    }

    /// The state of a conversation that has been so far.
    ///
    /// A call without a result, as left by a process that died, is recorded as interrupted: its outcome is unknown.
    #[must_use]
    pub fn from_history(history: Vec<Exchange>) -> Self {
        Self { conversation: Conversation::from_history(history), window: Shown::default() }
    }

    /// Replaces the older part of the conversation by a summary; returns the event of that.
    pub(crate) fn compact(&mut self, summary: Summary) -> Effect {
        self.window = Shown::default();
        self.conversation.compact(summary)
    }
}

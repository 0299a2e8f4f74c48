//! A message of a user, and its result.

use agent_runtime::{PendingCall, RunOutcome};
use agent_types::{AskSummary, ExitReason, RunId, Usage};
use serde::Serialize;
use serde_json::{Map, Value};

/// Message of a user.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct UserMessage {
    /// The text.
    pub text: String,
    /// An id of its own: the same message that comes twice is answered once.
    pub id: Option<String>,
    /// Context values: `{$ctx.name}`. The model can neither see nor set them.
    pub values: Map<String, Value>,
    /// Parameters of a flow or system action that is run by its id.
    pub parameters: Map<String, Value>,
}

impl UserMessage {
    /// A message.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// The same with an id: where it comes again within the session's last messages, it gets the same answer, and nothing runs.
    #[must_use]
    pub fn with_id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// The same with parameters, for a flow or system action that is run by its id.
    #[must_use]
    pub fn with_parameters(mut self, parameters: Map<String, Value>) -> Self {
        self.parameters = parameters;
        self
    }

    /// The same with context values. `session` and `profile` are there without.
    #[must_use]
    pub fn with_values(mut self, values: Map<String, Value>) -> Self {
        self.values = values;
        self
    }
}

impl From<&str> for UserMessage {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

/// Result of a message, or of a timer.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Handled {
    /// The run.
    pub run: RunId,
    /// The session.
    pub session: String,
    /// Reason for which the run ended.
    pub exit: ExitReason,
    /// Reply, if there is one.
    pub text: Option<String>,
    /// The answer as a value, where the agent gave one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// `true` if the answer is incomplete.
    pub partial: bool,
    /// Tokens of the agent.
    pub usage: Usage,
    /// Calls of the agent that wait for approval or a result.
    pub pending: Vec<PendingCall>,
    /// The flow that answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow: Option<String>,
    /// The system action that answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// The timer that went off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timer: Option<String>,
    /// `true` if the message had been answered before, and nothing was run.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub repeated: bool,
    /// Error, in a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Questions of a flow that wait for the user: the next message of the session is the answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub asks: Vec<AskSummary>,
    /// Outcome of the agent's run, if it answered.
    #[serde(skip)]
    pub outcome: Option<RunOutcome>,
}

impl Handled {
    /// The outcome of a run whose log says how it ended.
    #[must_use]
    pub fn recorded(run: RunId, session: &str, exit: ExitReason) -> Self {
        Self {
            run,
            session: session.to_owned(),
            exit,
            text: None,
            value: None,
            partial: false,
            usage: Usage::default(),
            pending: Vec::new(),
            flow: None,
            action: None,
            timer: None,
            repeated: false,
            error: None,
            asks: Vec::new(),
            outcome: None,
        }
    }
}

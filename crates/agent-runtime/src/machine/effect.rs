//! Inputs and effects of the machine.

use agent_types::{AskSummary, CallId, EventBody, Usage};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::end::End;
use super::plan::{PlannedCall, Review};
use super::reply::Reply;
use super::result::CallResult;
use super::tasks::TaskEnd;
use crate::input::AgentInput;

/// Name of the value that is recorded with the event of a summary.
pub const SUMMARY: &str = "summary";

/// Member of that value with the request for the summary.
pub const REQUEST: &str = "request";

/// Name of the value that is recorded with the end of a task.
pub const WOKEN: &str = "woken";

/// Result of an effect, or a fact from outside.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Input {
    /// A run begins with a message or an event.
    Begin(AgentInput),
    /// Guardrails checked the message: the block, if there is one.
    Admitted(Option<Block>),
    /// The budget was asked for a turn.
    Granted(Grant),
    /// The older part of the conversation was replaced by a summary.
    Compacted(Summary),
    /// The model replied.
    Replied {
        /// The reply, read and typed.
        reply: Box<Reply>,
        /// Its tokens.
        usage: Usage,
    },
    /// The reply is missing.
    Unanswered(NoReply),
    /// Guardrails, the user and the log were asked about the calls of a reply, in their order.
    Reviewed(Vec<Review>),
    /// A call is over, or waits inside.
    Called(Box<CallResult>),
    /// The answer was checked.
    Judged(Judgement),
    /// Tasks that have ended since the last ones that the model was shown.
    Woken(Vec<TaskEnd>),
    /// The run is cancelled; calls under way end by themselves.
    Cancelled,
    /// The wall time of the run is over, in milliseconds.
    OutOfTime(u64),
}

/// Summary of the older part of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Its text.
    pub text: String,
    /// Number of exchanges that it stands for.
    pub upto: usize,
    /// Its author.
    pub by: String,
    /// Tokens of its author.
    pub usage: Usage,
    /// Request that asked for it, for the log of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Value>,
}

/// Event to emit, or work whose result is an input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Effect {
    /// Emit an event.
    Emit(Box<Emission>),
    /// Check a message with the guardrails.
    Admit(String),
    /// Ask the budget for a turn.
    Grant,
    /// Begin a turn of this number.
    OpenTurn(u32),
    /// Ask the model. The older part of the conversation may be compacted first.
    Ask {
        /// Compactions in a row before it.
        compactions: u8,
    },
    /// Ask guardrails, the user's answers and the log about calls.
    Review(Vec<PlannedCall>),
    /// Run a call.
    Call(Box<CallOrder>),
    /// Cancel the calls under way.
    CancelCalls,
    /// Check an answer with guardrails and the schema of answers.
    Judge(Answer),
    /// End the turn; one that is not over continues when the run resumes.
    CloseTurn {
        /// The turn is over.
        is_over: bool,
    },
    /// Look for tasks that have ended.
    Wake,
    /// End or suspend the run.
    Finish(Box<End>),
}

/// Event with its location.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Emission {
    /// Its location.
    pub at: At,
    /// The event.
    pub event: EventBody,
    /// Value that a resumed run needs, by name.
    pub record: Option<(String, Value)>,
}

/// Location of an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum At {
    /// The run.
    Run,
    /// The turn under way.
    Turn,
    /// A call of the turn.
    Call(CallId),
}

/// A call to run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallOrder {
    /// The call.
    pub call: PlannedCall,
    /// Text of the reply before its calls.
    pub reason: String,
}

/// Block by a guardrail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// Name of the guardrail.
    pub guard: String,
    /// Its reason.
    pub reason: String,
}

/// Answer of the budget.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Grant {
    /// A turn was taken.
    Turn {
        /// It is the last one that the budget has.
        is_last: bool,
    },
    /// A limit is reached.
    Exceeded(Box<End>),
    /// The run is cancelled.
    Cancelled,
}

/// Reason for a missing reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum NoReply {
    /// The run is cancelled.
    Cancelled,
    /// The user must answer these first.
    Waiting(Vec<AskSummary>),
    /// The conversation does not fit into the model's window.
    TooLong {
        /// Tokens that the request would have.
        used: u64,
        /// Tokens that it may have.
        limit: u64,
    },
    /// The model failed.
    Failed {
        /// Stable code.
        code: String,
        /// Description of the failure.
        message: String,
        /// Text for the user that came before.
        shown: String,
    },
}

/// Answer of an agent before it is checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Answer {
    /// Text of the model.
    Text(String),
    /// Value that a tool ends the run with.
    Value(Value),
}

/// Result of the check of an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Judgement {
    /// It counts, with its value where a schema gives one.
    Accepted(Option<Value>),
    /// A guardrail blocked it.
    Blocked(Block),
    /// It does not fit the schema of answers.
    Unfit(String),
}

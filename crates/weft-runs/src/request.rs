//! Requests about runs, and the state of threads and sessions.

use std::collections::HashMap;

use agent_runtime::ApprovalMode;
use agent_types::RunId;
use executors_flow_system::{Entry, SeatAction, thread_key};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use workflow_model::Workflow;

use crate::answer::Answer;
use crate::handle::RunHandle;
use crate::plan::AgentPlan;

/// A run that is to begin.
#[derive(Debug)]
pub enum RunRequest {
    /// Of an agent.
    Agent(Box<AgentRequest>),
    /// Of a workflow.
    Workflow(Box<WorkflowRequest>),
}

impl From<AgentRequest> for RunRequest {
    fn from(request: AgentRequest) -> Self {
        Self::Agent(Box::new(request))
    }
}

impl From<WorkflowRequest> for RunRequest {
    fn from(request: WorkflowRequest) -> Self {
        Self::Workflow(Box::new(request))
    }
}

/// A run of an agent.
#[derive(Debug, Default)]
pub struct AgentRequest {
    /// The agent and its input.
    pub plan: AgentPlan,
    /// The conversation that it belongs to.
    pub thread: Option<String>,
    /// Decision on calls that need approval.
    pub approval: ApprovalMode,
    /// Flows and system actions around it.
    pub surroundings: RunEnv,
    /// Reaction to a run of the conversation that executes.
    pub busy: WhenBusy,
}

/// Reaction to a message that comes while a run of its conversation executes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WhenBusy {
    /// The message waits for its turn, in order.
    #[default]
    Queue,
    /// The run that executes is interrupted after its current call, and the message is the next.
    Steer,
    /// The message is refused.
    Reject,
}

/// Flows and system actions around an agent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RunEnv {
    /// Those that the project's `flows.json` gives the agent.
    #[default]
    OfProject,
    /// None: the agent alone answers.
    AgentOnly,
    /// A session, also without a `flows.json`.
    Session,
}

/// A run of a workflow.
#[derive(Debug, Default)]
pub struct WorkflowRequest {
    /// Its id.
    pub id: String,
    /// The workflow; that of the project with this id by default.
    pub workflow: Option<Workflow>,
    /// Its arguments.
    pub inputs: Map<String, Value>,
    /// Values that tools may use and no model sees or sets.
    pub values: Map<String, Value>,
    /// Decision on calls that need approval.
    pub approval: ApprovalMode,
}

/// Version of its workflow with which a run is resumed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Version {
    /// The one that the project has now; refused where it differs in what the run has done.
    #[default]
    Current,
    /// The one that the run began with.
    AsItWas,
}

/// A fork of a run.
#[derive(Debug, Clone)]
pub struct ForkRequest {
    /// The run that is forked.
    pub of: RunId,
    /// The last event that both have; behind the changed nodes, else before the end, by default.
    pub at: Option<u64>,
    /// Values in place of what nodes gave, by path.
    pub changes: HashMap<String, NodeValue>,
    /// The workflow that the fork executes.
    pub version: Version,
}

/// A value in place of what a node gave.
#[derive(Debug, Clone, PartialEq)]
pub enum NodeValue {
    /// As it is.
    Json(Value),
    /// A text, typed by the type of the node's main output.
    Text(String),
}

/// An answer to an open question.
#[derive(Debug, Clone)]
pub struct AnswerRequest {
    /// The run.
    pub run: RunId,
    /// The question; the only open one by default.
    pub ask: Option<String>,
    /// The answer.
    pub answer: Answer,
    /// The workflow with which the run is resumed.
    pub version: Version,
    /// Action after the answer is recorded.
    pub then: Then,
}

/// Action after an answer is recorded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Then {
    /// The run is resumed.
    #[default]
    Resume,
    /// The run stays suspended.
    Stay,
}

/// Result of a request to cancel a run.
#[derive(Debug)]
pub enum Cancelled {
    /// It had ended before, with this status.
    HadEnded(&'static str),
    /// The process that executes it is asked.
    Asked,
    /// No process executed it: it is resumed only to end.
    Ending(RunHandle),
    /// It could not be resumed, and was ended as it stood.
    Ended,
}

/// A conversation: threads of different agents are different threads.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ThreadName {
    /// The agent.
    pub agent: String,
    /// The name of the thread.
    pub thread: String,
}

impl ThreadName {
    /// A thread of an agent.
    #[must_use]
    pub fn new(agent: impl Into<String>, thread: impl Into<String>) -> Self {
        Self { agent: agent.into(), thread: thread.into() }
    }

    /// Name of the conversation in the store.
    #[must_use]
    pub fn stored(&self) -> String {
        thread_key(&self.agent, &self.thread)
    }
}

/// Action on a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadAction {
    /// It is read.
    Read,
    /// The last message is removed with all that came of it, and a run that waits is ended.
    Undo,
    /// The older part is replaced by a summary.
    Compact,
}

/// A conversation as it is kept.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ThreadInfo {
    /// Its entries.
    pub entries: Vec<Entry>,
    /// The run that waits in it.
    pub waiting: Option<RunId>,
    /// Set when the action had an effect.
    pub changed: bool,
}

/// Action of a person on a session.
#[derive(Debug, Clone)]
pub struct SessionRequest {
    /// The session.
    pub session: String,
    /// The person.
    pub person: String,
    /// The action.
    pub action: SeatAction,
}

/// A session as it is kept.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct SessionInfo {
    /// Its id, which is that of its thread.
    pub session: String,
    /// The agent that answers in it.
    pub agent: String,
    /// Party that answers.
    pub with: SessionParty,
    /// Time since which that is so, where it is not the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// The system action that handed it over or closed it; `person` where a person did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// Reason of the handoff.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The person who has taken it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub person: Option<String>,
    /// Time that the user has waited for a person, in milliseconds; absent where nothing waits for an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting_ms: Option<u64>,
    /// Profile of the user.
    pub profile: Map<String, Value>,
}

/// Party that answers in a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SessionParty {
    /// The agent, and the flows.
    Agent,
    /// A person.
    Person,
    /// The session is closed.
    Closed,
}

impl SessionParty {
    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Person => "person",
            Self::Closed => "closed",
        }
    }
}

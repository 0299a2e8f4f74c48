//! Records of runs besides their events: all that is required to resume them.

use std::sync::Arc;

use agent_runtime::{Agent, AgentInput, Exchange};
use agent_types::{FormerInputs, RunId};
use executors_flow_system::TargetKind;
use llm_provider::Attachment;
use run_store::RunRecord;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use weft_project::PlannedEvent;

use crate::error::RunsError;

/// Record of a workflow's run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename = "workflow")]
pub struct WorkflowPlan {
    /// Its id.
    pub id: String,
    /// The file as it was.
    pub workflow: Value,
    /// The arguments.
    pub inputs: Map<String, Value>,
    /// Values that no model sees or sets.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub values: Map<String, Value>,
    /// The run that it is a retry of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_of: Option<RunId>,
    /// Set for a run that began when an input without a default had an empty value; it keeps these values.
    #[serde(flatten, with = "input_rule")]
    pub former_inputs: bool,
}

/// Record of an agent's run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename = "agent")]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct AgentPlan {
    /// The agent's id.
    pub agent: String,
    /// The message to it.
    pub message: String,
    /// Images and files that go with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
    /// The event that it answers in place of a message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<PlannedEvent>,
    /// The trigger that began it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger: Option<TriggerCause>,
    /// The schema that the answer must fit, where it is not that of the profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// Set for a message of a session, which flows and system actions surround.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_session: bool,
    /// The conversation before it, where no thread keeps it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Exchange>,
    /// Text that is added to the system prompt of the profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// Set where only read-only tools are offered.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
    /// Exchanges that its conversation had before.
    #[serde(default)]
    pub before: usize,
    /// Values that no model sees or sets.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub values: Map<String, Value>,
    /// The flow or system action that is run by its id in place of a message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<FlowCall>,
    /// Id of the message: one that comes again has the run of the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// Set where the message waited for its turn: `before` was not known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub queued: bool,
    /// Set where the message goes before those that wait.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub steers: bool,
    /// The run that it is a retry of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_of: Option<RunId>,
    /// Set for a run that began when an input without a default had an empty value; it keeps these values.
    #[serde(flatten, with = "input_rule")]
    pub former_inputs: bool,
}

/// A flow or system action that is run by its id.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowCall {
    /// Its id.
    pub id: String,
    /// Its kind, where both a flow and a system action have the id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<TargetKind>,
    /// Parameters by name.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub parameters: Map<String, Value>,
}

/// Trigger of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TriggerCause {
    /// Its id.
    pub id: String,
    /// The cause by which it fired: `schedule missed files webhook manual`.
    pub cause: String,
}

/// Record of a single call of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename = "call")]
pub struct CallPlan {
    /// The tool.
    pub tool: String,
    /// Its arguments.
    pub arguments: Map<String, Value>,
}

impl AgentPlan {
    /// A message to an agent.
    #[must_use]
    pub fn new(agent: impl Into<String>, message: impl Into<String>) -> Self {
        Self { agent: agent.into(), message: message.into(), ..Self::default() }
    }

    /// The agent as a run of this plan needs it.
    pub(crate) fn prepared(&self, agent: Agent) -> Agent {
        let mut agent = agent.with_values(self.values.clone());
        if self.former_inputs {
            agent = agent.with(Arc::new(FormerInputs));
        }
        if self.read_only {
            agent = agent.read_only();
        }
        if let Some(instructions) = &self.instructions {
            agent = agent.with_instructions(instructions);
        }
        match &self.schema {
            Some(schema) => agent.with_output_schema(schema.clone()),
            None => agent,
        }
    }

    /// The input of the agent.
    pub(crate) fn input(&self) -> AgentInput {
        match &self.event {
            Some(event) => AgentInput::Event { name: event.name.clone(), payload: event.payload.clone() },
            None if self.attachments.is_empty() => AgentInput::Message(self.message.clone()),
            None => {
                AgentInput::Attached { text: self.message.clone(), attachments: self.attachments.clone() }
            }
        }
    }

    pub(crate) fn from_record(record: &RunRecord) -> Result<Self, RunsError> {
        read(record, "an agent")
    }
}

impl WorkflowPlan {
    pub(crate) fn from_record(record: &RunRecord) -> Result<Self, RunsError> {
        read(record, "a workflow")
    }
}

/// The mark of records of runs whose absent inputs are absent; those of earlier versions have none.
mod input_rule {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    struct Mark {
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        absent_inputs: bool,
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub(super) fn serialize<S: Serializer>(former: &bool, to: S) -> Result<S::Ok, S::Error> {
        Mark { absent_inputs: !former }.serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
        Ok(!Mark::deserialize(from)?.absent_inputs)
    }
}

fn read<P: for<'de> Deserialize<'de>>(record: &RunRecord, kind: &str) -> Result<P, RunsError> {
    P::deserialize(&record.new.plan).map_err(|_| {
        let message = match called_tool(record) {
            Some(tool) => format!("it is a single call of `{tool}`"),
            None => format!("its record does not hold {kind}"),
        };
        RunsError::not_resumable(&record.new.run, message)
    })
}

/// The tool of a run that is a single call.
#[must_use]
pub fn called_tool(record: &RunRecord) -> Option<&str> {
    record.new.plan.get("tool")?.as_str()
}

/// The run that a run is a retry of.
#[must_use]
pub fn retry_of(record: &RunRecord) -> Option<&str> {
    record.new.plan.get("retry_of")?.as_str()
}

/// Returns `true` for the record of a timer's run, which answers no message.
pub(crate) fn is_timer(plan: &Value) -> bool {
    let is_empty = plan.get("message") == Some(&"".into()) && plan.get("target").is_none();
    plan.get("in_session") == Some(&true.into()) && is_empty
}

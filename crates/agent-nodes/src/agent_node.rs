//! `agent:Agent`: an agent of the project as a node.

use std::fmt;
use std::time::Duration;

use agent_runtime::{Agent, SubAgent};
use agent_types::{BudgetLimits, ToolDefinition, ToolId};
use async_trait::async_trait;
use serde_json::{Map, Value, json};
use tool_registry::{Tool, ToolSettings};
use workflow_engine::{Inputs, Node, NodeContext, NodeError, Outputs, Prepared, Problem};
use workflow_model::{DataFlowType, NodeDefinition};

use crate::agent_env::AgentEnv;
use crate::define::{any, as_text, made, prepared, read, required, setting, text};
use crate::execute::run_call;

/// Longest time of an agent unless its limits say otherwise.
const MAX_TIME: Duration = Duration::from_hours(1);

/// Reason for which an agent cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct AgentLookupError {
    /// Message for the user.
    pub message: String,
    /// Stable code.
    pub code: &'static str,
}

impl AgentLookupError {
    /// An error with its code.
    #[must_use]
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { message: message.into(), code }
    }
}

/// Agents by id; one of the services of a workflow's run, as `dyn AgentSource`.
pub trait AgentSource: Send + Sync + fmt::Debug {
    /// The agent of an id, ready to run.
    ///
    /// # Errors
    /// The id is unknown, or its profile cannot be used.
    fn agent(&self, id: &str) -> Result<Agent, AgentLookupError>;
}

/// Gives a message to an agent and takes its answer.
pub(crate) struct AgentNode(NodeDefinition);

/// The settings.
struct Settings {
    agent: String,
    limits: BudgetLimits,
}

impl AgentNode {
    pub(crate) fn new() -> Self {
        let definition = NodeDefinition::new(
            "agent:Agent",
            "Gives a message to an agent of the project and takes its answer. It runs inside this run: its calls, questions and tokens are those of the run.",
        )
        .input("message", any("what the agent is to do; a value that is not a text is written as JSON").required())
        .output("answer", text("the answer as text"))
        .output("value", any("the answer as a value, where the agent has an `output_schema`; else its text"))
        .config("agentId", setting(DataFlowType::String, "id of the agent, as in `weft agent list`").required())
        .config(
            "budgets",
            setting(DataFlowType::Object, "limits that count besides those of its profile: {turns, tool_calls, tokens, cost_usd, wall_ms}"),
        )
        .effect()
        .idempotent();
        Self(definition)
    }
}

#[async_trait]
impl Node for AgentNode {
    fn definition(&self) -> &NodeDefinition {
        &self.0
    }

    fn prepare(&self, config: &Map<String, Value>) -> Result<Prepared, Vec<Problem>> {
        let mut faults = Vec::new();
        let agent = required(config, "agentId", &mut faults);
        let limits = read(config, "budgets", &mut faults).unwrap_or_default();
        prepared(agent.map(|agent| Settings { agent, limits }), faults)
    }

    async fn run(&self, ctx: NodeContext, inputs: Inputs) -> Result<Outputs, NodeError> {
        let Settings { agent: id, limits } = made(&ctx)?;
        let agents = ctx.required_service::<dyn AgentSource>()?;
        let agent =
            agents.agent(id).map_err(|error| NodeError::fatal(error.message).with_code(error.code))?;
        let tool = tool_of(id, agent.with_limits(limits))?;
        let message = as_text(inputs.required("message")?);
        let arguments = Map::from_iter([("message".to_owned(), Value::from(message))]);
        let value = run_call(&ctx, &AgentEnv::new(&ctx), tool, arguments).await?;
        let answer = as_text(&value);
        Ok(Outputs::named("answer", answer).with("value", value))
    }
}

/// The tool of an agent: it takes a message.
fn tool_of(id: &str, agent: Agent) -> Result<Tool, NodeError> {
    let bad = |message: String| NodeError::fatal(message).with_code("bad_agent");
    let parameters =
        json!({"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]});
    let name: Result<ToolId, _> = format!("agent:{id}").parse();
    let name = name.map_err(|error| bad(error.to_string()))?;
    let time = agent.profile().limits().wall_ms.map_or(MAX_TIME, Duration::from_millis);
    let tool =
        SubAgent::new(agent).into_tool(ToolDefinition::new(name, "An agent of the project.", parameters));
    let tool = tool.map_err(|error| bad(error.to_string()))?;
    Ok(tool.with_settings(ToolSettings::default().with_timeout(time)))
}

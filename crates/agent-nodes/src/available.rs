//! `agent:AvailableTools`: which tools a model is offered.

use async_trait::async_trait;
use serde_json::{Map, Value};
use workflow_engine::{Inputs, Node, NodeContext, NodeError, Outputs, Prepared, Problem};
use workflow_model::{DataFlowType, NodeDefinition};

use crate::agent_env::AgentEnv;
use crate::define::{list, made, read, setting};
use agent_runtime::prompt::messages::tool_value;

/// Gives the tools that may be used, as values.
pub(crate) struct AvailableTools(NodeDefinition);

/// The settings.
struct Listed(Option<Vec<String>>);

impl AvailableTools {
    pub(crate) fn new() -> Self {
        let definition =
            NodeDefinition::new("agent:AvailableTools", "Gives the tools that a model may be offered.")
                .output("tools", list("the tools: {id, description, parameters}"))
                .config(
                    "tools",
                    setting(
                        DataFlowType::Array,
                        "ids or names of tools; absent means all that the agent or the workflow allows, or all of the project where neither says which",
                    ),
                );
        Self(definition)
    }
}

#[async_trait]
impl Node for AvailableTools {
    fn definition(&self) -> &NodeDefinition {
        &self.0
    }

    fn prepare(&self, config: &Map<String, Value>) -> Result<Prepared, Vec<Problem>> {
        let mut faults = Vec::new();
        let listed = read::<Vec<String>>(config, "tools", &mut faults);
        if faults.is_empty() { Ok(Prepared::new(Listed(listed))) } else { Err(faults) }
    }

    async fn run(&self, ctx: NodeContext, _inputs: Inputs) -> Result<Outputs, NodeError> {
        let Listed(listed) = made(&ctx)?;
        let env = AgentEnv::new(&ctx);
        let tools = match listed {
            None if !env.has_tools() => env.every_tool()?,
            listed => env.tools(listed.as_deref())?,
        };
        Ok(Outputs::value(tools.tools().map(tool_value).collect::<Vec<Value>>()))
    }
}

//! `core:Tool`: any tool as a node.

use async_trait::async_trait;
use serde_json::{Map, Value};
use workflow_engine::{Inputs, Node, NodeContext, NodeError, Outputs, Prepared, Problem};
use workflow_model::{DataFlowType, DynamicSlots, NodeDefinition};

use crate::agent_env::AgentEnv;
use crate::define::{any, as_text, made, object, prepared, read, required, setting, text};
use crate::execute::{STREAM, run_call};

/// Input that holds arguments as one object.
const ARGUMENTS: &str = "arguments";

/// Effect of a tool by its id; `None` where it is not known before the call.
pub type ToolEffect = dyn Fn(&str) -> Option<bool> + Send + Sync;

/// Calls one tool.
pub(crate) struct ToolNode {
    definition: NodeDefinition,
    effect: Box<ToolEffect>,
}

/// The settings.
struct Settings {
    tool: String,
    arguments: Map<String, Value>,
}

impl ToolNode {
    pub(crate) fn new(effect: Box<ToolEffect>) -> Self {
        let definition = NodeDefinition::new(
            "core:Tool",
            "Calls a tool of the project: each parameter of the tool is an input. Approvals, limits and retries count as for any call of it.",
        )
        .input(ARGUMENTS, object("arguments as an object; inputs of their own names count before them").optional())
        .output("value", any("the result: the value of a tool that gives one, else its text"))
        .output("text", text("the same as text"))
        .output(STREAM, text("pieces of the result as they come").stream().with_category("StreamChunk"))
        .config(
            "tool",
            setting(DataFlowType::String, "id of the tool, as in `weft tool list`").required(),
        )
        .config(ARGUMENTS, setting(DataFlowType::Object, "arguments that every call has; inputs count before them"))
        .dynamic_inputs(DynamicSlots::Any)
        .effect()
        .idempotent();
        Self { definition, effect }
    }
}

#[async_trait]
impl Node for ToolNode {
    fn definition(&self) -> &NodeDefinition {
        &self.definition
    }

    fn has_effect(&self, config: &Map<String, Value>) -> bool {
        let named = config.get("tool").and_then(Value::as_str);
        named.and_then(|tool| (self.effect)(tool)).unwrap_or(self.definition.effect)
    }

    fn prepare(&self, config: &Map<String, Value>) -> Result<Prepared, Vec<Problem>> {
        let mut faults = Vec::new();
        let tool = required(config, "tool", &mut faults);
        let arguments = read(config, ARGUMENTS, &mut faults).unwrap_or_default();
        prepared(tool.map(|tool| Settings { tool, arguments }), faults)
    }

    async fn run(&self, ctx: NodeContext, inputs: Inputs) -> Result<Outputs, NodeError> {
        let Settings { tool: id, arguments } = made(&ctx)?;
        let env = AgentEnv::new(&ctx);
        let found = env.tools(Some(std::slice::from_ref(id)))?;
        let tool = found.tools().next().cloned().ok_or_else(|| {
            NodeError::fatal(format!("the tool `{id}` is not allowed here; list it in `availableTools`"))
                .with_code("tool_not_allowed")
        })?;
        let mut arguments = arguments.clone();
        let mut given = inputs.to_map();
        match given.shift_remove(ARGUMENTS) {
            None | Some(Value::Null) => {}
            Some(Value::Object(more)) => arguments.extend(more),
            Some(other) => {
                return Err(NodeError::fatal(format!("`{ARGUMENTS}` must be an object, not {other}")));
            }
        }
        arguments.extend(given);
        let value = run_call(&ctx, &env, tool, arguments).await?;
        let text = as_text(&value);
        Ok(Outputs::value(value).with("text", text))
    }
}

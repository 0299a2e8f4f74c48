//! A tool that echoes, for several test programs.

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use tool_registry::{Tool, ToolContext, ToolDefinition, ToolError, ToolHandler, ToolKind, ToolOutput};

struct Echo;

#[async_trait]
impl ToolHandler for Echo {
    async fn call(&self, arguments: Map<String, Value>, _: &ToolContext) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::Json(arguments.into()))
    }
}

pub(crate) fn echo(definition: ToolDefinition) -> Tool {
    Tool::new(definition, ToolKind::NATIVE, Echo)
}

pub(crate) fn described(id: &str, description: &str) -> Tool {
    echo(ToolDefinition::new(id.parse().unwrap(), description, json!({"type": "object"})))
}

//! The tool of a knowledge base, over any source.

use std::fmt;
use std::sync::Arc;

use agent_types::ToolDefinition;
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tool_registry::{RegistryError, Tool, ToolContext, ToolError, ToolHandler, ToolKind, ToolOutput};

/// Passages that a search gives unless the model says how many.
const DEFAULT_LIMIT: u64 = 5;

/// Most passages that a search gives.
const MAX_LIMIT: u64 = 20;

/// A piece of text that was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Passage {
    /// Its place, such as a path and a heading.
    pub source: String,
    /// The text.
    pub text: String,
}

/// Something that can be searched.
#[async_trait]
pub trait KnowledgeSource: Send + Sync + fmt::Debug {
    /// At most `limit` passages, the best first.
    ///
    /// # Errors
    /// It cannot be searched.
    async fn search(&self, query: &str, limit: usize) -> Result<Vec<Passage>, ToolError>;
}

/// Descriptions of the parameters in Chinese.
pub(crate) const CHINESE: [(&str, &str); 2] = [("query", "要查找的词"), ("limit", "最多返回的段落数")];

/// The tool `kb:<name>`, which searches a knowledge base: `{query, limit}` to passages with their source.
///
/// # Errors
/// A tool cannot have this name.
pub fn knowledge_tool(
    name: &str,
    description: &str,
    knowledge: Arc<dyn KnowledgeSource>,
) -> Result<Tool, RegistryError> {
    let parameters = json!({
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "words to look for"},
            "limit": {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "description": "most passages"}
        },
        "required": ["query"],
        "additionalProperties": false
    });
    let mut definition = ToolDefinition::new(format!("kb:{name}").parse()?, description, parameters);
    definition.defaults.insert("limit".into(), DEFAULT_LIMIT.into());
    definition.annotations.read_only = true;
    let definition = definition.translated("zh", description, &CHINESE);
    Ok(Tool::new(definition, ToolKind::NATIVE, Search(knowledge)))
}

struct Search(Arc<dyn KnowledgeSource>);

#[async_trait]
impl ToolHandler for Search {
    async fn call(&self, arguments: Map<String, Value>, _: &ToolContext) -> Result<ToolOutput, ToolError> {
        let query = arguments.get("query").and_then(Value::as_str).unwrap_or_default();
        let limit = arguments.get("limit").and_then(Value::as_u64).unwrap_or(DEFAULT_LIMIT).min(MAX_LIMIT);
        let passages = self.0.search(query, usize::try_from(limit).unwrap_or(usize::MAX)).await?;
        if passages.is_empty() {
            return Ok(ToolOutput::Text("nothing was found; try other words".into()));
        }
        let texts = passages.iter().map(|passage| format!("[{}]\n{}", passage.source, passage.text.trim()));
        Ok(ToolOutput::Text(texts.collect::<Vec<_>>().join("\n\n")))
    }
}

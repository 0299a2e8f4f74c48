//! `core:Knowledge`: passages of a knowledge base.

use agent_types::nearest;
use async_trait::async_trait;
use serde_json::{Map, Value};
use tool_knowledge::KnowledgeTools;
use workflow_engine::{Inputs, Node, NodeContext, NodeError, Outputs, Prepared, Problem};
use workflow_model::{DataFlowType, NodeDefinition};

use crate::define::{list, made, prepared, read, required, setting, text};

/// Passages unless the settings say how many, and the most that they may say.
const LIMIT: usize = 5;
const MAX_LIMIT: usize = 100;

/// Searches a knowledge base.
pub(crate) struct Knowledge(NodeDefinition);

/// The settings.
struct Settings {
    base: String,
    limit: usize,
}

impl Knowledge {
    pub(crate) fn new() -> Self {
        let definition = NodeDefinition::new(
            "core:Knowledge",
            "Searches a knowledge base of the project and gives the passages that fit best.",
        )
        .input("query", text("words to look for").required())
        .output("passages", list("the passages {source, text}, the best first"))
        .output(
            "text",
            text("the same as one text, each passage behind its source; empty where nothing fits"),
        )
        .config(
            "base",
            setting(DataFlowType::String, "name of the base, an entry `[kb.<name>]` of weft.toml").required(),
        )
        .config(
            "limit",
            setting(DataFlowType::Integer, "how many passages at most, up to 100").with_default(LIMIT),
        )
        .blocking();
        Self(definition)
    }
}

#[async_trait]
impl Node for Knowledge {
    fn definition(&self) -> &NodeDefinition {
        &self.0
    }

    fn prepare(&self, config: &Map<String, Value>) -> Result<Prepared, Vec<Problem>> {
        let mut faults = Vec::new();
        let base = required(config, "base", &mut faults);
        let limit = read(config, "limit", &mut faults).unwrap_or(LIMIT);
        if !(1..=MAX_LIMIT).contains(&limit) {
            faults.push(Problem::setting("limit", format!("expected a whole number from 1 to {MAX_LIMIT}")));
        }
        prepared(base.map(|base| Settings { base, limit }), faults)
    }

    async fn run(&self, ctx: NodeContext, inputs: Inputs) -> Result<Outputs, NodeError> {
        let Settings { base, limit } = made(&ctx)?;
        let bases = ctx.required_service::<KnowledgeTools>()?;
        let source = bases.source(base).ok_or_else(|| {
            let near = nearest(base, bases.names());
            let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
            NodeError::fatal(format!("no knowledge base has the name `{base}`{near}"))
                .with_code("unknown_base")
        })?;
        let found = source.search(inputs.text("query")?, *limit).await;
        let passages = found.map_err(|error| NodeError::new(error.message_for_model))?;
        let texts: Vec<String> =
            passages.iter().map(|passage| format!("[{}]\n{}", passage.source, passage.text.trim())).collect();
        let passages = serde_json::to_value(&passages).unwrap_or_default();
        Ok(Outputs::value(passages).with("text", texts.join("\n\n")))
    }
}

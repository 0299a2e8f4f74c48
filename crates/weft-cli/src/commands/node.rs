//! `weft node`: types of nodes.

use agent_types::nearest;
use serde_json::{Value, json};
use workflow_model::NodeDefinition;

use super::Context;
use crate::arguments::{LangArgument, NodeCommand, Output};
use crate::failure::{Exit, Failure};
use crate::output;

pub(super) fn run(context: &Context, command: NodeCommand) -> Result<Exit, Failure> {
    let (NodeCommand::List { lang } | NodeCommand::Show { lang, .. }) = &command;
    let definitions = definitions(*lang);
    match command {
        NodeCommand::List { .. } => {
            let nodes: Vec<Value> = definitions
                .iter()
                .map(|node| json!({"id": node.node_type, "title": node.display_name, "description": node.description}))
                .collect();
            match context.output {
                Output::Json => output::json(&nodes)?,
                Output::Jsonl => nodes.iter().try_for_each(output::json)?,
                Output::Text => {
                    for node in &definitions {
                        output::line(&format!("{}\t{}", node.node_type, node.description))?;
                    }
                }
            }
        }
        NodeCommand::Show { node_type, .. } => {
            let Some(node) = definitions.iter().find(|node| node.node_type == node_type) else {
                let failure =
                    Failure::new(Exit::Usage, "unknown_type", format!("unknown node type `{node_type}`"));
                let near = nearest(&node_type, definitions.iter().map(|node| node.node_type.as_str()));
                let help = near
                    .map_or_else(|| "see `weft node list`".into(), |near| format!("did you mean `{near}`?"));
                return Err(failure.with_help(help));
            };
            match context.output {
                Output::Text => output::pretty(node)?,
                Output::Json | Output::Jsonl => output::json(node)?,
            }
        }
    }
    Ok(Exit::Ok)
}

/// All types, in a language where they have words in it.
fn definitions(lang: Option<LangArgument>) -> Vec<NodeDefinition> {
    let definitions = weft_project::node_definitions();
    if lang != Some(LangArgument::Zh) {
        return definitions;
    }
    let catalog = weft_project::node_catalog();
    definitions.into_iter().map(|node| catalog.in_language(node, "zh")).collect()
}

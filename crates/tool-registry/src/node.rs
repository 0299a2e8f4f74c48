//! Single nodes as tools.

use serde_json::{Map, Value, json};
use workflow_model::{NoWorkflows, NodeDefinition, SlotDefinition, Workflow};

use crate::tool::{Tool, ToolKind};
use crate::workflow::{WorkflowRuntime, WorkflowToolError, handler};

/// The node inside its workflow.
const NODE: &str = "node";

/// The tool `node:<type>`: the node in a workflow of its own, run by the same engine, with its inputs as parameters.
///
/// Inputs that are streams are none that a model could give. Nodes are tools only where somebody lists them.
///
/// # Errors
/// There is no such type, it needs settings, or its name is none for a tool.
pub fn node_tool(node_type: &str, runtime: &WorkflowRuntime) -> Result<Tool, WorkflowToolError> {
    let definition = runtime.catalog.get(node_type).map(|node| node.definition());
    let workflow = match definition {
        Some(definition) => wrapped(definition),
        // The plan says which type was probably meant.
        None => json!({"nodes": [{"id": NODE, "type": node_type}], "edges": []}),
    };
    let workflow = Workflow::from_value(workflow)?;
    let id = format!("node:{node_type}").parse()?;
    let (mut tool_definition, handler) = handler(id, &workflow, &NoWorkflows, runtime)?;
    if let Some(definition) = definition {
        tool_definition.annotations.idempotent = definition.idempotent || definition.pure;
    }
    Ok(Tool::new(tool_definition, ToolKind::Node, handler)?)
}

/// One node between the inputs and the outputs of a workflow.
fn wrapped(definition: &NodeDefinition) -> Value {
    let edge = |from: (&str, &str), to: (&str, &str)| json!({"source": from.0, "sourceHandle": from.1, "target": to.0, "targetHandle": to.1});
    let inputs = || definition.inputs.iter().filter(|(_, slot)| !slot.is_stream);
    let into = inputs().map(|(name, _)| edge(("in", name), (NODE, name)));
    let out_of = definition.outputs.keys().map(|name| edge((NODE, name), ("out", name)));
    let edges: Vec<Value> = into.chain(out_of).collect();
    let slots = |slots: &mut dyn Iterator<Item = (&String, &SlotDefinition)>| -> Map<String, Value> {
        slots.map(|(name, slot)| (name.clone(), interface(slot))).collect()
    };
    json!({
        "name": definition.display_name,
        "description": definition.description,
        "interfaceInputs": slots(&mut inputs()),
        "interfaceOutputs": slots(&mut definition.outputs.iter()),
        "nodes": [
            {"id": "in", "type": "core:GroupInput"},
            {"id": NODE, "type": definition.node_type},
            {"id": "out", "type": "core:GroupOutput"}
        ],
        "edges": edges,
    })
}

fn interface(slot: &SlotDefinition) -> Value {
    // A slot for several edges takes one list from a model.
    let kind = if slot.multi { "ARRAY" } else { slot.data_flow_type.as_str() };
    let mut declared = json!({
        "dataFlowType": kind, "required": slot.required, "customDescription": slot.description, "isStream": slot.is_stream
    });
    if let Some(default) = &slot.default {
        declared["config"] = json!({"default": default});
    }
    declared
}

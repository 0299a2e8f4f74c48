//! Single nodes as tools.

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use tool_registry::{Tool, ToolContext, ToolError, ToolHandler, ToolKind, ToolOutput};
use workflow_model::{NoWorkflows, NodeDefinition, SlotDefinition, Workflow};

use crate::workflow::{WorkflowRuntime, WorkflowToolError, handler};

/// Kind of tools that are single nodes.
pub const NODE: ToolKind = ToolKind::own("node");

/// The node inside its workflow.
const INNER: &str = "node";

/// The tool `node:<type>`: the node in a workflow of its own, run by the same engine, with its inputs as parameters. A slot for several
/// edges takes a list.
///
/// Inputs that are streams cannot be given by a model. Nodes are tools only where they are listed.
///
/// # Errors
/// The type is unknown or needs settings, or its name is not valid for a tool.
pub fn node_tool(node_type: &str, runtime: &WorkflowRuntime) -> Result<Tool, WorkflowToolError> {
    let id: agent_types::ToolId = format!("node:{node_type}").parse()?;
    let Some(node) = runtime.catalog.get(node_type) else {
        // The plan says which type was probably meant.
        let unknown = json!({"nodes": [{"id": INNER, "type": node_type}], "edges": []});
        let (definition, handler) = handler(id, &Workflow::from_value(unknown)?, &NoWorkflows, runtime)?;
        return Ok(Tool::new(definition, NODE, handler).checked()?);
    };
    let node = node.definition();
    let one_each = Workflow::from_value(wrapped(node, &|_| 1))?;
    let (mut definition, single) = handler(id, &one_each, &NoWorkflows, runtime)?;
    definition.annotations.idempotent = node.idempotent || node.pure;
    if node.inputs.values().all(|slot| !slot.multi) {
        return Ok(Tool::new(definition, NODE, single).checked()?);
    }
    for (name, slot) in node.inputs.iter().filter(|(_, slot)| slot.multi) {
        let item = definition.parameters["properties"][name.as_str()].take();
        let mut list = json!({"type": "array", "description": slot.description, "items": item});
        if let Some(item) = list["items"].as_object_mut() {
            item.shift_remove("description");
        }
        definition.parameters["properties"][name.as_str()] = list;
        definition.defaults.shift_remove(name);
    }
    let lists = ListHandler { node: node.clone(), runtime: runtime.clone() };
    Ok(Tool::new(definition, NODE, lists).checked()?)
}

/// Runs a node that takes lists: each item comes along an edge of its own, so each call has its own plan.
struct ListHandler {
    node: NodeDefinition,
    runtime: WorkflowRuntime,
}

#[async_trait]
impl ToolHandler for ListHandler {
    async fn call(
        &self,
        mut arguments: Map<String, Value>,
        cx: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let mut items: Map<String, Value> = Map::new();
        let mut counts: Map<String, Value> = Map::new();
        for (name, _) in self.node.inputs.iter().filter(|(_, slot)| slot.multi) {
            let list = match arguments.shift_remove(name) {
                Some(Value::Array(list)) => list,
                Some(one) if !one.is_null() => vec![one],
                Some(_) | None => Vec::new(),
            };
            counts.insert(name.clone(), list.len().into());
            items.extend(list.into_iter().enumerate().map(|(at, item)| (item_name(name, at), item)));
        }
        arguments.extend(items);
        let count = |name: &str| counts.get(name).and_then(Value::as_u64).unwrap_or(0);
        let failed = |error: WorkflowToolError| ToolError::failed(error.to_string());
        let workflow =
            Workflow::from_value(wrapped(&self.node, &count)).map_err(|error| failed(error.into()))?;
        let id = cx.tool.clone();
        let (_, handler) = handler(id, &workflow, &NoWorkflows, &self.runtime).map_err(failed)?;
        handler.call(arguments, cx).await
    }
}

/// The input of the workflow that brings one item of a list; the first has the name of the slot, so that one item is the slot itself.
fn item_name(slot: &str, at: usize) -> String {
    if at == 0 { slot.to_owned() } else { format!("{slot}__{at}") }
}

/// One node between the inputs and the outputs of a workflow; a slot for several edges has as many inputs as `count` says.
fn wrapped(definition: &NodeDefinition, count: &dyn Fn(&str) -> u64) -> Value {
    let edge = |from: (&str, &str), to: (&str, &str)| json!({"source": from.0, "sourceHandle": from.1, "target": to.0, "targetHandle": to.1});
    let mut interface_inputs = Map::new();
    let mut edges = Vec::new();
    for (name, slot) in definition.inputs.iter().filter(|(_, slot)| !slot.is_stream) {
        let inputs = if slot.multi { usize::try_from(count(name)).unwrap_or(usize::MAX) } else { 1 };
        for input in (0..inputs).map(|at| item_name(name, at)) {
            edges.push(edge(("in", &input), (INNER, name)));
            interface_inputs.insert(input, interface(slot));
        }
    }
    edges.extend(definition.outputs.keys().map(|name| edge((INNER, name), ("out", name))));
    let outputs = definition.outputs.iter().map(|(name, slot)| (name.clone(), interface(slot)));
    json!({
        "name": definition.display_name,
        "description": definition.description,
        "interfaceInputs": interface_inputs,
        "interfaceOutputs": outputs.collect::<Map<_, _>>(),
        "nodes": [
            {"id": "in", "type": "core:GroupInput"},
            {"id": INNER, "type": definition.node_type},
            {"id": "out", "type": "core:GroupOutput"}
        ],
        "edges": edges,
    })
}

fn interface(slot: &SlotDefinition) -> Value {
    let mut declared = json!({
        "dataFlowType": slot.data_flow_type.as_str(), "required": slot.required, "customDescription": slot.description,
        "isStream": slot.is_stream
    });
    if let Some(default) = &slot.default {
        declared["config"] = json!({"default": default});
    }
    declared
}

//! Single nodes as tools.

use agent_types::{ToolDefinition, ToolId, nearest};
use async_trait::async_trait;
use serde_json::{Map, Value, json};
use tool_registry::{Tool, ToolContext, ToolError, ToolHandler, ToolKind, ToolOutput};
use workflow_model::{ConfigDefinition, NoWorkflows, NodeDefinition, SlotDefinition, Workflow, type_default};

use crate::definition::definition_of;
use crate::workflow::{WorkflowRuntime, WorkflowToolError, handler};

/// Kind of tools that are single nodes.
pub const NODE: ToolKind = ToolKind::own("node");

/// Code of the language that nodes are described in beside English.
const CHINESE: &str = "zh";

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
    describe(node, &mut definition, runtime);
    if node.inputs.values().all(|slot| !slot.multi) {
        return Ok(Tool::new(definition, NODE, single).checked()?);
    }
    lists_of(node, &mut definition);
    let lists = ListHandler { node: node.clone(), runtime: runtime.clone() };
    Ok(Tool::new(definition, NODE, lists).checked()?)
}

/// Adds to the definition of a node's tool what the node declares beyond its slots.
fn describe(node: &NodeDefinition, definition: &mut ToolDefinition, runtime: &WorkflowRuntime) {
    definition.annotations.idempotent = node.idempotent || node.pure;
    if let Some(text) = runtime.catalog.description(&node.node_type, CHINESE) {
        *definition = definition.clone().translated(CHINESE, text, &[]);
    }
}

/// Makes the slots that take several edges lists.
fn lists_of(node: &NodeDefinition, definition: &mut ToolDefinition) {
    for (name, slot) in node.inputs.iter().filter(|(_, slot)| slot.multi) {
        let item = definition.parameters["properties"][name.as_str()].take();
        let mut list = json!({"type": "array", "description": slot.description, "items": item});
        if let Some(item) = list["items"].as_object_mut() {
            item.shift_remove("description");
        }
        definition.parameters["properties"][name.as_str()] = list;
        definition.defaults.shift_remove(name);
    }
}

/// Settings of a node that is a tool of one agent.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct NodeToolSettings {
    /// Name of the tool; without one it is `node:<type>`.
    pub name: Option<String>,
    /// Settings that every call has.
    pub config: Map<String, Value>,
    /// Settings that a call gives.
    pub parameters: Vec<String>,
}

impl NodeToolSettings {
    /// Settings that every call has, and those that a call gives.
    #[must_use]
    pub fn new(config: Map<String, Value>, parameters: Vec<String>) -> Self {
        Self { name: None, config, parameters }
    }

    /// The same with a name of the tool.
    #[must_use]
    pub fn with_name(mut self, name: Option<String>) -> Self {
        self.name = name;
        self
    }
}

/// The tool of a node with settings: those that every call has, and those that are parameters of it.
///
/// # Errors
/// As [`node_tool`]; a parameter is not a setting of the type, or has the name of an input.
pub fn node_tool_with(
    node_type: &str,
    settings: NodeToolSettings,
    runtime: &WorkflowRuntime,
) -> Result<Tool, WorkflowToolError> {
    let Some(node) = runtime.catalog.get(node_type) else { return node_tool(node_type, runtime) };
    let node = node.definition();
    let NodeToolSettings { name, config, parameters } = settings;
    let id: ToolId = name.unwrap_or_else(|| format!("node:{node_type}")).parse()?;
    let faults = setting_faults(node, &config, &parameters);
    if !faults.is_empty() {
        return Err(WorkflowToolError::Setting(faults.join("; ")));
    }
    let is_open = |name: &String| parameters.contains(name) && !config.contains_key(name);
    let planned = node.config.iter().filter(|(name, _)| is_open(name));
    let mut sample = config.clone();
    sample.extend(planned.filter_map(|(name, setting)| Some((name.clone(), sample_of(setting)?))));
    let one_each = Workflow::from_value(with_config(wrapped(node, &|_| 1), &sample))?;
    let mut definition = match handler(id.clone(), &one_each, &NoWorkflows, runtime) {
        Ok((definition, _)) => definition,
        // A setting that calls give has no value yet that a plan could be made with.
        Err(WorkflowToolError::Plan(_)) if !parameters.is_empty() => {
            let mut definition = definition_of(id.name(), &one_each)?;
            definition.id = id;
            definition.annotations.effect = !node.pure;
            definition
        }
        Err(error) => return Err(error),
    };
    describe(node, &mut definition, runtime);
    lists_of(node, &mut definition);
    for name in &parameters {
        declare_setting(&mut definition, name, &node.config[name], config.get(name));
    }
    let part = json!({"type": node.node_type, "config": config, "parameters": parameters});
    let call = ConfiguredHandler { node: node.clone(), config, parameters, runtime: runtime.clone() };
    Ok(Tool::new(definition, NODE, call).checked()?.with_parts([("node".to_owned(), part)]))
}

/// Faults of the names: settings that the type does not have, and parameters that are inputs already.
fn setting_faults(node: &NodeDefinition, config: &Map<String, Value>, parameters: &[String]) -> Vec<String> {
    let kind = &node.node_type;
    let unknown = config.keys().chain(parameters).filter(|name| !node.config.contains_key(*name));
    let unknown = unknown.map(|name| {
        let near = nearest(name, node.config.keys().map(String::as_str));
        let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
        format!("`{name}` is not a setting of `{kind}`{near}")
    });
    let given = parameters.iter().filter(|name| node.inputs.contains_key(*name));
    unknown.chain(given.map(|name| format!("`{name}` is an input of `{kind}` already"))).collect()
}

/// A value that stands for a setting until a call gives it.
fn sample_of(setting: &ConfigDefinition) -> Option<Value> {
    setting.default.clone().or_else(|| setting.allowed.first().cloned())
}

/// Makes a setting a parameter of the tool; one with a value is optional.
fn declare_setting(
    definition: &mut ToolDefinition,
    name: &str,
    setting: &ConfigDefinition,
    fixed: Option<&Value>,
) {
    let mut property = json!({"description": setting.description});
    if let Some(kind) = setting.data_flow_type.json_type() {
        property["type"] = kind.into();
    }
    if !setting.allowed.is_empty() {
        property["enum"] = setting.allowed.clone().into();
    }
    definition.parameters["properties"][name] = property;
    match fixed.or(setting.default.as_ref()) {
        Some(default) => {
            definition.defaults.insert(name.to_owned(), default.clone());
        }
        None if setting.required => {
            if let Some(required) = definition.parameters["required"].as_array_mut() {
                required.push(name.into());
            }
        }
        None => {}
    }
}

/// Runs a node whose settings a call may give.
struct ConfiguredHandler {
    node: NodeDefinition,
    config: Map<String, Value>,
    parameters: Vec<String>,
    runtime: WorkflowRuntime,
}

#[async_trait]
impl ToolHandler for ConfiguredHandler {
    async fn call(
        &self,
        mut arguments: Map<String, Value>,
        cx: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let mut config = self.config.clone();
        for name in &self.parameters {
            if let Some(value) = arguments.shift_remove(name).filter(|value| !value.is_null()) {
                config.insert(name.clone(), value);
            }
        }
        run_planned(&self.node, &config, arguments, &self.runtime, cx).await
    }
}

/// Runs a node that takes lists: each item comes along an edge of its own, so each call has its own plan.
struct ListHandler {
    node: NodeDefinition,
    runtime: WorkflowRuntime,
}

#[async_trait]
impl ToolHandler for ListHandler {
    async fn call(&self, arguments: Map<String, Value>, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        run_planned(&self.node, &Map::new(), arguments, &self.runtime, cx).await
    }
}

/// Runs a node in a plan that is made for one call.
async fn run_planned(
    node: &NodeDefinition,
    config: &Map<String, Value>,
    mut arguments: Map<String, Value>,
    runtime: &WorkflowRuntime,
    cx: &ToolContext,
) -> Result<ToolOutput, ToolError> {
    let mut items: Map<String, Value> = Map::new();
    let mut counts: Map<String, Value> = Map::new();
    for (name, _) in node.inputs.iter().filter(|(_, slot)| slot.multi) {
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
    let file = with_config(wrapped(node, &count), config);
    let workflow = Workflow::from_value(file).map_err(|error| failed(error.into()))?;
    let (_, handler) = handler(cx.tool.clone(), &workflow, &NoWorkflows, runtime).map_err(failed)?;
    handler.call(arguments, cx).await
}

/// The wrapped node with settings.
fn with_config(mut file: Value, config: &Map<String, Value>) -> Value {
    if !config.is_empty() {
        file["nodes"][1]["configValues"] = config.clone().into();
    }
    file
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
    // A call may leave out what the node would run without: the slot has an empty value of its own then.
    let mut own = Map::new();
    for (name, slot) in definition.inputs.iter().filter(|(_, slot)| !slot.is_stream) {
        let inputs = if slot.multi { usize::try_from(count(name)).unwrap_or(usize::MAX) } else { 1 };
        for input in (0..inputs).map(|at| item_name(name, at)) {
            edges.push(edge(("in", &input), (INNER, name)));
            interface_inputs.insert(input, interface(slot));
        }
        if !slot.required && !slot.optional && !slot.multi && slot.default.is_none() {
            match type_default(slot.data_flow_type) {
                Value::Null => interface_inputs[name.as_str()]["config"] = json!({"default": null}),
                empty => _ = own.insert(name.clone(), empty),
            }
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
            {"id": INNER, "type": definition.node_type, "inputValues": own},
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

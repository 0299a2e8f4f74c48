//! Import of an execution payload: the form in which ComfyTavern asks for a run.

use serde_json::{Map, Value};

use crate::edge::Edge;
use crate::file::object::ObjectReader;
use crate::file::report::Report;
use crate::node::Node;
use crate::policy::Bypass;
use crate::slot::{DataFlowType, Slot};
use crate::structural::GROUP_OUTPUT;
use crate::types::write_implied_defaults;
use crate::workflow::{LoadError, Presence, Workflow, read_list, read_slots};

/// The id of the node that takes mapped results. Ids with a `$` belong to the machinery and have no events.
const RESULTS: &str = "$out";

/// A workflow with the arguments it is to be run with.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Payload {
    /// The workflow. Mapped results became edges into a `core:GroupOutput`, and the defaults that ComfyTavern implies stand
    /// in its interface.
    pub workflow: Workflow,
    /// Arguments, where the payload gives them; the reference writes them into the defaults of the interface.
    pub arguments: Map<String, Value>,
}

impl Payload {
    /// Reads a payload.
    ///
    /// # Errors
    /// [`LoadError::Shape`] with every fault.
    pub fn from_value(value: Value) -> Result<Self, LoadError> {
        let mut report = Report::default();
        let payload = Self::read(value, &mut report);
        let faults = report.into_faults();
        match payload {
            Some(payload) if faults.is_empty() => Ok(payload),
            Some(_) | None => Err(LoadError::Shape(faults)),
        }
    }

    fn read(value: Value, report: &mut Report) -> Option<Self> {
        let mut from = ObjectReader::new(value, report)?;
        let mut workflow = Workflow {
            id: from.optional("workflowId"),
            nodes: read_list(&mut from, "nodes", Presence::Required, read_node),
            edges: read_list(&mut from, "edges", Presence::Required, read_edge),
            interface_inputs: read_slots(&mut from, "interfaceInputs"),
            interface_outputs: read_slots(&mut from, "interfaceOutputs"),
            ..Workflow::default()
        };
        let mappings = from.free_map("outputInterfaceMappings");
        let arguments = from.free_map("arguments");
        for (name, mapping) in mappings {
            let edge = from.report.at_key("outputInterfaceMappings", |report| {
                report.at_key(&name, |report| read_mapping(&name, mapping, report))
            });
            if let Some(edge) = edge {
                add_result(&mut workflow, &name, edge);
            }
        }
        write_implied_defaults(&mut workflow);
        Some(Self { workflow, arguments })
    }
}

fn read_node(value: Value, report: &mut Report) -> Option<Node> {
    let mut from = ObjectReader::new(value, report)?;
    let id: String = from.required("id", "a text");
    let node_type: String = from.required("fullType", "a full type such as `core:TextMerge`");
    let mut node = Node::new(id, node_type);
    node.input_values = from.free_map("inputs");
    node.config_values = from.free_map("configValues");
    node.input_connection_orders = crate::node::read_connection_orders(&mut from);
    let bypassed: bool = from.optional("bypassed");
    node.bypass = bypassed.then_some(Bypass::Pass);
    node.extra = from.finish().0;
    Some(node)
}

fn read_edge(value: Value, report: &mut Report) -> Option<Edge> {
    let mut from = ObjectReader::new(value, report)?;
    let id = from.optional("id");
    let source: String = from.required("sourceNodeId", "the id of a node");
    let target: String = from.required("targetNodeId", "the id of a node");
    let mut edge = Edge::order_only(source, target);
    edge.id = id;
    edge.source_handle = from.optional("sourceHandle");
    edge.target_handle = from.optional("targetHandle");
    edge.extra = from.finish().0;
    Some(edge)
}

/// `{sourceNodeId, sourceSlotKey}` as an edge into the results.
fn read_mapping(name: &str, value: Value, report: &mut Report) -> Option<Edge> {
    let mut from = ObjectReader::new(value, report)?;
    let node: String = from.required("sourceNodeId", "the id of a node");
    let slot: String = from.required("sourceSlotKey", "an output slot");
    Some(Edge::new((node, slot), (RESULTS, name)))
}

/// Adds a mapped result, unless an edge of the payload gives it already.
fn add_result(workflow: &mut Workflow, name: &str, edge: Edge) {
    let outputs: Vec<&str> = workflow
        .nodes
        .iter()
        .filter(|node| node.node_type == GROUP_OUTPUT)
        .map(|node| node.id.as_str())
        .collect();
    let given = workflow
        .edges
        .iter()
        .any(|own| outputs.contains(&own.target.as_str()) && own.target_slot() == Some(name));
    if given {
        return;
    }
    if !outputs.contains(&RESULTS) {
        workflow.nodes.push(Node::new(RESULTS, GROUP_OUTPUT));
    }
    workflow.interface_outputs.entry(name.to_owned()).or_insert_with(|| Slot::new(DataFlowType::Wildcard));
    workflow.edges.push(edge);
}

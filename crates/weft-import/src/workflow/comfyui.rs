//! `ComfyUI`: the saved form of its editor, with subgraphs, and the form of its API.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};

use workflow_model::structural::{GROUP_INPUT, GROUP_OUTPUT, NODE_GROUP};

use super::{Mapped, WorkflowDraft};
use crate::error::ImportError;
use crate::fields::Fields;

/// The side of a subgraph where its inputs come from.
const INPUT_SIDE: &str = "-10";
/// The side where its outputs go to.
const OUTPUT_SIDE: &str = "-20";
/// Ids of the nodes that stand for the sides.
const INPUT_NODE: &str = "inputs";
const OUTPUT_NODE: &str = "outputs";

/// The name under which members without a counterpart are kept.
const SYSTEM: &str = "comfyui";

pub(super) fn read(id: &str, file: Fields<'_>) -> Result<Mapped, ImportError> {
    let mut notes = Vec::new();
    if file.peek()["nodes"].is_array() {
        let definitions = file.get("definitions").and_then(|definitions| definitions.get("subgraphs"));
        let subgraphs: Vec<Fields<'_>> = definitions.into_iter().flat_map(Fields::items).collect();
        let editor = Editor {
            subgraphs: subgraphs
                .iter()
                .filter_map(|graph| Some((graph.get("id")?.text()?, graph.peek())))
                .collect(),
            names: names(id, &subgraphs),
        };
        let mut workflows = vec![(id.to_owned(), editor.graph(file)?.finish(id, None, &mut notes)?)];
        for graph in &subgraphs {
            let named = graph.peek()["id"].as_str();
            let Some(own) = named.and_then(|id| editor.names.get(id)) else { continue };
            let name = graph.get("name").and_then(Fields::text);
            workflows.push((own.clone(), editor.graph(*graph)?.finish(own, name, &mut notes)?));
        }
        return Ok((workflows, notes));
    }
    let prompt = file.get("prompt").filter(|prompt| prompt.peek().is_object()).unwrap_or(file);
    let nodes = prompt.peek().as_object();
    let is_graph = |nodes: &&Map<String, Value>| nodes.values().any(|node| node["class_type"].is_string());
    let nodes = nodes.filter(is_graph).ok_or_else(|| {
        ImportError::Shape(
            "a graph of ComfyUI has `nodes`, or nodes by id, each with its `class_type`".into(),
        )
    })?;
    let mut draft = prompt_graph(prompt, nodes);
    if !std::ptr::eq(prompt.peek(), file.peek()) {
        draft.kept = Some((SYSTEM, file.keep_rest(&["prompt"])));
    }
    Ok((vec![(id.to_owned(), draft.finish(id, None, &mut notes)?)], notes))
}

/// The form of the API: nodes by id, whose inputs are values or `[node, output]`.
fn prompt_graph(prompt: Fields<'_>, nodes: &Map<String, Value>) -> WorkflowDraft {
    let mut draft = WorkflowDraft::default();
    for (id, node) in prompt.members() {
        let Some(class) = node.get("class_type").and_then(Fields::text) else {
            draft.note(id, "it has no `class_type` and was left out");
            continue;
        };
        let mut values = Map::new();
        for (slot, value) in node.get("inputs").into_iter().flat_map(Fields::members) {
            let value = value.take();
            if let Some((source, output)) = linked(value, nodes) {
                draft.edge((&source, Some(&output)), (id, Some(slot)));
                continue;
            }
            if let Some(gone) = dangling(value) {
                draft.note(id, format!("`{slot}` leads to the node `{gone}`, which is not in the file"));
            }
            values.insert(slot.clone(), value.clone());
        }
        let mut written = json!({"id": id, "type": foreign(class)});
        if !values.is_empty() {
            written["inputValues"] = values.into();
        }
        if let Some(title) = node.get("_meta").and_then(|meta| meta.get("title")?.text()) {
            written["displayName"] = title.into();
        }
        keep(&mut written, node.keep_rest(&[]));
        draft.nodes.push(written);
    }
    draft
}

/// Writes what is kept of a part beside its own members.
fn keep(written: &mut Value, rest: Map<String, Value>) {
    if !rest.is_empty() {
        written[SYSTEM] = rest.into();
    }
}

/// `[node, output]`, where there is such a node.
fn linked(value: &Value, nodes: &Map<String, Value>) -> Option<(String, String)> {
    let [source, output] = value.as_array()?.as_slice() else { return None };
    let source = id_text(source).filter(|source| nodes.contains_key(source))?;
    Some((source, output.as_u64()?.to_string()))
}

/// The node that a link names, where it has the form of a link and that node is missing.
fn dangling(value: &Value) -> Option<&str> {
    let [Value::String(source), output] = value.as_array()?.as_slice() else { return None };
    output.is_u64().then_some(source)
}

/// An id that is written as a number or a text.
fn id_text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned).or_else(|| value.is_number().then(|| value.to_string()))
}

fn foreign(class: &str) -> String {
    format!("comfyui:{class}")
}

/// The saved form of the editor.
struct Editor<'f> {
    subgraphs: HashMap<&'f str, &'f Value>,
    /// The workflow that a subgraph becomes.
    names: HashMap<&'f str, String>,
}

/// Workflows for the subgraphs, no two alike: what cannot stand in the name of a file is replaced, and a name that is taken then
/// gets a number.
fn names<'f>(base: &str, subgraphs: &[Fields<'f>]) -> HashMap<&'f str, String> {
    let is_plain = |letter: char| letter.is_alphanumeric() || matches!(letter, '-' | '_');
    let mut names = HashMap::new();
    let mut taken = HashSet::new();
    for id in subgraphs.iter().filter_map(|graph| graph.peek()["id"].as_str()) {
        if names.contains_key(id) {
            continue;
        }
        let plain: String = id.chars().map(|letter| if is_plain(letter) { letter } else { '_' }).collect();
        // Some file systems do not tell the cases of letters apart.
        let is_free = |name: &String| !taken.contains(&name.to_lowercase());
        let numbered = (2_u64..).map(|number| format!("{plain}-{number}"));
        let name = std::iter::once(plain.clone()).chain(numbered).find(is_free).unwrap_or_default();
        taken.insert(name.to_lowercase());
        names.insert(id, format!("{base}/{name}"));
    }
    names
}

/// A link, in either spelling.
struct Link {
    source: String,
    output: u64,
    target: String,
    input: u64,
}

impl Link {
    fn read(link: &Value) -> Option<Self> {
        let field = |at: usize, name: &str| link.get(at).or_else(|| link.get(name));
        Some(Self {
            source: id_text(field(1, "origin_id")?)?,
            output: field(2, "origin_slot")?.as_u64()?,
            target: id_text(field(3, "target_id")?)?,
            input: field(4, "target_slot")?.as_u64()?,
        })
    }
}

impl Editor<'_> {
    /// A graph, be it the file or one of its subgraphs.
    fn graph(&self, graph: Fields<'_>) -> Result<WorkflowDraft, ImportError> {
        let mut draft = WorkflowDraft::default();
        let mut nodes: HashMap<String, &Value> = HashMap::new();
        for node in graph.get("nodes").into_iter().flat_map(Fields::items) {
            let Some(id) = node.get("id").and_then(Fields::id) else {
                return Err(ImportError::Shape("nodes: a node has no id".into()));
            };
            draft.nodes.push(self.node(&id, node));
            nodes.insert(id, node.peek());
        }
        for link in graph.get("links").into_iter().flat_map(Fields::items) {
            self.link(link, graph.peek(), &nodes, &mut draft);
        }
        if is_subgraph(graph.peek()) {
            sides(&mut draft, graph);
        }
        draft.kept = Some((SYSTEM, graph.keep_rest(&["nodes", "links", "definitions"])));
        Ok(draft)
    }

    /// A link as an edge. Its id and the type of its values follow from the rest.
    fn link(
        &self,
        link: Fields<'_>,
        graph: &Value,
        nodes: &HashMap<String, &Value>,
        draft: &mut WorkflowDraft,
    ) {
        let Some(read) = Link::read(link.peek()) else { return };
        let source = match &*read.source {
            INPUT_SIDE if is_subgraph(graph) => Some((INPUT_NODE, slot_name(&graph["inputs"], read.output))),
            id => nodes.get(id).map(|node| (id, self.slot(node, "outputs", read.output))),
        };
        let target = match &*read.target {
            OUTPUT_SIDE if is_subgraph(graph) => {
                Some((OUTPUT_NODE, slot_name(&graph["outputs"], read.input)))
            }
            id => nodes.get(id).map(|node| (id, self.slot(node, "inputs", read.input))),
        };
        match (source, target) {
            (Some(source), Some(target)) => {
                link.take();
                draft.edge((source.0, Some(&source.1)), (target.0, Some(&target.1)));
            }
            (Some((node, _)), None) | (None, Some((node, _))) => {
                draft.note(node, "a link with its other end nowhere was left out");
            }
            (None, None) => {}
        }
    }

    fn node(&self, id: &str, node: Fields<'_>) -> Value {
        let class = node.get("type").and_then(Fields::text).unwrap_or_default();
        let mut written = json!({"id": id});
        if let Some(name) = self.names.get(class) {
            written["type"] = NODE_GROUP.into();
            written["configValues"] = json!({"referencedWorkflowId": name});
        } else {
            written["type"] = foreign(class).into();
            if let Some(widgets) = node.get("widgets_values") {
                written["configValues"] = json!({"widgets_values": widgets.take()});
            }
        }
        let mode = node.get("mode").filter(|mode| matches!(mode.peek().as_u64(), Some(0 | 2 | 4)));
        match mode.and_then(Fields::whole) {
            Some(2) => written["bypass"] = "mute".into(),
            Some(4) => written["bypass"] = "pass".into(),
            _ => {}
        }
        if let Some(title) = node.get("title").and_then(Fields::text) {
            written["displayName"] = title.into();
        }
        let position = node.get("pos");
        if let (Some(x), Some(y)) = (coordinate(position, 0), coordinate(position, 1)) {
            written["position"] = json!({"x": x, "y": y});
        }
        keep(&mut written, node.keep_rest(&[]));
        written
    }

    /// The name of a slot; for a subgraph that of its own definition.
    fn slot(&self, node: &Value, side: &str, index: u64) -> String {
        let class = node["type"].as_str().unwrap_or_default();
        match self.subgraphs.get(class) {
            // An instance may show its slots in another order; it names them as the definition does.
            Some(graph) => {
                let own = slot_name(&node[side], index);
                let is_known = graph[side].as_array().into_iter().flatten().any(|slot| slot["name"] == *own);
                if is_known { own } else { slot_name(&graph[side], index) }
            }
            None => slot_name(&node[side], index),
        }
    }
}

/// A graph inside another has an interface.
fn is_subgraph(graph: &Value) -> bool {
    graph["inputs"].is_array() || graph["outputs"].is_array()
}

/// A position is a list, or an object with the places as keys.
fn coordinate(position: Option<Fields<'_>>, at: usize) -> Option<f64> {
    let position = position?;
    position.item(at).or_else(|| position.get(&at.to_string()))?.number()
}

/// The name of a slot by its place. Names may repeat: then the place makes the difference.
fn slot_name(slots: &Value, index: u64) -> String {
    let slots = slots.as_array().map_or(&[][..], Vec::as_slice);
    let at = usize::try_from(index).unwrap_or(usize::MAX);
    match slots.get(at).and_then(|slot| slot["name"].as_str()) {
        Some(name) if !name.is_empty() => {
            let repeats = slots[..at].iter().any(|slot| slot["name"] == *name);
            if repeats { format!("{name}.{index}") } else { name.to_owned() }
        }
        _ => index.to_string(),
    }
}

/// The interface of a subgraph, and the nodes that stand for it.
fn sides(draft: &mut WorkflowDraft, graph: Fields<'_>) {
    let interface = |side: &str| -> Map<String, Value> {
        let slots = graph.get(side).into_iter().flat_map(Fields::items).enumerate();
        slots
            .map(|(index, slot)| {
                let name = slot_name(&graph.peek()[side], index as u64);
                let kind = slot.get("type").map_or("WILDCARD", |kind| data_flow_type(kind.take()));
                slot.get("name").and_then(Fields::text);
                let mut declared = json!({"key": name, "dataFlowType": kind});
                if let Some(label) = slot.get("label").and_then(Fields::text) {
                    declared["displayName"] = label.into();
                }
                keep(&mut declared, slot.keep_rest(&[]));
                (name, declared)
            })
            .collect()
    };
    draft.inputs = interface("inputs");
    draft.outputs = interface("outputs");
    for (id, node_type) in [(INPUT_NODE, GROUP_INPUT), (OUTPUT_NODE, GROUP_OUTPUT)] {
        draft.nodes.push(json!({"id": id, "type": node_type}));
    }
}

fn data_flow_type(kind: &Value) -> &'static str {
    match kind.as_str() {
        Some("STRING") => "STRING",
        Some("INT") => "INTEGER",
        Some("FLOAT") => "FLOAT",
        Some("BOOLEAN") => "BOOLEAN",
        _ => "WILDCARD",
    }
}

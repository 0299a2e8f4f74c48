//! `ComfyUI`: the saved form of its editor, with subgraphs, and the form of its API.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};

use super::{Draft, ImportError, Imported, id_text};
use crate::structural::{GROUP_INPUT, GROUP_OUTPUT, NODE_GROUP};

/// The side of a subgraph where its inputs come from.
const INPUT_SIDE: &str = "-10";
/// The side where its outputs go to.
const OUTPUT_SIDE: &str = "-20";
/// Ids of the nodes that stand for the sides.
const INPUT_NODE: &str = "inputs";
const OUTPUT_NODE: &str = "outputs";

/// Reads a graph of `ComfyUI`. Each subgraph becomes a workflow of its own, named `ID/SUBGRAPH`.
///
/// Muted nodes are muted, bypassed ones hand their inputs on. Links that lead nowhere are left out and told.
///
/// # Errors
/// The text is no JSON, or no graph of `ComfyUI`.
pub fn from_comfyui(id: &str, text: &str) -> Result<Imported, ImportError> {
    let file: Value = serde_json::from_str(text)?;
    let mut notes = Vec::new();
    if file["nodes"].is_array() {
        let empty = Vec::new();
        let subgraphs = file["definitions"]["subgraphs"].as_array().unwrap_or(&empty);
        let editor = Editor {
            subgraphs: subgraphs.iter().filter_map(|graph| Some((graph["id"].as_str()?, graph))).collect(),
            names: names(id, subgraphs),
        };
        let mut workflows = vec![(id.to_owned(), editor.graph(&file)?.finish(id, None, &mut notes)?)];
        for graph in subgraphs {
            let Some(own) = graph["id"].as_str().and_then(|id| editor.names.get(id)) else { continue };
            let workflow = editor.graph(graph)?.finish(own, graph["name"].as_str(), &mut notes)?;
            workflows.push((own.clone(), workflow));
        }
        return Ok(Imported { workflows, notes });
    }
    let prompt = if file["prompt"].is_object() { &file["prompt"] } else { &file };
    let nodes = prompt.as_object().filter(|nodes| nodes.values().any(|node| node["class_type"].is_string()));
    let nodes = nodes.ok_or_else(|| {
        ImportError::Shape(
            "a graph of ComfyUI has `nodes`, or nodes by id, each with its `class_type`".into(),
        )
    })?;
    let workflow = prompt_graph(nodes).finish(id, None, &mut notes)?;
    Ok(Imported { workflows: vec![(id.to_owned(), workflow)], notes })
}

/// The form of the API: nodes by id, whose inputs are values or `[node, output]`.
fn prompt_graph(nodes: &Map<String, Value>) -> Draft {
    let mut draft = Draft::default();
    for (id, node) in nodes {
        let Some(class) = node["class_type"].as_str() else {
            draft.note(id, "it has no `class_type` and was left out");
            continue;
        };
        let mut values = Map::new();
        for (slot, value) in node["inputs"].as_object().into_iter().flatten() {
            match linked(value, nodes) {
                Some((source, output)) => draft.edge((&source, Some(&output)), (id, Some(slot))),
                None => {
                    values.insert(slot.clone(), value.clone());
                }
            }
        }
        let mut written = json!({"id": id, "type": foreign(class)});
        if !values.is_empty() {
            written["inputValues"] = values.into();
        }
        if let Some(title) = node["_meta"]["title"].as_str() {
            written["displayName"] = title.into();
        }
        draft.nodes.push(written);
    }
    draft
}

/// `[node, output]`, where there is such a node.
fn linked(value: &Value, nodes: &Map<String, Value>) -> Option<(String, String)> {
    let [source, output] = value.as_array()?.as_slice() else { return None };
    let source = id_text(source).filter(|source| nodes.contains_key(source))?;
    Some((source, output.as_u64()?.to_string()))
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
fn names<'f>(base: &str, subgraphs: &'f [Value]) -> HashMap<&'f str, String> {
    let is_plain = |letter: char| letter.is_alphanumeric() || matches!(letter, '-' | '_');
    let mut names = HashMap::new();
    let mut taken = HashSet::new();
    for id in subgraphs.iter().filter_map(|graph| graph["id"].as_str()) {
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
        let field = |at: usize, name: &str| match link {
            Value::Array(fields) => fields.get(at),
            _ => link.get(name),
        };
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
    fn graph(&self, graph: &Value) -> Result<Draft, ImportError> {
        let mut draft = Draft::default();
        let mut nodes: HashMap<String, &Value> = HashMap::new();
        for node in graph["nodes"].as_array().into_iter().flatten() {
            let Some(id) = id_text(&node["id"]) else {
                return Err(ImportError::Shape("nodes: a node has no id".into()));
            };
            draft.nodes.push(self.node(&id, node));
            nodes.insert(id, node);
        }
        let is_subgraph = graph["inputs"].is_array() || graph["outputs"].is_array();
        for link in graph["links"].as_array().into_iter().flatten() {
            let Some(link) = Link::read(link) else { continue };
            let source = match &*link.source {
                INPUT_SIDE if is_subgraph => Some((INPUT_NODE, slot_name(&graph["inputs"], link.output))),
                id => nodes.get(id).map(|node| (id, self.slot(node, "outputs", link.output))),
            };
            let target = match &*link.target {
                OUTPUT_SIDE if is_subgraph => Some((OUTPUT_NODE, slot_name(&graph["outputs"], link.input))),
                id => nodes.get(id).map(|node| (id, self.slot(node, "inputs", link.input))),
            };
            match (source, target) {
                (Some(source), Some(target)) => {
                    draft.edge((source.0, Some(&source.1)), (target.0, Some(&target.1)));
                }
                (Some((node, _)), None) | (None, Some((node, _))) => {
                    draft.note(node, "a link with its other end nowhere was left out");
                }
                (None, None) => {}
            }
        }
        if is_subgraph {
            sides(&mut draft, graph);
        }
        Ok(draft)
    }

    fn node(&self, id: &str, node: &Value) -> Value {
        let class = node["type"].as_str().unwrap_or_default();
        let mut written = json!({"id": id});
        if let Some(name) = self.names.get(class) {
            written["type"] = NODE_GROUP.into();
            written["configValues"] = json!({"referencedWorkflowId": name});
        } else {
            written["type"] = foreign(class).into();
            if let Some(widgets) = node.get("widgets_values").filter(|widgets| !widgets.is_null()) {
                written["configValues"] = json!({"widgets_values": widgets});
            }
        }
        match node["mode"].as_u64() {
            Some(2) => written["bypass"] = "mute".into(),
            Some(4) => written["bypass"] = "pass".into(),
            _ => {}
        }
        if let Some(title) = node["title"].as_str() {
            written["displayName"] = title.into();
        }
        if let (Some(x), Some(y)) = (coordinate(&node["pos"], 0), coordinate(&node["pos"], 1)) {
            written["position"] = json!({"x": x, "y": y});
        }
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

/// A position is a list, or an object with the places as keys.
fn coordinate(position: &Value, at: usize) -> Option<f64> {
    match position {
        Value::Array(list) => list.get(at)?.as_f64(),
        _ => position.get(at.to_string())?.as_f64(),
    }
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
fn sides(draft: &mut Draft, graph: &Value) {
    let interface = |side: &Value| -> Map<String, Value> {
        let slots = side.as_array().into_iter().flatten().enumerate();
        slots
            .map(|(index, slot)| {
                let name = slot_name(side, index as u64);
                let mut declared = json!({"key": name, "dataFlowType": data_flow_type(&slot["type"])});
                if let Some(label) = slot["label"].as_str() {
                    declared["displayName"] = label.into();
                }
                (name, declared)
            })
            .collect()
    };
    draft.inputs = interface(&graph["inputs"]);
    draft.outputs = interface(&graph["outputs"]);
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

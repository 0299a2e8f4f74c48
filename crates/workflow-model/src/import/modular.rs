//! Modular-agent workflows: their structure. Edges of that format say what comes next and carry no values.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::{Map, Value, json};

use super::{Draft, ImportError, Imported, id_text};
use crate::structural::{GROUP_INPUT, GROUP_OUTPUT, LOOP_ZONE, NODE_GROUP};
use crate::workflow::Variable;

/// Reads the structure of a modular-agent workflow.
///
/// A `LOOP_START` and its `LOOP_END` become a loop zone around what lies between them, `START` and `END` the ends of
/// the workflow, `SUBGRAPH` a node group; all edges are order only. Other nodes keep their type as `modular:TYPE` and
/// their settings. Conditions on edges, routes, forks and loops that cross each other have no counterpart and are
/// told.
///
/// Files that wrap the workflow in `workflow`, name the ends of edges `from` and `to`, or write types in small letters
/// are of older generations and are read as well.
///
/// # Errors
/// The text is no JSON, or has no `nodes`.
pub fn from_modular(id: &str, text: &str) -> Result<Imported, ImportError> {
    from_modular_value(id, &serde_json::from_str(text)?)
}

/// The same for a file that was read already, such as one in TOML.
///
/// # Errors
/// It has no `nodes`.
pub fn from_modular_value(id: &str, file: &Value) -> Result<Imported, ImportError> {
    let file = if file["workflow"].is_object() { &file["workflow"] } else { file };
    let nodes = file["nodes"].as_array();
    let nodes =
        nodes.ok_or_else(|| ImportError::Shape("a modular-agent workflow has a list `nodes`".into()))?;
    let graph = Structure::read(nodes, &file["edges"])?;
    let mut draft = Draft { inputs: parameters(&file["parameters"]), ..Draft::default() };
    let loops = graph.loops(&mut draft);
    graph.write_nodes(&loops, &mut draft);
    graph.write_edges(&loops, &file["edges"], &mut draft);
    let mut notes = Vec::new();
    let mut workflow = draft.finish(id, file["name"].as_str(), &mut notes)?;
    workflow.description = file["description"].as_str().map(str::to_owned);
    let variables = file["variables"].as_array().into_iter().flatten();
    workflow.variables = variables
        .filter_map(|variable| {
            Some(Variable::new(variable["name"].as_str()?, variable["defaultValue"].clone()))
        })
        .collect();
    Ok(Imported { workflows: vec![(id.to_owned(), workflow)], notes })
}

/// What the workflow is called with.
fn parameters(declared: &Value) -> Map<String, Value> {
    let parameters = declared.as_object().into_iter().flatten();
    parameters
        .map(|(name, parameter)| {
            let mut slot = json!({"key": name, "dataFlowType": data_flow_type(&parameter["type"])});
            if let Some(description) = parameter["description"].as_str() {
                slot["customDescription"] = description.into();
            }
            if parameter["required"] == true {
                slot["required"] = true.into();
            }
            if let Some(default) = parameter.get("default") {
                slot["config"] = json!({"default": default});
            }
            (name.clone(), slot)
        })
        .collect()
}

fn data_flow_type(kind: &Value) -> &'static str {
    match kind.as_str() {
        Some("string") => "STRING",
        Some("integer") => "INTEGER",
        Some("number") => "FLOAT",
        Some("boolean") => "BOOLEAN",
        Some("object") => "OBJECT",
        Some("array") => "ARRAY",
        _ => "WILDCARD",
    }
}

/// Nodes by id, and what follows and precedes each.
struct Structure<'f> {
    nodes: Vec<(String, &'f Value)>,
    indexes: HashMap<String, usize>,
    after: Vec<Vec<usize>>,
    before: Vec<Vec<usize>>,
}

/// A pair of loop nodes that became a zone, whose id is that of its start.
struct Zone {
    start: usize,
    end: usize,
    body: HashSet<usize>,
}

/// The type, in capitals as in the newest generation.
fn kind(node: &Value) -> String {
    node["type"].as_str().unwrap_or_default().to_uppercase()
}

/// An end of an edge.
fn end(edge: &Value, keys: [&str; 2]) -> Option<String> {
    keys.iter().find_map(|key| id_text(&edge[*key]))
}

impl<'f> Structure<'f> {
    fn read(list: &'f [Value], edges: &Value) -> Result<Self, ImportError> {
        let mut nodes = Vec::with_capacity(list.len());
        let mut indexes = HashMap::new();
        for node in list {
            let id =
                id_text(&node["id"]).ok_or_else(|| ImportError::Shape("nodes: a node has no id".into()))?;
            indexes.entry(id.clone()).or_insert(nodes.len());
            nodes.push((id, node));
        }
        let mut graph = Self {
            after: vec![Vec::new(); nodes.len()],
            before: vec![Vec::new(); nodes.len()],
            nodes,
            indexes,
        };
        for edge in edges.as_array().into_iter().flatten() {
            if let (Some(source), Some(target)) = graph.ends(edge) {
                graph.after[source].push(target);
                graph.before[target].push(source);
            }
        }
        Ok(graph)
    }

    fn ends(&self, edge: &Value) -> (Option<usize>, Option<usize>) {
        let index = |keys| self.indexes.get(&end(edge, keys)?).copied();
        (index(["sourceNodeId", "from"]), index(["targetNodeId", "to"]))
    }

    /// The loops that nest, outermost first.
    fn loops(&self, draft: &mut Draft) -> Vec<Zone> {
        let mut open: BTreeMap<String, (Vec<usize>, Vec<usize>)> = BTreeMap::new();
        for (index, (_, node)) in self.nodes.iter().enumerate() {
            let loop_id = || id_text(&node["config"]["loopId"]).unwrap_or_default();
            match &*kind(node) {
                "LOOP_START" => open.entry(loop_id()).or_default().0.push(index),
                "LOOP_END" => open.entry(loop_id()).or_default().1.push(index),
                _ => {}
            }
        }
        let mut zones = Vec::new();
        for (loop_id, ends) in open {
            match (&*ends.0, &*ends.1) {
                (&[start], &[end]) => zones.push(self.zone(start, end)),
                (starts, ends) => {
                    let message =
                        format!("the loop `{loop_id}` has {} starts and {} ends", starts.len(), ends.len());
                    for node in starts.iter().chain(ends) {
                        draft.note(&self.nodes[*node].0, message.clone());
                    }
                }
            }
        }
        zones.sort_by_key(|zone: &Zone| (std::cmp::Reverse(zone.body.len()), zone.start));
        let mut nested: Vec<Zone> = Vec::new();
        for zone in zones {
            let fits = |outer: &Zone| {
                let mut own = zone.body.iter().chain([&zone.start, &zone.end]);
                let first_inside = outer.body.contains(&zone.start);
                own.all(|node| outer.body.contains(node) == first_inside)
                    && (first_inside || !zone.body.contains(&outer.start))
            };
            if nested.iter().all(fits) {
                nested.push(zone);
            } else {
                draft.note(
                    &self.nodes[zone.start].0,
                    "this loop crosses another one and is kept as two nodes",
                );
            }
        }
        nested
    }

    /// What lies between: reached from the start, and reaching the end, without passing either.
    fn zone(&self, start: usize, end: usize) -> Zone {
        let ahead = reach(&self.after, start, end);
        let behind = reach(&self.before, end, start);
        Zone { start, end, body: ahead.intersection(&behind).copied().collect() }
    }

    fn write_nodes(&self, loops: &[Zone], draft: &mut Draft) {
        let mut has_output = false;
        for (index, (id, node)) in self.nodes.iter().enumerate() {
            if loops.iter().any(|zone| zone.end == index) {
                continue;
            }
            let config = &node["config"];
            let mut written = json!({"id": id});
            match &*kind(node) {
                "START" => written["type"] = GROUP_INPUT.into(),
                "END" if !has_output => {
                    has_output = true;
                    written["type"] = GROUP_OUTPUT.into();
                }
                "SUBGRAPH" => {
                    written["type"] = NODE_GROUP.into();
                    written["configValues"] = json!({"referencedWorkflowId": config["subgraphId"]});
                    if config["async"] == true {
                        draft.note(id, "the subgraph is waited for; `async` has no counterpart");
                    }
                }
                "LOOP_START" if loops.iter().any(|zone| zone.start == index) => {
                    let end = loops.iter().find(|zone| zone.start == index).map_or(index, |zone| zone.end);
                    written["type"] = LOOP_ZONE.into();
                    written["configValues"] =
                        zone_settings(id, config, &self.nodes[end].1["config"], draft).into();
                }
                other => {
                    written["type"] = format!("modular:{other}").into();
                    let mut settings = config.as_object().cloned().unwrap_or_default();
                    if let Some(function) = node.get("function") {
                        settings.insert("function".into(), function.clone());
                    }
                    if !settings.is_empty() {
                        written["configValues"] = settings.into();
                    }
                    if matches!(other, "ROUTE" | "ROUTING" | "CONDITION" | "FORK" | "JOIN") {
                        draft.note(
                            id,
                            format!("what {other} decides has no counterpart among order-only edges"),
                        );
                    }
                }
            }
            if let Some(name) = node["name"].as_str() {
                written["displayName"] = name.into();
            }
            let holder =
                loops.iter().filter(|zone| zone.body.contains(&index)).min_by_key(|zone| zone.body.len());
            if let Some(zone) = holder {
                written["parentNode"] = self.nodes[zone.start].0.as_str().into();
            }
            draft.nodes.push(written);
        }
    }

    fn write_edges(&self, loops: &[Zone], edges: &Value, draft: &mut Draft) {
        for edge in edges.as_array().into_iter().flatten() {
            let (Some(source), Some(target)) = self.ends(edge) else {
                let known = end(edge, ["sourceNodeId", "from"]).unwrap_or_default();
                draft.note(known, "an edge with its other end nowhere was left out");
                continue;
            };
            let leads_in = loops
                .iter()
                .any(|zone| zone.start == source && (zone.body.contains(&target) || zone.end == target));
            let leads_back = loops.iter().any(|zone| zone.end == target);
            if leads_in || leads_back {
                continue;
            }
            if let Some(condition) =
                edge["condition"]["expression"].as_str().or_else(|| edge["condition"].as_str())
            {
                let message = format!(
                    "the condition `{condition}` of an edge has no counterpart; use a `core:Condition`"
                );
                draft.note(&self.nodes[source].0, message);
            }
            let leaves =
                loops.iter().find(|zone| zone.body.contains(&source) && !zone.body.contains(&target));
            if leaves.is_some() {
                draft.note(&self.nodes[source].0, "an edge out of the middle of a loop was left out");
                continue;
            }
            // What follows the end of a loop follows the zone.
            let source = loops.iter().find(|zone| zone.end == source).map_or(source, |zone| zone.start);
            draft.edge((&self.nodes[source].0, None), (&self.nodes[target].0, None));
        }
    }
}

/// All nodes that are reached from one without passing the other.
fn reach(next: &[Vec<usize>], from: usize, stop: usize) -> HashSet<usize> {
    let mut seen = HashSet::new();
    let mut open = next[from].clone();
    while let Some(node) = open.pop() {
        if node != stop && node != from && seen.insert(node) {
            open.extend(&next[node]);
        }
    }
    seen
}

/// The settings of a zone, from those of the start and of the end of a loop.
fn zone_settings(id: &str, start: &Value, end: &Value, draft: &mut Draft) -> Map<String, Value> {
    let mut settings = Map::new();
    let max = start["maxIterations"].as_u64();
    if let Some(max) = max {
        settings.insert("maxIterations".into(), max.into());
    }
    let condition = end["breakCondition"]["expression"].as_str().or_else(|| end["breakCondition"].as_str());
    let iterable = &start["dataSource"]["iterable"];
    if !iterable.is_null() {
        settings.insert("mode".into(), "each".into());
        draft.note(id, format!("the list `{iterable}` must be led into the slot `items`"));
    } else if let Some(condition) = condition {
        settings.insert("mode".into(), "until".into());
        settings.insert("condition".into(), condition.into());
        draft.note(id, format!("write the condition `{condition}` over `state`, `index` and `out`"));
    } else {
        settings.insert("mode".into(), "times".into());
        settings.insert("times".into(), max.unwrap_or(1).into());
    }
    settings
}

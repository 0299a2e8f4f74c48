//! Modular-agent workflows: their structure. Edges of that format say what comes next and carry no values; only the reply
//! of the one model that leads to the end becomes a result.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::{Map, Value, json};

use workflow_model::structural::{GROUP_INPUT, GROUP_OUTPUT, LOOP_ZONE, NODE_GROUP};
use workflow_model::{Variable, Workflow};

use super::{Mapped, WorkflowDraft};
use crate::error::ImportError;
use crate::fields::Fields;

/// Type of a node that asks a model.
const LLM_REQUEST: &str = "agent:LlmApiRequest";

/// Slot of its reply, and of the result that it becomes.
const REPLY: &str = "text";

/// The name under which members without a counterpart are kept.
const SYSTEM: &str = "modular";

pub(super) fn read(id: &str, file: Fields<'_>) -> Result<Mapped, ImportError> {
    let whole = file;
    let inner = file.get("workflow").filter(|inner| inner.peek().is_object());
    let file = inner.unwrap_or(file);
    let nodes = file.get("nodes").filter(|nodes| nodes.peek().is_array());
    let nodes =
        nodes.ok_or_else(|| ImportError::Shape("a modular-agent workflow has a list `nodes`".into()))?;
    let edges: Vec<Fields<'_>> = file.get("edges").into_iter().flat_map(Fields::items).collect();
    let graph = Structure::read(nodes, &edges)?;
    let inputs = file.get("parameters").map(parameters).unwrap_or_default();
    let mut draft = WorkflowDraft { inputs, ..WorkflowDraft::default() };
    let loops = graph.loops(&mut draft);
    graph.write_nodes(&loops, &mut draft);
    graph.write_edges(&loops, &edges, &mut draft);
    let name = file.get("name").and_then(Fields::text);
    let description = file.get("description").and_then(Fields::text);
    let variables = file.get("variables").into_iter().flat_map(Fields::items);
    let variables = variables.filter_map(variable).collect();
    let available_tools = file.get("availableTools").filter(|tools| tools.peek().is_object());
    let bare = available_tools.map(|tools| json!({"nodes": [], "edges": [], "availableTools": tools.take()}));
    let available_tools = bare.map(Workflow::from_value).transpose()?.and_then(|bare| bare.available_tools);
    let mut rest = file.keep_rest(&["nodes", "edges", "parameters"]);
    if inner.is_some() {
        rest.extend(whole.keep_rest(&["workflow"]));
    }
    draft.kept = Some((SYSTEM, rest));
    let mut notes = Vec::new();
    let mut workflow = draft.finish(id, name, &mut notes)?;
    workflow.description = description.map(str::to_owned);
    workflow.variables = variables;
    workflow.available_tools = available_tools;
    Ok((vec![(id.to_owned(), workflow)], notes))
}

/// A variable; its other members are kept with the file.
fn variable(variable: Fields<'_>) -> Option<Variable> {
    let name = variable.get("name")?.text()?;
    let default = variable.get("defaultValue").map(Fields::take).cloned().unwrap_or_default();
    Some(Variable::new(name, default))
}

/// The arguments that the workflow is called with.
fn parameters(declared: Fields<'_>) -> Map<String, Value> {
    let parameters = declared.members();
    parameters
        .map(|(name, parameter)| {
            let kind = parameter.one_of("type", &TYPES).unwrap_or("WILDCARD");
            let mut slot = json!({"key": name, "dataFlowType": kind});
            if let Some(description) = parameter.get("description").and_then(Fields::text) {
                slot["customDescription"] = description.into();
            }
            if parameter.get("required").and_then(Fields::truth) == Some(true) {
                slot["required"] = true.into();
            }
            if let Some(default) = parameter.get("default") {
                slot["config"] = json!({"default": default.take()});
            }
            keep(&mut slot, parameter.keep_rest(&[]));
            (name.clone(), slot)
        })
        .collect()
}

/// Writes what is kept of a part beside its own members.
fn keep(written: &mut Value, rest: Map<String, Value>) {
    if !rest.is_empty() {
        written[SYSTEM] = rest.into();
    }
}

/// Types of parameters.
const TYPES: [(&str, &str); 6] = [
    ("string", "STRING"),
    ("integer", "INTEGER"),
    ("number", "FLOAT"),
    ("boolean", "BOOLEAN"),
    ("object", "OBJECT"),
    ("array", "ARRAY"),
];

/// Nodes by id, and what follows and precedes each.
struct Structure<'f> {
    nodes: Vec<(String, Fields<'f>)>,
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
fn kind(node: Fields<'_>) -> String {
    node.get("type").and_then(Fields::text).unwrap_or_default().to_uppercase()
}

/// An end of an edge.
fn end(edge: Fields<'_>, keys: [&str; 2]) -> Option<String> {
    keys.iter().find_map(|key| edge.get(key)?.id())
}

impl<'f> Structure<'f> {
    fn read(list: Fields<'f>, edges: &[Fields<'_>]) -> Result<Self, ImportError> {
        let mut nodes = Vec::new();
        let mut indexes = HashMap::new();
        for node in list.items() {
            let id = node.get("id").and_then(Fields::id);
            let id = id.ok_or_else(|| ImportError::Shape("nodes: a node has no id".into()))?;
            indexes.entry(id.clone()).or_insert(nodes.len());
            nodes.push((id, node));
        }
        let mut graph = Self {
            after: vec![Vec::new(); nodes.len()],
            before: vec![Vec::new(); nodes.len()],
            nodes,
            indexes,
        };
        for edge in edges {
            if let (Some(source), Some(target)) = graph.ends(*edge) {
                graph.after[source].push(target);
                graph.before[target].push(source);
            }
        }
        Ok(graph)
    }

    fn ends(&self, edge: Fields<'_>) -> (Option<usize>, Option<usize>) {
        let index = |keys| self.indexes.get(&end(edge, keys)?).copied();
        (index(["sourceNodeId", "from"]), index(["targetNodeId", "to"]))
    }

    /// The loops that nest, outermost first.
    fn loops(&self, draft: &mut WorkflowDraft) -> Vec<Zone> {
        let mut open: BTreeMap<String, (Vec<usize>, Vec<usize>)> = BTreeMap::new();
        for (index, (_, node)) in self.nodes.iter().enumerate() {
            let loop_id =
                || node.get("config").and_then(|config| config.get("loopId")?.id()).unwrap_or_default();
            match &*kind(*node) {
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

    /// Nodes between start and end: reached from the start, and reaching the end, without passing either.
    fn zone(&self, start: usize, end: usize) -> Zone {
        let ahead = reach(&self.after, start, end);
        let behind = reach(&self.before, end, start);
        Zone { start, end, body: ahead.intersection(&behind).copied().collect() }
    }

    fn write_nodes(&self, loops: &[Zone], draft: &mut WorkflowDraft) {
        let mut has_output = false;
        for (index, (id, node)) in self.nodes.iter().enumerate() {
            if loops.iter().any(|zone| zone.end == index) {
                continue;
            }
            let mut written = json!({"id": id});
            match &*kind(*node) {
                "START" => written["type"] = GROUP_INPUT.into(),
                "END" if !has_output => {
                    has_output = true;
                    written["type"] = GROUP_OUTPUT.into();
                }
                "LLM" => model_node(id, *node, &mut written, draft),
                "SUBGRAPH" => subgraph(id, *node, &mut written, draft),
                "LOOP_START" if loops.iter().any(|zone| zone.start == index) => {
                    let end = loops.iter().find(|zone| zone.start == index).map_or(index, |zone| zone.end);
                    written["type"] = LOOP_ZONE.into();
                    let settings = zone_settings(id, *node, self.nodes[end].1, draft);
                    written["configValues"] = settings.into();
                    let rest = self.nodes[end].1.keep_rest(&[]);
                    if !rest.is_empty() {
                        written[SYSTEM] = json!({"end": rest});
                    }
                }
                other => plain_node(id, other, *node, &mut written, draft),
            }
            if let Some(name) = node.get("name").and_then(Fields::text) {
                written["displayName"] = name.into();
            }
            let holder =
                loops.iter().filter(|zone| zone.body.contains(&index)).min_by_key(|zone| zone.body.len());
            if let Some(zone) = holder {
                written["parentNode"] = self.nodes[zone.start].0.as_str().into();
            }
            for (name, value) in node.keep_rest(&[]) {
                written[SYSTEM][name] = value;
            }
            draft.nodes.push(written);
        }
    }

    /// The node that asks a model and leads to the end, with the end, where it is the only one.
    fn answering(&self) -> Option<(usize, usize)> {
        let is = |kind_of: &str, node: usize| kind(self.nodes[node].1) == kind_of;
        let end = (0..self.nodes.len()).find(|node| is("END", *node))?;
        let mut models = self.before[end].iter().filter(|node| is("LLM", **node));
        models.next().filter(|_| models.next().is_none()).map(|model| (*model, end))
    }

    fn write_edges(&self, loops: &[Zone], edges: &[Fields<'_>], draft: &mut WorkflowDraft) {
        let answering = self.answering();
        for edge in edges {
            let (Some(source), Some(target)) = self.ends(*edge) else {
                let known = end(*edge, ["sourceNodeId", "from"]).unwrap_or_default();
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
            if let Some(condition) = edge.get("condition").and_then(expression) {
                let message =
                    format!("the condition `{condition}` of an edge is unsupported; use a `core:Condition`");
                draft.note(&self.nodes[source].0, message);
            }
            let leaves =
                loops.iter().find(|zone| zone.body.contains(&source) && !zone.body.contains(&target));
            if leaves.is_some() {
                draft.note(&self.nodes[source].0, "an edge out of the middle of a loop was left out");
                continue;
            }
            let slot = (answering == Some((source, target))).then_some(REPLY);
            if slot.is_some() {
                draft.outputs.insert(REPLY.to_owned(), json!({"dataFlowType": "STRING"}));
            }
            // What follows the end of a loop follows the zone.
            let source = loops.iter().find(|zone| zone.end == source).map_or(source, |zone| zone.start);
            draft.edge((&self.nodes[source].0, slot), (&self.nodes[target].0, slot));
            if let Some(written) = draft.edges.last_mut() {
                keep(written, edge.keep_rest(&["condition"]));
            }
        }
    }
}

/// The text of a condition, which may stand in an object. It is not taken: conditions are reported.
fn expression(condition: Fields<'_>) -> Option<&str> {
    let condition = condition.peek();
    condition["expression"].as_str().or_else(|| condition.as_str())
}

/// A call of another workflow, which is waited for.
fn subgraph(id: &str, node: Fields<'_>, written: &mut Value, draft: &mut WorkflowDraft) {
    let config = node.get("config");
    let named = config.and_then(|config| config.get("subgraphId")).map(Fields::take);
    written["type"] = NODE_GROUP.into();
    written["configValues"] = json!({"referencedWorkflowId": named});
    if config.is_some_and(|config| config.peek()["async"] == true) {
        draft.note(id, "the subgraph is waited for; `async` is unsupported");
    }
}

/// Settings of a node that asks a model, which have the same names here.
const MODEL_SETTINGS: [&str; 5] = ["profileId", "prompt", "parameters", "maxToolCalls", "dynamicTools"];

/// A node that asks a model. Its other settings are kept.
fn model_node(id: &str, node: Fields<'_>, written: &mut Value, draft: &mut WorkflowDraft) {
    written["type"] = LLM_REQUEST.into();
    let mut settings = Map::new();
    for name in MODEL_SETTINGS {
        let setting = node.get("config").and_then(|config| config.get(name));
        settings.extend(setting.map(|setting| (name.to_owned(), setting.take().clone())));
    }
    if settings.get("prompt").and_then(Value::as_str).is_some_and(|prompt| prompt.contains("{{")) {
        draft.note(
            id,
            "`prompt` holds placeholders, which are not filled: lead values in by `agent:FormatPrompt`",
        );
    }
    if !settings.is_empty() {
        written["configValues"] = settings.into();
    }
    let rest = node.get("config").map(|config| config.keep_rest(&MODEL_SETTINGS)).unwrap_or_default();
    if !rest.is_empty() {
        written[SYSTEM] = json!({"config": rest});
    }
}

/// A node that keeps its type and settings.
fn plain_node(id: &str, kind: &str, node: Fields<'_>, written: &mut Value, draft: &mut WorkflowDraft) {
    written["type"] = format!("modular:{kind}").into();
    let mut settings = node.get("config").and_then(Fields::object).cloned().unwrap_or_default();
    if let Some(function) = node.get("function") {
        settings.insert("function".into(), function.take().clone());
    }
    if !settings.is_empty() {
        written["configValues"] = settings.into();
    }
    if matches!(kind, "ROUTE" | "ROUTING" | "CONDITION" | "FORK" | "JOIN") {
        draft.note(id, format!("order-only edges cannot carry the decision of {kind}: unsupported"));
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
fn zone_settings(
    id: &str,
    start: Fields<'_>,
    end: Fields<'_>,
    draft: &mut WorkflowDraft,
) -> Map<String, Value> {
    let mut settings = Map::new();
    let max = start.get("config").and_then(|config| config.get("maxIterations")?.whole());
    if let Some(max) = max {
        settings.insert("maxIterations".into(), max.into());
    }
    let condition = end.get("config").and_then(|config| config.get("breakCondition"));
    let iterable = start.peek()["config"]["dataSource"]["iterable"].clone();
    if !iterable.is_null() {
        settings.insert("mode".into(), "each".into());
        draft.note(id, format!("the list `{iterable}` must be led into the slot `items`"));
    } else if let Some(written) = condition.and_then(expression) {
        settings.insert("mode".into(), "until".into());
        settings.insert("condition".into(), written.into());
        if let Some(condition) = condition {
            condition.get("expression").unwrap_or(condition).text();
        }
        draft.note(id, format!("write the condition `{written}` over `state`, `index` and `out`"));
    } else {
        settings.insert("mode".into(), "times".into());
        settings.insert("times".into(), max.unwrap_or(1).into());
    }
    settings
}

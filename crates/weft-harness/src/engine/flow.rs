//! From the short notation of flows to workflows.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use workflow_model::{Workflow, WorkflowSource};

use super::ops::{MANY, OPERATIONS, REST};
use super::{known_keys, object};
use weft_scenarios::Fault;

/// Ids of the machinery; nodes with a `$` have no events.
const INPUT: &str = "$in";
const OUTPUT: &str = "$out";
const STATE: &str = "$s";
const NEXT: &str = "$n";
/// A carried value that is never read: a loop whose input is not a list only waits for it.
const WAIT: &str = "$w";

/// Options that any operation takes, and their keys in a file.
const COMMON: [(&str, &str); 8] = [
    ("timeout_ms", "timeoutMs"),
    ("idle_ms", "idleMs"),
    ("total_ms", "totalMs"),
    ("group", "group"),
    ("effect", "effect"),
    ("skip_if", "skipIf"),
    ("first", "first"),
    ("cancel_rest", "cancelRest"),
];

/// The flows of a case as workflows.
#[derive(Debug)]
pub(crate) struct Flows {
    workflows: BTreeMap<String, Arc<Workflow>>,
    pub(crate) versions: Vec<String>,
}

impl WorkflowSource for Flows {
    fn workflow(&self, id: &str) -> Option<Arc<Workflow>> {
        self.workflows.get(id).cloned()
    }

    fn workflow_ids(&self) -> Vec<String> {
        self.workflows.keys().cloned().collect()
    }
}

impl Flows {
    pub(crate) fn read(flows: &Map<String, Value>) -> Result<Self, Fault> {
        let mut read = Self { workflows: BTreeMap::new(), versions: Vec::new() };
        for (name, flow) in flows {
            let mut builder = Builder { flows, versions: &mut read.versions };
            let file = builder.workflow(flow).map_err(|fault| format!("flow `{name}`: {fault}"))?;
            let workflow = Workflow::from_value(file).map_err(|error| format!("flow `{name}`: {error}"))?;
            read.workflows.insert(name.clone(), Arc::new(workflow));
        }
        read.versions.sort();
        read.versions.dedup();
        Ok(read)
    }
}

struct Builder<'a> {
    flows: &'a Map<String, Value>,
    versions: &'a mut Vec<String>,
}

/// A graph as it grows.
#[derive(Default)]
struct Parts {
    nodes: Vec<Value>,
    edges: Vec<Value>,
}

impl Parts {
    fn edge(&mut self, from: (&str, Option<&str>), to: (&str, Option<&str>)) {
        self.edges
            .push(json!({"source": from.0, "sourceHandle": from.1, "target": to.0, "targetHandle": to.1}));
    }

    /// Wires one `<in>` to the slot for several edges; a constant stands behind them.
    fn wire_many(&mut self, from: &Value, node: &str) -> Result<(), Fault> {
        let Some(constant) = from.get("c") else { return self.wire(from, node, MANY) };
        let target = self.nodes.iter_mut().find(|own| own["id"] == node);
        let target = target.ok_or_else(|| format!("no node `{node}`"))?;
        // A constant is a value of the slot itself: it does not wait for an edge.
        target["inputValues"][MANY] = json!([]);
        let rest = &mut target["configValues"][REST];
        match rest.as_array_mut() {
            Some(rest) => rest.push(constant.clone()),
            None => *rest = json!([constant]),
        }
        Ok(())
    }

    /// Wires one `<in>` to an input slot; a constant becomes a value of the node.
    fn wire(&mut self, from: &Value, node: &str, slot: &str) -> Result<(), Fault> {
        if let Some(constant) = from.get("c") {
            let target = self.nodes.iter_mut().find(|own| own["id"] == node);
            let target = target.ok_or_else(|| format!("no node `{node}`"))?;
            target["inputValues"][slot] = constant.clone();
            return Ok(());
        }
        let text = from.as_str().ok_or_else(|| format!("expected an input, found {from}"))?;
        let (source, output) = match text {
            "$i" => (STATE, Some("index")),
            "$item" => (STATE, Some("item")),
            "$left" => (STATE, Some("remaining")),
            _ => match text.split_once('.') {
                Some((source, output)) => (source, Some(output)),
                None => (text, None),
            },
        };
        self.edge((source, output), (node, Some(slot)));
        Ok(())
    }
}

impl Builder<'_> {
    fn workflow(&mut self, flow: &Value) -> Result<Value, Fault> {
        let flow = object(flow)?;
        known_keys(flow, &["in", "n", "after", "out", "edges", "chains"])?;
        let mut parts = Parts::default();
        let wild = || json!({"dataFlowType": "WILDCARD"});
        let inputs: Map<String, Value> =
            names(flow.get("in"))?.into_iter().map(|name| (name, wild())).collect();
        if !inputs.is_empty() {
            parts.nodes.push(json!({"id": INPUT, "type": "core:GroupInput"}));
        }
        let outputs = self.graph(flow, &mut parts)?;
        let outputs: Map<String, Value> = outputs.into_iter().map(|name| (name, wild())).collect();
        Ok(
            json!({"nodes": parts.nodes, "edges": parts.edges, "interfaceInputs": inputs, "interfaceOutputs": outputs}),
        )
    }

    /// Nodes, edges and results of a flow or body; gives the names of the results.
    fn graph(&mut self, flow: &Map<String, Value>, parts: &mut Parts) -> Result<Vec<String>, Fault> {
        let nodes = flow.get("n").map(object).transpose()?;
        for (id, node) in nodes.into_iter().flatten() {
            self.node(id, node, parts).map_err(|fault| format!("node `{id}`: {fault}"))?;
        }
        for chain in list(flow.get("chains"))? {
            self.chain(object(chain)?, parts)?;
        }
        for (id, node) in nodes.into_iter().flatten() {
            self.inputs(id, node, parts).map_err(|fault| format!("node `{id}`: {fault}"))?;
        }
        for pair in list(flow.get("after"))? {
            let (from, to) = (pair[0].as_str().unwrap_or_default(), pair[1].as_str().unwrap_or_default());
            parts.edge((from, None), (to, None));
        }
        for edge in list(flow.get("edges"))? {
            let target = edge[1].as_str().unwrap_or_default().to_owned();
            parts.wire(&edge[0], &target, &edge[2].to_string())?;
        }
        let results = flow.get("out").map(object).transpose()?;
        let Some(results) = results else { return Ok(Vec::new()) };
        parts.nodes.push(json!({"id": OUTPUT, "type": "core:GroupOutput"}));
        for (name, from) in results {
            parts.wire(from, OUTPUT, name)?;
        }
        Ok(results.keys().cloned().collect())
    }

    fn chain(&mut self, chain: &Map<String, Value>, parts: &mut Parts) -> Result<(), Fault> {
        known_keys(chain, &["prefix", "op", "length", "in"])?;
        let prefix = chain.get("prefix").and_then(Value::as_str).unwrap_or_default();
        let length = chain.get("length").and_then(Value::as_u64).unwrap_or(0);
        let op = chain.get("op").cloned().unwrap_or_default();
        let mut from = chain.get("in").cloned().unwrap_or_default();
        let first = parts.nodes.len();
        for at in 0..length {
            let id = format!("{prefix}{at}");
            self.node(&id, &op, parts)?;
            if matches!(op[0].as_str(), Some("list" | "sum")) {
                parts.wire_many(&from, &id)?;
            } else if at == 0 && from.get("c").is_some() {
                parts.nodes[first]["inputValues"]["0"] = from["c"].clone();
            } else {
                parts.wire(&from, &id, "0")?;
            }
            from = json!(id);
        }
        Ok(())
    }

    fn node(&mut self, id: &str, node: &Value, parts: &mut Parts) -> Result<(), Fault> {
        let op = node[0].as_str().ok_or("expected [operation, options, inputs…]")?;
        let options = node.get(1).map(object).transpose()?.cloned().unwrap_or_default();
        let mut file = json!({"id": id});
        let mut config = Map::new();
        for (key, value) in &options {
            if !common_option(key, value, &mut file)? {
                config.insert(key.clone(), value.clone());
            }
        }
        match op {
            "sub" => {
                known_keys(&config, &["flow"])?;
                file["type"] = json!("core:NodeGroup");
                file["configValues"] = json!({"referencedWorkflowId": config.get("flow")});
            }
            "loop" => {
                file["type"] = json!("core:LoopZone");
                let waits = node.get(2).is_some()
                    && (config.get("items").is_some() || config.get("mode") != Some(&json!("each")));
                file["configValues"] = self.zone(&config, waits)?;
            }
            _ => {
                let (_, own) = OPERATIONS
                    .iter()
                    .find(|(name, _)| *name == op)
                    .ok_or_else(|| format!("unknown operation `{op}`"))?;
                let version = config
                    .remove("version")
                    .map(|version| version.as_str().map_or_else(|| version.to_string(), str::to_owned));
                let allowed: Vec<&str> = own.iter().copied().chain(["guard"]).collect();
                known_keys(&config, &allowed)?;
                file["type"] = json!(
                    version
                        .as_ref()
                        .map_or_else(|| format!("op:{op}"), |version| format!("op:{op}@{version}"))
                );
                self.versions.extend(version);
                file["configValues"] = Value::Object(config);
            }
        }
        parts.nodes.push(file);
        Ok(())
    }

    /// Edges and constants into a node.
    fn inputs(&mut self, id: &str, node: &Value, parts: &mut Parts) -> Result<(), Fault> {
        let op = node[0].as_str().unwrap_or_default();
        let inputs = node.as_array().map_or(&[][..], |node| node.get(2..).unwrap_or_default());
        let options = node.get(1).and_then(Value::as_object);
        match op {
            "sub" => {
                let flow = options
                    .and_then(|options| options.get("flow"))
                    .and_then(Value::as_str)
                    .unwrap_or_default();
                let inner = self.flows.get(flow).ok_or_else(|| format!("no flow `{flow}`"))?;
                for (name, from) in names(inner.get("in"))?.iter().zip(inputs) {
                    parts.wire(from, id, name)?;
                }
            }
            "loop" => {
                let state = options.and_then(|options| options.get("state")).and_then(Value::as_object);
                for (key, first) in state.into_iter().flatten() {
                    if let Some(from) = first.get("in") {
                        parts.wire(from, id, key)?;
                    }
                }
                let items = options.and_then(|options| options.get("items"));
                if let Some(items) = items {
                    parts.wire(&json!({"c": items}), id, "items")?;
                }
                let is_each = options.is_some_and(|options| options.get("mode") == Some(&json!("each")));
                for from in inputs.iter().take(1) {
                    let slot = if is_each && items.is_none() { "items" } else { WAIT };
                    parts.wire(from, id, slot)?;
                }
            }
            "list" | "sum" => {
                for from in inputs {
                    parts.wire_many(from, id)?;
                }
            }
            _ => {
                for (at, from) in inputs.iter().enumerate() {
                    parts.wire(from, id, &at.to_string())?;
                }
            }
        }
        Ok(())
    }

    fn zone(&mut self, options: &Map<String, Value>, waits: bool) -> Result<Value, Fault> {
        known_keys(
            options,
            &[
                "mode",
                "state",
                "body",
                "next",
                "cond",
                "test",
                "times",
                "items",
                "max",
                "on_max",
                "par",
                "on_item_error",
                "on_pass_error",
                "collect",
            ],
        )?;
        let empty = Map::new();
        let state = options.get("state").map(object).transpose()?.unwrap_or(&empty);
        let keys = state.iter().map(|(key, first)| match first.get("in") {
            Some(_) => json!({ "key": key }),
            None => json!({"key": key, "initial": first}),
        });
        let mut zone = json!({
            "mode": options.get("mode").cloned().unwrap_or_else(|| json!("until")),
            "state": keys.chain(waits.then(|| json!({"key": WAIT}))).collect::<Vec<_>>(),
            "onMax": options.get("on_max").cloned().unwrap_or_else(|| json!("fail")),
        });
        for (short, long) in [
            ("cond", "condition"),
            ("test", "test"),
            ("times", "times"),
            ("max", "maxIterations"),
            ("par", "parallel"),
            ("on_item_error", "onItemError"),
            ("on_pass_error", "onPassError"),
            ("collect", "collect"),
        ] {
            if let Some(value) = options.get(short) {
                zone[long] = value.clone();
            }
        }
        let mut parts = Parts::default();
        for (id, node_type) in
            [(STATE, "core:LoopState"), (NEXT, "core:LoopNext"), (INPUT, "core:GroupInput")]
        {
            parts.nodes.push(json!({"id": id, "type": node_type}));
        }
        let body = options.get("body").ok_or("a loop needs a body")?;
        let body = object(body)?;
        known_keys(body, &["n", "after", "out", "edges", "chains"])?;
        self.graph(body, &mut parts)?;
        for (key, from) in options.get("next").map(object).transpose()?.unwrap_or(&empty) {
            parts.wire(from, NEXT, key)?;
        }
        zone["body"] = json!({"nodes": parts.nodes, "edges": parts.edges});
        Ok(zone)
    }
}

/// Options that any operation takes; false for one that is not among them.
fn common_option(key: &str, value: &Value, file: &mut Value) -> Result<bool, Fault> {
    if let Some((_, long)) = COMMON.iter().find(|(short, _)| *short == key) {
        file[*long] = value.clone();
        return Ok(true);
    }
    let slots = |value: &Value| -> Result<Vec<String>, Fault> {
        Ok(list(Some(value))?.iter().map(ToString::to_string).collect())
    };
    match key {
        "retry" => {
            let retry = object(value)?;
            known_keys(retry, &["max", "backoff_ms"])?;
            file["retry"] =
                json!({"max": retry.get("max"), "backoffMs": retry.get("backoff_ms").unwrap_or(&json!(0))});
        }
        "on_error" => file["onError"] = value.clone(),
        "lazy" => file["lazy"] = json!(slots(value)?),
        "cache" => {
            file["cache"] = match value.get("key") {
                Some(keys) => json!({"key": slots(keys)?}),
                None => value.clone(),
            }
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn list(value: Option<&Value>) -> Result<&[Value], Fault> {
    match value {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(items)) => Ok(items),
        Some(other) => Err(format!("expected a list, found {other}")),
    }
}

fn names(value: Option<&Value>) -> Result<Vec<String>, Fault> {
    list(value)?
        .iter()
        .map(|name| name.as_str().map(str::to_owned).ok_or_else(|| format!("expected a name, found {name}")))
        .collect()
}

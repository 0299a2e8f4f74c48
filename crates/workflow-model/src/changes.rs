//! Differences between two versions of a workflow that matter to a run.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::Workflow;

/// Keys of a node that change nothing of what it does.
const LOOKS: [&str; 4] = ["position", "displayName", "size", "width"];

/// Ids of nodes that are new, gone, or do or take something else; a container counts with what is inside it.
#[must_use]
pub fn changed_nodes(before: &Workflow, after: &Workflow) -> BTreeSet<String> {
    let (before, after) = (Sketch::from_workflow(before), Sketch::from_workflow(after));
    let ids = before.nodes.keys().chain(after.nodes.keys());
    let mut changed: BTreeSet<String> =
        ids.filter(|id| before.nodes.get(*id) != after.nodes.get(*id)).cloned().collect();
    // Around what has changed, everything has.
    let mut open: Vec<String> = changed.iter().cloned().collect();
    while let Some(id) = open.pop() {
        let parents = [before.parents.get(&id), after.parents.get(&id)];
        for parent in parents.into_iter().flatten() {
            if changed.insert(parent.clone()) {
                open.push(parent.clone());
            }
        }
    }
    changed
}

/// Type, settings and inputs of each node, by its id.
struct Sketch {
    nodes: BTreeMap<String, (Value, Vec<String>)>,
    parents: BTreeMap<String, String>,
}

impl Sketch {
    fn from_workflow(workflow: &Workflow) -> Self {
        let whole = workflow.to_value();
        let list = |key: &str| whole.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
        let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        let (mut nodes, mut parents) = (BTreeMap::new(), BTreeMap::new());
        for mut node in list("nodes") {
            let Some(id) = text(&node, "id") else { continue };
            if let Some(parent) = text(&node, "parentNode") {
                parents.insert(id.clone(), parent);
            }
            if let Value::Object(node) = &mut node {
                LOOKS.iter().for_each(|key| drop(node.remove(*key)));
            }
            nodes.insert(id, (node, Vec::new()));
        }
        for edge in list("edges") {
            let Some((_, taken)) = text(&edge, "target").and_then(|target| nodes.get_mut(&target)) else {
                continue;
            };
            let part = |key: &str| text(&edge, key).unwrap_or_default();
            taken.push(format!("{} {} {}", part("source"), part("sourceHandle"), part("targetHandle")));
        }
        nodes.values_mut().for_each(|(_, taken)| taken.sort());
        Self { nodes, parents }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_matters_to_a_run_is_a_change() {
        let flow = |config: Value, x: u32, source: &str| {
            Workflow::from_value(json!({
                "nodes": [{"id": "a", "type": "t"}, {"id": "b", "type": "t", "position": {"x": x, "y": 0}},
                    {"id": "L", "type": "core:LoopZone"},
                    {"id": "c", "type": "t", "parentNode": "L", "configValues": config}],
                "edges": [{"source": source, "target": "b"}]}))
            .unwrap()
        };
        let base = flow(json!({"k": 1}), 0, "a");
        let changed = |other: &Workflow| -> Vec<String> { changed_nodes(&base, other).into_iter().collect() };
        assert_eq!(changed(&flow(json!({"k": 1}), 50, "a")), [] as [&str; 0]);
        assert_eq!(changed(&flow(json!({"k": 2}), 0, "a")), ["L", "c"]);
        assert_eq!(changed(&flow(json!({"k": 1}), 0, "L")), ["b"]);
    }
}

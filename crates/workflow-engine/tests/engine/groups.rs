//! Workflows inside workflows.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use workflow_engine::{Plan, RunOptions};
use workflow_model::{Workflow, WorkflowSource};

use crate::common::{Seen, catalog, run_plan};

pub(crate) struct Project(pub(crate) BTreeMap<&'static str, Arc<Workflow>>);

impl WorkflowSource for Project {
    fn workflow(&self, id: &str) -> Option<Arc<Workflow>> {
        self.0.get(id).cloned()
    }

    fn workflow_ids(&self) -> Vec<String> {
        self.0.keys().map(|id| (*id).to_owned()).collect()
    }
}

/// Waits 50 ms with `a` and adds 1.
fn inner() -> Workflow {
    Workflow::from_value(json!({
        "nodes": [{"id": "gi", "type": "core:GroupInput"}, {"id": "w", "type": "t:wait", "configValues": {"ms": 50}},
                  {"id": "t", "type": "t:add"}, {"id": "go", "type": "core:GroupOutput"}],
        "edges": [{"source": "gi", "sourceHandle": "a", "target": "w", "targetHandle": "in"},
                  {"source": "w", "sourceHandle": "out", "target": "t", "targetHandle": "in"},
                  {"source": "t", "sourceHandle": "out", "target": "go", "targetHandle": "v"}],
        "interfaceInputs": {"a": {"dataFlowType": "INTEGER", "config": {"default": 10}}},
        "interfaceOutputs": {"v": {"dataFlowType": "INTEGER"}}
    }))
    .unwrap()
}

/// Two uses of the inner workflow, one behind the other; the first has these settings too.
fn run(extra: Value) -> Seen {
    let group = |id: &str| json!({"id": id, "type": "core:NodeGroup", "configValues": {"referencedWorkflowId": "inner"}});
    let mut first = group("S");
    first.as_object_mut().unwrap().extend(extra.as_object().cloned().unwrap());
    let file = json!({
        "nodes": [first, group("T"), {"id": "$out", "type": "core:GroupOutput"}],
        "edges": [{"source": "S", "sourceHandle": "v", "target": "T", "targetHandle": "a"},
                  {"source": "T", "sourceHandle": "v", "target": "$out", "targetHandle": "r"}],
        "interfaceOutputs": {"r": {"dataFlowType": "INTEGER"}}
    });
    let project = Project(BTreeMap::from([("inner", Arc::new(inner()))]));
    let plan = Plan::new(&Workflow::from_value(file).unwrap(), &catalog(), &project).unwrap();
    run_plan(&plan, json!({}), RunOptions::new(), |_| async {})
}

#[test]
fn a_group_is_wired_straight_through() {
    let seen = run(json!({}));
    assert_eq!(seen.outcome.outputs["r"], 12);
    assert_eq!(
        seen.ends(),
        [
            "node.finished S/w value=10",
            "node.finished S/t value=11",
            "node.finished T/w value=11",
            "node.finished T/t value=12",
            "run.finished status=ok"
        ]
    );
}

#[test]
fn a_group_with_rules_runs_as_one_node() {
    let seen = run(json!({"timeoutMs": 1000, "inputValues": {"a": 1}}));
    assert_eq!(seen.outcome.outputs["r"], 3);
    assert_eq!(
        seen.ends()[..3],
        ["node.finished S/w value=1", "node.finished S/t value=2", "node.finished S value=2"]
    );

    let seen = run(json!({"timeoutMs": 20, "retry": {"max": 1, "backoffMs": 0}, "onError": {"default": 7}}));
    assert_eq!(seen.outcome.outputs["r"], 8);
    assert_eq!(seen.elapsed, Duration::from_millis(20 + 20 + 50));
    let lines = seen.lines();
    assert!(lines.contains(&"node.retrying S kind=timeout".to_owned()), "{lines:#?}");
    assert!(lines.contains(&"node.finished S handled=default value=7".to_owned()), "{lines:#?}");
}

#[test]
fn a_workflow_is_one_step() {
    let step = |id: &str| json!({"type": "core:Workflow", "configValues": {"workflow": id}});
    let seen = run(step("inner"));
    assert_eq!(seen.outcome.outputs["r"], 12);
    assert_eq!(
        seen.ends()[..3],
        ["node.finished S/w value=10", "node.finished S/t value=11", "node.finished S value=11"]
    );
}

#[test]
fn a_workflow_that_is_not_there_or_contains_itself_is_refused() {
    let file = |id: &str| {
        let step = json!({"id": "s", "type": "core:Workflow", "configValues": {"workflow": id}});
        Workflow::from_value(json!({"nodes": [step], "edges": []})).unwrap()
    };
    let project = Project(BTreeMap::from([("inner", Arc::new(inner())), ("ring", Arc::new(file("ring")))]));
    for (id, message) in [
        ("ring", "the workflow embeds itself: ring → ring"),
        ("iner", "no workflow has the id `iner`; did you mean `inner`?"),
    ] {
        let error = Plan::new(&file(id), &catalog(), &project).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
    let without = json!({"nodes": [{"id": "s", "type": "core:Workflow"}], "edges": []});
    let error = Plan::new(&Workflow::from_value(without).unwrap(), &catalog(), &project).unwrap_err();
    assert!(error.to_string().contains("`workflow` must name a workflow"), "{error}");
}

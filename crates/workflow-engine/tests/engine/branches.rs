//! Branches that are not taken: what runs, what is skipped, and what the check says before.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use workflow_engine::{Plan, RunOptions};
use workflow_model::{NoWorkflows, Workflow};

use crate::common::{Seen, catalog, flow, run_plan, run_with};
use crate::groups::Project;

/// The nodes of a run that finished, and those that were skipped.
fn sides(seen: &Seen) -> (Vec<String>, Vec<String>) {
    assert_eq!(seen.outcome.error, None);
    let of = |kind: &str| {
        let ends = seen.ends();
        let lines = ends.iter().filter_map(|line| line.strip_prefix(kind));
        let mut names: Vec<String> =
            lines.map(|line| line.split(' ').next().unwrap_or_default().to_owned()).collect();
        names.sort();
        names
    };
    (of("node.finished "), of("node.skipped "))
}

/// A condition `c` that is true, a constant `k`, a node `x` behind the side that is not taken, and a node `n` with these
/// keys, behind these edges.
fn behind(n: (&str, Value), edges: &[&str]) -> (Vec<String>, Vec<String>) {
    let nodes = [
        ("s", "emit", json!({"v": true})),
        ("k", "emit", json!({"v": 7})),
        ("c", "if", json!({})),
        ("x", "id", json!({})),
        ("n", n.0, n.1),
        ("after", "id", json!({})),
    ];
    let fixed = ["s.out -> c.in", "c.else -> x.in", "n.out -> after.in"];
    let all: Vec<&str> = fixed.into_iter().chain(edges.iter().copied()).collect();
    let (ran, skipped) = sides(&run_with(&flow(&nodes, &all, &[]), json!({}), RunOptions::new()));
    let only =
        |names: Vec<String>| names.into_iter().filter(|name| ["n", "after"].contains(&&**name)).collect();
    (only(ran), only(skipped))
}

#[test]
fn each_connected_slot_needs_a_value() {
    for (what, node, extra, edges, runs) in [
        ("all taken", "pure", json!({}), &["k.out -> n.in", "c.then -> n.other"][..], true),
        ("one slot is empty", "pure", json!({}), &["k.out -> n.in", "c.else -> n.other"], false),
        ("the only slot is empty", "pure", json!({}), &["c.else -> n.other"], false),
        ("an effect with a hole", "effect", json!({}), &["c.else -> n.in", "k -> n"], false),
        ("several edges in a slot are a join", "list", json!({}), &["c.else -> n.in", "k.out -> n.in"], true),
        ("a join without a value", "list", json!({}), &["c.else -> n.in"], false),
        (
            "the file gives a value",
            "pure",
            json!({"inputValues": {"other": 1}}),
            &["k.out -> n.in", "c.else -> n.other"],
            true,
        ),
        (
            "only a value of the file",
            "pure",
            json!({"inputValues": {"other": 1}}),
            &["c.else -> n.other"],
            true,
        ),
        (
            "the type makes sense without",
            "optional",
            json!({}),
            &["k.out -> n.in", "c.else -> n.other"],
            true,
        ),
        ("and with nothing at all", "optional", json!({}), &["c.else -> n.other"], true),
        (
            "first takes what there is",
            "pure",
            json!({"first": true}),
            &["k.out -> n.in", "c.else -> n.other"],
            true,
        ),
        ("first without any", "pure", json!({"first": true}), &["c.else -> n.other"], false),
        ("order, none taken", "pure", json!({}), &["k.out -> n.in", "x -> n"], false),
        ("order, one taken", "pure", json!({}), &["k.out -> n.in", "x -> n", "k -> n"], true),
        ("order alone, none taken", "emit", json!({}), &["x -> n"], false),
    ] {
        let seen = behind((node, extra), edges);
        let both = vec!["after".to_owned(), "n".to_owned()];
        let expected = if runs { (both, Vec::new()) } else { (Vec::new(), both) };
        assert_eq!(seen, expected, "{what}");
    }
}

#[test]
fn the_cause_is_that_of_the_empty_slot() {
    let nodes = [
        ("s", "emit", json!({"v": true})),
        ("c", "if", json!({})),
        ("d", "if", json!({})),
        ("n", "pure", json!({})),
    ];
    let edges = ["s.out -> c.in", "c.then -> d.in", "c.then -> n.in", "d.else -> n.other"];
    let ends = run_with(&flow(&nodes, &edges, &[]), json!({}), RunOptions::new()).ends();
    assert!(ends.contains(&"node.skipped n cause=d".to_owned()), "{ends:?}");
}

#[test]
fn sides_that_exclude_each_other_may_share_a_slot() {
    for (value, expected) in [(true, json!({"r": 1})), (false, json!({"r": 101}))] {
        let nodes = [
            ("s", "emit", json!({"v": value})),
            ("one", "emit", json!({"v": 0})),
            ("c", "if", json!({})),
            ("a", "add", json!({"n": 1})),
            ("b", "add", json!({"n": 101})),
            ("m", "id", json!({})),
        ];
        let edges = ["s.out -> c.in", "c.then -> a.in", "c.else -> b.in", "a.out -> m.in", "b.out -> m.in"];
        let seen = run_with(&flow(&nodes, &edges, &[("r", "m.out")]), json!({}), RunOptions::new());
        assert_eq!(Value::Object(seen.outcome.outputs.clone()), expected);
    }
}

/// The problems of a workflow, one line each.
fn problems(workflow: &Workflow) -> Vec<String> {
    let line = |problem: &agent_types::Problem| {
        format!("{} {}", problem.code, problem.place.node.as_deref().unwrap_or("-"))
    };
    match Plan::new(workflow, &catalog(), &NoWorkflows) {
        Ok(plan) => plan.warnings().iter().map(line).collect(),
        Err(error) => error.problems.iter().map(line).collect(),
    }
}

#[test]
fn the_check_finds_what_never_runs_and_what_may_meet() {
    let base = || {
        vec![
            ("s", "emit", json!({"v": true})),
            ("c", "if", json!({})),
            ("d", "if", json!({})),
            ("e", "fail", json!({"onError": "branch"})),
            ("n", "pure", json!({})),
            ("z", "id", json!({})),
        ]
    };
    for (what, edges, expected) in [
        ("both sides", &["c.then -> n.in", "c.else -> n.other", "n.out -> z.in"][..], &["never_runs n"][..]),
        ("sides of two", &["c.then -> n.in", "d.else -> n.other"], &[]),
        ("error and result", &["e.out -> n.in", "e.error -> n.other"], &["never_runs n"]),
        ("result and error in one slot", &["e.out -> n.in", "e.error -> n.in"], &[]),
        ("sides of two in one slot", &["c.then -> n.in", "d.else -> n.in"], &["duplicate_input n"]),
        (
            "the same side twice",
            &["c.then -> n.in", "c.then -> z.in", "z.out -> n.in"],
            &["duplicate_input n"],
        ),
        ("no branch at all", &["s.out -> n.in", "e.out -> n.in"], &["duplicate_input n"]),
    ] {
        let all: Vec<&str> =
            ["s.out -> c.in", "s.out -> d.in"].into_iter().chain(edges.iter().copied()).collect();
        assert_eq!(problems(&flow(&base(), &all, &[])), expected, "{what}");
    }
}

/// A group that counts its effect and adds 1 to `a`, behind a condition that is false.
fn group(slot: Value, own: Value) -> Seen {
    let inner = json!({
        "nodes": [{"id": "gi", "type": "core:GroupInput"}, {"id": "t", "type": "t:add"}, {"id": "p", "type": "t:effect"},
                  {"id": "go", "type": "core:GroupOutput"}],
        "edges": [{"source": "gi", "sourceHandle": "a", "target": "t", "targetHandle": "in"},
                  {"source": "gi", "sourceHandle": "b", "target": "p", "targetHandle": "in"},
                  {"source": "t", "sourceHandle": "out", "target": "go", "targetHandle": "v"}],
        "interfaceInputs": {"a": slot, "b": {"dataFlowType": "WILDCARD"}},
        "interfaceOutputs": {"v": {"dataFlowType": "INTEGER"}}
    });
    let file = json!({
        "nodes": [{"id": "s", "type": "t:emit", "configValues": {"v": true}}, {"id": "c", "type": "t:if"},
                  {"id": "G", "type": "core:NodeGroup", "configValues": {"referencedWorkflowId": "inner"}, "inputValues": own},
                  {"id": "$out", "type": "core:GroupOutput"}],
        "edges": [{"source": "s", "sourceHandle": "out", "target": "c", "targetHandle": "in"},
                  {"source": "c", "sourceHandle": "else", "target": "G", "targetHandle": "a"},
                  {"source": "s", "sourceHandle": "out", "target": "G", "targetHandle": "b"},
                  {"source": "G", "sourceHandle": "v", "target": "$out", "targetHandle": "r"}],
        "interfaceOutputs": {"r": {"dataFlowType": "INTEGER"}}
    });
    let inner = Arc::new(Workflow::from_value(inner).unwrap());
    let project = Project(BTreeMap::from([("inner", inner)]));
    let plan = Plan::new(&Workflow::from_value(file).unwrap(), &catalog(), &project).unwrap();
    run_plan(&plan, json!({}), RunOptions::new(), |_| async {})
}

#[test]
fn a_group_is_skipped_as_a_node_would_be() {
    let number = |extra: Value| {
        let mut slot = json!({"dataFlowType": "INTEGER"});
        slot.as_object_mut().unwrap().extend(extra.as_object().cloned().unwrap());
        slot
    };
    for (what, slot, own, effect, result) in [
        ("nothing said", number(json!({})), json!({}), false, Value::Null),
        ("required", number(json!({"required": true})), json!({}), false, Value::Null),
        ("optional", number(json!({"required": false})), json!({}), true, Value::Null),
        ("a default", number(json!({"config": {"default": 4}})), json!({}), true, json!(5)),
        ("a value of the file", number(json!({})), json!({"a": 8}), true, json!(9)),
    ] {
        let seen = group(slot, own);
        let (ran, _) = sides(&seen);
        assert_eq!(ran.contains(&"G/p".to_owned()), effect, "{what}: the effect");
        assert_eq!(seen.outcome.outputs.get("r").cloned().unwrap_or_default(), result, "{what}");
    }
}

#[test]
fn the_first_in_time_counts_at_a_first_join() {
    for (slow, expected) in [(50, 101), (5, 2)] {
        let nodes = [
            ("s", "emit", json!({"v": 1})),
            ("a", "wait", json!({"ms": slow})),
            ("b", "wait", json!({"ms": 10})),
            ("one", "add", json!({"n": 1})),
            ("other", "add", json!({"n": 100})),
            ("n", "id", json!({"first": true})),
        ];
        let edges = [
            "s.out -> a.in",
            "s.out -> b.in",
            "a.out -> one.in",
            "b.out -> other.in",
            "one.out -> n.in",
            "other.out -> n.in",
        ];
        let seen = run_with(&flow(&nodes, &edges, &[("r", "n.out")]), json!({}), RunOptions::new());
        assert_eq!(seen.outcome.outputs["r"], json!(expected));
    }
}

/// Levels of groups in groups.
const NAMES: [&str; 30] = [
    "l0", "l1", "l2", "l3", "l4", "l5", "l6", "l7", "l8", "l9", "l10", "l11", "l12", "l13", "l14", "l15",
    "l16", "l17", "l18", "l19", "l20", "l21", "l22", "l23", "l24", "l25", "l26", "l27", "l28", "l29",
];

#[test]
fn groups_in_groups_are_looked_at_once_each() {
    // Each level has several results, all of them from the level within.
    let level = |inner: Option<String>| {
        let mut nodes = vec![json!({"id": "go", "type": "core:GroupOutput"})];
        match &inner {
            Some(id) => nodes.push(json!({"id": "n", "type": "core:NodeGroup", "onError": "skip",
                "configValues": {"referencedWorkflowId": id}})),
            None => nodes.push(json!({"id": "n", "type": "t:emit", "configValues": {"v": 1}})),
        }
        let from = |at: usize| if inner.is_some() { format!("r{at}") } else { "out".to_owned() };
        let edges: Vec<Value> = (0..8)
            .map(|at| json!({"source": "n", "sourceHandle": from(at), "target": "go", "targetHandle": format!("r{at}")}))
            .collect();
        let outputs: serde_json::Map<String, Value> =
            (0..8).map(|at| (format!("r{at}"), json!({"dataFlowType": "WILDCARD"}))).collect();
        Workflow::from_value(json!({"nodes": nodes, "edges": edges, "interfaceOutputs": outputs})).unwrap()
    };
    let inner = |at: usize| NAMES.get(at + 1).map(|name| (*name).to_owned());
    let levels = NAMES.iter().enumerate().map(|(at, name)| (*name, Arc::new(level(inner(at)))));
    let project = Project(levels.collect());
    let plan = Plan::new(&level(Some("l0".to_owned())), &catalog(), &project).unwrap();
    let seen = run_plan(&plan, json!({}), RunOptions::new(), |_| async {});
    assert_eq!(seen.outcome.outputs["r7"], json!(1));
}

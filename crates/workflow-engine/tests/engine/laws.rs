//! Laws that hold for every graph.

use std::collections::{BTreeMap, BTreeSet};

use agent_types::{EventBody, RunStatus};
use proptest::prelude::*;
use serde_json::{Value, json};
use workflow_engine::{OnFail, RunOptions};
use workflow_model::Workflow;

use crate::common::{Seen, run_with};

/// A node of a random graph: what it does, what it takes, and its rules.
#[derive(Debug, Clone)]
pub(crate) struct Drawn {
    op: usize,
    sources: Vec<(usize, bool)>,
    on_error: usize,
    ms: u64,
    order: Option<usize>,
}

pub(crate) fn drawn() -> impl Strategy<Value = Drawn> {
    let source =
        (any::<prop::sample::Index>(), any::<bool>()).prop_map(|(at, other)| (at.index(1000), other));
    let order = prop::option::weighted(0.2, any::<prop::sample::Index>());
    (0..9_usize, prop::collection::vec(source, 1..4), 0..5_usize, 0..30_u64, order).prop_map(
        |(op, sources, on_error, ms, order)| Drawn {
            op,
            sources,
            on_error,
            ms,
            order: order.map(|at| at.index(1000)),
        },
    )
}

const OPS: [&str; 9] = ["list", "id", "add", "wait", "if", "fail", "stop_never", "zone", "zone_fails"];

/// Edges go from earlier nodes to later ones only.
pub(crate) fn build(graph: &[Drawn]) -> (Workflow, Vec<(String, String)>) {
    let mut nodes = Vec::new();
    let mut edges = Vec::new();
    let mut follows = Vec::new();
    for (at, drawn) in graph.iter().enumerate() {
        let id = format!("v{at}");
        let op = if at == 0 { "add" } else { OPS[drawn.op] };
        nodes.extend(node(&id, op, drawn));
        let take = if op == "list" { drawn.sources.len() } else { 1 };
        for (source, other) in drawn.sources.iter().take(take).filter(|_| at > 0) {
            let source = source % at;
            let slot = slot_of(if source == 0 { "add" } else { OPS[graph[source].op] }, *other);
            let target = if op.starts_with("zone") { "items" } else { "in" };
            edges.push(json!({"source": format!("v{source}"), "sourceHandle": slot, "target": id, "targetHandle": target}));
            follows.push((format!("v{source}"), id.clone()));
        }
        if let Some(order) = drawn.order.filter(|_| at > 0) {
            edges.push(json!({"source": format!("v{}", order % at), "target": id}));
            follows.push((format!("v{}", order % at), id.clone()));
        }
        if op.starts_with("zone") {
            let wire = |from: &str, slot: &str, to: &str, into: &str| json!({"source": format!("{id}{from}"), "sourceHandle": slot, "target": format!("{id}{to}"), "targetHandle": into});
            edges.extend([
                wire("s", "item", "b", "in"),
                wire("b", "out", "c", "in"),
                wire("c", "out", "g", "v"),
            ]);
        }
    }
    (Workflow::from_value(json!({"nodes": nodes, "edges": edges})).unwrap(), follows)
}

fn node(id: &str, op: &str, drawn: &Drawn) -> Vec<Value> {
    let on_error = [json!("fail"), json!("skip"), json!("branch"), json!({"default": 3}), json!("skip")]
        [drawn.on_error]
        .clone();
    let single = |op: &str, config: Value| {
        let handled = op != "fail" || drawn.on_error > 0;
        let on_error = if handled { on_error.clone() } else { json!("fail") };
        vec![json!({"id": id, "type": format!("t:{op}"), "configValues": config, "onError": on_error})]
    };
    match op {
        "wait" => single("wait", json!({"ms": drawn.ms})),
        "if" => single("if", json!({})),
        "fail" => single("fail", if drawn.ms.is_multiple_of(2) { json!({}) } else { json!({"times": 0}) }),
        "stop_never" => single("id", json!({})),
        "zone" | "zone_fails" => {
            let on_item = if op == "zone" { "drop" } else { "null" };
            let body = |suffix: &str, node_type: &str, config: Value| json!({"id": format!("{id}{suffix}"), "type": node_type, "parentNode": id, "configValues": config});
            vec![
                json!({"id": id, "type": "core:LoopZone", "onError": "skip", "configValues": {
                    "mode": "each", "collect": ["v"], "onItemError": on_item, "parallel": 1 + drawn.ms % 3}}),
                body("s", "core:LoopState", json!({})),
                body("b", "t:wait", json!({"ms": drawn.ms})),
                body("c", "t:fail", json!({"on": drawn.ms % 3})),
                body("g", "core:GroupOutput", json!({})),
            ]
        }
        other => single(other, json!({})),
    }
}

fn slot_of(op: &str, other: bool) -> &'static str {
    match op {
        "if" if other => "then",
        "if" => "else",
        "zone" | "zone_fails" => "collected.v",
        _ => "out",
    }
}

/// Every node, also of passes, has exactly one end; what comes before an edge ends before what comes behind it starts.
fn check(seen: &Seen, graph: &[Drawn], follows: &[(String, String)]) {
    let (mut ended, mut started) = (BTreeMap::new(), BTreeMap::new());
    for event in &seen.events {
        let Some(path) = event.place.path.as_deref() else { continue };
        match event.body {
            EventBody::NodeStarted { .. } => {
                started.entry(path.to_owned()).or_insert(event.seq);
            }
            EventBody::NodeFinished { .. }
            | EventBody::NodeFailed { .. }
            | EventBody::NodeSkipped { .. }
            | EventBody::NodeCancelled { .. } => {
                assert_eq!(ended.insert(path.to_owned(), event.seq), None, "{path} ends twice");
            }
            _ => {}
        }
    }
    let roots: BTreeSet<&str> = ended.keys().map(String::as_str).filter(|path| !path.contains('/')).collect();
    assert_eq!(roots.len(), graph.len(), "{:#?}", seen.ends());
    for (before, behind) in follows {
        if let Some(start) = started.get(behind) {
            assert!(ended[before] < *start, "{behind} starts before {before} has ended");
        }
    }
    if seen.outcome.status == RunStatus::Ok {
        assert!(seen.outcome.error.is_none());
    }
}

/// The values and ends of the root nodes, without their order.
fn summary(seen: &Seen) -> BTreeSet<String> {
    seen.ends().into_iter().filter(|line| !line.contains("cancelled")).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, ..ProptestConfig::default() })]

    #[test]
    fn every_node_ends_once_and_in_order(graph in prop::collection::vec(drawn(), 1..25), finish in any::<bool>(), cancel in prop::option::of(0..40_u64)) {
        let (workflow, follows) = build(&graph);
        let on_fail = if finish { OnFail::FinishOthers } else { OnFail::Cancel };
        let deadline = cancel.map(std::time::Duration::from_millis);
        let seen = run_with(&workflow, json!({}), RunOptions { on_fail, deadline, ..RunOptions::new() });
        check(&seen, &graph, &follows);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn results_do_not_depend_on_how_many_run_at_once(graph in prop::collection::vec(drawn(), 1..20)) {
        let (workflow, follows) = build(&graph);
        let run = |max_parallel| {
            let options = RunOptions { on_fail: OnFail::FinishOthers, max_parallel, ..RunOptions::new() };
            run_with(&workflow, json!({}), options)
        };
        let (free, single) = (run(None), run(Some(1)));
        check(&single, &graph, &follows);
        prop_assert_eq!(summary(&free), summary(&single));
    }
}

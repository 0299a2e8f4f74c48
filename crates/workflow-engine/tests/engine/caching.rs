//! Kept results: hits, early cut-off, single flight.

use std::sync::Arc;
use std::time::Duration;

use agent_types::{EventBody, TraceEvent};
use serde_json::{Value, json};
use workflow_engine::{Cache, Plan, RunOptions};
use workflow_model::NoWorkflows;

use crate::common::{Seen, catalog, flow, run_with};

fn cached(cache: &Arc<Cache>) -> RunOptions {
    RunOptions { cache: Some(Arc::clone(cache)), ..RunOptions::new() }
}

fn counts(seen: &Seen) -> (usize, usize) {
    let of = |start: &str| seen.lines().iter().filter(|line| line.starts_with(start)).count();
    (of("node.started"), of("node.cached"))
}

#[test]
fn equal_values_cut_the_work_behind_them_off() {
    let chain = |v: i64| {
        flow(
            &[
                ("v", "emit", json!({"v": v})),
                ("x", "pure", json!({"cache": true})),
                ("y", "pure", json!({"cache": true})),
            ],
            &["v.out -> x.in", "x.out -> y.in"],
            &[("r", "y.out")],
        )
    };
    let cache = Cache::new();
    assert_eq!(counts(&run_with(&chain(5), json!({}), cached(&cache))), (3, 0));
    let again = run_with(&chain(5), json!({}), cached(&cache));
    assert_eq!(counts(&again), (1, 2));
    assert_eq!(again.outcome.outputs["r"], 7);
    assert!(again.ends().contains(&"node.cached x value=6".to_owned()));
    assert_eq!(counts(&run_with(&chain(6), json!({}), cached(&cache))), (2, 1), "6 + 1 is new, 7 is known");
    assert_eq!(
        counts(&run_with(&chain(5), json!({}), RunOptions::new())),
        (3, 0),
        "another cache knows nothing"
    );
}

#[test]
fn equal_work_in_flight_is_done_once() {
    let twice = flow(
        &[
            ("a", "pure", json!({"ms": 100, "cache": true})),
            ("w", "wait", json!({"ms": 10})),
            ("b", "pure", json!({"ms": 100, "cache": true})),
        ],
        &["w -> b"],
        &[],
    );
    let seen = run_with(&twice, json!({}), RunOptions::new());
    assert_eq!(seen.elapsed, Duration::from_millis(100));
    assert_eq!(seen.ends()[1..3], ["node.finished a value=1", "node.cached b value=1 from=a"]);
}

#[test]
fn a_failure_is_not_kept() {
    let failing = flow(
        &[
            ("a", "pure", json!({"fail": true, "ms": 5, "cache": true, "onError": "skip"})),
            ("b", "pure", json!({"fail": true, "ms": 5, "cache": true, "onError": "skip"})),
        ],
        &[],
        &[],
    );
    let seen = run_with(&failing, json!({}), RunOptions::new());
    assert_eq!(seen.ends()[..2], ["node.finished a handled=skip", "node.finished b handled=skip"]);
    assert_eq!(seen.elapsed, Duration::from_millis(10), "b tries itself when a has failed");
}

#[test]
fn only_named_inputs_make_the_key() {
    let by_key = |n: i64| {
        flow(
            &[("a", "pure", json!({"cache": {"key": ["in"]}, "inputValues": {"in": 1, "other": n}}))],
            &[],
            &[("r", "a.out")],
        )
    };
    let cache = Cache::new();
    run_with(&by_key(1), json!({}), cached(&cache));
    assert_eq!(counts(&run_with(&by_key(2), json!({}), cached(&cache))), (0, 1));
}

#[test]
fn a_stream_makes_no_key() {
    let tapped = |chunks: Value| {
        flow(
            &[
                ("s", "stream", json!({"chunks": chunks, "ms": 1})),
                ("t", "tap", json!({"cache": true})),
                ("j", "join", json!({})),
            ],
            &["s.out -> t.in", "t.out -> j.in"],
            &[("r", "j.out")],
        )
    };
    let cache = Cache::new();
    for (chunks, text) in [(json!(["a", "b"]), "ab"), (json!(["c"]), "c"), (json!(["a", "b"]), "ab")] {
        let seen = run_with(&tapped(chunks), json!({}), cached(&cache));
        assert_eq!(seen.outcome.outputs["r"], text);
        assert!(
            seen.ends()
                .iter()
                .any(|line| line.starts_with("node.finished t") && line.ends_with("cache=unkeyable")),
            "{:#?}",
            seen.ends()
        );
    }
}

#[test]
fn a_hit_needs_no_room() {
    let held = |ms: u64| {
        flow(
            &[
                ("h", "wait", json!({"ms": ms, "group": "g"})),
                ("w", "wait", json!({"ms": 10})),
                ("x", "pure", json!({"cache": true, "group": "g"})),
            ],
            &["w -> x"],
            &[],
        )
    };
    let cache = Cache::new();
    let options = || RunOptions { groups: [("g".to_owned(), 1)].into(), ..cached(&cache) };
    run_with(&held(0), json!({}), options());
    let seen = run_with(&held(5000), json!({}), options());
    assert_eq!(seen.ends()[..2], ["node.finished w value=null", "node.cached x value=1"]);
}

#[test]
fn caching_what_is_not_pure_is_a_warning() {
    let impure = flow(&[("a", "runs", json!({"cache": true}))], &[], &[]);
    let plan = Plan::new(&impure, &catalog(), &NoWorkflows).unwrap();
    assert_eq!(plan.warnings()[0].to_string(), "a.cache: its type is not pure: nothing is kept");
}

/// The graph as a trace draws it: each node with what it gave.
fn drawn(seen: &Seen) -> Vec<(String, Value)> {
    let gave = |event: &TraceEvent| match &event.body {
        EventBody::NodeFinished { value, .. } | EventBody::NodeCached { value, .. } => {
            value.as_deref().cloned()
        }
        _ => None,
    };
    let path = |event: &TraceEvent| event.place.path.as_deref().unwrap_or_default().to_owned();
    let mut nodes: Vec<(String, Value)> =
        seen.events.iter().filter_map(|event| Some((path(event), gave(event)?))).collect();
    nodes.sort_by(|(left, _), (right, _)| left.cmp(right));
    nodes
}

#[test]
fn c6_a_run_from_the_cache_draws_the_same_graph() {
    let diamond = flow(
        &[
            ("a", "pure", json!({"cache": true, "inputValues": {"in": 1}})),
            ("b", "pure", json!({"cache": true})),
            ("c", "pure", json!({"cache": true})),
            ("d", "pure", json!({"cache": true})),
        ],
        &["a.out -> b.in", "a.out -> c.in", "b.out -> d.in", "c.out -> d.other"],
        &[("r", "d.out")],
    );
    let cache = Cache::new();
    let first = run_with(&diamond, json!({}), cached(&cache));
    let again = run_with(&diamond, json!({}), cached(&cache));
    assert_eq!(counts(&again), (0, 4), "nothing runs again, and each node is told");
    let expected =
        [("a", 2), ("b", 3), ("c", 3), ("d", 4)].map(|(path, value)| (path.to_owned(), json!(value)));
    assert_eq!(drawn(&again), expected);
    assert_eq!(drawn(&again), drawn(&first));
    assert_eq!(again.outcome.outputs, first.outcome.outputs);
}

//! Joins, branches, errors and limits without loops.

use std::collections::HashMap;
use std::time::Duration;

use crate::common::{flow, run_plan, run_with};
use agent_types::RunStatus;
use serde_json::{Value, json};
use workflow_engine::{OnFail, Plan, RunOptions};
use workflow_model::{NoWorkflows, Workflow};

#[track_caller]
fn check(workflow: &Workflow, expected: Value) -> Vec<String> {
    let seen = run_with(workflow, json!({}), RunOptions::new());
    assert_eq!(seen.outcome.error, None);
    assert_eq!(Value::Object(seen.outcome.outputs.clone()), expected);
    seen.ends()
}

#[test]
fn values_go_along_edges() {
    let chain = flow(
        &[("a", "emit", json!({"v": 1})), ("b", "add", json!({})), ("c", "add", json!({"n": 10}))],
        &["a.out -> b.in", "b.out -> c.in"],
        &[("r", "c.out")],
    );
    let ends = check(&chain, json!({"r": 12}));
    assert_eq!(
        ends,
        [
            "node.finished a value=1",
            "node.finished b value=2",
            "node.finished c value=12",
            "run.finished status=ok"
        ]
    );
}

#[test]
fn a_join_runs_once_when_all_is_settled() {
    let join = flow(
        &[
            ("s", "emit", json!({"v": true})),
            ("i", "if", json!({})),
            ("a", "id", json!({})),
            ("b", "id", json!({})),
            ("w", "wait", json!({"ms": 20})),
            ("j", "list", json!({})),
        ],
        &[
            "s.out -> i.in",
            "i.then -> a.in",
            "i.else -> b.in",
            "i.then -> w.in",
            "a.out -> j.in",
            "b.out -> j.in",
            "w.out -> j.in",
        ],
        &[("r", "j.out"), ("gone", "b.out")],
    );
    let ends = check(&join, json!({"r": [true, true]}));
    assert!(ends.contains(&"node.skipped b cause=i".to_owned()), "{ends:?}");
}

#[test]
fn what_nothing_leads_to_is_skipped_with_its_cause() {
    let skipped = flow(
        &[
            ("s", "emit", json!({"v": true})),
            ("i", "if", json!({})),
            ("x", "id", json!({})),
            ("y", "list", json!({})),
            ("z", "id", json!({})),
        ],
        &["s.out -> i.in", "i.else -> x.in", "x.out -> y.in", "y -> z"],
        &[],
    );
    let ends = check(&skipped, json!({}));
    assert_eq!(
        ends[2..],
        [
            "node.skipped x cause=i",
            "node.skipped y cause=i",
            "node.skipped z cause=i",
            "run.finished status=ok"
        ]
    );
}

#[test]
fn independent_nodes_run_side_by_side() {
    let wait = || json!({"ms": 100});
    let fan = flow(
        &[("a", "wait", wait()), ("b", "wait", wait()), ("c", "wait", wait()), ("d", "wait", wait())],
        &[],
        &[],
    );
    let seen = run_with(&fan, json!({}), RunOptions::new());
    assert_eq!(seen.elapsed, Duration::from_millis(100));
    let options = RunOptions { max_parallel: Some(1), ..RunOptions::new() };
    assert_eq!(run_with(&fan, json!({}), options).elapsed, Duration::from_millis(400));
}

#[test]
fn groups_limit_their_own_nodes_only() {
    let wait = || json!({"ms": 10, "group": "g"});
    let grouped =
        flow(&[("a", "wait", wait()), ("b", "wait", wait()), ("c", "wait", json!({"ms": 10}))], &[], &[]);
    let options = RunOptions { groups: HashMap::from([("g".to_owned(), 1)]), ..RunOptions::new() };
    let seen = run_with(&grouped, json!({}), options);
    assert_eq!(seen.elapsed, Duration::from_millis(20));
    assert_eq!(seen.ends()[..2], ["node.finished a value=null", "node.finished c value=null"]);
}

#[test]
fn a_failure_cancels_the_others() {
    let failing = flow(
        &[
            ("bad", "fail", json!({"msg": "no"})),
            ("slow", "wait", json!({"ms": 5000})),
            ("after", "id", json!({})),
        ],
        &["slow.out -> after.in"],
        &[],
    );
    let seen = run_with(&failing, json!({}), RunOptions::new());
    assert_eq!(seen.elapsed, Duration::ZERO);
    assert_eq!(
        seen.ends(),
        [
            "node.failed bad kind=failed",
            "node.cancelled slow cause=bad",
            "node.cancelled after cause=bad",
            "run.finished kind=failed status=error"
        ]
    );
    let error = seen.outcome.error.unwrap();
    assert_eq!((error.to_string().as_str(), error.path.as_deref()), ("`bad`: no", Some("bad")));
}

#[test]
fn the_others_may_finish() {
    let failing = flow(
        &[
            ("a", "fail", json!({})),
            ("c", "id", json!({})),
            ("b", "wait", json!({"ms": 50})),
            ("d", "id", json!({})),
        ],
        &["a.out -> c.in", "b.out -> d.in"],
        &[("c", "c.out"), ("d", "d.out")],
    );
    let options = RunOptions { on_fail: OnFail::FinishOthers, ..RunOptions::new() };
    let seen = run_with(&failing, json!({}), options);
    assert_eq!(seen.outcome.status, RunStatus::Error);
    assert_eq!(Value::Object(seen.outcome.outputs.clone()), json!({"d": null}));
    assert_eq!(
        seen.ends(),
        [
            "node.failed a kind=failed",
            "node.skipped c cause=a",
            "node.finished b value=null",
            "node.finished d value=null",
            "run.finished kind=failed status=error"
        ]
    );
}

#[test]
fn failures_can_be_handled() {
    let handled = |on_error: Value| {
        flow(
            &[
                ("x", "fail", json!({"msg": "404", "onError": on_error})),
                ("y", "list", json!({})),
                ("e", "id", json!({})),
                ("z", "emit", json!({"v": 1})),
            ],
            if on_error == "branch" {
                &["x.out -> y.in", "z.out -> y.in", "x.error -> e.in"][..]
            } else {
                &["x.out -> y.in", "z.out -> y.in", "z.out -> e.in"]
            },
            &[("y", "y.out"), ("e", "e.out")],
        )
    };
    let ends = check(&handled(json!("skip")), json!({"y": [1], "e": 1}));
    assert_eq!(ends[0], "node.finished x handled=skip");
    let ends = check(&handled(json!({"default": 7})), json!({"y": [7, 1], "e": 1}));
    assert_eq!(ends[0], "node.finished x handled=default value=7");
    let error = json!({"message": "404", "code": "c", "node": "x", "attempt": 1});
    let ends = check(&handled(json!("branch")), json!({"y": [1], "e": error}));
    assert_eq!(ends[0], "node.finished x handled=branch");
}

#[test]
fn retries_wait_and_then_succeed() {
    let retried =
        flow(&[("a", "fail", json!({"times": 2, "retry": {"max": 3, "backoffMs": 100}}))], &[], &[]);
    let seen = run_with(&retried, json!({}), RunOptions::new());
    assert_eq!(seen.outcome.status, RunStatus::Ok);
    let waited = seen.elapsed.as_millis();
    assert!((300..=330).contains(&waited), "{waited}");
    assert_eq!(
        seen.lines()[1..],
        [
            "node.started a",
            "node.retrying a kind=failed",
            "node.retrying a kind=failed",
            "node.finished a value=null",
            "run.finished status=ok"
        ]
    );
    assert_eq!(seen.events[4].place.attempt, Some(3));
}

#[test]
fn every_limit_of_time_holds() {
    let limited = |extra: Value| {
        let seen = run_with(&flow(&[("a", "wait", extra)], &[], &[]), json!({}), RunOptions::new());
        (seen.ends()[0].clone(), seen.elapsed.as_millis())
    };
    let timeout = |ms| format!("node.failed a kind=timeout limit_ms={ms}");
    assert_eq!(limited(json!({"ms": 5000, "timeoutMs": 50})), (timeout(50), 50));
    let twice = json!({"ms": 5000, "timeoutMs": 50, "retry": {"max": 1, "backoffMs": 0}});
    assert_eq!(limited(twice), (timeout(50), 100));
    let total = json!({"ms": 5000, "timeoutMs": 50, "totalMs": 70, "retry": {"max": 9, "backoffMs": 0}});
    assert_eq!(limited(total), (timeout(70), 70));
    assert_eq!(
        limited(json!({"ms": 5000, "idleMs": 30})),
        ("node.failed a kind=idle limit_ms=30".to_owned(), 30)
    );
    let beat = flow(&[("a", "beat", json!({"ms": 20, "n": 5, "idleMs": 30}))], &[], &[]);
    assert_eq!(run_with(&beat, json!({}), RunOptions::new()).outcome.status, RunStatus::Ok);
    let options = RunOptions { deadline: Some(Duration::from_millis(40)), ..RunOptions::new() };
    let seen = run_with(&flow(&[("a", "wait", json!({"ms": 5000}))], &[], &[]), json!({}), options);
    assert_eq!(seen.ends(), ["node.cancelled a cause=deadline", "run.finished kind=timeout status=error"]);
    assert_eq!(seen.outcome.error.unwrap().limit, Some(40));
}

#[test]
fn values_are_as_deep_as_readers_follow_and_no_deeper() {
    let nested = |levels: usize| (0..levels).fold(Value::Null, |inner, _| json!([inner]));
    for (levels, status) in [(128, RunStatus::Ok), (129, RunStatus::Error)] {
        let workflow = flow(&[("a", "emit", json!({"v": nested(levels)}))], &[], &[("r", "a.out")]);
        let seen = run_with(&workflow, json!({}), RunOptions::new());
        assert_eq!(seen.outcome.status, status, "{levels}");
    }
}

#[test]
fn a_panic_is_an_error_of_its_node() {
    let panicking = flow(&[("p", "panic", json!({})), ("s", "wait", json!({"ms": 5000}))], &[], &[]);
    let seen = run_with(&panicking, json!({}), RunOptions::new());
    assert_eq!(
        seen.ends(),
        ["node.failed p kind=panic", "node.cancelled s cause=p", "run.finished kind=panic status=error"]
    );
    assert_eq!(seen.outcome.error.unwrap().message, "boom");
}

#[test]
fn cancelling_ends_everything_once() {
    let plan = Plan::new(
        &flow(&[("a", "wait", json!({"ms": 5000})), ("b", "id", json!({}))], &["a.out -> b.in"], &[]),
        &crate::common::catalog(),
        &NoWorkflows,
    )
    .unwrap();
    let seen = run_plan(&plan, json!({}), RunOptions::new(), |world| async move {
        agent_types::Clock::sleep(&world.clock, Duration::from_millis(100)).await;
        world.cancel.cancel();
    });
    assert_eq!(seen.outcome.status, RunStatus::Cancelled);
    assert_eq!(seen.elapsed, Duration::from_millis(100), "no time passes between the cancel and the end");
    assert_eq!(
        seen.ends(),
        [
            "node.cancelled a cause=cancelled",
            "node.cancelled b cause=cancelled",
            "run.finished status=cancelled"
        ]
    );
}

#[test]
fn a_stop_node_ends_the_run_well() {
    let stopped = flow(
        &[("a", "emit", json!({"v": 9})), ("st", "stop", json!({})), ("slow", "wait", json!({"ms": 5000}))],
        &["a.out -> st.in"],
        &[],
    );
    let seen = run_with(&stopped, json!({}), RunOptions::new());
    assert_eq!(seen.outcome.stopped.as_deref(), Some(&json!(9)));
    assert_eq!(
        seen.ends(),
        [
            "node.finished a value=9",
            "node.finished st value=9",
            "node.cancelled slow cause=stop",
            "run.finished status=ok"
        ]
    );
}

#[test]
fn arguments_are_checked_before_anything_runs() {
    let file = json!({
        "nodes": [{"id": "gi", "type": "core:GroupInput"}, {"id": "a", "type": "t:id"}, {"id": "go", "type": "core:GroupOutput"}],
        "edges": [{"source": "gi", "sourceHandle": "city", "target": "a", "targetHandle": "in"},
                  {"source": "a", "sourceHandle": "out", "target": "go", "targetHandle": "r"}],
        "interfaceInputs": {"city": {"dataFlowType": "STRING", "required": true}, "n": {"dataFlowType": "INTEGER", "config": {"default": 3}}},
        "interfaceOutputs": {"r": {"dataFlowType": "STRING"}}
    });
    let workflow = Workflow::from_value(file).unwrap();
    let seen = run_with(&workflow, json!({"city": "Ulm"}), RunOptions::new());
    assert_eq!(Value::Object(seen.outcome.outputs.clone()), json!({"r": "Ulm"}));
    assert_eq!(seen.ends()[..1], ["node.finished gi"]);
    let seen = run_with(&workflow, json!({"ciyt": "Ulm", "n": "x"}), RunOptions::new());
    let error = seen.outcome.error.unwrap();
    assert_eq!(error.kind, "missing_input");
    assert_eq!(
        error.message,
        "the required input `city` was not given; the input `n` takes INTEGER, but got a text; unknown input `ciyt`, did you mean `city`?"
    );
}

#[test]
fn only_what_is_wanted_runs() {
    let wanted = flow(
        &[
            ("a", "emit", json!({"v": 1})),
            ("b", "runs", json!({})),
            ("c", "effect", json!({})),
            ("d", "emit", json!({"v": 2})),
        ],
        &[],
        &[("a", "a.out"), ("d", "d.out")],
    );
    assert_eq!(check(&wanted, json!({"a": 1, "d": 2})).len(), 4);
    let options = RunOptions { want: Some(vec!["d".to_owned()]), ..RunOptions::new() };
    let seen = run_with(&wanted, json!({}), options);
    assert_eq!(
        seen.ends(),
        ["node.finished c value=null", "node.finished d value=2", "run.finished status=ok"]
    );
}

#[test]
fn a_lazy_source_runs_only_when_asked_for() {
    let lazy = |ask: bool| {
        flow(
            &[
                ("c", "emit", json!({"v": ask})),
                ("p", "emit", json!({"v": 1})),
                ("k", "add", json!({})),
                ("sw", "lazy", json!({})),
            ],
            &["c.out -> sw.in", "p.out -> k.in", "k.out -> sw.other"],
            &[("r", "sw.out")],
        )
    };
    assert_eq!(check(&lazy(false), json!({"r": false})).len(), 3);
    let ends = check(&lazy(true), json!({"r": 2}));
    assert_eq!(
        ends[1..],
        [
            "node.finished p value=1",
            "node.finished k value=2",
            "node.finished sw value=2",
            "run.finished status=ok"
        ]
    );
}

#[test]
fn the_first_taken_edge_can_be_enough() {
    let first = |rest: bool| {
        flow(
            &[
                ("slow", "wait", json!({"ms": 500})),
                ("fast", "wait", json!({"ms": 5})),
                ("j", "list", json!({"first": true, "cancelRest": rest})),
            ],
            &["slow.out -> j.in", "fast.out -> j.in"],
            &[("r", "j.out")],
        )
    };
    let seen = run_with(&first(true), json!({}), RunOptions::new());
    assert_eq!(seen.ends()[..2], ["node.finished fast value=null", "node.cancelled slow cause=first"]);
    assert_eq!(seen.elapsed, Duration::from_millis(5));
    let seen = run_with(&first(false), json!({}), RunOptions::new());
    assert_eq!(seen.elapsed, Duration::from_millis(500));
}

#[test]
fn a_node_can_cancel_another() {
    let cancelling = flow(
        &[
            ("slow", "wait", json!({"ms": 500})),
            ("x", "id", json!({})),
            ("w", "wait", json!({"ms": 10})),
            ("k", "cancel", json!({"node": "slow"})),
        ],
        &["slow.out -> x.in", "w -> k"],
        &[],
    );
    let ends = run_with(&cancelling, json!({}), RunOptions::new()).ends();
    assert_eq!(
        ends,
        [
            "node.finished w value=null",
            "node.cancelled slow cause=k",
            "node.skipped x cause=slow",
            "node.finished k value=true",
            "run.finished status=ok"
        ]
    );
}

#[test]
fn switched_off_nodes_hand_on_or_are_skipped() {
    let bypassed = |bypass: &str| {
        flow(
            &[
                ("a", "emit", json!({"v": 1})),
                ("b", "add", json!({"bypass": bypass})),
                ("c", "id", json!({})),
            ],
            &["a.out -> b.in", "b.out -> c.in"],
            &[("r", "c.out")],
        )
    };
    check(&bypassed("pass"), json!({"r": 1}));
    let ends = check(&bypassed("mute"), json!({}));
    assert_eq!(ends[1..3], ["node.skipped b cause=b", "node.skipped c cause=b"]);
}

#[test]
fn depth_does_not_eat_the_stack() {
    let chain = |first: Value| {
        let mut nodes = vec![("s".to_owned(), "emit", first), ("i".to_owned(), "if", json!({}))];
        let mut edges = vec!["s.out -> i.in".to_owned(), "i.then -> n0.in".to_owned()];
        for at in 0..100_000 {
            nodes.push((format!("n{at}"), "id", json!({})));
            if at > 0 {
                edges.push(format!("n{}.out -> n{at}.in", at - 1));
            }
        }
        let nodes: Vec<(&str, &str, Value)> =
            nodes.iter().map(|(id, op, extra)| (id.as_str(), *op, extra.clone())).collect();
        let edges: Vec<&str> = edges.iter().map(String::as_str).collect();
        flow(&nodes, &edges, &[])
    };
    let run = move || {
        let taken = run_with(&chain(json!({"v": true})), json!({}), RunOptions::new());
        assert_eq!((taken.outcome.status, taken.outcome.node_starts), (RunStatus::Ok, 100_002));
        let untaken = run_with(&chain(json!({"v": false})), json!({}), RunOptions::new());
        assert_eq!(untaken.ends().iter().filter(|line| line.starts_with("node.skipped")).count(), 100_000);
    };
    std::thread::Builder::new().stack_size(512 * 1024).spawn(run).unwrap().join().unwrap();
}

#[test]
fn a_future_that_panics_when_it_is_dropped_is_a_failure_of_its_node() {
    let workflow = flow(
        &[
            ("a", "panic_on_drop", json!({"timeoutMs": 20, "onError": "skip"})),
            ("b", "wait", json!({"ms": 50})),
        ],
        &[],
        &[("a", "a.out"), ("b", "b.out")],
    );
    let seen = run_with(&workflow, json!({}), RunOptions::new());
    assert_eq!(seen.outcome.status, RunStatus::Ok, "{:?}", seen.outcome.error);
    assert!(seen.lines().contains(&"node.finished a handled=skip".to_owned()), "{:#?}", seen.lines());
}

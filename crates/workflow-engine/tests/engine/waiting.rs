//! Questions, answers, blocking threads, limits on starts, hooks.

use std::sync::Arc;
use std::time::Duration;

use agent_types::{Budget, BudgetLimits, EventBody, RunStatus, SystemClock};
use serde_json::{Map, Value, json};
use workflow_engine::{Before, OnWaiting, Plan, RunOptions};
use workflow_model::NoWorkflows;

use crate::common::{catalog, flow, run_with};

#[test]
fn a_question_can_be_answered_while_others_go_on() {
    let asking = flow(
        &[("q", "ask", json!({})), ("x", "id", json!({})), ("w", "wait", json!({"ms": 1}))],
        &["q.out -> x.in"],
        &[("x", "x.out"), ("w", "w.out")],
    );
    let options = RunOptions { on_waiting: OnWaiting::End, max_parallel: Some(1), ..RunOptions::new() };
    let seen = run_with(&asking, json!({}), options);
    assert_eq!(seen.outcome.status, RunStatus::Waiting);
    assert_eq!(seen.outcome.asks[0].ask.as_ref(), "q");
    assert_eq!(Value::Object(seen.outcome.outputs.clone()), json!({"w": null}));
    assert_eq!(seen.lines().last().unwrap(), "run.waiting");

    let plan = Plan::new(&asking, &catalog(), &NoWorkflows).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (options, mut watcher) = RunOptions::new().watched(100);
    let outcome = runtime.block_on(async {
        let handle = plan.run(Map::new(), options);
        while !matches!(watcher.next_event().await.unwrap().body, EventBody::RunWaiting { .. }) {}
        assert!(!handle.answer("nobody", json!(1)).await);
        assert!(handle.answer("q", json!("yes")).await);
        handle.outcome().await
    });
    assert_eq!(Value::Object(outcome.outputs), json!({"x": "yes", "w": null}));
    let next = runtime.block_on(watcher.next_event()).unwrap();
    assert!(matches!(next.body, EventBody::RunResumed { .. }));
}

#[test]
fn a_blocking_node_keeps_its_room_until_its_thread_is_free() {
    let blocking = flow(
        &[
            ("b", "block", json!({"ms": 100, "timeoutMs": 10, "onError": "skip", "group": "g"})),
            ("c", "id", json!({"group": "g"})),
        ],
        &["b -> c"],
        &[],
    );
    let mut workflow = blocking;
    workflow.edges.clear();
    let plan = Plan::new(&workflow, &catalog(), &NoWorkflows).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let started = std::time::Instant::now();
    let options = RunOptions {
        groups: [("g".to_owned(), 1)].into(),
        clock: Arc::new(SystemClock),
        ..RunOptions::new()
    };
    let outcome = runtime.block_on(async { plan.run(Map::new(), options).outcome().await });
    assert_eq!(outcome.status, RunStatus::Ok);
    assert!(started.elapsed() >= Duration::from_millis(100), "c waits for the thread of b");
}

#[test]
fn starts_are_limited_in_the_run_and_in_what_started_it() {
    let chain = flow(
        &[("a", "id", json!({})), ("b", "id", json!({"onError": "skip"})), ("c", "id", json!({}))],
        &["a -> b", "b -> c"],
        &[],
    );
    let options = RunOptions { max_starts: Some(1), ..RunOptions::new() };
    let error = run_with(&chain, json!({}), options).outcome.error.unwrap();
    assert_eq!((error.kind.as_str(), error.path.as_deref()), ("node_starts", Some("b")));
    let budget = Budget::new(BudgetLimits { node_starts: Some(2), ..BudgetLimits::default() });
    let options = RunOptions { budget: Some(budget), ..RunOptions::new() };
    let error = run_with(&chain, json!({}), options).outcome.error.unwrap();
    assert_eq!((error.kind.as_str(), error.path.as_deref()), ("node_starts", Some("c")));
}

#[test]
fn a_hook_may_skip_a_node() {
    let chain = flow(&[("a", "id", json!({})), ("b", "id", json!({}))], &["a.out -> b.in"], &[]);
    let before = Arc::new(|path: &str| if path == "a" { Before::Skip } else { Before::Run });
    let seen = run_with(&chain, json!({}), RunOptions { before: Some(before), ..RunOptions::new() });
    assert_eq!(
        seen.ends(),
        ["node.skipped a cause=hook", "node.skipped b cause=hook", "run.finished status=ok"]
    );
}

#[test]
fn a_condition_may_skip_a_node() {
    let skipped = |condition: &str| {
        let flow = flow(
            &[
                ("a", "emit", json!({"v": 5})),
                ("b", "id", json!({"skipIf": condition})),
                ("c", "id", json!({})),
            ],
            &["a.out -> b.in", "b.out -> c.in"],
            &[],
        );
        run_with(&flow, json!({}), RunOptions::new()).ends()[1..].to_vec()
    };
    assert_eq!(
        skipped("inputs['in'] > 4"),
        ["node.skipped b cause=b", "node.skipped c cause=b", "run.finished status=ok"]
    );
    assert_eq!(skipped("inputs['in'] > 5")[0], "node.finished b value=5");
    assert_eq!(skipped("inputs['no'] > 5")[0], "node.failed b kind=condition");
}

#[test]
fn dropping_the_handle_cancels_and_still_writes_the_end() {
    let plan = Plan::new(&flow(&[("a", "wait", json!({"ms": 60_000}))], &[], &[]), &catalog(), &NoWorkflows)
        .unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (options, mut watcher) = RunOptions::new().watched(100);
    runtime.block_on(async {
        let handle = plan.run(Map::new(), options);
        tokio::task::yield_now().await;
        drop(handle);
        loop {
            if let EventBody::RunFinished { status, .. } = watcher.next_event().await.unwrap().body {
                assert_eq!(status, RunStatus::Cancelled);
                break;
            }
        }
    });
}

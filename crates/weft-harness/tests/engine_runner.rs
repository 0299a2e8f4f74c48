//! The runner itself: what it accepts, what it refuses, what it says of a case that goes another way.
#![expect(clippy::needless_pass_by_value, reason = "helpers of tests: a wrong case may panic")]

use serde_json::{Value, json};
use weft_harness::run_engine_file;

/// Faults of one case, one a line.
fn faults(flows: &Value, runs: &Value) -> Vec<String> {
    let line = json!({"id": "c", "title": "t", "source": [], "flows": flows, "runs": runs}).to_string();
    let report = run_engine_file(&line);
    assert_eq!(report.passed + report.failures.len(), 1);
    report.failures.into_iter().flat_map(|failure| failure.faults).collect()
}

#[track_caller]
fn check(nodes: Value, expect: Value, expected: &[&str]) {
    let got = faults(&json!({"main": {"n": nodes, "out": {"r": "r"}}}), &json!([{ "expect": expect }]));
    let short: Vec<&str> = got.iter().map(|fault| fault.strip_prefix("run 0: ").unwrap_or(fault)).collect();
    assert_eq!(short, expected);
}

fn two() -> Value {
    json!({"r": ["sum", {}, {"c": 1}, {"c": 1}]})
}

#[test]
fn a_case_that_goes_as_it_should_passes() {
    check(
        two(),
        json!({"status": "ok", "outputs": {"r": 2, "absent": ["x"]}, "events": [{"type": "node.started"}, {"type": "run.finished"}], "max_ms": 0}),
        &[],
    );
}

#[test]
fn everything_that_goes_another_way_is_said() {
    check(two(), json!({"outputs": {"r": 3}}), &["outputs: r is Some(Number(2)), not 3"]);
    check(two(), json!({"status": "error"}), &["status: ok, not \"error\": "]);
    check(
        two(),
        json!({"no_events": [{"type": "node.finished", "path": "r"}]}),
        &[r#"no_events: {"type":"node.finished","path":"r"} came"#],
    );
    check(
        two(),
        json!({"counts": [[{"type": "node.started"}, 2]]}),
        &[r#"counts: {"type":"node.started"} came 1 times, not 2"#],
    );
    check(
        two(),
        json!({"events": [{"type": "node.finished"}, {"type": "node.started"}]}),
        &[r#"events: no {"type":"node.started"} after 1 of 2 matches"#],
    );
    check(
        two(),
        json!({"before": [[{"type": "node.finished"}, {"type": "node.started"}]]}),
        &[r#"before: {"type":"node.finished"} (Some(3)) is not before {"type":"node.started"} (Some(2))"#],
    );
    check(
        two(),
        json!({"not_after": [[{"type": "run.finished"}, {"type": "run.started"}]]}),
        &[r#"not_after: {"type":"run.finished"} comes after {"type":"run.started"}"#],
    );
    check(
        two(),
        json!({"times": [[{"type": "run.finished"}, 1, 9]]}),
        &[r#"times: {"type":"run.finished"} came at Some(0), not within 1 to 9 ms"#],
    );
    check(two(), json!({"counter": {"k": 1}, "min_ms": 1}), &["counter: k is 0, not 1", "the run took 0 ms"]);
    check(
        json!({"r": ["fail", {"msg": "no"}]}),
        json!({"error": {"kind": "timeout", "contains": ["yes"]}}),
        &["error: kind is Some(String(\"failed\")), not \"timeout\"", "error: `no` lacks some of [\"yes\"]"],
    );
    check(
        json!({"r": ["id", {}, "x"]}),
        json!({"status": "ok"}).clone(),
        &["status: invalid, not \"ok\": r.0: an edge names the node `x`, which is not there"],
    );
}

#[test]
fn what_it_does_not_know_is_refused() {
    let refused = |flows: Value, runs: Value| faults(&flows, &runs).join("; ");
    let flow = |node: Value| json!({"main": {"n": {"a": node}}});
    let plain = json!([{"expect": {}}]);
    assert_eq!(
        refused(flow(json!(["jump", {}])), plain.clone()),
        "flow `main`: node `a`: unknown operation `jump`"
    );
    assert_eq!(
        refused(flow(json!(["id", {"colour": 1}])), plain.clone()),
        "flow `main`: node `a`: unknown key `colour`"
    );
    assert_eq!(refused(json!({"main": {"n": {}, "m": {}}}), plain), "flow `main`: unknown key `m`");
    let run = |run: Value| refused(flow(json!(["emit", {"v": 1}])), json!([run]));
    assert_eq!(run(json!({"expect": {"colour": 1}})), "run 0: unknown key `colour`");
    assert_eq!(
        run(json!({"expect": {"no_events": [{"type": "node.jumped"}]}})),
        "run 0: unknown event `node.jumped`"
    );
    assert_eq!(run(json!({"expect": {}, "options": {"speed": 1}})), "run 0: unknown key `speed`");
    assert_eq!(
        run(json!({"expect": {}, "actions": [{"after_ms": 1, "do": "jump"}]})),
        "run 0: the action `jump` is not known here"
    );
}

#[test]
fn actions_runs_beside_each_other_and_cancel_answers() {
    let flows = json!({"main": {"n": {"w": ["wait", {"ms": 300}, {"c": 1}]}, "out": {"r": "w"}}});
    let runs = json!([
        {"expect": {"status": "ok", "outputs": {"r": 1}, "min_ms": 300}},
        {"beside": true, "actions": [{"after_ms": 100, "do": "cancel"}], "expect": {"status": "cancelled", "max_ms": 100}},
        {"actions": [{"on": {"type": "node.started"}, "do": "cancel"}], "expect": {"status": "cancelled", "max_ms": 0}},
        {"mode": "cancel", "of": 0, "expect": {"answer": "finished"}},
        {"mode": "cancel", "of": "unknown", "expect": {"answer": "unknown"}}
    ]);
    assert_eq!(faults(&flows, &runs), Vec::<String>::new());
}

#[test]
fn loops_subflows_chains_and_waiting_inputs() {
    let flows = json!({
        "main": {"in": ["n"], "n": {
            "L": ["loop", {"mode": "times", "times": 3, "state": {"k": {"in": "$in.n"}}, "body": {"n": {
                "S": ["sub", {"flow": "inc"}, "$s.k"]}, "out": {"seen": "$i", "left": "$left"}}, "next": {"k": "S.v"}, "collect": ["seen", "left"]}],
            "E": ["loop", {"mode": "each", "items": [1, 2], "par": 2, "body": {"n": {"b": ["id", {}, "$item"]}, "out": {"v": "b"}}, "collect": ["v"]}, "L.k"]},
            "chains": [{"prefix": "c", "op": ["sum", {}], "length": 3, "in": "L.k"}],
            "out": {"k": "L.k", "seen": "L.collected.seen", "left": "L.collected.left", "e": "E.collected.v", "c": "c2"}},
        "inc": {"in": ["x"], "n": {"a": ["sum", {}, "$in.x", {"c": 10}]}, "out": {"v": "a"}}
    });
    let expect = json!({"status": "ok", "outputs": {"k": 31, "seen": [0, 1, 2], "left": [2, 1, 0], "e": [1, 2], "c": 31},
        "counts": [[{"type": "node.started", "path": "L[1]/S/a", "iteration": 1}, 1]]});
    assert_eq!(faults(&flows, &json!([{"inputs": {"n": 1}, "expect": expect}])), Vec::<String>::new());
}

#[test]
fn a_run_that_died_goes_on_and_a_fork_takes_another_way() {
    let flows = json!({"main": {
        "n": {"a": ["count", {"key": "a"}, {"c": 1}], "w": ["wait", {"ms": 50}, "a"], "b": ["sum", {}, "a", "w"]},
        "out": {"b": "b"}}});
    let store = json!({"store": "s"});
    let dies = json!({"options": store, "actions": [{"on": {"type": "node.finished", "path": "a"}, "do": "crash"}],
        "expect": {"status": "crashed", "counter": {"a": 1}}});
    let resumed = json!({"mode": "resume", "of": 0, "options": store,
        "expect": {"status": "ok", "outputs": {"b": 2}, "counter": {"a": 1},
            "events": [{"type": "run.resumed"}, {"type": "node.started", "path": "w"}]}});
    let forked = json!({"mode": "fork", "of": 0, "at": {"after": {"type": "node.finished", "path": "a"}},
        "changes": {"a": 20}, "options": store, "expect": {"status": "ok", "outputs": {"b": 40}, "counter": {"a": 1}}});
    let read =
        json!({"mode": "read", "of": 0, "options": store, "expect": {"status": "ok", "outputs": {"b": 2}}});
    assert_eq!(faults(&flows, &json!([dies, resumed, forked, read])), Vec::<String>::new());
}

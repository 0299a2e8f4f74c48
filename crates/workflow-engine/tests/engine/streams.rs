//! Streams between nodes: live, pressing back, taken back.

use std::time::Duration;

use serde_json::{Value, json};
use workflow_engine::{Plan, RunOptions};
use workflow_model::NoWorkflows;

use crate::common::{Seen, catalog, flow, run_with};

fn chunks(seen: &Seen, path: &str) -> Vec<String> {
    let start = format!("node.chunk {path} text=");
    seen.lines().iter().filter_map(|line| line.strip_prefix(&start)).map(str::to_owned).collect()
}

fn run(workflow: &workflow_model::Workflow) -> Seen {
    let seen = run_with(workflow, json!({}), RunOptions::new());
    assert_eq!(seen.outcome.error, None);
    seen
}

#[test]
fn readers_begin_before_the_writer_ends() {
    let chain = flow(
        &[
            ("s", "stream", json!({"chunks": ["0", "1", "2"], "ms": 20})),
            ("t", "tap", json!({})),
            ("u", "tap", json!({})),
            ("j", "join", json!({})),
        ],
        &["s.out -> t.in", "t.out -> u.in", "u.out -> j.in"],
        &[("r", "j.out"), ("s", "s.out")],
    );
    let seen = run(&chain);
    assert_eq!(Value::Object(seen.outcome.outputs.clone()), json!({"r": "012", "s": "012"}));
    assert_eq!(seen.elapsed, Duration::from_millis(60));
    assert_eq!(chunks(&seen, "u"), ["0", "1", "2"]);
    let lines = seen.lines();
    let at = |line: &str| lines.iter().position(|own| own == line).unwrap();
    assert!(at("node.chunk u text=0") < at("node.chunk s text=1"));
    assert!(at("node.started u") < at("node.chunk s text=0"));
    let plan = Plan::new(&chain, &catalog(), &NoWorkflows).unwrap();
    assert_eq!(plan.stream_sources("s"), [("s".into(), "out".into())]);
}

#[test]
fn every_reader_sees_every_chunk_and_others_get_the_whole() {
    let fan = flow(
        &[
            ("s", "stream", json!({"chunks": ["a", "b"]})),
            ("x", "join", json!({})),
            ("y", "join", json!({})),
            ("z", "id", json!({})),
        ],
        &["s.out -> x.in", "s.out -> y.in", "s.out -> z.in"],
        &[("x", "x.out"), ("y", "y.out"), ("z", "z.out")],
    );
    let seen = run(&fan);
    assert_eq!(Value::Object(seen.outcome.outputs.clone()), json!({"x": "ab", "y": "ab", "z": "ab"}));
    assert_eq!(chunks(&seen, "s"), ["a", "b"]);
}

#[test]
fn many_chunks_go_through_a_small_ring() {
    let chunks_in: Vec<String> = (0..1000).map(|n| format!("{n},")).collect();
    let whole = chunks_in.concat();
    let chain = flow(
        &[("s", "stream", json!({"chunks": chunks_in})), ("t", "tap", json!({})), ("j", "join", json!({}))],
        &["s.out -> t.in", "t.out -> j.in"],
        &[("r", "j.out")],
    );
    for max_parallel in [None, Some(1)] {
        let seen = run_with(&chain, json!({}), RunOptions { max_parallel, ..RunOptions::new() });
        assert_eq!(seen.outcome.outputs["r"], whole.as_str());
        assert_eq!(chunks(&seen, "s").len(), 1000);
    }
}

#[test]
fn a_failed_attempt_is_taken_back_everywhere() {
    let retried = flow(
        &[
            (
                "s",
                "stream",
                json!({"chunks": ["a", "b", "c"], "ms": 5, "fail_after": 2, "retry": {"max": 1, "backoffMs": 10}}),
            ),
            ("j", "join", json!({})),
            ("d", "id", json!({})),
        ],
        &["s.out -> j.in", "s.out -> d.in"],
        &[("j", "j.out"), ("d", "d.out")],
    );
    let seen = run(&retried);
    assert_eq!(Value::Object(seen.outcome.outputs.clone()), json!({"j": "abc", "d": "abc"}));
    assert_eq!(chunks(&seen, "s"), ["a", "b", "a", "b", "c"]);
    let lines = seen.lines();
    assert!(lines.iter().position(|line| line.starts_with("node.retrying")).unwrap() > 3, "{lines:#?}");
}

#[test]
fn readers_of_a_failed_stream_are_cancelled() {
    let failing = |on_error: Value| {
        flow(
            &[
                ("s", "stream", json!({"chunks": ["a", "b"], "ms": 5, "fail_after": 1, "onError": on_error})),
                ("j", "join", json!({})),
                ("after", "list", json!({})),
                ("ok", "emit", json!({"v": 1})),
            ],
            &["s.out -> j.in", "j.out -> after.in", "ok.out -> after.in"],
            &[("r", "after.out")],
        )
    };
    let seen = run(&failing(json!("skip")));
    assert_eq!(seen.outcome.outputs["r"], json!([1]));
    assert!(seen.ends().contains(&"node.cancelled j cause=s".to_owned()), "{:#?}", seen.ends());
    let seen = run(&failing(json!({"default": "z"})));
    assert_eq!(seen.outcome.outputs["r"], json!(["", 1]), "what was read is taken back, and the stream ends");
}

#[test]
fn a_plain_value_can_be_read_as_a_stream() {
    let plain = flow(
        &[("e", "emit", json!({"v": "text"})), ("j", "join", json!({}))],
        &["e.out -> j.in"],
        &[("r", "j.out")],
    );
    assert_eq!(run(&plain).outcome.outputs["r"], "text");
}

#[test]
fn two_streams_of_one_node_cannot_wait_for_each_other() {
    let chunks: Vec<String> = (0..500).map(|n| format!("{n},")).collect();
    let whole = chunks.concat();
    // The reply reads all of `t` before `s`, and `t` reads `s`.
    let diamond = flow(
        &[
            ("s", "stream", json!({"chunks": chunks, "ms": 1})),
            ("t", "tap", json!({})),
            ("r", "reply", json!({})),
        ],
        &["s.out -> t.in", "t.out -> r.in", "s.out -> r.more"],
        &[("r", "r.out")],
    );
    assert_eq!(run(&diamond).outcome.outputs["r"], format!("{whole}{whole}"));
}

//! Loop zones: passes, carried values, lists, errors, nesting.

use std::time::Duration;

use crate::common::{Seen, catalog, run_with};
use agent_types::RunStatus;
use serde_json::{Value, json};
use workflow_engine::{Plan, RunOptions};
use workflow_model::{NoWorkflows, Workflow};

/// A zone `L` with that configuration and body, whose results are results of the workflow.
fn zone(config: Value, body: &[Value], edges: &[(&str, &str)], results: &[&str]) -> Workflow {
    let mut nodes = vec![
        json!({"id": "L", "type": "core:LoopZone", "configValues": config}),
        json!({"id": "$out", "type": "core:GroupOutput"}),
    ];
    nodes.extend(body.iter().cloned().map(|mut node| {
        node["parentNode"] = json!("L");
        node
    }));
    let mut wires: Vec<Value> = edges.iter().map(|(from, to)| wire(from, to)).collect();
    let mut interface = serde_json::Map::new();
    for name in results {
        interface.insert((*name).to_owned(), json!({"dataFlowType": "WILDCARD"}));
        wires.push(json!({"source": "L", "sourceHandle": name, "target": "$out", "targetHandle": name}));
    }
    Workflow::from_value(json!({"nodes": nodes, "edges": wires, "interfaceOutputs": interface})).unwrap()
}

fn wire(from: &str, to: &str) -> Value {
    let part =
        |text: &str| text.split_once('.').map(|(node, slot)| (node.to_owned(), slot.to_owned())).unwrap();
    let ((source, source_handle), (target, target_handle)) = (part(from), part(to));
    json!({"source": source, "sourceHandle": source_handle, "target": target, "targetHandle": target_handle})
}

fn node(id: &str, op: &str, config: Value) -> Value {
    let full = if op.contains(':') { op.to_owned() } else { format!("t:{op}") };
    json!({"id": id, "type": full, "configValues": config})
}

fn state() -> Value {
    node("s", "core:LoopState", json!({}))
}

fn next() -> Value {
    node("n", "core:LoopNext", json!({}))
}

fn give() -> Value {
    node("go", "core:GroupOutput", json!({}))
}

/// Counts in `k` from 0.
fn counter(mut config: Value, results: &[&str]) -> Workflow {
    config["state"] = json!([{"key": "k", "dataFlowType": "INTEGER", "initial": 0}]);
    zone(
        config,
        &[state(), node("b", "add", json!({})), next(), give(), node("left", "id", json!({}))],
        &[
            ("s.k", "b.in"),
            ("b.out", "n.k"),
            ("s.remaining", "left.in"),
            ("left.out", "go.left"),
            ("s.k", "go.seen"),
        ],
        results,
    )
}

#[track_caller]
fn check(workflow: &Workflow, outputs: Value, exit: &str) -> Seen {
    let seen = run_with(workflow, json!({}), RunOptions::new());
    assert_eq!(seen.outcome.error, None);
    assert_eq!(Value::Object(seen.outcome.outputs.clone()), outputs);
    assert!(seen.ends().contains(&exit.to_owned()), "{:#?}", seen.ends());
    seen
}

fn passes(seen: &Seen) -> usize {
    seen.lines().iter().filter(|line| line.starts_with("loop.iter.started")).count()
}

#[test]
fn a_zone_ends_by_number_condition_or_limit() {
    check(
        &counter(json!({"mode": "times", "times": 3}), &["k"]),
        json!({"k": 3}),
        "loop.exited L why=times passes=3",
    );
    let until =
        counter(json!({"mode": "until", "condition": "state.k >= 3 && out.seen == 2"}), &["k", "seen"]);
    check(&until, json!({"k": 3, "seen": 2}), "loop.exited L why=condition passes=3");
    let index =
        counter(json!({"mode": "until", "condition": "index == 10", "maxIterations": 1_u64 << 60}), &["k"]);
    check(&index, json!({"k": 11}), "loop.exited L why=condition passes=11");
    let before = counter(json!({"mode": "while", "condition": "state.k < 3"}), &["k"]);
    check(&before, json!({"k": 3}), "loop.exited L why=condition passes=3");
    let none = counter(
        json!({"mode": "until", "condition": "state.k >= 0", "test": "before", "collect": ["seen"]}),
        &["k", "collected.seen", "seen"],
    );
    check(&none, json!({"k": 0, "collected.seen": []}), "loop.exited L why=condition passes=0");
    let limit = json!({"mode": "until", "condition": "state.k < 0", "maxIterations": 5, "collect": ["left"]});
    check(
        &counter(limit, &["k", "collected.left"]),
        json!({"k": 5, "collected.left": [4, 3, 2, 1, 0]}),
        "loop.exited L why=max passes=5",
    );
}

#[test]
fn the_limit_may_be_a_failure() {
    let limit = json!({"mode": "until", "condition": "state.k < 0", "maxIterations": 5, "onMax": "fail"});
    let error = run_with(&counter(limit, &["k"]), json!({}), RunOptions::new()).outcome.error.unwrap();
    assert_eq!((error.kind.as_str(), error.limit, error.path.as_deref()), ("max_passes", Some(5), Some("L")));
    assert_eq!(error.details["state"], json!({"k": 5}));
}

#[test]
fn a_condition_without_an_answer_fails_the_run() {
    let text = zone(
        json!({"mode": "until", "condition": "state.k > 3", "state": [{"key": "k", "initial": 0}]}),
        &[node("b", "emit", json!({"v": "many"})), next()],
        &[("b.out", "n.k")],
        &[],
    );
    let seen = run_with(&text, json!({}), RunOptions::new());
    let error = seen.outcome.error.clone().unwrap();
    assert_eq!(
        (error.kind.as_str(), error.iteration, error.path.as_deref()),
        ("condition", Some(0), Some("L"))
    );
    assert_eq!(passes(&seen), 1);
    assert!(seen.ends().contains(&"loop.exited L why=error passes=1".to_owned()));
}

#[test]
fn a_condition_may_be_the_name_of_a_key() {
    let flag = zone(
        json!({"mode": "until", "condition": "done", "maxIterations": 3, "state": [{"key": "done", "dataFlowType": "BOOLEAN", "initial": false}]}),
        &[node("b", "emit", json!({"v": true})), next()],
        &[("b.out", "n.done")],
        &["done"],
    );
    check(&flag, json!({"done": true}), "loop.exited L why=condition passes=1");
}

#[test]
fn conditions_are_checked_when_the_plan_is_made() {
    let problems = |condition: &str| {
        let workflow = counter(json!({"mode": "until", "condition": condition}), &[]);
        match Plan::new(&workflow, &catalog(), &NoWorkflows) {
            Ok(_) => Vec::new(),
            Err(error) => error.problems.iter().map(ToString::to_string).collect(),
        }
    };
    assert_eq!(problems("state.k > 1"), Vec::<String>::new());
    assert_eq!(
        problems("stat.k > 1"),
        ["L.condition: `stat.k > 1` uses `stat`, which is not there; did you mean `state`?"]
    );
    assert_eq!(problems("out.sene == 1").len(), 1);
    assert_eq!(problems("state.k >").len(), 1);
    assert_eq!(
        problems("state.k > inputs.limit"),
        ["L.condition: `state.k > inputs.limit` uses `inputs.limit`, which is not there"]
    );
    assert_eq!(problems("has(inputs.limit) && state.k > 1"), Vec::<String>::new());
}

/// Goes over a list; item by item the body waits `ms` and fails on `bad`.
fn each(config: Value, items: Value) -> Workflow {
    let mut all = json!({"mode": "each", "collect": ["v"]});
    all.as_object_mut().unwrap().extend(config.as_object().cloned().unwrap());
    let mut workflow = zone(
        all,
        &[
            state(),
            node("w", "wait", json!({"ms": 20})),
            node("f", "fail", json!({"on": "bad", "msg": "bad item"})),
            give(),
        ],
        &[("s.item", "w.in"), ("w.out", "f.in"), ("f.out", "go.v")],
        &["collected.v"],
    );
    workflow.nodes[0].input_values.insert("items".to_owned(), items);
    workflow
}

#[test]
fn lists_are_gone_through_in_order() {
    check(&each(json!({}), json!([])), json!({"collected.v": []}), "loop.exited L why=items passes=0");
    let seen = check(
        &each(json!({}), json!([3, 1])),
        json!({"collected.v": [3, 1]}),
        "loop.exited L why=items passes=2",
    );
    assert_eq!(seen.elapsed, Duration::from_millis(40));
    let seen = check(
        &each(json!({"parallel": 2}), json!([3, 1, 2])),
        json!({"collected.v": [3, 1, 2]}),
        "loop.exited L why=items passes=3",
    );
    assert_eq!(seen.elapsed, Duration::from_millis(40));
}

#[test]
fn failed_items_end_the_zone_or_leave_a_gap() {
    let items = json!([0, "bad", 2]);
    let kept = |on: &str| each(json!({"onItemError": on, "parallel": 3}), items.clone());
    check(&kept("null"), json!({"collected.v": [0, null, 2]}), "loop.exited L why=items passes=3");
    check(&kept("drop"), json!({"collected.v": [0, 2]}), "loop.exited L why=items passes=3");
    let seen = run_with(&kept("fail"), json!({}), RunOptions::new());
    let error = seen.outcome.error.clone().unwrap();
    assert_eq!(
        (error.path.as_deref(), error.iteration, &error.details["item"]),
        (Some("L[1]/f"), Some(1), &json!("bad"))
    );
    assert!(seen.ends().contains(&"loop.exited L why=error passes=1".to_owned()), "{:#?}", seen.ends());
}

#[test]
fn a_failed_pass_may_be_passed_over() {
    let config = |on: &str| json!({"mode": "times", "times": 3, "onPassError": on, "state": [{"key": "k", "initial": 0}]});
    let failing = |on: &str| {
        zone(
            config(on),
            &[state(), node("f", "fail", json!({"on": 0})), node("b", "add", json!({})), next()],
            &[("s.index", "f.in"), ("s.k", "b.in"), ("f.out", "n.break"), ("b.out", "n.k")],
            &["k"],
        )
    };
    check(&failing("continue"), json!({"k": 2}), "loop.exited L why=times passes=3");
    let seen = run_with(&failing("fail"), json!({}), RunOptions::new());
    assert_eq!(seen.outcome.error.clone().unwrap().path.as_deref(), Some("L[0]/f"));
    assert_eq!(passes(&seen), 1);
}

#[test]
fn break_and_continue_are_read_at_the_end_of_a_pass() {
    let flow = |to: &str| {
        zone(
            json!({"mode": "times", "times": 3, "collect": ["v"], "state": [{"key": "k", "initial": true}]}),
            &[state(), node("x", "id", json!({})), node("off", "emit", json!({"v": false})), next(), give()],
            &[("s.k", "x.in"), ("x.out", to), ("off.out", "n.k"), ("s.index", "go.v")],
            &["collected.v", "k"],
        )
    };
    check(
        &flow("n.continue"),
        json!({"collected.v": [1, 2], "k": false}),
        "loop.exited L why=times passes=3",
    );
    check(&flow("n.break"), json!({"collected.v": [0], "k": false}), "loop.exited L why=break passes=1");
}

#[test]
fn a_stop_node_can_end_only_its_loop() {
    let stopped = zone(
        json!({"mode": "times", "times": 9, "state": [{"key": "k", "initial": 5}]}),
        &[
            state(),
            node("i", "fail", json!({"on": 2, "times": 0})),
            node("st", "stop", json!({"scope": "loop"})),
            node("slow", "wait", json!({"ms": 5000})),
        ],
        &[("s.index", "i.in"), ("i.out", "st.in"), ("i.out", "slow.in")],
        &["k"],
    );
    let seen = check(&stopped, json!({"k": 5}), "loop.exited L why=break passes=1");
    assert!(seen.ends().contains(&"node.cancelled L[0]/slow 0 cause=stop".to_owned()), "{:#?}", seen.ends());
}

#[test]
fn nested_zones_begin_anew_in_each_pass() {
    let mut outer = zone(
        json!({"mode": "times", "times": 3, "collect": ["k"], "state": [{"key": "t", "initial": 0}]}),
        &[
            state(),
            json!({"id": "M", "type": "core:LoopZone", "configValues": {"mode": "times", "times": 4, "state": [{"key": "k", "initial": 0}]}}),
            next(),
            give(),
        ],
        &[("M.k", "go.k"), ("M.k", "n.t"), ("s2.k", "b.in"), ("b.out", "n2.k")],
        &["collected.k", "t"],
    );
    for (id, op) in [("s2", "core:LoopState"), ("b", "t:add"), ("n2", "core:LoopNext")] {
        let file = json!({"nodes": [{"id": id, "type": op, "parentNode": "M"}], "edges": []});
        outer.nodes.extend(Workflow::from_value(file).unwrap().nodes);
    }
    let seen =
        check(&outer, json!({"collected.k": [4, 4, 4], "t": 4}), "loop.exited L[2]/M 2 why=times passes=4");
    let starts =
        seen.lines().iter().filter(|line| line.starts_with("node.started") && line.contains("/b")).count();
    assert_eq!((starts, passes(&seen)), (12, 15));
    assert!(seen.lines().contains(&"node.started L[1]/M[3]/b 3".to_owned()));
}

#[test]
fn values_from_outside_are_the_same_in_every_pass() {
    let mut outside = zone(
        json!({"mode": "times", "times": 2, "collect": ["v"]}),
        &[node("x", "id", json!({})), give()],
        &[("o.out", "x.in"), ("x.out", "go.v")],
        &["collected.v"],
    );
    let file = json!({"nodes": [{"id": "o", "type": "t:emit", "configValues": {"v": 7}}], "edges": []});
    outside.nodes.extend(Workflow::from_value(file).unwrap().nodes);
    check(&outside, json!({"collected.v": [7, 7]}), "loop.exited L why=times passes=2");
}

#[test]
fn a_zone_can_be_skipped_limited_and_its_failure_handled() {
    let zone = |extra: Value, ms: u64| {
        let mut file = counter(json!({"mode": "times", "times": 2}), &["k"]).to_value();
        let wait = json!({"id": "w", "type": "t:wait", "parentNode": "L", "configValues": {"ms": ms}});
        file["nodes"].as_array_mut().unwrap().push(wait);
        file["edges"].as_array_mut().unwrap().push(json!({"source": "w", "target": "b"}));
        file["nodes"][0].as_object_mut().unwrap().extend(extra.as_object().cloned().unwrap());
        Workflow::from_value(file).unwrap()
    };
    let seen = run_with(&zone(json!({"skipIf": "state.k == 0"}), 0), json!({}), RunOptions::new());
    assert_eq!(seen.ends(), ["node.skipped L cause=L", "run.finished status=ok"]);
    let seen = run_with(&zone(json!({"timeoutMs": 30}), 20), json!({}), RunOptions::new());
    let error = seen.outcome.error.clone().unwrap();
    assert_eq!((error.kind.as_str(), error.limit, error.path.as_deref()), ("timeout", Some(30), Some("L")));
    assert_eq!(seen.elapsed, Duration::from_millis(30));
    let seen = run_with(&zone(json!({"timeoutMs": 30, "onError": "skip"}), 20), json!({}), RunOptions::new());
    assert_eq!(seen.outcome.status, RunStatus::Ok);
    assert_eq!(seen.ends().last().unwrap(), "run.finished status=ok");
}

#[test]
fn a_slow_reader_holds_a_zone_back() {
    let mut streamed = counter(json!({"mode": "times", "times": 300}), &[]);
    let file = json!({"nodes": [{"id": "t", "type": "t:tap", "configValues": {"ms": 1}}], "edges": [
        {"source": "L", "sourceHandle": "stream", "target": "t", "targetHandle": "in"}]});
    let more = Workflow::from_value(file).unwrap();
    streamed.nodes.extend(more.nodes);
    streamed.edges.extend(more.edges);
    // A run that ends while the zone waits begins no other pass.
    let deadline = Some(Duration::from_millis(50));
    let seen = run_with(&streamed, json!({}), RunOptions { deadline, ..RunOptions::new() });
    let count = |start: &str| seen.lines().iter().filter(|line| line.starts_with(start)).count();
    assert_eq!(seen.outcome.status, RunStatus::Error);
    assert_eq!(count("loop.iter.started L"), count("node.chunk L "));
    for max_parallel in [None, Some(1)] {
        let seen = run_with(&streamed, json!({}), RunOptions { max_parallel, ..RunOptions::new() });
        assert_eq!(seen.outcome.status, RunStatus::Ok);
        let (mut passes, mut read, mut ahead) = (0_usize, 0, 0);
        for line in seen.lines() {
            passes += usize::from(line.starts_with("loop.iter.started"));
            read += usize::from(line.starts_with("node.chunk t "));
            ahead = ahead.max(passes - read);
        }
        // What the stream holds, and as much that the reader has taken at once.
        assert!((64..=130).contains(&ahead), "{ahead} passes ahead");
        assert_eq!((passes, read), (300, 300));
    }
}

#[test]
fn a_zone_streams_one_chunk_a_pass() {
    let mut streamed = counter(json!({"mode": "times", "times": 3}), &[]);
    let file = json!({"nodes": [{"id": "j", "type": "t:join"}], "edges": [
        {"source": "L", "sourceHandle": "stream", "target": "j", "targetHandle": "in"}]});
    let more = Workflow::from_value(file).unwrap();
    streamed.nodes.extend(more.nodes);
    streamed.edges.extend(more.edges);
    let seen = run_with(&streamed, json!({}), RunOptions::new());
    let text = r#"{"left":2,"seen":0}{"left":1,"seen":1}{"left":0,"seen":2}"#;
    assert!(seen.ends().contains(&format!("node.finished j value={text}")), "{:#?}", seen.ends());
}

/// The data of the events of a type.
fn data_of(seen: &Seen, name: &str) -> Vec<Value> {
    let events = seen.events.iter().map(|event| serde_json::to_value(event).unwrap());
    events.filter(|event| event["type"] == name).map(|event| event["data"].clone()).collect()
}

#[test]
fn events_of_passes_have_their_values_and_decisions() {
    let until = counter(json!({"mode": "until", "condition": "state.k >= 2"}), &["k"]);
    let seen = run_with(&until, json!({}), RunOptions::new());
    assert_eq!(data_of(&seen, "loop.entered"), [json!({"mode": "until", "state": {"k": 0}})]);
    assert_eq!(
        data_of(&seen, "loop.iter.finished"),
        [
            json!({"changed": ["k"], "values": [1], "decision": "next"}),
            json!({"changed": ["k"], "values": [2], "decision": "condition"}),
        ]
    );
    let each = zone(json!({"mode": "each"}), &[state(), give()], &[("s.item", "go.v")], &["v"]);
    let mut each = each;
    each.nodes[0].input_values.insert("items".to_owned(), json!(["a", null]));
    let seen = run_with(&each, json!({}), RunOptions::new());
    assert_eq!(data_of(&seen, "loop.iter.started"), [json!({"item": "a"}), json!({"item": null})]);
    assert_eq!(data_of(&seen, "loop.iter.finished"), [json!({"changed": []}), json!({"changed": []})]);
}

#[test]
fn a_loop_that_is_not_done_says_what_happened() {
    let message = |config: Value| {
        let seen = run_with(&counter(config, &["k"]), json!({}), RunOptions::new());
        seen.outcome.error.unwrap().message
    };
    let limits = json!({"onMax": "fail", "maxIterations": 2});
    let with = |more: Value| {
        let mut config = limits.clone();
        config.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        message(config)
    };
    for (more, said) in [
        (json!({"mode": "until", "condition": "state.k > 9"}), "the condition did not hold"),
        (json!({"mode": "while", "condition": "state.k < 9"}), "the condition still held"),
        (json!({"mode": "times", "times": 5}), "`times` asks for more"),
    ] {
        assert_eq!(with(more), format!("{said} after 2 passes, the limit of `maxIterations`"));
    }
}

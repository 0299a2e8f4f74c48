//! Nodes of lists, times and files.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::needless_pass_by_value,
    reason = "helpers of tests: a wrong case may panic"
)]

mod common;

use std::sync::Arc;

use agent_types::EventBody;
use node_library::FilesFolder;
use serde_json::{Value, json};
use workflow_engine::{Plan, RunOptions, RunOutcome, Services};
use workflow_model::{NoWorkflows, Workflow};

use common::single;

fn run(workflow: &Workflow, services: Services) -> (RunOutcome, Vec<String>) {
    let (outcome, events) = common::run(workflow, RunOptions::new().with_services(services));
    let lines = events.into_iter().filter_map(|event| match event {
        EventBody::LogLine { message, .. } => Some(message),
        _ => None,
    });
    (outcome, lines.collect())
}

#[track_caller]
fn check_with(services: Services, node_type: &str, config: Value, inputs: Value, expected: Value) {
    let outputs: Vec<&str> = expected.as_object().unwrap().keys().map(String::as_str).collect();
    let outcome = run(&single(node_type, &config, &inputs, &outputs), services).0;
    assert_eq!(outcome.error, None, "{node_type} {config}");
    assert_eq!(Value::Object(outcome.outputs), expected, "{node_type} {config}");
}

#[track_caller]
fn check(node_type: &str, config: Value, inputs: Value, expected: Value) {
    check_with(Services::new(), node_type, config, inputs, expected);
}

#[track_caller]
fn check_failure(node_type: &str, config: Value, inputs: Value, output: &str, expected: &str) {
    let outcome = run(&single(node_type, &config, &inputs, &[output]), Services::new()).0;
    let error = outcome.error.unwrap().to_string();
    assert!(error.contains(expected), "{error}");
}

#[track_caller]
fn check_refused(node_type: &str, config: Value, expected: &str) {
    let workflow = single(node_type, &config, &json!({}), &[]);
    let error = Plan::new(&workflow, &node_library::catalog(), &NoWorkflows).unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
}

#[test]
fn filter_and_map() {
    let goods = json!([{"n": "a", "p": 5}, {"n": "b"}, null, {"n": "c", "p": 1}]);
    let inputs = json!({"items": goods, "with": {"least": 2}});
    check(
        "Filter",
        json!({"cel": "item.p >= with.least"}),
        inputs.clone(),
        json!({"items": [{"n": "a", "p": 5}], "rest": [{"n": "b"}, null, {"n": "c", "p": 1}]}),
    );
    check(
        "Map",
        json!({"cel": "item.p * vars.limit + index"}),
        inputs.clone(),
        json!({"items": [15, null, null, 6]}),
    );
    check("Filter", json!({"cel": "false"}), json!({"items": []}), json!({"items": [], "rest": []}));
    check(
        "Filter",
        json!({"cel": "index < 1"}),
        json!({"items": [null, 1]}),
        json!({"items": [null], "rest": [1]}),
    );
    let lines = run(&single("Filter", &json!({"cel": "item.p > 0"}), &inputs, &["items"]), Services::new()).1;
    assert_eq!(lines, ["`item.p > 0`: 2 of 4 items lack a member that it names"]);
    check_failure(
        "Filter",
        json!({"cel": "item"}),
        json!({"items": [true, 3]}),
        "items",
        "item 1: `item` gives 3, not true or false",
    );
    check_failure(
        "Map",
        json!({"cel": "item + 1"}),
        json!({"items": ["x"]}),
        "items",
        "item 0: `item + 1` cannot be evaluated",
    );
    check_refused(
        "Filter",
        json!({"cel": "itm.p > 1"}),
        "uses `itm`, which is not there; did you mean `item`?",
    );
    check_refused("Map", json!({}), "this setting is required");
    let long: Vec<u32> = (0..1000).collect();
    let doubled: Vec<u32> = (0..1000).map(|n| 2 * n).collect();
    check("Map", json!({"cel": "item * 2"}), json!({"items": long}), json!({"items": doubled}));
}

#[test]
fn sort() {
    let sorted = |config: Value, items: Value, expected: Value| {
        check("Sort", config, json!({"items": items}), json!({"items": expected}));
    };
    sorted(json!({}), json!([3, null, "b", 1.5, "a", true, 2]), json!([true, 1.5, 2, 3, "a", "b", null]));
    sorted(json!({"descending": true}), json!([1, null, 3, 2]), json!([3, 2, 1, null]));
    let items = json!([{"a": 1, "n": 0}, {"a": 2, "n": 1}, {"n": 2}, {"a": 1, "n": 3}, {"a": 2, "n": 4}]);
    let numbers = |config: Value, expected: Value| {
        let outcome = run(&single("Sort", &config, &json!({"items": items}), &["items"]), Services::new()).0;
        let sorted = outcome.outputs["items"].as_array().unwrap().clone();
        assert_eq!(sorted.iter().map(|item| item["n"].clone()).collect::<Value>(), expected, "{config}");
    };
    numbers(json!({"by": "item.a"}), json!([0, 3, 1, 4, 2]));
    numbers(json!({"by": "item.a", "descending": true}), json!([1, 4, 0, 3, 2]));
    numbers(json!({"by": ["item.a", {"cel": "item.n", "descending": true}]}), json!([3, 0, 4, 1, 2]));
    check_failure("Sort", json!({}), json!({"items": [[1], [2]]}), "items", "its key is a list or an object");
    check_refused("Sort", json!({"by": []}), "at least one key");
    check_refused("Sort", json!({"by": {"cle": "item"}}), "did you mean `cel`?");
    check_refused("Sort", json!({"by": "item."}), "is not a valid expression");
}

#[test]
fn group_distinct_split() {
    let items = json!([{"k": 1, "n": "a"}, {"k": "1", "n": "b"}, {"k": 1.0, "n": "c"}, {"n": "d"}]);
    check(
        "Group",
        json!({"by": "item.k"}),
        json!({"items": items}),
        json!({"groups": [
            {"key": 1, "count": 2, "items": [{"k": 1, "n": "a"}, {"k": 1.0, "n": "c"}]},
            {"key": "1", "count": 1, "items": [{"k": "1", "n": "b"}]},
            {"key": null, "count": 1, "items": [{"n": "d"}]}]}),
    );
    check(
        "Distinct",
        json!({}),
        json!({"items": [{"a": 1, "b": 2}, {"b": 2, "a": 1.0}, null, null, 1]}),
        json!({"items": [{"a": 1, "b": 2}, null, 1], "removed": 2}),
    );
    check(
        "Distinct",
        json!({"by": "item % 2"}),
        json!({"items": [1, 2, 3, 4]}),
        json!({"items": [1, 2], "removed": 2}),
    );
    check("Split", json!({"size": 2}), json!({"items": [1, 2, 3]}), json!({"parts": [[1, 2], [3]]}));
    check("Split", json!({"size": 2}), json!({"items": []}), json!({"parts": []}));
    check(
        "Split",
        json!({"at": "item == '-'"}),
        json!({"items": ["-", 1, 2, "-", 3]}),
        json!({"parts": [[], [1, 2], [3]]}),
    );
    check("Split", json!({}), json!({"items": [1]}), json!({"parts": [[1]]}));
    check_refused("Split", json!({"size": 0}), "a whole number from 1");
    check_refused("Split", json!({"size": 1, "at": "true"}), "exclude each other");
}

#[test]
fn merge() {
    check("Merge", json!({}), json!({"lists": [[1, 2], [], [3]]}), json!({"items": [1, 2, 3]}));
    let pair = |config: Value, left: Value, right: Value, expected: Value| {
        check("Merge", config, json!({"left": left, "right": right}), json!({"items": expected}));
    };
    pair(json!({"mode": "zip"}), json!([1, 2, 3]), json!(["a", "b"]), json!([[1, "a"], [2, "b"]]));
    pair(json!({"mode": "zip", "fill": true}), json!([1]), json!(["a", "b"]), json!([[1, "a"], [null, "b"]]));
    let left = json!([{"id": 1, "x": "l"}, {"id": 2}, {"id": null}, {"y": 0}]);
    let right = json!([{"id": 1, "x": "r"}, {"id": 1, "z": 1}, {"id": null}]);
    pair(
        json!({"mode": "join", "key": "item.id"}),
        left.clone(),
        right.clone(),
        json!([{"id": 1, "x": "r"}, {"id": 1, "x": "l", "z": 1}]),
    );
    pair(
        json!({"mode": "join", "key": "item.id", "join": "left"}),
        left,
        right,
        json!([{"id": 1, "x": "r"}, {"id": 1, "x": "l", "z": 1}, {"id": 2}, {"id": null}, {"y": 0}]),
    );
    pair(
        json!({"mode": "join", "key": "item", "rightKey": "item.of", "join": "left"}),
        json!(["a", "b"]),
        json!([{"of": "a"}]),
        json!([{"left": "a", "right": {"of": "a"}}, {"left": "b", "right": null}]),
    );
    let wide = json!(vec![json!({"id": 1, "text": "x".repeat(1 << 20)}); 9]);
    check_failure(
        "Merge",
        json!({"mode": "join", "key": "item.id"}),
        json!({"left": wide, "right": wide}),
        "items",
        "the join has more than 64 MiB; take a key that repeats less",
    );
    check_refused("Merge", json!({"mode": "join"}), "with `join` this setting is required");
    check_refused("Merge", json!({"mode": "jion"}), "did you mean `join`?");
}

#[test]
fn dates_and_times() {
    let time = |config: Value, inputs: Value, expected: &str| {
        check("DateTime", config, inputs, json!({"time": expected}));
    };
    let berlin = |operation: &str| json!({"operation": operation, "zone": "Europe/Berlin"});
    time(berlin("parse"), json!({"text": "2026-07-01T10:00:00Z"}), "2026-07-01T12:00:00+02:00");
    time(berlin("parse"), json!({"text": "2026-01-01 10:00"}), "2026-01-01T10:00:00+01:00");
    time(berlin("parse"), json!({"text": 0}), "1970-01-01T01:00:00+01:00");
    time(
        json!({"operation": "parse", "format": "%d.%m.%Y %H:%M"}),
        json!({"text": "02.03.2026 04:05"}),
        "2026-03-02T04:05:00+00:00",
    );
    let add = |amount: &str| json!({"operation": "add", "zone": "Europe/Berlin", "amount": amount});
    time(add("1 month"), json!({"time": "2026-01-31"}), "2026-02-28T00:00:00+01:00");
    // The night of the change to summer time has 23 hours.
    time(add("1 day"), json!({"time": "2026-03-28T12:00"}), "2026-03-29T12:00:00+02:00");
    time(add("24h"), json!({"time": "2026-03-28T12:00"}), "2026-03-29T13:00:00+02:00");
    time(add("1 day"), json!({"time": "2026-01-01", "amount": "-P1D"}), "2025-12-31T00:00:00+01:00");
    check(
        "DateTime",
        json!({"operation": "difference", "unit": "months"}),
        json!({"from": "2026-01-01", "to": "2026-03-01"}),
        json!({"value": 2, "duration": "P2M"}),
    );
    check(
        "DateTime",
        json!({"operation": "difference"}),
        json!({"from": "2026-01-01T00:00:01Z", "to": "2026-01-01T00:00:00.5Z"}),
        json!({"value": -0.5, "duration": "-PT0.5S"}),
    );
    check(
        "DateTime",
        json!({"operation": "format", "format": "%A, %Y", "zone": "Asia/Shanghai"}),
        json!({"time": "2026-12-31T20:00:00Z"}),
        json!({"text": "Friday, 2027"}),
    );
    let now = run(&single("DateTime", &json!({}), &json!({}), &["epochMs", "parts"]), Services::new()).0;
    assert!(now.outputs["epochMs"].is_i64() && now.outputs["parts"]["zone"] == "UTC", "{:?}", now.outputs);
    check_failure("DateTime", berlin("parse"), json!({"text": "soon"}), "time", "\"soon\" is not a time");
    check_failure("DateTime", berlin("add"), json!({"time": 0}), "time", "`amount` is missing");
    check_refused("DateTime", json!({"zone": "Europe/Berln"}), "did you mean `Europe/Berlin`?");
    check_refused("DateTime", json!({"format": "%"}), "is not a form of times");
    check_refused("DateTime", json!({"amount": "soon"}), "is not an amount of time");
    check_refused("DateTime", json!({"operation": "ad"}), "did you mean `add`?");
}

#[test]
fn files() {
    let project = tempfile::tempdir().unwrap();
    let services = || Services::new().with(Arc::new(FilesFolder::new(project.path().join("files"))));
    let write = |config: Value, inputs: Value, bytes: u64| {
        let path = inputs["path"].clone();
        check_with(services(), "WriteFile", config, inputs, json!({"path": path, "bytes": bytes}));
    };
    let read = |config: Value, path: &str, expected: Value| {
        check_with(services(), "ReadFile", config, json!({"path": path}), json!({"content": expected}));
    };
    write(json!({}), json!({"path": "a/b.txt", "content": "grün"}), 5);
    read(json!({}), "a/b.txt", json!("grün"));
    read(json!({"as": "base64"}), "a/b.txt", json!("Z3LDvG4="));
    write(json!({"as": "base64", "mode": "overwrite"}), json!({"path": "a/b.txt", "content": "/w=="}), 1);
    write(json!({"as": "json"}), json!({"path": "c.json", "content": {"a": [1]}}), 23);
    read(json!({"as": "json"}), "c.json", json!({"a": [1]}));
    let failure = |node: &str, config: Value, inputs: Value, code: &str| {
        let output = if node == "ReadFile" { "content" } else { "path" };
        let error = run(&single(node, &config, &inputs, &[output]), services()).0.error.unwrap();
        assert_eq!(error.code.as_deref(), Some(code), "{error}");
    };
    failure("ReadFile", json!({}), json!({"path": "a/b.txt"}), "not_text");
    failure("ReadFile", json!({"maxBytes": 3}), json!({"path": "c.json"}), "file_too_large");
    failure("ReadFile", json!({}), json!({"path": "../x"}), "bad_file_path");
    failure("ReadFile", json!({}), json!({"path": "x"}), "file_missing");
    failure("WriteFile", json!({}), json!({"path": "c.json", "content": ""}), "file_exists");
    failure("WriteFile", json!({"as": "base64"}), json!({"path": "d", "content": "?"}), "bad_base64");
    check_failure("ReadFile", json!({}), json!({"path": "x"}), "content", "in a project only");
    check_refused("WriteFile", json!({"mode": "replace"}), "expected one of");
    check_refused("ReadFile", json!({"maxBytes": 0}), "a whole number from 1");
}

//! Forks with other values: typed as inputs are, and refused where a value would have no effect.

use serde_json::json;

use crate::common::{desk, weft, write};

/// A loop, then nodes whose main outputs have types of their own.
const TYPED: &str = r#"{
  "interfaceInputs": {"name": {"dataFlowType": "STRING", "config": {"default": "Ann"}}},
  "interfaceOutputs": {"v": {"dataFlowType": "WILDCARD"}},
  "nodes": [
    {"id": "in", "type": "core:GroupInput"},
    {"id": "loop", "type": "core:LoopZone", "configValues": {
      "mode": "times", "times": 2, "state": [{"key": "n", "dataFlowType": "INTEGER", "initial": 0}]}},
    {"id": "state", "type": "core:LoopState", "parentNode": "loop"},
    {"id": "add", "type": "core:Expression", "parentNode": "loop", "configValues": {"cel": "n + 1"}},
    {"id": "next", "type": "core:LoopNext", "parentNode": "loop"},
    {"id": "dice", "type": "core:RandomNumber", "inputValues": {"min": 1, "max": 6}},
    {"id": "text", "type": "core:TextMerge"},
    {"id": "free", "type": "core:Expression", "configValues": {"cel": "n"}},
    {"id": "all", "type": "core:Expression", "configValues": {"cel": "[dice, text, free]"}},
    {"id": "out", "type": "core:GroupOutput"}],
  "edges": [
    {"source": "state", "sourceHandle": "n", "target": "add", "targetHandle": "n"},
    {"source": "add", "sourceHandle": "value", "target": "next", "targetHandle": "n"},
    {"source": "loop", "sourceHandle": "n", "target": "free", "targetHandle": "n"},
    {"source": "in", "sourceHandle": "name", "target": "text", "targetHandle": "text_inputs"},
    {"source": "dice", "sourceHandle": "value", "target": "all", "targetHandle": "dice"},
    {"source": "text", "sourceHandle": "merged_text", "target": "all", "targetHandle": "text"},
    {"source": "free", "sourceHandle": "value", "target": "all", "targetHandle": "free"},
    {"source": "all", "sourceHandle": "value", "target": "out", "targetHandle": "v"}]
}"#;

#[test]
fn a_text_is_typed_by_the_output_of_its_node() {
    let folder = desk();
    write(folder.path(), "workflows/typed.json", TYPED);
    weft(folder.path(), &["workflow", "run", "typed"]).ok();
    let id = weft(folder.path(), &["runs", "list", "--output", "json"]).ok().json()[0]["run"].clone();
    let fork = |set: &[&str]| {
        let set = set.iter().flat_map(|set| ["--set", set]);
        let all: Vec<&str> =
            ["runs", "fork", id.as_str().unwrap(), "--output", "json"].into_iter().chain(set).collect();
        weft(folder.path(), &all)
    };
    let typed = fork(&["dice=42", "text=43", "free:=44"]).ok().json();
    assert_eq!(typed["outputs"]["v"], json!([42, "43", 44]));
    let given = fork(&["dice:=4", "text:=\"x\"", "free=y"]).ok().json();
    assert_eq!(given["outputs"]["v"], json!([4, "x", "y"]));
    let wrong = fork(&["dice=six"]);
    assert_eq!(wrong.code, 7, "{wrong:#?}");
    assert!(wrong.stderr.contains("\"invalid_argument\"") && wrong.stderr.contains("dice"), "{wrong:#?}");
}

/// Their values were taken and had no effect: what hangs on them reads the nodes inside or before them.
#[test]
fn values_that_follow_from_others_are_refused() {
    let folder = desk();
    write(folder.path(), "workflows/typed.json", TYPED);
    weft(folder.path(), &["workflow", "run", "typed"]).ok();
    for path in ["loop", "in", "out", "loop[0]/state", "loop[0]/next"] {
        let refused = weft(folder.path(), &["runs", "fork", "last", "--set", &format!("{path}:=1")]);
        assert_eq!(refused.code, 2, "{path}: {refused:#?}");
        let is_named = ["not_settable", "unknown_node"].iter().any(|code| refused.stderr.contains(code));
        assert!(is_named && refused.stderr.contains(path), "{path}: {refused:#?}");
    }
    let looped = weft(folder.path(), &["runs", "fork", "last", "--set", "loop:={\"n\": 9}"]);
    assert!(looped.stderr.contains("error[not_settable]"), "{looped:#?}");
    // A node inside a pass has a value of its own.
    let inside =
        weft(folder.path(), &["runs", "fork", "last", "--set", "loop[0]/add:=8", "--output", "json"]);
    assert_eq!(inside.ok().json()["outputs"]["v"][2], 9);
}

#[test]
fn a_group_is_refused_and_a_node_inside_it_is_settable() {
    let folder = desk();
    let inner = json!({
        "interfaceOutputs": {"v": {"dataFlowType": "WILDCARD"}},
        "nodes": [
            {"id": "one", "type": "core:Const", "configValues": {"value": 1}},
            {"id": "out", "type": "core:GroupOutput"}],
        "edges": [{"source": "one", "sourceHandle": "value", "target": "out", "targetHandle": "v"}]});
    let outer = json!({
        "interfaceOutputs": {"v": {"dataFlowType": "WILDCARD"}},
        "nodes": [
            {"id": "box", "type": "core:NodeGroup", "configValues": {"referencedWorkflowId": "inner"}},
            {"id": "out", "type": "core:GroupOutput"}],
        "edges": [{"source": "box", "sourceHandle": "v", "target": "out", "targetHandle": "v"}]});
    write(folder.path(), "workflows/inner.json", &inner.to_string());
    write(folder.path(), "workflows/outer.json", &outer.to_string());
    weft(folder.path(), &["workflow", "run", "outer"]).ok();
    let refused = weft(folder.path(), &["runs", "fork", "last", "--set", "box:=9"]);
    // A group has no end of its own.
    assert!(
        refused.stderr.contains("error[unknown_node]") && refused.stderr.contains("`box/one`"),
        "{refused:#?}"
    );
    let inside = weft(folder.path(), &["runs", "fork", "last", "--set", "box/one:=9", "--output", "json"]);
    assert_eq!(inside.ok().json()["outputs"]["v"], 9);
}

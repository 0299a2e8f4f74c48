//! The report of every import accounts for every member of the file.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use weft_import::{
    OpenApiOptions, Report, What, from_bu, from_bu_tools, from_comfytavern, from_comfytavern_tool,
    from_comfyui, from_modular, from_openapi,
};

/// Paths of all values that hold no others.
fn leaves(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (name, member) in members {
                leaves(member, &format!("{path}/{}", name.replace('~', "~0").replace('/', "~1")), found);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (at, item) in items.iter().enumerate() {
                leaves(item, &format!("{path}/{at}"), found);
            }
        }
        _ => found.push(path.to_owned()),
    }
}

/// The first leaf that no entry accounts for.
fn missed(file: &Value, report: &Report) -> Option<String> {
    let mut found = Vec::new();
    leaves(file, "", &mut found);
    let accounts = |path: &str, leaf: &str| {
        leaf.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let entries: Vec<&str> = report
        .entries()
        .iter()
        .filter(|entry| entry.what != What::Changed)
        .map(|entry| entry.path.as_str())
        .collect();
    found.into_iter().find(|leaf| !entries.iter().any(|path| accounts(path, leaf)))
}

/// A report as lines.
fn shown(report: &Report) -> String {
    let line = |entry: &weft_import::Entry| {
        let what = serde_json::to_value(entry.what).unwrap_or_default();
        let what = what.as_str().unwrap_or_default();
        let (code, message) = (entry.code.unwrap_or("-"), entry.message.as_deref().unwrap_or("-"));
        format!("{what} {} [{code}] {message}", entry.path)
    };
    report.entries().iter().map(line).collect::<Vec<_>>().join("\n")
}

fn modular() -> Value {
    json!({
        "name": "Two", "version": "1.2", "metadata": {"tags": ["a"]},
        "nodes": [
            {"id": "s", "type": "START", "position": {"x": 1}},
            {"id": "l", "type": "LOOP_START", "config": {"loopId": "a", "maxIterations": 3, "delay": 9}},
            {"id": "w", "type": "LLM", "config": {"prompt": "x"}, "hooks": []},
            {"id": "m", "type": "LOOP_END", "config": {"loopId": "a", "breakCondition": {"expression": "n > 2", "engine": "cel"}}},
            {"id": "e", "type": "END"}],
        "edges": [
            {"id": "1", "sourceNodeId": "s", "targetNodeId": "l", "weight": 2},
            {"id": "2", "sourceNodeId": "l", "targetNodeId": "w"},
            {"id": "3", "sourceNodeId": "w", "targetNodeId": "m", "condition": {"expression": "ok"}},
            {"id": "4", "sourceNodeId": "m", "targetNodeId": "e", "condition": "done"}],
        "variables": [{"name": "n", "defaultValue": 1, "scope": "global"}],
        "parameters": {"city": {"type": "string", "pattern": "^a"}}
    })
}

fn comfyui() -> Value {
    json!({
        "version": 0.4, "groups": [],
        "nodes": [
            {"id": 1, "type": "Load", "pos": [1, 2], "size": [3, 4], "mode": 4, "outputs": [{"name": "IMAGE", "type": "IMAGE", "links": [7]}]},
            {"id": 2, "type": "Save", "mode": 1, "inputs": [{"name": "image", "type": "IMAGE", "link": 7}], "widgets_values": ["a"]}],
        "links": [[7, 1, 0, 2, 0, "IMAGE"], [8, 9, 0, 9, 0, "IMAGE"]]
    })
}

fn bu() -> Value {
    json!({
        "basic_settings": {"name": "Tea", "avatar": "leaf.png", "tone": 7},
        "max_iterations": "three", "strategy": "sop",
        "tools": [{"name": "find", "description": "Finds.", "cost": 2,
            "endpoint": {"url": "https://a.test/x", "method": "GET", "retry": 3, "headers": {"A": 1, "B": "b"}}}],
        "flows": [{"flow_id": "leave", "type": "keyword", "match_type": "fuzzy", "trigger_patterns": ["leave", 5],
            "endpoint": {"url": "https://a.test/leave", "proxy": "p"}, "owner": "ann"}],
        "timers": [{"timer_id": "idle", "message": "Still there?", "jitter": 4}]
    })
}

fn openapi() -> Value {
    json!({
        "openapi": "3.0.3", "info": {"title": "Invented"},
        "servers": [{"url": "https://a.test", "description": "one"}],
        "paths": {"/find": {"get": {"operationId": "find", "summary": "Finds.", "tags": ["x"], "deprecated": true,
            "parameters": [{"name": "q", "in": "query", "allowReserved": true, "schema": {"type": "string", "example": "tea", "x-order": 1}}],
            "responses": {"200": {"description": "well"}}}},
            "/send": {"post": {"requestBody": {"required": true, "content": {"multipart/form-data": {}}}}}},
        "components": {"schemas": {"Unused": {"type": "object"}}}
    })
}

#[test]
fn reports_name_every_member_without_a_counterpart() {
    insta::assert_snapshot!("modular", shown(&from_modular("two", &modular().to_string()).unwrap().report));
    insta::assert_snapshot!("comfyui", shown(&from_comfyui("two", &comfyui().to_string()).unwrap().report));
    insta::assert_snapshot!("bu", shown(&from_bu(&bu().to_string()).unwrap().report));
    let options = OpenApiOptions::default();
    insta::assert_snapshot!(
        "openapi",
        shown(&from_openapi(&openapi().to_string(), &options).unwrap().report)
    );
}

/// Reports of all imports that take a file.
fn reports(text: &str) -> Vec<Report> {
    let workflows = [from_modular("x", text), from_comfyui("x", text), from_comfytavern("x", text)];
    let tools =
        [from_openapi(text, &OpenApiOptions::default()), from_bu_tools(text), from_comfytavern_tool(text)];
    let mut reports: Vec<Report> = workflows.into_iter().flatten().map(|read| read.report).collect();
    reports.extend(tools.into_iter().flatten().map(|read| read.report));
    reports.extend(from_bu(text).into_iter().map(|read| read.report));
    reports
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-z{}~/]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::vec(("[a-z~/]{1,4}", inner), 0..3)
                .prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// A known file in which some values are replaced and some objects have members more.
fn changed(file: Value, changes: &[(usize, String, Value)]) -> Value {
    let mut file = file;
    for (at, name, value) in changes {
        let mut paths = Vec::new();
        leaves(&file, "", &mut paths);
        let path = paths[at % paths.len()].clone();
        let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent).to_owned();
        match file.pointer_mut(&parent) {
            Some(Value::Object(members)) if at % 2 == 0 => {
                members.insert(name.clone(), value.clone());
            }
            _ => {
                if let Some(place) = file.pointer_mut(&path) {
                    *place = value.clone();
                }
            }
        }
    }
    file
}

proptest! {
    #[test]
    fn every_member_is_mapped_kept_or_reported(
        known in prop::sample::select(vec![modular(), comfyui(), bu(), openapi()]),
        changes in prop::collection::vec((0_usize..200, "[a-z]{1,8}", any_value()), 0..6),
    ) {
        let file = changed(known, &changes);
        for report in reports(&file.to_string()) {
            prop_assert_eq!(missed(&file, &report), None);
        }
    }
}

//! Files that load, files that are refused and why, and lossless saving.
#![expect(
    clippy::unwrap_used,
    clippy::needless_pass_by_value,
    reason = "helpers of tests: a wrong case may panic"
)]

use proptest::prelude::*;
use serde_json::{Value, json};
use workflow_model::{LoadError, Payload, Workflow, reference_notes, workflow_schema};

/// The faults of a file, one a line.
#[track_caller]
fn check_faults(value: Value, expected: &[&str]) {
    let faults = match Workflow::from_value(value) {
        Err(LoadError::Shape(faults)) => faults.iter().map(ToString::to_string).collect(),
        Err(other) => vec![other.to_string()],
        Ok(_) => Vec::new(),
    };
    assert_eq!(faults, expected);
}

fn with_node(node: Value) -> Value {
    json!({"nodes": [node], "edges": []})
}

#[test]
fn every_fault_of_a_file_is_reported_with_its_place() {
    check_faults(json!({"edges": []}), &["nodes: missing, expected a list"]);
    check_faults(json!([]), &["expected an object, found a list"]);
    check_faults(
        with_node(json!({"id": "a", "type": "t", "position": {"x": "0", "y": 0}})),
        &["nodes[0].position.x: expected a number, found the text `0`"],
    );
    check_faults(
        with_node(json!({"id": "a", "type": "t", "parentNode": 3})),
        &["nodes[0].parentNode: expected a text, found the number `3`"],
    );
    check_faults(
        json!({"nodes": [{"type": 1}], "edges": [{"source": "a"}], "interfaceInputs": {"a b": {"dataFlowType": "TEXT"}}}),
        &[
            "nodes[0].id: missing, expected a text",
            "nodes[0].type: expected a text, found the number `1`",
            "edges[0].target: missing, expected the id of a node",
            "interfaceInputs[\"a b\"].dataFlowType: expected one of STRING, INTEGER, FLOAT, BOOLEAN, OBJECT, ARRAY, BINARY, WILDCARD, CONVERTIBLE_ANY, found the text `TEXT`",
        ],
    );
    check_faults(
        with_node(
            json!({"id": "a", "type": "t", "retry": {"max": -1}, "onError": "explode", "bypass": true, "cache": 3}),
        ),
        &[
            "nodes[0].bypass: expected `pass` or `mute`, found `true`",
            "nodes[0].retry: expected {`max`, `backoffMs`?, `maxBackoffMs`?} with whole numbers, found an object",
            "nodes[0].onError: expected `fail`, `branch`, `skip` or {`default`: value}, found the text `explode`",
            "nodes[0].cache: expected `true`, `false` or {`key`: [input slots]}, found the number `3`",
        ],
    );
    check_faults(
        with_node(
            json!({"id": "a", "type": "t", "inputConnectionOrders": {"x": ["e1", 2]}, "customSlotDescriptions": {"inputs": {"x": 1}}}),
        ),
        &[
            "nodes[0].inputConnectionOrders.x[1]: expected a text, found the number `2`",
            "nodes[0].customSlotDescriptions.inputs.x: expected a text, found the number `1`",
        ],
    );
}

#[test]
fn broken_json_has_line_and_column() {
    let error = Workflow::from_json("{\n  \"nodes\": [,]\n}").unwrap_err();
    assert_eq!(error.to_string(), "line 2, column 13: expected value");
    assert_eq!(error.code(), "bad_json");
    let deep = "[".repeat(100_000);
    assert!(Workflow::from_json(&deep).is_err());
}

/// Saving gives back what was read, and what was saved loads equal.
#[track_caller]
fn check_lossless(value: &Value) {
    let workflow = Workflow::from_value(value.clone()).unwrap();
    let saved = workflow.to_value();
    assert_eq!(saved.to_string(), value.to_string());
    assert_eq!(Workflow::from_json(&workflow.to_json()).unwrap(), workflow);
}

#[test]
fn saving_keeps_keys_order_and_written_forms() {
    check_lossless(&json!({"edges": [], "nodes": []}));
    check_lossless(&json!({
        "later": {"b": 1, "a": [null]}, "variables": [{"value": null, "name": "v", "x": 1}],
        "interfaceOutputs": {}, "previewTarget": null, "id": null,
        "availableTools": {"hidden": [], "initial": ["a"], "more": 1, "available": []},
        "nodes": [{
            "z": 1, "type": "core:X", "id": "n", "position": {"y": 1, "x": 2.50, "z": 0}, "bypass": null,
            "retry": {"backoffMs": 5, "max": 2, "jitter": true}, "onError": {"default": null, "why": "x"},
            "inputValues": {"b": 1.0, "a": 10_000_000_000_000_000_000_u64}, "configValues": {}, "first": false,
            "cache": {"key": ["a"], "ttl": 5}, "lazy": [], "timeoutMs": 10, "effect": false, "width": 250
        }],
        "edges": [{"label": "l", "targetHandle": null, "sourceHandle": null, "target": "n", "source": "n", "animated": true}],
        "interfaceInputs": {"b": {"max": 3, "dataFlowType": "INTEGER", "isStream": false, "config": {"step": 1},
            "matchCategories": [], "hideHandle": false}, "a": {"dataFlowType": "STRING", "multi": true, "key": "a"}}
    }));
}

#[test]
fn a_changed_field_changes_its_own_key_only() {
    let text = r#"{"nodes":[{"id":"a","type":"t","retry":{"max":1,"x":1},"later":0}],"edges":[],"name":"n"}"#;
    let mut workflow = Workflow::from_json(text).unwrap();
    workflow.name = Some("m".to_owned());
    workflow.nodes[0].timeout_ms = Some(5);
    let expected = r#"{"nodes":[{"id":"a","type":"t","retry":{"max":1,"x":1},"later":0,"timeoutMs":5}],"edges":[],"name":"m"}"#;
    assert_eq!(workflow.to_value().to_string(), expected);
    workflow.nodes[0].retry = None;
    workflow.name = None;
    let expected = r#"{"nodes":[{"id":"a","type":"t","later":0,"timeoutMs":5}],"edges":[]}"#;
    assert_eq!(workflow.to_value().to_string(), expected);
}

#[test]
fn what_the_reference_refuses_without_need_is_noted() {
    let workflow = Workflow::from_value(json!({
        "nodes": [], "edges": [],
        "interfaceInputs": {"a": {"dataFlowType": "STRING", "description": "d"}, "b": {"key": "c", "dataFlowType": "STRING"}}
    }))
    .unwrap();
    assert_eq!(workflow.interface_inputs["a"].description(), Some("d"));
    assert_eq!(
        reference_notes(&workflow),
        [
            "interfaceInputs.a has no `key`; weft takes the name in the map",
            "interfaceInputs.b has the key `c`; weft takes the name in the map"
        ]
    );
}

#[test]
fn a_payload_becomes_a_workflow() {
    let payload = Payload::from_value(json!({
        "nodes": [{"id": "u", "fullType": "test:Upper", "inputs": {"text": "hi"}, "bypassed": true},
                  {"id": "go", "fullType": "core:GroupOutput"}],
        "edges": [{"id": "e", "sourceNodeId": "u", "sourceHandle": "text", "targetNodeId": "go", "targetHandle": "t"}],
        "interfaceOutputs": {"t": {"key": "t", "dataFlowType": "STRING"}},
        "outputInterfaceMappings": {"t": {"sourceNodeId": "u", "sourceSlotKey": "text"},
                                    "n": {"sourceNodeId": "u", "sourceSlotKey": "size"}},
        "arguments": {"x": 1}
    }))
    .unwrap();
    insta::assert_snapshot!(payload.workflow.to_value(), @r#"{"interfaceOutputs":{"t":{"key":"t","dataFlowType":"STRING"},"n":{"dataFlowType":"WILDCARD"}},"nodes":[{"id":"u","type":"test:Upper","inputValues":{"text":"hi"},"bypass":"pass"},{"id":"go","type":"core:GroupOutput"},{"id":"$out","type":"core:GroupOutput"}],"edges":[{"id":"e","source":"u","target":"go","sourceHandle":"text","targetHandle":"t"},{"source":"u","target":"$out","sourceHandle":"size","targetHandle":"n"}]}"#);
    assert_eq!(payload.arguments["x"], 1);
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-zé\"\\\\]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key(), inner), 0..5)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

/// The schema accepts what loads, and refuses what does not.
#[test]
fn the_schema_says_what_the_reader_says() {
    let schema = jsonschema::validator_for(workflow_schema().as_value()).unwrap();
    let slot = |extra: Value| json!({"nodes": [], "edges": [], "interfaceInputs": {"a": extra}});
    for file in [
        json!({"nodes": [], "edges": []}),
        json!({"nodes": [], "edges": [], "more": 1, "name": null}),
        json!({"edges": []}),
        json!({"nodes": {}, "edges": []}),
        with_node(json!({"id": "a", "type": "t"})),
        with_node(json!({"id": "a"})),
        with_node(json!({"id": "a", "type": "t", "position": {"x": "0", "y": 0}})),
        with_node(json!({"id": "a", "type": "t", "parentNode": 3})),
        with_node(
            json!({"id": "a", "type": "t", "cache": {"key": ["x"]}, "onError": {"default": 1}, "retry": {"max": 1}, "bypass": "mute"}),
        ),
        with_node(json!({"id": "a", "type": "t", "cache": 1})),
        with_node(json!({"id": "a", "type": "t", "onError": "explode"})),
        with_node(json!({"id": "a", "type": "t", "timeoutMs": -1})),
        slot(json!({"dataFlowType": "STRING", "description": "d", "min": 1})),
        slot(json!({"dataFlowType": "TEXT"})),
        slot(json!({})),
    ] {
        assert_eq!(schema.is_valid(&file), Workflow::from_value(file.clone()).is_ok(), "{file}");
    }
}

/// Keys that mean something stand beside keys that do not.
fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec![
            "id",
            "type",
            "position",
            "retry",
            "onError",
            "cache",
            "config",
            "min",
            "source",
            "sourceHandle",
            "lazy",
            "inputValues",
            "configValues",
            "isStream",
            "required",
            "name",
            "x",
            "y",
            "key"
        ])
        .prop_map(str::to_owned),
        "[a-z]{1,4}",
    ]
}

fn object_with(required: Vec<(&'static str, Value)>) -> impl Strategy<Value = Value> {
    prop::collection::vec((key(), any_json()), 0..6).prop_map(move |pairs| {
        let mut map: serde_json::Map<String, Value> = pairs.into_iter().collect();
        for (key, value) in &required {
            map.insert((*key).to_owned(), value.clone());
        }
        Value::Object(map)
    })
}

proptest! {
    /// Every file that loads is saved unchanged, and no JSON makes the reader panic.
    #[test]
    fn load_and_save_is_identity(
        nodes in prop::collection::vec(object_with(vec![("id", "n".into()), ("type", "t".into())]), 0..3),
        edges in prop::collection::vec(object_with(vec![("source", "n".into()), ("target", "n".into())]), 0..3),
        slot in object_with(vec![("dataFlowType", "STRING".into())]),
        rest in prop::collection::vec((key(), any_json()), 0..4),
    ) {
        let mut map: serde_json::Map<String, Value> = rest.into_iter().collect();
        map.insert("nodes".into(), nodes.into());
        map.insert("interfaceInputs".into(), json!({ "s": slot }));
        map.insert("edges".into(), edges.into());
        let value = Value::Object(map);
        if let Ok(workflow) = Workflow::from_value(value.clone()) {
            prop_assert_eq!(workflow.to_value().to_string(), value.to_string());
            prop_assert_eq!(Workflow::from_value(workflow.to_value()).unwrap(), workflow);
        }
    }
}

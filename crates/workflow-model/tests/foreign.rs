//! Files that should not be written: whatever they hold, they are read or refused.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde_json::{Value, json};
use workflow_model::Workflow;

const NAMES: [&str; 24] = [
    "name",
    "nodes",
    "edges",
    "id",
    "type",
    "interfaceInputs",
    "interfaceOutputs",
    "configValues",
    "inputValues",
    "parentNode",
    "source",
    "sourceHandle",
    "target",
    "targetHandle",
    "dataFlowType",
    "mode",
    "parallel",
    "max",
    "retry",
    "backoffMs",
    "timeoutMs",
    "cel",
    "position",
    "onError",
];

const WORDS: [&str; 8] =
    ["core:LoopZone", "core:GroupOutput", "core:GroupInput", "core:Expression", "a", "each", "ANY", ""];

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        prop::sample::select(vec![json!(-1), json!(1e300), json!(u64::MAX), json!(4_294_967_295_u64)]),
        any::<i64>().prop_map(Value::from),
        prop::sample::select(WORDS.to_vec()).prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 80, 8, |inner| {
        let members = prop::collection::vec((prop::sample::select(NAMES.to_vec()), inner.clone()), 0..8);
        prop_oneof![
            prop::collection::vec(inner, 0..6).prop_map(Value::from),
            members.prop_map(|members| members
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect::<Value>()),
        ]
    })
}

proptest! {
    #[test]
    fn n02_any_text_is_read_or_refused(text in ".{0,200}") {
        let _ = Workflow::from_json(&text);
    }

    #[test]
    fn n02_any_file_is_read_or_refused(file in value()) {
        if let Ok(workflow) = Workflow::from_json(&file.to_string()) {
            let _ = workflow.to_json();
        }
    }
}

#[test]
fn n28_passes_at_once_are_few_whatever_a_file_says() {
    let file = json!({"name": "w", "nodes": [
        {"id": "z", "type": "core:LoopZone", "configValues": {"mode": "each", "parallel": 4_294_967_295_u64}}], "edges": []});
    let start = Instant::now();
    let workflow = Workflow::from_json(&file.to_string()).unwrap();
    assert_eq!(Workflow::from_json(&workflow.to_json()).unwrap(), workflow, "it is kept as it was written");
    assert!(start.elapsed() < Duration::from_secs(1));
}

//! `flows.json` files that should not be written: whatever they hold, they are read or refused.

use executors_flow_system::FlowsFile;
use proptest::prelude::*;
use serde_json::{Value, json};

const NAMES: [&str; 20] = [
    "flows",
    "system_actions",
    "id",
    "trigger",
    "patterns",
    "pattern",
    "type",
    "target",
    "endpoint",
    "url",
    "timeout_ms",
    "parameter_mapping",
    "response_template",
    "priority",
    "timer",
    "after_ms",
    "every_ms",
    "steps",
    "retry",
    "silent",
];

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        prop::sample::select(vec![json!(-1), json!(1e300), json!(u64::MAX), json!(4_294_967_295_u64)]),
        any::<i64>().prop_map(Value::from),
        prop::sample::select(vec!["(a+)+$", "{", "regex", "$message", "http://127.0.0.1/", ""])
            .prop_map(Value::from),
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
        let _ = FlowsFile::from_json(&text);
    }

    #[test]
    fn n02_any_file_is_read_or_refused(file in value()) {
        let _ = FlowsFile::from_json(&file.to_string());
    }
}

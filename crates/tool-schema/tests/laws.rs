//! Laws that hold for every value: what is encoded is read back, coercing twice is coercing once.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use protocol_action::parse;
use serde_json::{Map, Value, json};
use tool_schema::{CompiledSchema, OfferedTool, ToolSet};

/// A schema that declares a bit of everything.
fn schema() -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "text": {"type": "string"},
            "nullable": {"type": ["string", "null"]},
            "either": {"type": ["integer", "string", "boolean"]},
            "count": {"type": "integer"},
            "ratio": {"type": "number"},
            "flag": {"type": "boolean"},
            "member": {"enum": ["a", "a ", "1", 1, null, true, "\"a\""]},
            "texts": {"type": "array", "items": {"type": "string"}},
            "matrix": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
            "points": {"type": "array", "items": {"type": "object", "additionalProperties": false, "properties": {
                "x": {"type": "number"}, "item": {"type": "string"}, "tags": {"type": "array", "items": {"type": "string"}}}}},
            "style": {"type": "object", "additionalProperties": false, "properties": {
                "text": {"type": "string"}, "width": {"type": "integer"}, "odd name": {"type": "string"}}},
            "free": {"type": "object"},
            "any": {},
            "list": {"type": "array"},
            "mixed": {"type": ["string", "array", "object"]},
            "text_or_list": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
            "odd name": {"type": "string"},
            "shape": {"oneOf": [
                {"type": "object", "required": ["r"], "additionalProperties": false, "properties": {"r": {"type": "number"}}},
                {"type": "object", "required": ["side"], "additionalProperties": false, "properties": {"side": {"type": "string"}}}]},
        },
    })
}

fn nasty() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("<".to_owned()),
        Just("</text>".to_owned()),
        Just("</free></t></ACTION>".to_owned()),
        Just("<ACTION>".to_owned()),
        Just("<item>".to_owned()),
        Just("]]>".to_owned()),
        Just("<![CDATA[".to_owned()),
        Just("<!--".to_owned()),
        Just("&amp;".to_owned()),
        Just("&".to_owned()),
        Just("\r\n".to_owned()),
        Just("\n".to_owned()),
        Just(" ".to_owned()),
        Just("\u{0}".to_owned()),
        Just("\"".to_owned()),
        Just("null".to_owned()),
        Just("7".to_owned()),
        Just("[1]".to_owned()),
        Just("```".to_owned()),
        Just("<think>".to_owned()),
        "[a-z]{0,3}",
        "\\PC{0,4}",
    ];
    vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1e9..1e9f64).prop_map(Value::from),
        nasty().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::Array),
            btree_map(nasty(), inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn object(fields: Vec<(&'static str, BoxedStrategy<Value>)>) -> impl Strategy<Value = Value> {
    let fields: Vec<_> =
        fields.into_iter().map(|(name, value)| (Just(name), proptest::option::of(value))).collect();
    fields.prop_map(|fields| {
        let present = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        Value::Object(present.collect())
    })
}

fn text() -> BoxedStrategy<Value> {
    nasty().prop_map(Value::from).boxed()
}

fn integer() -> BoxedStrategy<Value> {
    prop_oneof![any::<i64>().prop_map(Value::from), any::<u64>().prop_map(Value::from)].boxed()
}

fn number() -> BoxedStrategy<Value> {
    prop_oneof![integer(), (-1e300..1e300f64).prop_map(Value::from)].boxed()
}

fn list(item: BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    vec(item, 0..4).prop_map(Value::Array).boxed()
}

fn free() -> BoxedStrategy<Value> {
    btree_map(nasty(), json_value(), 0..4).prop_map(|map| Value::Object(map.into_iter().collect())).boxed()
}

/// Arguments that fit the schema.
fn arguments() -> impl Strategy<Value = Map<String, Value>> {
    let member = prop::sample::select(vec![
        json!("a"),
        json!("a "),
        json!("1"),
        json!(1),
        json!(null),
        json!(true),
        json!("\"a\""),
    ]);
    let point = object(vec![("x", number()), ("item", text()), ("tags", list(text()))]).boxed();
    let style = object(vec![("text", text()), ("width", integer()), ("odd name", text())]).boxed();
    let shape =
        prop_oneof![number().prop_map(|r| json!({"r": r})), text().prop_map(|side| json!({"side": side})),];
    object(vec![
        ("text", text()),
        ("nullable", prop_oneof![text(), Just(Value::Null)].boxed()),
        ("either", prop_oneof![text(), integer(), any::<bool>().prop_map(Value::from)].boxed()),
        ("count", integer()),
        ("ratio", number()),
        ("flag", any::<bool>().prop_map(Value::from).boxed()),
        ("member", member.boxed()),
        ("texts", list(text())),
        ("matrix", list(list(integer()))),
        ("points", list(point)),
        ("style", style),
        ("free", free()),
        ("any", json_value().boxed()),
        ("list", list(json_value().boxed())),
        ("mixed", prop_oneof![text(), list(json_value().boxed()), free()].boxed()),
        ("text_or_list", prop_oneof![text(), list(text())].boxed()),
        ("odd name", text()),
        ("shape", shape.boxed()),
    ])
    .prop_map(|value| value.as_object().cloned().unwrap())
}

fn tools() -> ToolSet {
    ToolSet::of_tools([OfferedTool::new("t", "", schema()).unwrap()]).unwrap()
}

/// Numbers as JSON Schema compares them.
fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        (left, right) => left == right,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn what_is_encoded_is_read_back(arguments in arguments()) {
        let tools = tools();
        prop_assert!(CompiledSchema::new(&schema()).unwrap().is_valid(&Value::Object(arguments.clone())));
        let text = tools.encode(&[("t", &arguments)]).unwrap();
        let parsed = parse(&format!("Here.\n{text}"), &tools);
        let decision = tools.interpret(&parsed);
        prop_assert!(!parsed.has_errors(), "{:?}\n{text}", parsed.diagnostics);
        prop_assert_eq!(decision.faults().collect::<Vec<_>>(), Vec::<&tool_schema::CallFault>::new(), "{}", text);
        let read = &decision.calls().next().unwrap().arguments;
        prop_assert!(same(&Value::Object(read.clone()), &Value::Object(arguments.clone())), "{read:#?}\n{arguments:#?}\n{text}");
    }

    #[test]
    fn coercing_twice_is_coercing_once(value in json_value(), key in prop::sample::select(vec!["text", "nullable", "either", "count", "ratio", "flag", "member", "texts", "matrix", "points", "style", "free", "any", "list", "mixed", "shape"])) {
        let schema = CompiledSchema::new(&schema()).unwrap();
        let once = schema.type_json(json!({ key: value }));
        if once.problems.is_empty() {
            let twice = schema.type_json(Value::Object(once.arguments.clone()));
            prop_assert!(twice.problems.is_empty());
            prop_assert_eq!(twice.coercions, vec![]);
            prop_assert_eq!(twice.arguments, once.arguments);
        }
    }
}

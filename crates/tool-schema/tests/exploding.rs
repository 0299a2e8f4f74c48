//! Schemas and values that stand for more checks than can be made.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use tool_schema::CompiledSchema;

/// Levels that each refer to the next one twice.
fn doubling(keyword: &str, levels: usize) -> Value {
    let mut defs = Map::new();
    for level in 0..levels {
        let next = json!({"$ref": format!("#/$defs/l{}", level + 1)});
        let part = match keyword {
            "properties" => json!({"properties": {"a": next, "b": next}}),
            "if" => json!({"if": next, "then": next, "else": next}),
            _ => json!({(keyword): [next, next]}),
        };
        defs.insert(format!("l{level}"), part);
    }
    defs.insert(format!("l{levels}"), json!({"type": "object"}));
    json!({"type": "object", "$ref": "#/$defs/l0", "$defs": defs})
}

fn in_time<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let done = work();
    assert!(start.elapsed() < Duration::from_secs(5), "{what} took {:?}", start.elapsed());
    done
}

#[test]
fn n05_schemas_that_explode_are_refused_as_they_are_read() {
    for keyword in ["allOf", "anyOf", "oneOf", "if"] {
        let error = in_time(keyword, || CompiledSchema::new(&doubling(keyword, 40)).map(drop));
        assert!(error.unwrap_err().to_string().contains("apply to one value"), "{keyword}");
    }
    let inline = (0..200).fold(json!({"type": "string"}), |inner, _| json!({"anyOf": [inner, {"not": {}}]}));
    assert!(in_time("inline", || CompiledSchema::new(&inline)).is_ok());
    let wide = json!({"anyOf": (0..6000).map(|at| json!({"const": at})).collect::<Vec<_>>()});
    assert!(in_time("wide", || CompiledSchema::new(&wide)).is_err());
}

#[test]
fn n05_what_is_below_the_limits_is_read_and_checked_in_time() {
    for (keyword, levels) in [("allOf", 10), ("anyOf", 10), ("oneOf", 10), ("properties", 40)] {
        let schema = in_time(keyword, || CompiledSchema::new(&doubling(keyword, levels)).unwrap());
        in_time(keyword, || schema.type_json(json!({"a": {"a": {"b": {"c": 1}}}, "b": 1})));
    }
}

/// A tree whose node may be one of several forms, each with children: the alternatives of every level multiply.
fn forms() -> Value {
    let form = |kind: &str| {
        json!({"type": "object", "properties": {"left": {"$ref": "#/$defs/N"}, "right": {"$ref": "#/$defs/N"},
            "kind": {"const": kind}}, "required": ["kind"]})
    };
    json!({"type": "object", "properties": {"tree": {"$ref": "#/$defs/N"}},
        "$defs": {"N": {"anyOf": [form("add"), form("sub"), form("mul"), form("div")]}}})
}

fn tree(kind: &str, levels: usize) -> Value {
    (0..levels).fold(json!({"kind": kind}), |inner, _| json!({"left": inner, "kind": kind}))
}

#[test]
fn n05_a_value_that_repeats_itself_is_refused_before_it_is_checked() {
    let schema = CompiledSchema::new(&forms()).unwrap();
    for levels in [30, 60] {
        let value = json!({"tree": tree("pow", levels)});
        let typed = in_time("typed", || schema.type_json(value.clone()));
        assert!(typed.problems.iter().any(|problem| problem.message.contains("nested too deeply")));
        assert!(!in_time("validated", || schema.is_valid(&value)));
    }
    for (kind, fits) in [("add", true), ("div", true), ("pow", false)] {
        let typed = in_time(kind, || schema.type_json(json!({"tree": tree(kind, 4)})));
        assert_eq!(typed.problems.is_empty(), fits, "{kind}: {:?}", typed.problems);
    }
}

#[test]
fn n05_patterns_that_go_back_for_ever_end() {
    let schema = json!({"type": "object", "properties": {"t": {"type": "string", "pattern": r"^(?=(a+)+$)(a|a)*\1b$"}}});
    if let Ok(schema) = CompiledSchema::new(&schema) {
        let value = json!({"t": "a".repeat(5000)});
        assert!(!in_time("pattern", || schema.type_json(value)).problems.is_empty());
    }
    let large = json!({"type": "object", "properties": {"t": {"pattern": "((a{500}){500}){500}"}}});
    assert!(in_time("large", || CompiledSchema::new(&large)).is_err());
}

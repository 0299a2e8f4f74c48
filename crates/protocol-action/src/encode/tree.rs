//! JSON values to trees, in a form that keeps each value distinct from every other.

use serde_json::{Map, Value};

use crate::json::parse_lenient;
use crate::{Dialect, RawArgument, RawCall, RawValue, Shape, ShapeId, Span, Vocabulary};

use super::EncodeCall;
use super::text::{generic_tag, is_tag};

/// Deeper values are written as JSON text: trees have a depth limit.
const DEEPEST: usize = 24;
/// Longer keys, in bytes, are written as JSON text.
const LONGEST_KEY: usize = 200;

pub(super) fn tree(call: &EncodeCall<'_>, vocabulary: &dyn Vocabulary) -> RawCall {
    let mut raw = RawCall::new(call.tool, Dialect::Action, Span::default());
    raw.arguments = match vocabulary.tool(call.tool) {
        Some(tool) if writable(call.arguments, tool, vocabulary) => {
            members(call.arguments, tool, vocabulary, 1)
        }
        Some(_) => {
            call.arguments.iter().map(|(name, value)| argument(name, RawValue::Json(value.clone()))).collect()
        }
        None => call.arguments.iter().map(|(name, value)| argument(name, untyped(value, 1))).collect(),
    };
    raw
}

fn argument(name: &str, value: RawValue) -> RawArgument {
    RawArgument::new(name, Span::default(), value)
}

/// Members of a declared object. Undeclared ones go first: where an undeclared tag follows a string,
/// the string's end would be a guess.
fn members(
    members: &Map<String, Value>,
    object: ShapeId,
    vocabulary: &dyn Vocabulary,
    depth: usize,
) -> Vec<RawArgument> {
    let (declared, undeclared): (Vec<_>, Vec<_>) =
        members.iter().partition(|(name, _)| vocabulary.field(object, name).is_some());
    let all = undeclared.into_iter().chain(declared);
    all.map(|(name, value)| argument(name, typed(value, vocabulary.field(object, name), vocabulary, depth)))
        .collect()
}

/// The form of a value under a shape; without one nothing is declared.
fn typed(value: &Value, shape: Option<ShapeId>, vocabulary: &dyn Vocabulary, depth: usize) -> RawValue {
    let declared = shape.map_or(Shape::Any, |id| vocabulary.shape(id));
    match (declared, shape, value) {
        (Shape::Text | Shape::Scalar, _, Value::String(text)) => RawValue::Text(text.clone()),
        (Shape::Any, _, Value::String(text)) if parse_lenient(text).is_err() => RawValue::Text(text.clone()),
        (Shape::List { item }, _, Value::Array(items)) if depth < DEEPEST => {
            let items =
                items.iter().map(|value| argument("item", typed(value, Some(item), vocabulary, depth + 1)));
            elements(items.collect(), value)
        }
        (Shape::Object, Some(id), Value::Object(map)) if depth < DEEPEST && writable(map, id, vocabulary) => {
            elements(members(map, id, vocabulary, depth + 1), value)
        }
        (Shape::Text | Shape::Scalar | Shape::Any | Shape::List { .. } | Shape::Object, _, other) => {
            RawValue::Text(other.to_string())
        }
    }
}

/// Returns `true` when every key can be written as a tag or as a `<param name="…">`.
fn writable(map: &Map<String, Value>, object: ShapeId, vocabulary: &dyn Vocabulary) -> bool {
    let generic = generic_tag(Some(object), vocabulary).is_some();
    map.keys().all(|key| key.len() <= LONGEST_KEY && (generic || is_tag(key)))
}

/// The form of a value of which nothing is known: the one that reads best.
fn untyped(value: &Value, depth: usize) -> RawValue {
    match value {
        Value::String(text) => RawValue::Text(text.clone()),
        Value::Array(items) if depth < DEEPEST => {
            elements(items.iter().map(|item| argument("item", untyped(item, depth + 1))).collect(), value)
        }
        Value::Object(members) if depth < DEEPEST => {
            let children = members.iter().map(|(name, value)| argument(name, untyped(value, depth + 1)));
            elements(children.collect(), value)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            RawValue::Text(value.to_string())
        }
    }
}

/// Children, or the JSON text of an empty list or object: an empty element could be either.
fn elements(children: Vec<RawArgument>, value: &Value) -> RawValue {
    if children.is_empty() {
        return RawValue::Text(value.to_string());
    }
    RawValue::Elements { children, source: String::new(), mixed: false }
}

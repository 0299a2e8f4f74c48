//! JSON from the bytes of the fuzzer.

use arbitrary::{Result, Unstructured};
use serde_json::{Map, Number, Value};

/// Deepest nesting of a free value.
const DEPTH: u32 = 4;
/// What free objects and arrays hold at most.
const WIDTH: usize = 4;

/// A value that is likely to fit a schema.
///
/// # Errors
/// The bytes are used up.
pub fn value_of(schema: &Value, bytes: &mut Unstructured<'_>) -> Result<Value> {
    if let Some(fixed) = schema.get("const") {
        return Ok(fixed.clone());
    }
    let lists = ["enum", "oneOf", "anyOf"].map(|key| schema.get(key).and_then(Value::as_array));
    if let [Some(members), _, _] = lists {
        return Ok(bytes.choose(members)?.clone());
    }
    if let Some(branches) = lists[1].or(lists[2]) {
        return value_of(bytes.choose(branches)?, bytes);
    }
    let name = match schema.get("type") {
        Some(Value::Array(names)) => bytes.choose(names)?.as_str(),
        Some(name) => name.as_str(),
        None => None,
    };
    match name {
        Some("object") => object_of(schema, bytes),
        Some("array") => array_of(schema, bytes),
        Some("string") => Ok(Value::from(text(bytes)?)),
        Some("integer") => integer(bytes),
        Some("number") => number(bytes),
        Some("boolean") => Ok(Value::from(bytes.arbitrary::<bool>()?)),
        Some("null") => Ok(Value::Null),
        Some(_) | None => any_json(bytes),
    }
}

fn object_of(schema: &Value, bytes: &mut Unstructured<'_>) -> Result<Value> {
    let mut object = Map::new();
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        let own = schema.get("additionalProperties").filter(|more| more.is_object());
        for _ in 0..bytes.int_in_range(0..=WIDTH)? {
            let name = text(bytes)?;
            let value = match own {
                Some(own) => value_of(own, bytes)?,
                None => json(bytes, 1)?,
            };
            object.insert(name, value);
        }
        return Ok(Value::Object(object));
    };
    let required = schema.get("required").and_then(Value::as_array);
    for (name, property) in properties {
        let must = required.is_some_and(|names| names.iter().any(|required| required == name));
        if must || bytes.ratio(1, 2)? {
            object.insert(name.clone(), value_of(property, bytes)?);
        }
    }
    Ok(Value::Object(object))
}

fn array_of(schema: &Value, bytes: &mut Unstructured<'_>) -> Result<Value> {
    let mut items = Vec::new();
    for _ in 0..bytes.int_in_range(0..=WIDTH)? {
        items.push(match schema.get("items") {
            Some(item) => value_of(item, bytes)?,
            None => json(bytes, 1)?,
        });
    }
    Ok(Value::Array(items))
}

/// Any JSON.
///
/// # Errors
/// The bytes are used up.
pub fn any_json(bytes: &mut Unstructured<'_>) -> Result<Value> {
    json(bytes, 0)
}

fn json(bytes: &mut Unstructured<'_>, depth: u32) -> Result<Value> {
    let kinds = if depth < DEPTH { 6 } else { 4 };
    match bytes.int_in_range(0..=kinds)? {
        0 => Ok(Value::Null),
        1 => Ok(Value::from(bytes.arbitrary::<bool>()?)),
        2 => number(bytes),
        3 | 4 => Ok(Value::from(text(bytes)?)),
        5 => {
            let length = bytes.int_in_range(0..=WIDTH)?;
            (0..length).map(|_| json(bytes, depth + 1)).collect()
        }
        _ => {
            let mut object = Map::new();
            for _ in 0..bytes.int_in_range(0..=WIDTH)? {
                let name = text(bytes)?;
                object.insert(name, json(bytes, depth + 1)?);
            }
            Ok(Value::Object(object))
        }
    }
}

/// Text up to the next byte 0xFF: seeds and words of the dictionary keep their form.
fn text(bytes: &mut Unstructured<'_>) -> Result<String> {
    let mut text = Vec::new();
    while !bytes.is_empty() {
        match bytes.arbitrary::<u8>()? {
            0xFF => break,
            byte => text.push(byte),
        }
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn integer(bytes: &mut Unstructured<'_>) -> Result<Value> {
    let signed: i64 = bytes.arbitrary()?;
    Ok(if bytes.ratio(1, 8)? { Value::from(bytes.arbitrary::<u64>()?) } else { Value::from(signed) })
}

fn number(bytes: &mut Unstructured<'_>) -> Result<Value> {
    if bytes.arbitrary()? {
        return integer(bytes);
    }
    Ok(Number::from_f64(bytes.arbitrary()?).map_or(Value::from(0.5), Value::Number))
}

/// Equal as JSON Schema compares numbers: 1 is 1.0.
#[must_use]
pub fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        (left, right) => left == right,
    }
}

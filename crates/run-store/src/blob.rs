//! Large values are kept once, under their digest, and named where they stood.

use std::fmt::Write;
use std::sync::Arc;

use agent_types::EventBody;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::json::read;

/// Values up to so many bytes of JSON stay where they are.
pub(crate) const INLINE_BYTES: usize = 2048;
const KEY: &str = "$blob";

/// Blobs taken out of events: name and bytes.
pub(crate) type Blobs = Vec<(String, Vec<u8>)>;

/// Takes the large values out of an event.
pub(crate) fn take_out(body: &mut EventBody, blobs: &mut Blobs) {
    match body {
        EventBody::NodeFinished { value, outputs, .. } | EventBody::NodeCached { value, outputs, .. } => {
            if let Some(value) = value {
                replace(value, blobs);
            }
            if let Some(outputs) = outputs
                && outputs.values().any(|value| is_heavy(value))
            {
                Arc::make_mut(outputs).values_mut().for_each(|value| replace(value, blobs));
            }
        }
        EventBody::LoopEntered { state: Some(state), .. } if state.values().any(|value| is_heavy(value)) => {
            Arc::make_mut(state).values_mut().for_each(|value| replace(value, blobs));
        }
        EventBody::LoopIterStarted { item: Some(item) } => replace(item, blobs),
        EventBody::LoopIterFinished { values, .. } => {
            values.iter_mut().for_each(|value| replace(value, blobs));
        }
        EventBody::RunStarted { inputs: Some(inputs), .. } => {
            if weight(inputs, INLINE_BYTES) > INLINE_BYTES
                && let Value::Object(map) = Arc::make_mut(inputs)
            {
                members(map, blobs);
            }
        }
        EventBody::AgentCallReady { arguments, .. } => {
            let heavy = arguments.values().any(is_heavy);
            if heavy {
                members(Arc::make_mut(arguments), blobs);
            }
        }
        _ => {}
    }
}

fn members(map: &mut Map<String, Value>, blobs: &mut Blobs) {
    for value in map.values_mut().filter(|value| is_heavy(value)) {
        *value = name(value, blobs);
    }
}

/// Takes a value out if it is large, or looks like the name of a blob.
pub(crate) fn replace(value: &mut Arc<Value>, blobs: &mut Blobs) {
    if is_heavy(value) {
        *value = Arc::new(name(value, blobs));
    }
}

fn is_heavy(value: &Value) -> bool {
    weight(value, INLINE_BYTES) > INLINE_BYTES || value.get(KEY).is_some()
}

fn name(value: &Value, blobs: &mut Blobs) -> Value {
    let data = value.to_string().into_bytes();
    let sha = digest(&data);
    let bytes = data.len();
    blobs.push((sha.clone(), data));
    json!({ KEY: sha, "bytes": bytes })
}

/// Puts the large values back into what was kept.
pub(crate) fn put_back(value: &mut Value, find: &mut dyn FnMut(&str) -> Option<Vec<u8>>) {
    let Value::Object(map) = value else { return };
    if let Some(Value::String(sha)) = map.get(KEY) {
        if let Some(whole) = find(sha).and_then(|data| read(&data).ok()) {
            *value = whole;
        }
        return;
    }
    for member in map.values_mut() {
        if member.get(KEY).is_some() {
            put_back(member, find);
        }
    }
}

/// Puts the large values back into an event.
pub(crate) fn restore(body: &mut EventBody, find: &mut dyn FnMut(&str) -> Option<Vec<u8>>) {
    let is_name = |value: &Arc<Value>| value.get(KEY).is_some();
    match body {
        EventBody::NodeFinished { value, outputs, .. } | EventBody::NodeCached { value, outputs, .. } => {
            if let Some(value) = value.as_mut().filter(|value| is_name(value)) {
                put_back(Arc::make_mut(value), find);
            }
            if let Some(outputs) = outputs.as_mut().filter(|outputs| outputs.values().any(is_name)) {
                let named = Arc::make_mut(outputs).values_mut().filter(|value| is_name(value));
                named.for_each(|value| put_back(Arc::make_mut(value), find));
            }
        }
        EventBody::LoopEntered { state: Some(state), .. } if state.values().any(is_name) => {
            let named = Arc::make_mut(state).values_mut().filter(|value| is_name(value));
            named.for_each(|value| put_back(Arc::make_mut(value), find));
        }
        EventBody::LoopIterStarted { item: Some(item) } if is_name(item) => {
            put_back(Arc::make_mut(item), find);
        }
        EventBody::LoopIterFinished { values, .. } => {
            let named = values.iter_mut().filter(|value| is_name(value));
            named.for_each(|value| put_back(Arc::make_mut(value), find));
        }
        EventBody::RunStarted { inputs: Some(inputs), .. } => put_back(Arc::make_mut(inputs), find),
        EventBody::AgentCallReady { arguments, .. } => {
            for value in Arc::make_mut(arguments).values_mut().filter(|value| value.get(KEY).is_some()) {
                put_back(value, find);
            }
        }
        _ => {}
    }
}

/// SHA-256 in hex.
pub(crate) fn digest(data: &[u8]) -> String {
    let mut hex = String::with_capacity(64);
    for byte in Sha256::digest(data) {
        // Writing to a text cannot fail.
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

/// About how many bytes of JSON a value is; looks no further than `limit`.
fn weight(value: &Value, limit: usize) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 4,
        Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => {
            let mut sum = 2;
            for item in items {
                if sum > limit {
                    break;
                }
                sum += 1 + weight(item, limit);
            }
            sum
        }
        Value::Object(map) => {
            let mut sum = 2;
            for (key, item) in map {
                if sum > limit {
                    break;
                }
                sum += key.len() + 4 + weight(item, limit);
            }
            sum
        }
    }
}

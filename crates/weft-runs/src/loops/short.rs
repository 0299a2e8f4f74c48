//! Values and texts of records in short.

use agent_types::OtherOutputs;
use serde_json::{Map, Value, json};

/// Longest value and text of a record, in bytes.
const SHORT: usize = 400;

pub(super) fn short_state(state: Option<&OtherOutputs>) -> Map<String, Value> {
    let values = state.into_iter().flat_map(|state| state.iter());
    values.map(|(key, value)| (key.to_string(), short(value))).collect()
}

/// A value as it is where it is short, or stands in a blob; else the beginning of its JSON text.
pub(super) fn short(value: &Value) -> Value {
    let text = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => return value.clone(),
        Value::String(text) if text.len() <= SHORT => return value.clone(),
        Value::String(text) => text.clone(),
        Value::Array(_) | Value::Object(_) => value.to_string(),
    };
    if text.len() <= SHORT || value.get("$blob").is_some() {
        return value.clone();
    }
    json!({"$short": short_text(&text), "bytes": text.len()})
}

pub(super) fn short_text(text: &str) -> String {
    if text.len() <= SHORT {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(SHORT)])
}

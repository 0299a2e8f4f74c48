//! Patterns that events, values and errors are compared with.

use agent_types::EventBody;
use serde_json::{Map, Value};

use crate::Fault;

/// A pattern for events.
#[derive(Debug, Clone)]
pub struct Pattern(Map<String, Value>);

impl Pattern {
    /// Reads a pattern: an object with the event's `type`.
    pub fn read(value: &Value) -> Result<Self, Fault> {
        let map = value.as_object().ok_or_else(|| format!("expected an event pattern, found {value}"))?;
        let name = map.get("type").and_then(Value::as_str).ok_or("an event pattern needs a `type`")?;
        if EventBody::TABLE.iter().all(|row| row.name != name) {
            return Err(format!("unknown event `{name}`"));
        }
        Ok(Self(map.clone()))
    }

    /// Compares an event: true when it has all that the pattern asks for, in its envelope or its data.
    #[must_use]
    pub fn matches(&self, event: &Value) -> bool {
        self.0.iter().all(|(key, wanted)| {
            let found = event.get(key).or_else(|| event.get("data")?.get(key));
            found.is_some_and(|found| fits(wanted, found))
        })
    }
}

impl std::fmt::Display for Pattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", Value::Object(self.0.clone()))
    }
}

/// Compares a value with what is wanted: true when it is equal, or as `{"prefix"}`, `{"suffix"}`, `{"contains"}` or `{"has"}` says.
#[must_use]
pub fn fits(wanted: &Value, found: &Value) -> bool {
    match wanted {
        Value::Object(map) if map.len() == 1 => {
            let text = |key: &str| map.get(key).and_then(Value::as_str);
            if let (Some(prefix), Some(found)) = (text("prefix"), found.as_str()) {
                return found.starts_with(prefix);
            }
            if let (Some(suffix), Some(found)) = (text("suffix"), found.as_str()) {
                return found.ends_with(suffix);
            }
            if let Some(Value::Array(parts)) = map.get("contains") {
                return contains_all(parts, &found.as_str().map_or_else(|| found.to_string(), str::to_owned));
            }
            if let Some(Value::Object(has)) = map.get("has") {
                return has
                    .iter()
                    .all(|(key, wanted)| found.get(key).is_some_and(|found| fits(wanted, found)));
            }
            equal(wanted, found)
        }
        Value::Array(items) => found.as_array().is_some_and(|found| {
            items.len() == found.len() && items.iter().zip(found).all(|(wanted, found)| fits(wanted, found))
        }),
        _ => equal(wanted, found),
    }
}

/// Numbers are equal by value, whatever their form.
fn equal(wanted: &Value, found: &Value) -> bool {
    match (wanted, found) {
        (Value::Number(wanted), Value::Number(found)) => wanted == found || wanted.as_f64() == found.as_f64(),
        (Value::Object(wanted), Value::Object(found)) => {
            wanted.len() == found.len()
                && wanted.iter().all(|(key, wanted)| found.get(key).is_some_and(|found| equal(wanted, found)))
        }
        _ => wanted == found,
    }
}

/// Looks for all parts in a text, without regard to case.
#[must_use]
pub fn contains_all(parts: &[Value], text: &str) -> bool {
    let text = text.to_lowercase();
    parts.iter().filter_map(Value::as_str).all(|part| text.contains(&part.to_lowercase()))
}

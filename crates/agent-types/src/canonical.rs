//! Canonical JSON: one text for each value, independent of the order of keys.

use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::Value;

/// A value as compact JSON in which the keys of every object, at any depth, are in order.
///
/// Two values have the same text exactly when they are equal up to the order of keys.
///
/// ```
/// let value = serde_json::json!({"b": {"d": 1, "c": 2}, "a": []});
/// assert_eq!(agent_types::canonical_json(&value), r#"{"a":[],"b":{"c":2,"d":1}}"#);
/// ```
#[must_use]
pub fn canonical_json(value: &Value) -> String {
    serde_json::to_string(&Sorted(value)).unwrap_or_default()
}

struct Sorted<'v>(&'v Value);

impl Serialize for Sorted<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Object(members) => {
                let mut sorted: Vec<_> = members.iter().collect();
                sorted.sort_unstable_by_key(|(name, _)| name.as_str());
                let mut map = serializer.serialize_map(Some(sorted.len()))?;
                for (name, member) in sorted {
                    map.serialize_entry(name, &Sorted(member))?;
                }
                map.end()
            }
            Value::Array(items) => {
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                for item in items {
                    list.serialize_element(&Sorted(item))?;
                }
                list.end()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                self.0.serialize(serializer)
            }
        }
    }
}

//! Schemas of other systems, in the words that they use for types.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::problem::joined;

/// Maximum depth that is mapped; deeper parts stay unchanged.
const MAX_DEPTH: usize = 128;

/// Something in a schema that was not JSON Schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SchemaNote {
    /// JSON pointer to it.
    pub path: String,
    /// Original text and its replacement.
    pub what: String,
}

/// A schema as JSON Schema 2020-12, with what had to be changed.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Mapped {
    /// The schema.
    pub schema: Value,
    /// Everything that was changed.
    pub notes: Vec<SchemaNote>,
}

/// Reads a schema in the words of other systems: `dict`, `float`, `tuple`, `any`, `HashMap`, types in capitals, `enum` on a list, `optional` and `required: true` at a parameter.
///
/// Parts that are JSON Schema already stay unchanged.
#[must_use]
pub fn map_schema(schema: &Value) -> Mapped {
    let mut mapper = Mapper { notes: Vec::new() };
    let schema = mapper.schema(schema, "", 0);
    Mapped { schema, notes: mapper.notes }
}

struct Mapper {
    notes: Vec<SchemaNote>,
}

impl Mapper {
    fn note(&mut self, path: &str, what: impl Into<String>) {
        self.notes.push(SchemaNote { path: path.to_owned(), what: what.into() });
    }

    fn schema(&mut self, schema: &Value, path: &str, depth: usize) -> Value {
        let Value::Object(object) = schema else { return schema.clone() };
        if depth >= MAX_DEPTH {
            return schema.clone();
        }
        let mut mapped = Map::with_capacity(object.len());
        let mut required = Vec::new();
        for (key, value) in object {
            let place = joined(path, key);
            match (key.as_str(), value) {
                ("type", value) => self.types(value, &place, &mut mapped),
                ("properties" | "$defs" | "definitions" | "patternProperties", Value::Object(parts)) => {
                    let parts = parts.iter().map(|(name, part)| {
                        if key == "properties" && is_flagged_required(part) {
                            required.push(Value::from(name.clone()));
                        }
                        (name.clone(), self.schema(part, &joined(&place, name), depth + 1))
                    });
                    mapped.insert(key.clone(), Value::Object(parts.collect()));
                }
                ("anyOf" | "oneOf" | "allOf" | "prefixItems", Value::Array(parts)) => {
                    let parts = parts.iter().map(|part| self.schema(part, &place, depth + 1));
                    mapped.insert(key.clone(), parts.collect());
                }
                ("items" | "additionalProperties" | "not" | "contains", value) => {
                    mapped.insert(key.clone(), self.schema(value, &place, depth + 1));
                }
                ("optional", Value::Bool(_)) => {
                    self.note(&place, "`optional` is not a keyword; `required` of the object decides");
                }
                ("required", Value::Bool(_)) => self.note(&place, "`required` belongs to the object"),
                ("required", Value::Null) => self.note(&place, "`required` is not a list"),
                (_, value) => {
                    mapped.insert(key.clone(), value.clone());
                }
            }
        }
        Self::add_required(&mut mapped, required);
        self.move_enum_to_items(&mut mapped, path);
        Value::Object(mapped)
    }

    fn types(&mut self, value: &Value, path: &str, mapped: &mut Map<String, Value>) {
        let types = match value {
            Value::String(name) => self.one_type(name, path).map(Value::from),
            Value::Array(names) => {
                let names = names.iter().filter_map(|name| self.one_type(name.as_str()?, path));
                Some(names.map(Value::from).collect())
            }
            Value::Null => None,
            Value::Bool(_) | Value::Number(_) | Value::Object(_) => {
                self.note(path, "a type that is not a name was dropped");
                None
            }
        };
        if let Some(types) = types {
            mapped.insert("type".into(), types);
        }
    }

    /// The name that JSON Schema has for a type; `None` where any value fits.
    fn one_type(&mut self, name: &str, path: &str) -> Option<&'static str> {
        let known = ["string", "integer", "number", "boolean", "array", "object", "null"];
        if let Some(known) = known.into_iter().find(|known| *known == name) {
            return Some(known);
        }
        let bare = name.split(['<', '[', '(']).next().unwrap_or(name).trim().to_lowercase();
        let mapped = match bare.as_str() {
            "str" | "string" | "char" | "text" | "date" | "datetime" | "uuid" | "file" => Some("string"),
            "int" | "integer" | "long" | "short" | "byte" | "bigint" => Some("integer"),
            "float" | "double" | "number" | "decimal" | "bigdecimal" => Some("number"),
            "bool" | "boolean" => Some("boolean"),
            "list" | "array" | "arraylist" | "tuple" | "set" | "queue" | "stack" | "vec" => Some("array"),
            "dict" | "dictionary" | "object" | "hashmap" | "map" | "hashtable" | "record" | "struct" => {
                Some("object")
            }
            "none" | "null" | "void" => Some("null"),
            _ => None,
        };
        self.note(
            path,
            match mapped {
                Some(mapped) => format!("`{name}` is `{mapped}`"),
                None => format!("`{name}` is not a known type: any value fits"),
            },
        );
        mapped
    }

    fn add_required(mapped: &mut Map<String, Value>, more: Vec<Value>) {
        if more.is_empty() {
            return;
        }
        let required = mapped.entry("required").or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(names) = required {
            for name in more {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
    }

    /// `enum` beside `type: array` means the items, unless its members are lists.
    fn move_enum_to_items(&mut self, mapped: &mut Map<String, Value>, path: &str) {
        let is_list = mapped.get("type").and_then(Value::as_str) == Some("array");
        let members = mapped.get("enum").and_then(Value::as_array);
        let means_items = members.is_some_and(|members| members.iter().all(|member| !member.is_array()));
        if !is_list || !means_items {
            return;
        }
        let Some(members) = mapped.remove("enum") else { return };
        self.note(path, "`enum` of a list is the enum of its items");
        let items = mapped.entry("items").or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(items) = items {
            items.entry("enum").or_insert(members);
        }
    }
}

fn is_flagged_required(part: &Value) -> bool {
    part.get("required") == Some(&Value::Bool(true))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(schema: &Value, expected: &Value, notes: usize) {
        let mapped = map_schema(schema);
        assert_eq!(&mapped.schema, expected);
        assert_eq!(mapped.notes.len(), notes, "{:?}", mapped.notes);
    }

    #[test]
    fn words_of_others_are_mapped() {
        check(
            &json!({"type": "dict", "properties": {"a": {"type": "float"}, "b": {"type": "any"}, "c": {"type": "HashMap<String, Long>"}}}),
            &json!({"type": "object", "properties": {"a": {"type": "number"}, "b": {}, "c": {"type": "object"}}}),
            4,
        );
        check(
            &json!({"type": "tuple", "items": {"type": "String"}, "enum": ["a", "b"]}),
            &json!({"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}),
            3,
        );
    }

    #[test]
    fn flags_at_parameters_move_to_the_object() {
        check(
            &json!({"type": "object", "properties": {"a": {"type": "string", "required": true}, "b": {"type": "string", "optional": true}}}),
            &json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "required": ["a"]}),
            2,
        );
    }

    #[test]
    fn json_schema_stays() {
        let schema = json!({"type": "object", "properties": {"type": {"enum": ["x", null]}}, "required": ["type"],
            "additionalProperties": false, "$defs": {"A": {"type": ["integer", "null"]}}});
        check(&schema, &schema, 0);
    }
}

//! Schemas of OpenAPI as JSON Schema 2020-12: references inside, `nullable`, old bounds, parts that make no sense.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};
use tool_schema::{CompiledSchema, map_schema};

use super::reference::target;
use super::unique;
use crate::fields::Ledger;

/// Deepest nesting that is looked through.
const MAX_DEPTH: usize = 64;

/// Keywords of OpenAPI that say nothing about a value.
const DROPPED: [&str; 7] =
    ["discriminator", "xml", "externalDocs", "example", "nullable", "deprecated", "collectionFormat"];

/// Keywords whose value is one schema.
const SCHEMAS: [&str; 8] =
    ["items", "not", "contains", "additionalProperties", "propertyNames", "if", "then", "else"];

/// Keywords whose value is an object or a list.
const COMPOUND: [&str; 11] = [
    "properties",
    "patternProperties",
    "$defs",
    "definitions",
    "dependentSchemas",
    "allOf",
    "anyOf",
    "oneOf",
    "prefixItems",
    "required",
    "enum",
];

/// Reads schemas of one document.
pub(super) struct Schemas<'d> {
    ledger: &'d Ledger<'d>,
    /// References that were met and are not read yet.
    open: Vec<String>,
    /// Every reference that was met.
    met: HashSet<String>,
    /// Names of definitions by their pointers.
    keys: HashMap<String, String>,
    pub(super) notes: Vec<String>,
}

impl<'d> Schemas<'d> {
    pub(super) fn new(ledger: &'d Ledger<'d>) -> Self {
        Self { ledger, open: Vec::new(), met: HashSet::new(), keys: HashMap::new(), notes: Vec::new() }
    }

    /// The ledger of the document.
    pub(super) fn ledger(&self) -> &'d Ledger<'d> {
        self.ledger
    }

    /// The target of a reference inside the document, followed to its end.
    ///
    /// # Errors
    /// The reason why a reference is not followed.
    pub(super) fn resolved(&self, value: &'d Value) -> Result<&'d Value, String> {
        let mut value = value;
        for _ in 0..MAX_DEPTH {
            let Some(reference) = value.get("$ref") else { return Ok(value) };
            let Some(text) = reference.as_str() else { return Ok(value) };
            value = target(self.ledger.document(), text)?.0;
            self.ledger.mapped(reference);
        }
        Err("leads in a circle".to_owned())
    }

    /// A schema that can stand alone; the definitions it needs are added by [`close`](Self::close).
    pub(super) fn read(&mut self, schema: &'d Value) -> Value {
        self.ledger.mapped(schema);
        self.mark_dropped(schema);
        let mapped = map_schema(schema);
        self.schema(&mapped.schema, 0)
    }

    /// Marks the keywords of a schema that say nothing about a value.
    fn mark_dropped(&self, schema: &'d Value) {
        for (key, value) in schema.as_object().into_iter().flatten() {
            let is_dropped = DROPPED.contains(&key.as_str()) && key != "nullable";
            match (key.as_str(), value) {
                _ if is_dropped || key.starts_with("x-") => self.ledger.left(value),
                (
                    "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas",
                    Value::Object(parts),
                ) => parts.values().for_each(|part| self.mark_dropped(part)),
                (_, Value::Array(parts)) if !matches!(key.as_str(), "enum" | "examples" | "default") => {
                    parts.iter().for_each(|part| self.mark_dropped(part));
                }
                (_, Value::Object(_)) if !matches!(key.as_str(), "const" | "default") => {
                    self.mark_dropped(value);
                }
                _ => {}
            }
        }
    }

    /// Adds the definitions that were referred to, and removes keywords that the validator does not support.
    ///
    /// # Errors
    /// A schema that no value could be checked against.
    pub(super) fn close(&mut self, mut schema: Value) -> Result<Value, String> {
        let mut definitions = Map::new();
        while let Some(reference) = self.open.pop() {
            let target = self.ledger.document().pointer(&reference);
            let read = target.map_or_else(|| json!({}), |target| self.read(target));
            definitions.insert(self.key_of(&reference), read);
        }
        if let (false, Some(object)) = (definitions.is_empty(), schema.as_object_mut()) {
            object.insert("$defs".into(), definitions.into());
        }
        let Err(first) = CompiledSchema::new(&schema) else { return Ok(schema) };
        // Patterns are written for other engines.
        without_patterns(&mut schema, 0);
        self.notes.push(format!("patterns were left out: {}", first.message));
        CompiledSchema::new(&schema).map(|_| schema).map_err(|error| error.to_string())
    }

    fn schema(&mut self, schema: &Value, depth: usize) -> Value {
        let Value::Object(object) = schema else {
            return if schema.is_boolean() { schema.clone() } else { json!({}) };
        };
        if depth > MAX_DEPTH {
            return json!({});
        }
        if let Some(reference) = object.get("$ref").and_then(Value::as_str) {
            let pointer = match target(self.ledger.document(), reference) {
                Ok((_, pointer)) => pointer,
                Err(reason) => {
                    self.notes.push(format!("{reason}: any value fits"));
                    return json!({});
                }
            };
            let key = self.key_of(&pointer);
            if self.met.insert(pointer.clone()) {
                self.open.push(pointer);
            }
            return json!({"$ref": format!("#/$defs/{key}")});
        }
        let mut read = Map::new();
        for (key, value) in object {
            if DROPPED.contains(&key.as_str()) || key.starts_with("x-") {
                continue;
            }
            if let Some(value) = self.keyword(key, value, depth) {
                read.insert(key.clone(), value);
            }
        }
        old_bounds(&mut read);
        without_read_only(&mut read, object);
        self.possible_members(&mut read);
        if object.get("nullable") == Some(&Value::Bool(true)) {
            allow_null(&mut read);
        }
        merge_all_of(&mut read);
        self.one_of(&mut read, object);
        Value::Object(read)
    }

    /// The name of a definition: the end of its pointer, in letters that a reference can hold as they are.
    fn key_of(&mut self, pointer: &str) -> String {
        if let Some(key) = self.keys.get(pointer) {
            return key.clone();
        }
        let end = pointer.rsplit('/').next().unwrap_or_default().replace("~1", "/").replace("~0", "~");
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
        let plain: String = end.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
        let wanted = if plain.is_empty() { "schema".to_owned() } else { plain };
        let key = unique(wanted, |key| self.keys.values().any(|known| known == key));
        self.keys.insert(pointer.to_owned(), key.clone());
        key
    }

    /// Members of `oneOf` that a discriminator distinguishes get its values; members that may overlap are alternatives of
    /// `anyOf`, because a value that fits two of them is not refused.
    fn one_of(&mut self, read: &mut Map<String, Value>, object: &Map<String, Value>) {
        let Some(Value::Array(members)) = read.get("oneOf") else { return };
        let discriminator = object.get("discriminator");
        let property = discriminator.and_then(|about| about.get("propertyName")?.as_str());
        if let (Some(property), Some(Value::Array(given))) = (property, object.get("oneOf")) {
            let mapping = discriminator.and_then(|about| about.get("mapping")?.as_object());
            let marked: Option<Vec<Value>> = given
                .iter()
                .zip(members)
                .map(|(given, read)| {
                    let values = self.discriminator_values(given, mapping)?;
                    let mark = json!({"properties": {property: {"enum": values}}, "required": [property]});
                    Some(json!({"allOf": [read, mark]}))
                })
                .collect();
            if let Some(marked) = marked {
                read.insert("oneOf".into(), marked.into());
                return;
            }
        }
        let overlap = members.iter().enumerate().find_map(|(at, first)| {
            let second = members.iter().skip(at + 1).position(|second| !self.differ(first, second))?;
            Some((at + 1, at + second + 2))
        });
        if let (Some((first, second)), false) = (overlap, read.contains_key("anyOf")) {
            let named = object.get("title").and_then(Value::as_str).map(|title| format!(" of `{title}`"));
            let named = named.unwrap_or_default();
            self.notes.push(format!(
                "members {first} and {second} of `oneOf`{named} may overlap: a value that fits several of them is taken (`anyOf`)"
            ));
            if let Some(members) = read.shift_remove("oneOf") {
                read.insert("anyOf".into(), members);
            }
        }
    }

    /// Values of a discriminator that mean a member.
    fn discriminator_values(
        &self,
        member: &Value,
        mapping: Option<&Map<String, Value>>,
    ) -> Option<Vec<String>> {
        let document = self.ledger.document();
        let pointer = target(document, member.get("$ref")?.as_str()?).ok()?.1;
        let name = pointer.rsplit('/').next()?.replace("~1", "/").replace("~0", "~");
        let means = |reference: &Value| {
            let reference = reference.as_str().unwrap_or_default();
            reference == name || target(document, reference).is_ok_and(|(_, other)| other == pointer)
        };
        let mapped = mapping.into_iter().flatten().filter(|(_, reference)| means(reference));
        let mapped: Vec<String> = mapped.map(|(value, _)| value.clone()).collect();
        Some(if mapped.is_empty() { vec![name] } else { mapped })
    }

    /// Returns `true` where no value fits both schemas: their types differ, or a member that both require does.
    fn differ(&self, first: &Value, second: &Value) -> bool {
        let (first, second) = (self.definition(first), self.definition(second));
        let kinds = [first, second].map(|schema| schema.get("type").and_then(Value::as_str));
        if let [Some(one), Some(other)] = kinds {
            let are_numbers = [one, other].iter().all(|kind| matches!(*kind, "integer" | "number"));
            if one != other && !are_numbers {
                return true;
            }
        }
        let requires = |schema: &Value, name: &String| {
            schema
                .get("required")
                .and_then(Value::as_array)
                .is_some_and(|names| names.iter().any(|own| own == name))
        };
        let members = first.get("properties").and_then(Value::as_object).into_iter().flatten();
        members.filter(|(name, _)| requires(first, name) && requires(second, name)).any(|(name, own)| {
            let other = second.get("properties").and_then(|members| members.get(name));
            match (constants(own), other.and_then(constants)) {
                (Some(own), Some(other)) => own.iter().all(|value| !other.contains(value)),
                _ => false,
            }
        })
    }

    /// The schema behind a reference to a definition.
    fn definition<'v>(&'v self, schema: &'v Value) -> &'v Value {
        let key = schema.get("$ref").and_then(Value::as_str).and_then(|text| text.strip_prefix("#/$defs/"));
        let pointer = key.and_then(|key| self.keys.iter().find(|(_, own)| *own == key));
        pointer.and_then(|(pointer, _)| self.ledger.document().pointer(pointer)).unwrap_or(schema)
    }

    /// The value of a keyword; none where it is of the wrong kind.
    fn keyword(&mut self, key: &str, value: &Value, depth: usize) -> Option<Value> {
        let inner = |this: &mut Self, value: &Value| this.schema(value, depth + 1);
        let read = match (key, value) {
            (
                "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas",
                Value::Object(parts),
            ) => {
                let parts = parts.iter().map(|(name, part)| (name.clone(), inner(self, part)));
                Value::Object(parts.collect())
            }
            ("allOf" | "anyOf" | "oneOf" | "prefixItems", Value::Array(parts)) if !parts.is_empty() => {
                parts.iter().map(|part| inner(self, part)).collect()
            }
            (key, part) if SCHEMAS.contains(&key) && (part.is_object() || part.is_boolean()) => {
                inner(self, part)
            }
            ("required", Value::Array(names)) => {
                names.iter().filter(|name| name.is_string()).cloned().collect()
            }
            ("enum", Value::Array(members)) if !members.is_empty() => value.clone(),
            (key, _) if SCHEMAS.contains(&key) || COMPOUND.contains(&key) => return self.dropped(key),
            ("minimum" | "maximum" | "multipleOf", value) if !value.is_number() => return self.dropped(key),
            ("exclusiveMinimum" | "exclusiveMaximum", value) if !value.is_number() && !value.is_boolean() => {
                return self.dropped(key);
            }
            (
                "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties",
                value,
            ) => match whole(value) {
                Some(number) => number.into(),
                None => return self.dropped(key),
            },
            ("uniqueItems", value) if !value.is_boolean() => return self.dropped(key),
            ("pattern" | "format" | "description" | "title", value) if !value.is_string() => {
                return self.dropped(key);
            }
            ("examples", value) if !value.is_array() => return None,
            // What a property is read or written for is dealt with where it stands.
            ("readOnly" | "writeOnly", _) => return None,
            (_, value) => value.clone(),
        };
        Some(read)
    }

    fn dropped(&mut self, key: &str) -> Option<Value> {
        self.notes.push(format!("`{key}` is of the wrong kind and was left out"));
        None
    }

    /// Removes members that the type rules out; without any left, the list is dropped.
    fn possible_members(&mut self, read: &mut Map<String, Value>) {
        let Some(kind) = read.get("type").and_then(Value::as_str).map(str::to_owned) else { return };
        let Some(Value::Array(members)) = read.get_mut("enum") else { return };
        let before = members.len();
        members.retain(|member| fits(&kind, member));
        let left = members.len();
        if left < before {
            self.notes.push(format!("{} members of an enum are not {kind}", before - left));
        }
        if left == 0 {
            read.remove("enum");
        }
    }
}

fn fits(kind: &str, member: &Value) -> bool {
    match kind {
        "string" => member.is_string() || member.is_null(),
        "integer" | "number" => member.is_number() || member.is_null(),
        "boolean" => member.is_boolean() || member.is_null(),
        "array" => member.is_array() || member.is_null(),
        "object" => member.is_object() || member.is_null(),
        _ => true,
    }
}

fn whole(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.trim().parse().ok())
}

/// `exclusiveMinimum: true` beside `minimum`, as older drafts have it.
fn old_bounds(read: &mut Map<String, Value>) {
    for (flag, bound) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        match read.get(flag) {
            Some(Value::Bool(true)) => match read.shift_remove(bound) {
                Some(value) => {
                    read.insert(flag.into(), value);
                }
                None => {
                    read.shift_remove(flag);
                }
            },
            Some(Value::Bool(false)) => {
                read.shift_remove(flag);
            }
            _ => {}
        }
    }
}

/// Removes properties that only the server sets.
fn without_read_only(read: &mut Map<String, Value>, object: &Map<String, Value>) {
    let declared = object.get("properties").and_then(Value::as_object).into_iter().flatten();
    let gone: Vec<&String> = declared
        .filter(|(_, schema)| schema.get("readOnly") == Some(&Value::Bool(true)))
        .map(|(name, _)| name)
        .collect();
    if let Some(Value::Object(properties)) = read.get_mut("properties") {
        properties.retain(|name, _| !gone.contains(&name));
    }
    if let Some(Value::Array(required)) = read.get_mut("required") {
        required.retain(|name| gone.iter().all(|gone| name != gone.as_str()));
    }
}

fn allow_null(read: &mut Map<String, Value>) {
    match read.get_mut("type") {
        Some(kind @ Value::String(_)) => *kind = json!([kind.clone(), "null"]),
        Some(Value::Array(kinds)) if !kinds.contains(&"null".into()) => kinds.push("null".into()),
        _ => {}
    }
    if let Some(Value::Array(members)) = read.get_mut("enum")
        && !members.contains(&Value::Null)
    {
        members.push(Value::Null);
    }
}

/// Objects that are put together by `allOf` become one object, where no two parts speak of the same thing.
fn merge_all_of(read: &mut Map<String, Value>) {
    const PLAIN: [&str; 5] = ["type", "properties", "required", "description", "title"];
    let Some(Value::Array(parts)) = read.get("allOf") else { return };
    let is_plain = |part: &Value| {
        part.as_object().is_some_and(|part| {
            part.keys().all(|key| PLAIN.contains(&key.as_str()))
                && part.get("type").is_none_or(|kind| kind == "object")
        })
    };
    if !parts.iter().all(is_plain) || read.get("type").is_some_and(|kind| kind != "object") {
        return;
    }
    let mut properties = read.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    let mut required = read.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut is_object = read.contains_key("type");
    for part in parts {
        is_object |= part.get("type").is_some() || part.get("properties").is_some();
        for (name, schema) in part.get("properties").and_then(Value::as_object).into_iter().flatten() {
            if properties.get(name).is_some_and(|own| own != schema) {
                return;
            }
            properties.insert(name.clone(), schema.clone());
        }
        for name in part.get("required").and_then(Value::as_array).into_iter().flatten() {
            if !required.contains(name) {
                required.push(name.clone());
            }
        }
    }
    let described = parts.iter().find_map(|part| part.get("description")).cloned();
    read.shift_remove("allOf");
    if is_object {
        read.insert("type".into(), "object".into());
        read.insert("properties".into(), properties.into());
    }
    if !required.is_empty() {
        read.insert("required".into(), required.into());
    }
    if let (false, Some(described)) = (read.contains_key("description"), described) {
        read.insert("description".into(), described);
    }
}

fn without_patterns(schema: &mut Value, depth: usize) {
    match schema {
        Value::Object(object) if depth <= 2 * MAX_DEPTH => {
            if object.get("pattern").is_some_and(Value::is_string) {
                object.shift_remove("pattern");
            }
            object.shift_remove("patternProperties");
            object.values_mut().for_each(|value| without_patterns(value, depth + 1));
        }
        Value::Array(items) if depth <= 2 * MAX_DEPTH => {
            items.iter_mut().for_each(|item| without_patterns(item, depth + 1));
        }
        _ => {}
    }
}

/// The only values that fit, where the schema lists them.
fn constants(schema: &Value) -> Option<Vec<&Value>> {
    match (schema.get("const"), schema.get("enum")) {
        (Some(value), _) => Some(vec![value]),
        (None, Some(Value::Array(values))) => Some(values.iter().collect()),
        (None, _) => None,
    }
}

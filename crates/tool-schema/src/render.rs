//! Tools in the forms that providers and protocols want.

use std::collections::HashSet;

use agent_types::{ToolDefinition, ToolSpec};
use serde_json::{Map, Value, json};

use crate::node::resolve;
use crate::wire::{is_wire_name, wire_name};

/// Maximum number of parts that references may expand to; parts beyond may hold anything.
const MAX_PARTS: usize = 20_000;

/// Keywords whose value is one schema.
const SINGLE: [&str; 8] =
    ["items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else"];

/// Keywords whose value is a list of schemas.
const LISTS: [&str; 4] = ["anyOf", "oneOf", "allOf", "prefixItems"];

/// The form of a tool's schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaDialect {
    /// `{"type": "function", "function": {…}}` of chat completions.
    OpenAi,
    /// `{"name", "description", "input_schema"}`.
    Anthropic,
    /// A function declaration, with the part of OpenAPI 3.0 that Gemini reads.
    Gemini,
    /// `{"name", "inputSchema", "annotations"}` of the Model Context Protocol.
    Mcp,
}

/// A tool in a provider's form, under its wire name.
#[must_use]
pub fn render(definition: &ToolDefinition, dialect: SchemaDialect) -> Value {
    let name = wire_name(definition.id.as_str());
    let description = &definition.description;
    let parameters = wire_parameters(&definition.parameters);
    match dialect {
        SchemaDialect::OpenAi => json!({
            "type": "function",
            "function": {"name": name, "description": description, "parameters": parameters},
        }),
        SchemaDialect::Anthropic => {
            json!({"name": name, "description": description, "input_schema": parameters})
        }
        SchemaDialect::Gemini => {
            let mut declaration = json!({"name": name, "description": description});
            let has_parameters =
                parameters.get("properties").and_then(Value::as_object).is_some_and(|p| !p.is_empty());
            if has_parameters {
                declaration["parameters"] = gemini(&parameters);
            }
            declaration
        }
        SchemaDialect::Mcp => mcp(definition, &name, &mcp_parameters(&definition.parameters, parameters)),
    }
}

/// The schema as it was written, which the protocol wants; in the form for models only where that gives parameters other names.
fn mcp_parameters(own: &Value, for_models: Value) -> Value {
    let inlined = inline_references(own);
    if rename(inlined.clone()) != inlined {
        return for_models;
    }
    let mut schema = own.clone();
    if let Some(object) = schema.as_object_mut() {
        object.entry("type").or_insert_with(|| "object".into());
        object.entry("properties").or_insert_with(|| json!({}));
    }
    schema
}

fn mcp(definition: &ToolDefinition, name: &str, parameters: &Value) -> Value {
    let mut tool = json!({"name": name, "description": definition.description, "inputSchema": parameters});
    if let Some(title) = &definition.title {
        tool["title"] = title.as_str().into();
    }
    if let Some(output) = definition.output.as_ref().filter(|output| output["type"] == "object") {
        tool["outputSchema"] = inline_references(output);
    }
    let annotations = &definition.annotations;
    tool["annotations"] = json!({
        "readOnlyHint": annotations.read_only,
        "destructiveHint": annotations.effect,
        "idempotentHint": annotations.idempotent,
        "openWorldHint": annotations.open_world,
    });
    tool
}

/// A schema without references, for models and servers that do not follow them.
///
/// A recursive schema is cut: the inner one may hold anything of its type.
#[must_use]
pub(crate) fn inline_references(schema: &Value) -> Value {
    let mut inliner = Inliner { root: schema, open: HashSet::new(), parts: 0 };
    let mut inlined = inliner.schema(schema);
    if let Some(object) = inlined.as_object_mut() {
        object.remove("$defs");
        object.remove("definitions");
    }
    inlined
}

struct Inliner<'s> {
    root: &'s Value,
    /// References that are being expanded.
    open: HashSet<&'s str>,
    parts: usize,
}

impl<'s> Inliner<'s> {
    fn schema(&mut self, schema: &'s Value) -> Value {
        let Value::Object(object) = schema else { return schema.clone() };
        self.parts += 1;
        if self.parts > MAX_PARTS {
            return json!({});
        }
        let mut inlined = match object.get("$ref").and_then(Value::as_str) {
            Some(reference) => self.reference(reference),
            None => Map::new(),
        };
        for (key, value) in object {
            let value = match (key.as_str(), value) {
                ("$ref" | "$defs" | "definitions", _) => continue,
                ("properties" | "patternProperties" | "dependentSchemas", Value::Object(parts)) => {
                    let parts = parts.iter().map(|(name, part)| (name.clone(), self.schema(part)));
                    Value::Object(parts.collect())
                }
                (key, value) if SINGLE.contains(&key) => self.schema(value),
                (key, Value::Array(parts)) if LISTS.contains(&key) => {
                    parts.iter().map(|part| self.schema(part)).collect()
                }
                (_, value) => value.clone(),
            };
            inlined.insert(key.clone(), value);
        }
        Value::Object(inlined)
    }

    fn reference(&mut self, reference: &'s str) -> Map<String, Value> {
        let target = resolve(self.root, reference);
        let Some(target) = target.filter(|_| self.open.len() < 64) else { return Map::new() };
        if !self.open.insert(reference) {
            let kind = target.get("type").cloned();
            return kind.into_iter().map(|kind| ("type".to_owned(), kind)).collect();
        }
        let inlined = self.schema(target);
        self.open.remove(reference);
        match inlined {
            Value::Object(object) => object,
            _ => Map::new(),
        }
    }
}

/// A tool as a provider of models takes it: wire names, references inlined.
#[must_use]
pub fn tool_spec(definition: &ToolDefinition) -> ToolSpec {
    ToolSpec {
        name: wire_name(definition.id.as_str()),
        description: definition.description.clone(),
        parameters: wire_parameters(&definition.parameters),
    }
}

/// The schema of arguments as it goes over the wire: no references, parameters under wire names.
fn wire_parameters(schema: &Value) -> Value {
    let mut schema = rename(inline_references(schema));
    if let Some(object) = schema.as_object_mut() {
        object.remove("$schema");
        object.entry("type").or_insert_with(|| "object".into());
        object.entry("properties").or_insert_with(|| json!({}));
    }
    schema
}

fn rename(schema: Value) -> Value {
    let Value::Object(object) = schema else { return schema };
    let renamed = object.into_iter().map(|(key, value)| {
        let value = match (key.as_str(), value) {
            ("properties", Value::Object(properties)) => {
                let properties = properties.into_iter().map(|(name, part)| (safe(&name), rename(part)));
                Value::Object(properties.collect())
            }
            ("required", Value::Array(names)) => names
                .into_iter()
                .map(|name| name.as_str().map_or_else(|| name.clone(), |name| safe(name).into()))
                .collect(),
            (key, value) if SINGLE.contains(&key) => rename(value),
            (key, Value::Array(parts)) if LISTS.contains(&key) => parts.into_iter().map(rename).collect(),
            (_, value) => value,
        };
        (key, value)
    });
    Value::Object(renamed.collect())
}

fn safe(name: &str) -> String {
    if is_wire_name(name) { name.to_owned() } else { wire_name(name) }
}

/// The part of OpenAPI 3.0 that Gemini's `parameters` reads.
fn gemini(schema: &Value) -> Value {
    let Value::Object(object) = schema else { return json!({}) };
    let mut out = Map::new();
    for (key, value) in object {
        match (key.as_str(), value) {
            ("type", Value::Array(types)) => gemini_types(types, &mut out),
            ("const", value) => {
                out.insert("enum".into(), json!([value]));
            }
            ("properties", Value::Object(parts)) => {
                let parts = parts.iter().map(|(name, part)| (name.clone(), gemini(part)));
                out.insert(key.clone(), Value::Object(parts.collect()));
            }
            ("items", value @ Value::Object(_)) => {
                out.insert(key.clone(), gemini(value));
            }
            ("anyOf" | "oneOf", Value::Array(parts)) => gemini_union(parts, &mut out),
            ("allOf", Value::Array(parts)) => {
                for part in parts {
                    merge_part(&mut out, gemini(part));
                }
            }
            (
                "type" | "description" | "title" | "enum" | "format" | "required" | "minimum" | "maximum"
                | "minItems" | "maxItems" | "minLength" | "maxLength" | "pattern" | "nullable" | "default",
                value,
            ) => {
                out.insert(key.clone(), value.clone());
            }
            _ => {}
        }
    }
    gemini_enum(&mut out);
    if out.get("type").and_then(Value::as_str) == Some("array") && !out.contains_key("items") {
        out.insert("items".into(), json!({"type": "string"}));
    }
    out.into()
}

/// Puts a part of `allOf` into the whole: properties and required names together, the rest as it is.
fn merge_part(out: &mut Map<String, Value>, part: Value) {
    let Value::Object(part) = part else { return };
    for (key, value) in part {
        match (out.get_mut(&key), value) {
            (Some(Value::Object(known)), Value::Object(more)) => known.extend(more),
            (Some(Value::Array(known)), Value::Array(more)) => known.extend(more),
            (_, value) => {
                out.insert(key, value);
            }
        }
    }
}

fn gemini_types(types: &[Value], out: &mut Map<String, Value>) {
    let (nulls, others): (Vec<&Value>, Vec<&Value>) =
        types.iter().partition(|kind| kind.as_str() == Some("null"));
    if !nulls.is_empty() {
        out.insert("nullable".into(), true.into());
    }
    match others.as_slice() {
        [] => {}
        [single] => {
            out.insert("type".into(), (*single).clone());
        }
        several => {
            out.insert("anyOf".into(), several.iter().map(|kind| json!({"type": kind})).collect());
        }
    }
}

fn gemini_union(parts: &[Value], out: &mut Map<String, Value>) {
    let (nulls, others): (Vec<&Value>, Vec<&Value>) = parts.iter().partition(|part| part["type"] == "null");
    if !nulls.is_empty() {
        out.insert("nullable".into(), true.into());
    }
    if let [single] = others.as_slice() {
        if let Value::Object(single) = gemini(single) {
            for (key, value) in single {
                out.entry(key).or_insert(value);
            }
        }
    } else {
        out.insert("anyOf".into(), others.into_iter().map(gemini).collect());
    }
}

/// Only texts may be members there; other members are said in the description.
fn gemini_enum(out: &mut Map<String, Value>) {
    let nullable = out.get("nullable") == Some(&Value::Bool(true));
    let Some(Value::Array(members)) = out.get_mut("enum") else { return };
    members.retain(|member| !(nullable && member.is_null()));
    if members.iter().all(Value::is_string) {
        out.entry("type").or_insert_with(|| "string".into());
        return;
    }
    let list: Vec<String> = members.iter().map(ToString::to_string).collect();
    let before = out.get("description").and_then(Value::as_str).unwrap_or_default();
    let description = format!("{before} One of {}.", list.join(", "));
    out.insert("description".into(), description.trim_start().into());
    out.remove("enum");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weather() -> ToolDefinition {
        ToolDefinition::new(
            "system:weather".parse().unwrap(),
            "Weather of a city.",
            json!({
                "type": "object",
                "properties": {
                    "city name": {"$ref": "#/$defs/City"},
                    "unit": {"type": ["string", "null"], "enum": ["c", "f", null]},
                    "days": {"type": "integer", "enum": [1, 3], "description": "How far."},
                },
                "required": ["city name"],
                "additionalProperties": false,
                "$defs": {"City": {"type": "string", "minLength": 1}},
            }),
        )
    }

    #[test]
    fn a_tool_in_four_dialects() {
        let all: Vec<Value> =
            [SchemaDialect::OpenAi, SchemaDialect::Anthropic, SchemaDialect::Gemini, SchemaDialect::Mcp]
                .into_iter()
                .map(|dialect| render(&weather(), dialect))
                .collect();
        insta::assert_json_snapshot!("dialects", all);
    }

    #[test]
    fn recursion_is_cut() {
        let schema = json!({"$ref": "#/$defs/T", "$defs": {"T": {"type": "object",
            "properties": {"next": {"$ref": "#/$defs/T"}}}}});
        assert_eq!(
            inline_references(&schema),
            json!({"type": "object", "properties": {"next": {"type": "object"}}})
        );
    }

    #[test]
    fn expansion_is_bounded() {
        // Each definition holds the next one ten times: ten to the twelfth parts when written out.
        let mut defs = Map::new();
        for level in 0..12 {
            let next = json!({"$ref": format!("#/$defs/L{}", level + 1)});
            let parts: Map<String, Value> = (0..10).map(|i| (format!("p{i}"), next.clone())).collect();
            defs.insert(format!("L{level}"), json!({"type": "object", "properties": parts}));
        }
        let schema = json!({"$ref": "#/$defs/L0", "$defs": defs});
        assert!(inline_references(&schema).to_string().len() < 4_000_000);
    }
}

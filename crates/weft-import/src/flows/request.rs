//! Requests and texts of theirs as ours.

use std::collections::BTreeSet;

use http_caller::EndpointConfig;
use serde_json::{Map, Value, json};
use tool_http::HttpToolFile;

use crate::fields::{Ledger, escaped};
use crate::report::LEFT_OUT;
use crate::tools::{ImportedTools, read_tool};

/// Value that the other system fills in itself.
const AUTOFILL: &str = "todo_autofill_by_system";

/// Maps a tool; `None` where it cannot be called, which the ledger then reports.
pub(super) fn tool(config: &Value, place: &str, ledger: &Ledger<'_>) -> Option<HttpToolFile> {
    let mut config = config.clone();
    report_autofill(config.get("endpoint").unwrap_or(&Value::Null), &format!("{place}/endpoint"), ledger);
    undeclared_to_context(&mut config, place, ledger);
    let label = config.get("name").and_then(Value::as_str).unwrap_or("tool 1").to_owned();
    match read_tool(&config, &label, &ImportedTools::default()) {
        Ok((tool, notes)) => {
            notes.into_iter().for_each(|note| ledger.changed(place, "changed", note));
            Some(tool)
        }
        Err(reason) => {
            ledger.unsupported(place, "unusable", format!("it is left out: {reason}"));
            None
        }
    }
}

/// A request of theirs whose placeholders are these.
pub(super) fn endpoint(
    config: &Value,
    names: &[&str],
    place: &str,
    ledger: &Ledger<'_>,
) -> Option<EndpointConfig> {
    let properties: Map<String, Value> =
        names.iter().map(|name| ((*name).to_owned(), json!({"type": "string"}))).collect();
    let parameters = json!({"type": "object", "properties": properties, "required": names});
    let whole =
        json!({"name": "request", "description": "A request.", "parameters": parameters, "endpoint": config});
    let parent = place.strip_suffix("/endpoint").unwrap_or(place);
    tool(&whole, parent, ledger).map(|tool| tool.endpoint)
}

/// A text for people: `{{$contact.name}}` is what is known of the user.
pub(super) fn text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("{{$contact.") {
        let (before, after) = rest.split_at(at);
        out.push_str(before);
        let Some((name, after)) = after.strip_prefix("{{$contact.").and_then(|after| after.split_once("}}"))
        else {
            rest = after;
            break;
        };
        out.extend(["{$ctx.profile.", name.trim(), "}"]);
        rest = after;
    }
    out + rest
}

/// Reports what the other system fills in.
fn report_autofill(value: &Value, place: &str, ledger: &Ledger<'_>) {
    match value {
        Value::String(text) if text == AUTOFILL => {
            ledger.unsupported(place, LEFT_OUT, "the other system fills it in; here it is left out");
        }
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                report_autofill(item, &format!("{place}/{at}"), ledger);
            }
        }
        Value::Object(members) => {
            for (key, value) in members {
                report_autofill(value, &format!("{place}/{}", escaped(key)), ledger);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// A placeholder that no parameter declares is a context value, but for what a lookup is about.
fn undeclared_to_context(config: &mut Value, place: &str, ledger: &Ledger<'_>) {
    let is_lookup = config.get("name").and_then(Value::as_str) == Some("retrieve_knowledge");
    let declared: BTreeSet<String> = config
        .pointer("/parameters/properties")
        .and_then(Value::as_object)
        .map(|properties| properties.keys().cloned().collect())
        .unwrap_or_default();
    let mut undeclared = BTreeSet::new();
    let Some(endpoint) = config.get_mut("endpoint") else { return };
    rename(endpoint, &mut |name| {
        if declared.contains(name) || name.starts_with('$') {
            return None;
        }
        if is_lookup && matches!(name, "keywords" | "query") {
            undeclared.insert((name.to_owned(), true));
            return None;
        }
        undeclared.insert((name.to_owned(), false));
        Some(format!("{{{{$ctx.{name}}}}}"))
    });
    for (name, is_parameter) in undeclared {
        if !is_parameter {
            continue;
        }
        let message = format!("`{{{name}}}` is not declared as a parameter; it was added as a text");
        ledger.changed(format!("{place}/parameters"), "changed", message);
        let Some(object) = config.as_object_mut() else { return };
        let parameters = object.entry("parameters").or_insert_with(|| json!({"type": "object"}));
        parameters["properties"][&name] = json!({"type": "string", "description": "words to look for"});
        parameters["required"] = json!([name]);
    }
}

/// Writes other texts in the place of single placeholders, wherever they stand.
fn rename(value: &mut Value, change: &mut impl FnMut(&str) -> Option<String>) {
    match value {
        Value::String(text) => *text = renamed(text, change),
        Value::Array(items) => items.iter_mut().for_each(|item| rename(item, change)),
        Value::Object(members) => members.values_mut().for_each(|value| rename(value, change)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn renamed(text: &str, change: &mut impl FnMut(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        if rest.starts_with("{{") {
            let end = rest.find("}}").map_or(rest.len(), |end| end + 2);
            out.push_str(&rest[..end]);
            rest = &rest[end..];
            continue;
        }
        let Some(end) = rest.find('}') else { break };
        let name = &rest[1..end];
        let is_name =
            !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | '-'));
        match is_name.then(|| change(name)).flatten() {
            Some(other) => out.push_str(&other),
            None => out.push_str(&rest[..=end]),
        }
        rest = &rest[end + 1..];
    }
    out + rest
}

/// Writes a text in the place of one placeholder.
pub(super) fn fixed(config: &Value, name: &str, with: &str) -> Value {
    let mut config = config.clone();
    rename(&mut config, &mut |own| (own == name).then(|| with.to_owned()));
    config
}

/// A tool with the id of the agent where its request asks for it.
pub(super) fn with_bot(config: &Value, id: &str) -> Value {
    let is_parameter = config.pointer("/parameters/properties/chatbotId").is_some();
    let mut config = config.clone();
    if let Some(endpoint) = config.get_mut("endpoint").filter(|_| !is_parameter) {
        *endpoint = fixed(endpoint, "chatbotId", id);
    }
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_get_other_names() {
        let mut change = |name: &str| (name == "a").then(|| "X".to_owned());
        for (given, expected) in
            [("{a}/{b}", "X/{b}"), ("{{a}} {a}", "{{a}} X"), ("{a", "{a"), ("{\"a\": 1}", "{\"a\": 1}")]
        {
            assert_eq!(renamed(given, &mut change), expected, "{given}");
        }
        assert_eq!(text("Still there, {{$contact.nickname}}?"), "Still there, {$ctx.profile.nickname}?");
        assert_eq!(text("{{$contact.x"), "{{$contact.x");
    }
}

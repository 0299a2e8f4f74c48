//! HTTP tool configurations of other systems.

use http_caller::{EndpointConfig, QueryValue};
use serde_json::{Map, Value, json};
use tool_schema::map_schema;

use super::{ImportedTools, ToolImportError, tool_name, unique};
use crate::file::HttpToolFile;

/// What fills itself in at the other system, and is dropped.
const AUTOFILL: &str = "todo_autofill_by_system";

/// A configuration `{name, description, parameters, endpoint {url, method, headers, body, query_params, timeout}}`, or a list of them,
/// alone or under `tools`.
///
/// Placeholders are `{param}` or, with `"template": "double"`, `{{param}}`; `#var#` becomes a context value, and so does `{{$contact.name}}`.
///
/// # Errors
/// No JSON, or nothing of the kind in it.
pub fn from_bu(text: &str) -> Result<ImportedTools, ToolImportError> {
    let document: Value = serde_json::from_str(text)?;
    let listed = document.get("tools").or(Some(&document)).and_then(Value::as_array).cloned();
    let configs = listed.unwrap_or_else(|| vec![document.clone()]);
    let mut imported = ImportedTools::default();
    for (index, config) in configs.iter().enumerate() {
        let label = config
            .get("name")
            .and_then(Value::as_str)
            .map_or_else(|| format!("tool {}", index + 1), str::to_owned);
        match tool_of(config, &label, &imported) {
            Ok((tool, notes)) => {
                imported.notes.extend(notes.into_iter().map(|note| format!("{label}: {note}")));
                imported.tools.push((label, tool));
            }
            Err(reason) => imported.refuse(label, reason),
        }
    }
    if imported.tools.is_empty() && imported.refused.is_empty() {
        return Err(ToolImportError::kind(
            "expected {name, description, parameters, endpoint}, or a list of them",
        ));
    }
    Ok(imported)
}

fn tool_of(
    config: &Value,
    label: &str,
    known: &ImportedTools,
) -> Result<(HttpToolFile, Vec<String>), String> {
    let endpoint = config.get("endpoint").and_then(Value::as_object).ok_or("it has no `endpoint`")?;
    let url = endpoint.get("url").and_then(Value::as_str).ok_or("its endpoint has no `url`")?;
    let is_double = config.get("template").and_then(Value::as_str) == Some("double");
    let mut templates = Templates { is_double, context: Vec::new(), notes: Vec::new() };
    let texts = |value: Option<&Value>| value.and_then(Value::as_object).cloned().unwrap_or_default();
    let mut parameters = config
        .get("parameters")
        .map_or_else(|| json!({"type": "object", "properties": {}}), |schema| map_schema(schema).schema);
    let url = templates.text(url);
    let in_path = url.split('?').next().unwrap_or_default().to_owned();
    let mut headers = texts(endpoint.get("headers"));
    // What a body is sent as is said by the client already.
    headers.retain(|name, value| !(name.eq_ignore_ascii_case("content-type") && value == "application/json"));
    let headers =
        headers.iter().filter_map(|(name, value)| Some((name.clone(), templates.text(value.as_str()?))));
    let headers = headers.collect();
    let query = texts(endpoint.get("query_params"));
    let query_params = query
        .iter()
        .filter_map(|(name, value)| Some((name.clone(), QueryValue::One(templates.value(value)?))))
        .collect();
    let body = endpoint.get("body").filter(|body| !body.is_null()).map(read_body).transpose()?;
    let body = body.and_then(|body| templates.value(&body));
    let method = endpoint.get("method").and_then(Value::as_str).unwrap_or("POST").to_ascii_uppercase();
    require_path_parameters(&mut parameters, &in_path);
    let timeout = endpoint.get("timeout").and_then(Value::as_f64).filter(|seconds| *seconds > 0.0);
    let timeout_ms = timeout.map(|seconds| {
        let millis =
            std::time::Duration::try_from_secs_f64(seconds).unwrap_or(std::time::Duration::from_secs(30));
        u64::try_from(millis.as_millis()).unwrap_or(u64::MAX).max(1)
    });
    let name = unique(tool_name(label), |name| known.tools.iter().any(|(_, tool)| tool.name == name));
    let has_none = matches!(method.as_str(), "GET" | "HEAD");
    if has_none && body.is_some() {
        templates.notes.push(format!("the body was left out: a {method} has none"));
    }
    let body = body.filter(|_| !has_none);
    let endpoint = EndpointConfig { url, method: Some(method), headers, query_params, body, timeout_ms };
    let tool = HttpToolFile {
        name,
        description: config.get("description").and_then(Value::as_str).unwrap_or_default().to_owned(),
        parameters: Some(parameters),
        endpoint,
        context: Vec::new(),
        response: None,
        auth: None,
        retry: None,
    };
    check(&tool)?;
    Ok((tool, templates.notes))
}

/// Whether the tool could be called at all.
fn check(tool: &HttpToolFile) -> Result<(), String> {
    let caller = http_caller::HttpCaller::builder(http_caller::NetworkPolicy::public_only()).build();
    crate::tool::http_tool(tool, &caller).map(|_| ()).map_err(|error| error.to_string())
}

/// A body may be JSON in a text, which their reader drops without a word where it is none.
fn read_body(body: &Value) -> Result<Value, String> {
    match body.as_str() {
        Some(text) => serde_json::from_str(text).map_err(|error| format!("its body is no JSON: {error}")),
        None => Ok(body.clone()),
    }
}

/// What stands in the path cannot be absent.
fn require_path_parameters(parameters: &mut Value, path: &str) {
    let properties = parameters.get("properties").and_then(Value::as_object);
    let named: Vec<String> = properties
        .into_iter()
        .flat_map(Map::keys)
        .filter(|name| path.contains(&format!("{{{name}}}")))
        .cloned()
        .collect();
    let Some(object) = parameters.as_object_mut() else { return };
    let required = object.entry("required").or_insert_with(|| json!([]));
    if let Value::Array(required) = required {
        required.extend(
            named.into_iter().map(Value::from).filter(|name| !required.contains(name)).collect::<Vec<_>>(),
        );
    }
}

/// Placeholders of theirs as ours.
struct Templates {
    is_double: bool,
    context: Vec<String>,
    notes: Vec<String>,
}

impl Templates {
    /// None where the other system would have filled it in.
    fn value(&mut self, value: &Value) -> Option<Value> {
        Some(match value {
            Value::String(text) if text == AUTOFILL => return None,
            Value::String(text) => self.text(text).into(),
            Value::Array(items) => items.iter().filter_map(|item| self.value(item)).collect(),
            Value::Object(members) => {
                let members =
                    members.iter().filter_map(|(key, value)| Some((key.clone(), self.value(value)?)));
                Value::Object(members.collect())
            }
            other => other.clone(),
        })
    }

    fn text(&mut self, text: &str) -> String {
        let text = self.hashes(text);
        let mut out = String::new();
        let mut rest = text.as_str();
        while let Some(at) = rest.find(['{', '}']) {
            out.push_str(&rest[..at]);
            rest = &rest[at..];
            let double = rest.strip_prefix("{{").and_then(|inner| inner.split_once("}}"));
            let single = rest.strip_prefix('{').and_then(|inner| inner.split_once('}'));
            let is_name = |name: &str| !name.is_empty() && !name.contains(['{', '}', '"', ' ']);
            match (double, single) {
                (Some((name, after)), _) if name.starts_with("$contact.") || name.starts_with("$ctx.") => {
                    let name = name.trim_start_matches("$contact.").trim_start_matches("$ctx.");
                    out.push_str(&self.context_value(name));
                    rest = after;
                }
                (Some((name, after)), _) if self.is_double && is_name(name) => {
                    out.extend(["{", name, "}"]);
                    rest = after;
                }
                (None, Some((name, after))) if !self.is_double && is_name(name) => {
                    out.extend(["{", name, "}"]);
                    rest = after;
                }
                _ => {
                    // A brace that is none of theirs is text, and a doubled one is one already.
                    let brace = &rest[..1];
                    let doubled = !self.is_double && rest[1..].starts_with(brace);
                    out.extend([brace, brace]);
                    rest = &rest[if doubled { 2 } else { 1 }..];
                }
            }
        }
        out + rest
    }

    /// `#var#`, which another service fills in.
    fn hashes(&mut self, text: &str) -> String {
        let parts: Vec<&str> = text.split('#').collect();
        let is_name = |part: &str| {
            !part.is_empty()
                && part.chars().all(|c| c.is_alphanumeric() || c == '_')
                && !part.starts_with(char::is_numeric)
        };
        let mut out = String::new();
        let mut index = 0;
        while index < parts.len() {
            if index > 0 && index + 1 < parts.len() && is_name(parts[index]) {
                let placeholder = self.context_value(parts[index]);
                out.push_str(&placeholder.replace("{$ctx.", "{{$ctx.").replace('}', "}}"));
                out.push_str(parts[index + 1]);
                index += 2;
            } else {
                if index > 0 {
                    out.push('#');
                }
                out.push_str(parts[index]);
                index += 1;
            }
        }
        out
    }

    fn context_value(&mut self, name: &str) -> String {
        if !self.context.iter().any(|known| known == name) {
            self.context.push(name.to_owned());
            self.notes.push(format!("`{name}` is a context value: give it with --ctx {name}=VALUE"));
        }
        format!("{{$ctx.{name}}}")
    }
}

/// A `*.tool.json` of ComfyTavern, in either of its two shapes. Only what speaks HTTP can be called.
///
/// # Errors
/// No JSON, or neither of the shapes.
pub fn from_comfytavern_tool(text: &str) -> Result<ImportedTools, ToolImportError> {
    let document: Value = serde_json::from_str(text)?;
    let name = document.get("id").or_else(|| document.get("toolId")).and_then(Value::as_str);
    let body = document.get("implementation").or_else(|| document.get("handler"));
    let (Some(name), Some(body)) = (name, body) else {
        return Err(ToolImportError::kind("expected {id, implementation} or {toolId, handler}"));
    };
    let mut imported = ImportedTools::default();
    let kind = body.get("type").and_then(Value::as_str).unwrap_or("none");
    let url = ["url", "endpoint"].iter().find_map(|key| body.get(key)?.as_str());
    let Some(url) = url else {
        let reason = match (kind, body.get("workflowId").and_then(Value::as_str)) {
            ("workflow", Some(id)) => {
                format!("it is a workflow: list `workflow:{id}` in the agent's inventory")
            }
            ("workflow", None) => {
                "it is a workflow: list it as `workflow:<id>` in the agent's inventory".to_owned()
            }
            (kind, _) => {
                format!("`{kind}` runs code of its own: only workflows and HTTP endpoints can be called")
            }
        };
        imported.refuse(name, reason);
        return Ok(imported);
    };
    let mut endpoint = Map::from_iter([("url".to_owned(), Value::from(url))]);
    for key in ["method", "headers", "body", "query_params"] {
        endpoint.extend(body.get(key).map(|value| (key.to_owned(), value.clone())));
    }
    if !endpoint.contains_key("method") {
        endpoint.insert("method".into(), if endpoint.contains_key("body") { "POST" } else { "GET" }.into());
    }
    let description = document.get("description").or_else(|| document.get("displayName")).cloned();
    let config = json!({"name": name, "description": description, "parameters": document.get("parameters"), "endpoint": endpoint});
    match tool_of(&without_nulls(config), name, &imported) {
        Ok((tool, notes)) => {
            imported.notes.extend(notes);
            imported.tools.push((name.to_owned(), tool));
        }
        Err(reason) => imported.refuse(name, reason),
    }
    Ok(imported)
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            Value::Object(members.into_iter().filter(|(_, value)| !value.is_null()).collect())
        }
        other => other,
    }
}

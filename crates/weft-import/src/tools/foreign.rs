//! HTTP tool configurations of other systems.

use http_caller::{EndpointConfig, QueryValue};
use serde_json::{Map, Value, json};
use tool_http::HttpToolFile;
use tool_schema::map_schema;

use super::{ImportedTools, tool_name, unique};
use crate::error::ImportError;
use crate::fields::{Fields, Ledger};

/// Value that the other system fills in itself; it is dropped.
const AUTOFILL: &str = "todo_autofill_by_system";

/// A configuration `{name, description, parameters, endpoint {url, method, headers, body, query_params, timeout}}`, or a list of them,
/// alone or under `tools`.
///
/// Placeholders are `{param}` or, with `"template": "double"`, `{{param}}`; `#var#` becomes a context value, and so does `{{$contact.name}}`.
///
/// # Errors
/// The text is not JSON, or holds nothing of the kind.
pub fn from_bu_tools(text: &str) -> Result<ImportedTools, ImportError> {
    let document: Value = serde_json::from_str(text)?;
    let ledger = Ledger::new(&document);
    let root = ledger.root();
    let (list, base) = match root.get("tools") {
        Some(list) => (list, "/tools"),
        None => (root, ""),
    };
    let single = (!list.peek().is_array()).then_some((root, String::new()));
    let listed = list.items().enumerate().map(|(at, config)| (config, format!("{base}/{at}")));
    let mut imported = ImportedTools::default();
    for (index, (config, path)) in single.into_iter().chain(listed).enumerate() {
        let label = config.word("name").map_or_else(|| format!("tool {}", index + 1), str::to_owned);
        let read = read_tool(&tool_config(config), &label, &imported);
        imported.add(&ledger, (&label, &path), read);
    }
    if imported.tools.is_empty() && imported.refused.is_empty() {
        return Err(ImportError::Kind(
            "expected {name, description, parameters, endpoint}, or a list of them".into(),
        ));
    }
    imported.report = ledger.close();
    Ok(imported)
}

/// The members of a tool that have a counterpart, taken.
pub(crate) fn tool_config(tool: Fields<'_>) -> Value {
    let mut config = Map::new();
    for name in ["name", "description", "template"] {
        let text = tool.get(name).and_then(Fields::text);
        config.extend(text.map(|text| (name.to_owned(), text.into())));
    }
    let parameters = tool.get("parameters").map(|parameters| parameters.take().clone());
    config.extend(parameters.map(|parameters| ("parameters".to_owned(), parameters)));
    config.extend(tool.get("endpoint").map(|endpoint| ("endpoint".to_owned(), endpoint_config(endpoint))));
    config.into()
}

/// The members of a request that have a counterpart, taken.
pub(crate) fn endpoint_config(endpoint: Fields<'_>) -> Value {
    let mut config = Map::new();
    for name in ["url", "method"] {
        let text = endpoint.get(name).and_then(Fields::text);
        config.extend(text.map(|text| (name.to_owned(), text.into())));
    }
    if let Some(headers) = endpoint.get("headers") {
        let texts = headers.members().filter_map(|(name, value)| Some((name.clone(), value.text()?.into())));
        config.insert("headers".into(), Value::Object(texts.collect()));
    }
    for name in ["query_params", "body"] {
        let value = endpoint.get(name).map(|value| value.take().clone());
        config.extend(value.map(|value| (name.to_owned(), value)));
    }
    let timeout =
        endpoint.get("timeout").filter(|timeout| timeout.peek().as_f64().is_some_and(|time| time > 0.0));
    config.extend(timeout.map(|timeout| ("timeout".to_owned(), timeout.take().clone())));
    config.into()
}

/// The tool that a configuration describes, with notes, or the reason why it is not one.
pub(crate) fn read_tool(
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
    let has_none = method == "HEAD";
    if has_none && body.is_some() {
        templates.notes.push(format!("the body was left out: a {method} has none"));
    }
    let body = body.filter(|_| !has_none);
    let endpoint = EndpointConfig { url, method: Some(method), headers, query_params, body, timeout_ms };
    let description = config.get("description").and_then(Value::as_str).unwrap_or_default();
    let tool = HttpToolFile::new(name, description, parameters, endpoint);
    check(&tool)?;
    Ok((tool, templates.notes))
}

/// Checks that the tool can be called.
fn check(tool: &HttpToolFile) -> Result<(), String> {
    let caller = http_caller::HttpCaller::builder(http_caller::NetworkPolicy::public_only()).build();
    tool_http::http_tool(tool, &caller).map(|_| ()).map_err(|error| error.to_string())
}

/// A body may be JSON in a text, which their reader drops without a word where it is none.
fn read_body(body: &Value) -> Result<Value, String> {
    match body.as_str() {
        Some(text) => serde_json::from_str(text).map_err(|error| format!("its body is not JSON: {error}")),
        None => Ok(body.clone()),
    }
}

/// Makes the parameters in the path required.
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

/// A `*.tool.json` of `ComfyTavern`, in either of its two shapes. Only tools that speak HTTP can be called.
///
/// # Errors
/// The text is not JSON, or has neither of the shapes.
pub fn from_comfytavern_tool(text: &str) -> Result<ImportedTools, ImportError> {
    let document: Value = serde_json::from_str(text)?;
    let ledger = Ledger::new(&document);
    let root = ledger.root();
    let name = root.get("id").or_else(|| root.get("toolId")).and_then(Fields::text);
    let body = root.get("implementation").or_else(|| root.get("handler"));
    let (Some(name), Some(body)) = (name, body) else {
        return Err(ImportError::Kind("expected {id, implementation} or {toolId, handler}".into()));
    };
    let mut imported = ImportedTools::default();
    let kind = body.get("type").and_then(Fields::text).unwrap_or("none");
    let url = ["url", "endpoint"].iter().find_map(|key| body.get(key)?.text());
    let read = match url {
        None => Err(no_address(kind, body.peek().get("workflowId").and_then(Value::as_str))),
        Some(url) => read_tool(&comfytavern_config(root, body, url), name, &imported),
    };
    imported.add(&ledger, (name, ""), read);
    imported.report = ledger.close();
    Ok(imported)
}

/// The reason why a tool without an address cannot be called.
fn no_address(kind: &str, workflow: Option<&str>) -> String {
    match (kind, workflow) {
        ("workflow", Some(id)) => format!("it is a workflow: list `workflow:{id}` in the agent's inventory"),
        ("workflow", None) => {
            "it is a workflow: list it as `workflow:<id>` in the agent's inventory".to_owned()
        }
        (kind, _) => {
            format!("`{kind}` runs code of its own: only workflows and HTTP endpoints can be called")
        }
    }
}

/// A tool of `ComfyTavern` in the form that [`read_tool`] reads.
fn comfytavern_config(root: Fields<'_>, body: Fields<'_>, url: &str) -> Value {
    let mut endpoint = endpoint_config(body);
    endpoint["url"] = url.into();
    if endpoint.get("method").is_none() {
        endpoint["method"] = if endpoint.get("body").is_some() { "POST" } else { "GET" }.into();
    }
    let mut config = json!({"endpoint": endpoint});
    let description = root.get("description").or_else(|| root.get("displayName")).and_then(Fields::text);
    for (name, value) in [
        ("description", description.map(Value::from)),
        ("parameters", root.get("parameters").map(|parameters| parameters.take().clone())),
    ] {
        if let Some(value) = value {
            config[name] = value;
        }
    }
    config
}

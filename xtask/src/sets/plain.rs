//! A request put together by hand, without templates: what an operation must send for given arguments.

use std::fmt::Write;

use serde_json::{Map, Value, json};

/// Text that would break out of every place that does not encode it.
const HOSTILE: &str = "a b/../?c=1&d#é%2F\"{x}";

/// Arguments for an operation, and the request that they must become.
pub(crate) struct Plain {
    pub(crate) arguments: Map<String, Value>,
    /// The whole request, byte for byte.
    pub(crate) request: String,
}

/// None where no arguments are easily found, or where the operation is none that can be sent.
pub(crate) fn plain_request(case: &Value, base: &str, host: &str) -> Option<Plain> {
    let method = case["method"].as_str()?;
    let mut arguments = Map::new();
    let mut path = case["path"].as_str()?.split('#').next()?.to_owned();
    let (mut pairs, mut headers) = (Vec::new(), Vec::new());
    for parameter in case["parameters"].as_array()? {
        let name = parameter["name"].as_str()?;
        let place = parameter["in"].as_str()?;
        let required = place == "path" || parameter["required"] == true;
        // Lists and objects have styles of their own; the tests of the importer have them.
        let value = match (scalar(&parameter["schema"], place), &parameter["schema"]["default"]) {
            (Some(value), _) => {
                if arguments.insert(name.to_owned(), value.clone()).is_some() {
                    return None;
                }
                value
            }
            (None, _) if required => return None,
            (None, Value::Null) => continue,
            // What is absent has its default.
            (None, default) if default.is_string() || default.is_number() => default.clone(),
            (None, _) => return None,
        };
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        match place {
            "path" => path = path.replace(&format!("{{{name}}}"), &encoded(&text)),
            "query" => pairs.push(format!("{}={}", encoded(name), encoded(&text))),
            "header" => headers.push((name.to_lowercase(), text)),
            _ => return None,
        }
    }
    let is_plain =
        path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/-_.~%:@!$'()*+,;=".contains(&byte));
    let odd = headers
        .iter()
        .any(|(name, _)| matches!(&**name, "accept" | "content-type" | "authorization" | "host"));
    if !is_plain || odd || path.contains("//") {
        return None;
    }
    let body = match &case["body"] {
        Value::Null => None,
        body if body["content_type"] == "application/json" => {
            let value = object(&body["schema"])?;
            let text = value.to_string();
            if arguments.insert("body".into(), value).is_some() {
                return None;
            }
            Some(text)
        }
        _ => return None,
    };
    let query = if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) };
    let mut request =
        format!("{method} {base}{path}{query} HTTP/1.1\r\naccept: application/json, */*;q=0.5\r\n");
    request.push_str(concat!("user-agent: weft/", env!("CARGO_PKG_VERSION"), "\r\n"));
    if body.is_some() {
        request.push_str("content-type: application/json\r\n");
    }
    for (name, value) in headers {
        request.extend([&name, ": ", &value, "\r\n"]);
    }
    request.push_str("accept-encoding: gzip\r\n");
    if body.is_none() && matches!(method, "POST" | "PUT" | "PATCH") {
        request.push_str("content-length: 0\r\n");
    }
    request.extend(["host: ", host, "\r\n"]);
    if let Some(body) = &body {
        request.push_str(&format_length(body.len()));
    }
    request.push_str("\r\n");
    request.push_str(body.as_deref().unwrap_or_default());
    Some(Plain { arguments, request })
}

fn format_length(length: usize) -> String {
    format!("content-length: {length}\r\n")
}

/// Everything but letters, digits and `-._~` as `%XX`.
fn encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a text cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// A value that fits the schema; none where that needs thought.
fn scalar(schema: &Value, place: &str) -> Option<Value> {
    if let Some(members) = schema["enum"].as_array() {
        let member = members.first()?;
        return (member.is_string() || member.is_number()).then(|| member.clone());
    }
    let thinks = [
        "pattern",
        "format",
        "minLength",
        "maxLength",
        "multipleOf",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "nullable",
    ];
    let kind = schema["type"].as_str()?;
    match kind {
        "string" if thinks.iter().all(|key| schema.get(key).is_none()) => {
            let text = if place == "header" { "a: b, c; d=\"e\"" } else { HOSTILE };
            Some(text.into())
        }
        "integer" => {
            let least = schema["minimum"].as_i64().unwrap_or(7);
            let most = schema["maximum"].as_i64().unwrap_or(least.max(7));
            Some(least.min(most).into())
        }
        "number" if schema.get("minimum").is_none() && schema.get("maximum").is_none() => Some(json!(2.5)),
        "boolean" => Some(true.into()),
        _ => None,
    }
}

/// An object with the members that are simple; none where others are required.
fn object(schema: &Value) -> Option<Value> {
    if schema["type"] != "object" || schema.get("allOf").is_some() {
        return None;
    }
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let mut value = Map::new();
    for (name, member) in schema["properties"].as_object()? {
        if member["readOnly"] == true {
            continue;
        }
        match scalar(member, "body") {
            Some(member) => {
                value.insert(name.clone(), member);
            }
            None if required.contains(&name.as_str().into()) => return None,
            None => {}
        }
    }
    Some(Value::Object(value))
}

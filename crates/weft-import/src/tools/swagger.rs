//! Descriptions of Swagger 2.0 as OpenAPI 3.0.

use serde_json::{Map, Value, json};

use super::openapi::METHODS;
use super::reference::target;

/// Members of a parameter that stand beside its schema in OpenAPI.
const OUTSIDE: [&str; 7] =
    ["name", "in", "required", "description", "collectionFormat", "allowEmptyValue", "schema"];

/// The description in the words of OpenAPI 3.0. Definitions stay where they are, so that references to them hold.
pub(super) fn converted(document: &Value) -> Value {
    let mut converted = document.as_object().cloned().unwrap_or_default();
    converted.shift_remove("swagger");
    converted.insert("openapi".into(), "3.0.3".into());
    if let Some(server) = server(document) {
        converted.insert("servers".into(), json!([{"url": server}]));
    }
    ["host", "basePath", "schemes"].iter().for_each(|name| _ = converted.shift_remove(*name));
    if let Some(Value::Object(schemes)) = converted.shift_remove("securityDefinitions") {
        let schemes = schemes.into_iter().map(|(name, scheme)| (name, security_scheme(scheme)));
        converted.insert("components".into(), json!({"securitySchemes": schemes.collect::<Map<_, _>>()}));
    }
    if let Some(Value::Object(paths)) = converted.get_mut("paths") {
        paths.values_mut().for_each(|item| path_item(document, item));
    }
    Value::Object(converted)
}

/// The address of the server: scheme, host and base path.
pub(super) fn server(document: &Value) -> Option<String> {
    let host = document.get("host")?.as_str()?;
    let schemes = document.get("schemes").and_then(Value::as_array);
    let scheme = match schemes {
        Some(schemes) if !schemes.iter().any(|scheme| scheme == "https") => schemes.first()?.as_str()?,
        _ => "https",
    };
    let base = document.get("basePath").and_then(Value::as_str).unwrap_or_default();
    Some(format!("{scheme}://{host}/{}", base.trim_matches('/')))
}

fn security_scheme(scheme: Value) -> Value {
    match scheme.get("type").and_then(Value::as_str) {
        Some("basic") => json!({"type": "http", "scheme": "basic"}),
        _ => scheme,
    }
}

fn path_item(document: &Value, item: &mut Value) {
    let shared = item.get("parameters").and_then(Value::as_array).cloned().unwrap_or_default();
    let (bodies, others): (Vec<Value>, Vec<Value>) =
        shared.into_iter().map(|parameter| resolved(document, parameter)).partition(is_body);
    for method in METHODS {
        if let Some(operation) = item.get_mut(method) {
            convert_operation(document, operation, &bodies);
        }
    }
    if let (Value::Object(members), false) = (&mut *item, others.is_empty() && bodies.is_empty()) {
        members.insert("parameters".into(), others.into_iter().map(parameter).collect());
    }
}

fn convert_operation(document: &Value, operation: &mut Value, inherited: &[Value]) {
    let own = operation.get("parameters").and_then(Value::as_array).cloned().unwrap_or_default();
    let (mut bodies, others): (Vec<Value>, Vec<Value>) =
        own.into_iter().map(|parameter| resolved(document, parameter)).partition(is_body);
    if bodies.is_empty() {
        bodies = inherited.to_vec();
    }
    let consumes = [&*operation, document].into_iter().find_map(|holder| holder.get("consumes")?.as_array());
    let media: Vec<String> =
        consumes.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
    let Value::Object(members) = operation else { return };
    members.shift_remove("parameters");
    if !others.is_empty() {
        members.insert("parameters".into(), others.into_iter().map(parameter).collect());
    }
    if let Some(body) = request_body(&bodies, &media) {
        members.insert("requestBody".into(), body);
    }
}

/// A parameter, its reference followed. One that leads nowhere stays as it is.
fn resolved(document: &Value, parameter: Value) -> Value {
    let reference = parameter.get("$ref").and_then(Value::as_str);
    match reference.map(|reference| target(document, reference)) {
        Some(Ok((found, _))) => found.clone(),
        Some(Err(_)) | None => parameter,
    }
}

fn is_body(parameter: &Value) -> bool {
    parameter.get("in").is_some_and(|place| place == "body" || place == "formData")
}

fn parameter(given: Value) -> Value {
    let Value::Object(members) = given else { return given };
    if members.contains_key("$ref") {
        return Value::Object(members);
    }
    let style = style(&members);
    let (mut outside, schema): (Map<String, Value>, Map<String, Value>) =
        members.into_iter().partition(|(name, _)| OUTSIDE.contains(&name.as_str()));
    outside.shift_remove("collectionFormat");
    if let Some((style, explode)) = style {
        outside.insert("style".into(), style.into());
        outside.insert("explode".into(), explode.into());
    }
    outside.insert("schema".into(), Value::Object(schema));
    Value::Object(outside)
}

/// Style of a list.
fn style(parameter: &Map<String, Value>) -> Option<(&'static str, bool)> {
    if parameter.get("type").is_none_or(|kind| kind != "array") {
        return None;
    }
    let is_in_query = parameter.get("in").is_some_and(|place| place == "query");
    let comma = if is_in_query { "form" } else { "simple" };
    match parameter.get("collectionFormat").and_then(Value::as_str) {
        None | Some("csv") => Some((comma, false)),
        Some("multi") => Some(("form", true)),
        Some("ssv") => Some(("spaceDelimited", false)),
        Some("pipes") => Some(("pipeDelimited", false)),
        // Refused where the parameter is read.
        Some(_) => Some(("tabDelimited", false)),
    }
}

fn request_body(bodies: &[Value], media: &[String]) -> Option<Value> {
    let first = bodies.first()?;
    if first.get("in").is_some_and(|place| place == "body") {
        let schema = first.get("schema").cloned().unwrap_or_else(|| json!({}));
        let named = if media.is_empty() { vec!["application/json".to_owned()] } else { media.to_vec() };
        let content = named.into_iter().map(|media| (media, json!({"schema": schema})));
        let required = first.get("required").cloned().unwrap_or_default();
        return Some(json!({"required": required == true, "content": content.collect::<Map<_, _>>()}));
    }
    let name = |field: &Value| field.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let required: Vec<String> =
        bodies.iter().filter(|field| field.get("required") == Some(&Value::Bool(true))).map(name).collect();
    let has_file = bodies.iter().any(|field| field.get("type").is_some_and(|kind| kind == "file"));
    let media = if has_file { "multipart/form-data" } else { "application/x-www-form-urlencoded" };
    let fields = bodies.iter().map(|field| {
        let members = parameter(field.clone());
        let mut schema = members.get("schema").cloned().unwrap_or_default();
        if let (Value::Object(schema), Some(about)) = (&mut schema, field.get("description")) {
            schema.insert("description".into(), about.clone());
        }
        (name(field), schema)
    });
    let properties: Map<String, Value> = fields.collect();
    let schema = json!({"type": "object", "properties": properties, "required": required});
    Some(json!({"required": !required.is_empty(), "content": {media: {"schema": schema}}}))
}

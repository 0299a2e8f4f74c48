//! One operation of an OpenAPI description.

use http_caller::{AuthConfig, EndpointConfig, QueryValue};
use serde_json::{Map, Value, json};
use tool_http::HttpToolFile;

use super::openapi::OpenApiOptions;
use super::schema::Schemas;
use super::security::auth_of;
use super::unique;
use crate::fields::Ledger;

/// Longest description, in characters.
const MAX_DESCRIPTION: usize = 1024;

/// Headers that a description may not declare as parameters, or that the client sets itself.
const IGNORED_HEADERS: [&str; 3] = ["accept", "content-type", "authorization"];

/// Name of the parameter that is the body.
const BODY: &str = "body";

/// An operation and where it stands.
pub(super) struct Operation<'d> {
    pub(super) ledger: &'d Ledger<'d>,
    pub(super) item: &'d Value,
    pub(super) about: &'d Value,
    pub(super) method: &'d str,
    pub(super) path: &'d str,
    pub(super) name: &'d str,
}

/// The tool, or why there is none.
pub(super) fn read(
    operation: &Operation<'_>,
    options: &OpenApiOptions,
    notes: &mut Vec<String>,
) -> Result<HttpToolFile, String> {
    if operation.method == "trace" {
        return Err("the method TRACE cannot be called".into());
    }
    let mut schemas = Schemas::new(operation.ledger);
    let auth = auth_of(&schemas, operation.about, notes);
    let mut builder = Builder {
        schemas: &mut schemas,
        notes,
        properties: Map::new(),
        required: Vec::new(),
        endpoint: EndpointConfig {
            method: Some(operation.method.to_ascii_uppercase()),
            ..EndpointConfig::default()
        },
        path: Vec::new(),
    };
    for parameter in parameters(operation) {
        let parameter = builder.schemas.resolved(parameter).ok_or("a parameter's reference leads nowhere")?;
        builder.parameter(parameter, auth.as_ref())?;
    }
    builder.body(operation)?;
    let server = server(operation, options)?;
    builder.endpoint.url = builder.url(&server, operation.path);
    let Builder { properties, required, endpoint, .. } = builder;
    let parameters = json!({"type": "object", "properties": properties, "required": required});
    let parameters = schemas.close(parameters)?;
    notes.append(&mut schemas.notes);
    let tool = HttpToolFile::new(operation.name, description(operation), parameters, endpoint);
    Ok(HttpToolFile { auth, ..tool })
}

/// Those of the operation, then those of the path that it does not declare anew.
fn parameters<'d>(operation: &Operation<'d>) -> Vec<&'d Value> {
    let list = |value: &'d Value| value.get("parameters").and_then(Value::as_array).into_iter().flatten();
    let schemas = Schemas::new(operation.ledger);
    let key = |parameter: &'d Value| {
        schemas.resolved(parameter).map(|parameter| (parameter.get("name"), parameter.get("in")))
    };
    let own: Vec<&Value> = list(operation.about).collect();
    let inherited = list(operation.item).filter(|one| own.iter().all(|other| key(one) != key(other)));
    let inherited: Vec<&Value> = inherited.collect();
    own.into_iter().chain(inherited).collect()
}

fn description(operation: &Operation<'_>) -> String {
    let text =
        |key: &str| operation.ledger.view(operation.about).word(key).map(str::trim).unwrap_or_default();
    let (summary, long) = (text("summary"), text("description"));
    let joined = match (summary, long) {
        ("", "") => format!("{} {}", operation.method.to_ascii_uppercase(), operation.path),
        (one, "") | ("", one) => one.to_owned(),
        (summary, long) if long.starts_with(summary) => long.to_owned(),
        (summary, long) => format!("{summary}\n{long}"),
    };
    joined.chars().take(MAX_DESCRIPTION).collect()
}

/// The address before the path: that of the operation, the path item or the document, with the defaults of its variables.
fn server(operation: &Operation<'_>, options: &OpenApiOptions) -> Result<String, String> {
    if let Some(server) = &options.server {
        return Ok(server.trim_end_matches('/').to_owned());
    }
    let servers = [operation.about, operation.item, operation.ledger.document()];
    let server = servers.into_iter().find_map(|holder| holder.get("servers")?.as_array()?.first());
    let server = server.ok_or("the description names no server; give one with --server")?;
    ["url", "variables"].iter().filter_map(|name| server.get(name)).for_each(|part| {
        operation.ledger.mapped(part);
    });
    let mut url = server.get("url").and_then(Value::as_str).unwrap_or_default().to_owned();
    for (name, variable) in server.get("variables").and_then(Value::as_object).into_iter().flatten() {
        if let Some(default) = variable.get("default").and_then(Value::as_str).filter(|text| !text.is_empty())
        {
            url = url.replace(&format!("{{{name}}}"), default);
        }
    }
    if url.contains(['{', '}']) {
        return Err(format!("the server `{url}` has a variable without a default; give one with --server"));
    }
    if !url.starts_with("http://") && !url.starts_with("https://") {
        return Err(format!("the server `{url}` is not a whole address; give one with --server"));
    }
    // A query of a server's address belongs behind the path.
    let url = url.split(['?', '#']).next().unwrap_or_default();
    Ok(url.trim_end_matches('/').to_owned())
}

struct Builder<'b, 'd> {
    schemas: &'b mut Schemas<'d>,
    notes: &'b mut Vec<String>,
    properties: Map<String, Value>,
    required: Vec<Value>,
    endpoint: EndpointConfig,
    /// Names in the path, and the parameters that fill them.
    path: Vec<(String, String)>,
}

impl<'d> Builder<'_, 'd> {
    /// A new parameter of the tool; gives its placeholder.
    fn declare(&mut self, name: &str, place: &str, schema: Value, is_required: bool) -> String {
        let plain: String = name.chars().map(|c| if matches!(c, '{' | '}') { '_' } else { c }).collect();
        let plain = plain.trim();
        let is_reserved = plain.is_empty() || plain.starts_with("$ctx.") || plain.starts_with("$secret.");
        let wanted =
            if is_reserved { format!("{place}_{}", plain.trim_start_matches('$')) } else { plain.to_owned() };
        let is_taken = |name: &str| self.properties.contains_key(name);
        let own = if is_taken(&wanted) { unique(format!("{wanted}_{place}"), is_taken) } else { wanted };
        if own != name {
            self.notes.push(format!("the {place} parameter `{name}` is called `{own}`"));
        }
        self.properties.insert(own.clone(), schema);
        if is_required {
            self.required.push(own.clone().into());
        }
        own
    }

    fn parameter(&mut self, parameter: &'d Value, auth: Option<&AuthConfig>) -> Result<(), String> {
        let word = |key: &str| parameter.get(key).and_then(Value::as_str).unwrap_or_default();
        let (name, place) = (word("name"), word("in"));
        for key in ["name", "in", "required", "style", "explode", "description"] {
            parameter.get(key).into_iter().for_each(|part| self.schemas.ledger().mapped(part));
        }
        let is_required = place == "path" || parameter.get("required") == Some(&Value::Bool(true));
        if name.is_empty() || is_credential(name, place, auth) {
            return Ok(());
        }
        let result = match place {
            "path" => self.path_parameter(name, parameter),
            "query" => self.query_parameter(name, parameter, is_required),
            "header" => self.header_parameter(name, parameter, is_required),
            "cookie" => Err("cookies cannot be sent as parameters".into()),
            other => Err(format!("`in: {other}` is not a location of parameters")),
        };
        match result {
            Err(reason) if is_required => Err(format!("the {place} parameter `{name}`: {reason}")),
            Err(reason) => {
                self.notes.push(format!("the {place} parameter `{name}` was left out: {reason}"));
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// The schema of a parameter, with its description.
    fn schema_of(&mut self, parameter: &'d Value) -> Result<Value, String> {
        let inside =
            parameter.get("content").and_then(Value::as_object).and_then(|content| content.iter().next());
        let schema = match (parameter.get("schema"), inside) {
            (Some(schema), _) => self.schemas.read(schema),
            (None, Some((media, content))) if media.contains("json") => {
                let schema =
                    content.get("schema").map_or_else(|| json!({}), |schema| self.schemas.read(schema));
                if is_list(&schema) {
                    return Err("a list as JSON text is not supported".into());
                }
                schema
            }
            (None, Some((media, _))) => return Err(format!("a value of type {media} is not supported")),
            (None, None) => json!({}),
        };
        let about = parameter
            .get("description")
            .and_then(Value::as_str)
            .map(str::trim)
            .filter(|text| !text.is_empty());
        Ok(match (schema, about) {
            (Value::Object(mut schema), Some(about)) => {
                schema.insert("description".into(), about.into());
                Value::Object(schema)
            }
            (schema, _) => schema,
        })
    }

    fn path_parameter(&mut self, name: &str, parameter: &'d Value) -> Result<(), String> {
        if let Some(style @ ("matrix" | "label")) = parameter.get("style").and_then(Value::as_str) {
            return Err(format!("the style {style} is not supported"));
        }
        let mut schema = self.schema_of(parameter)?;
        // A path has no default: what is absent would be a part of it that is missing.
        if let Some(object) = schema.as_object_mut() {
            object.shift_remove("default");
        }
        let own = self.declare(name, "path", schema, true);
        self.path.push((name.to_owned(), own));
        Ok(())
    }

    fn header_parameter(
        &mut self,
        name: &str,
        parameter: &'d Value,
        is_required: bool,
    ) -> Result<(), String> {
        let schema = self.schema_of(parameter)?;
        if self.endpoint.headers.keys().any(|known| known.eq_ignore_ascii_case(name)) {
            return Err("it is declared twice".into());
        }
        let own = self.declare(name, "header", schema, is_required);
        self.endpoint.headers.insert(name.to_owned(), format!("{{{own}}}"));
        Ok(())
    }

    fn query_parameter(&mut self, name: &str, parameter: &'d Value, is_required: bool) -> Result<(), String> {
        let schema = self.schema_of(parameter)?;
        let style = parameter.get("style").and_then(Value::as_str).unwrap_or("form");
        let explode = parameter.get("explode").and_then(Value::as_bool).unwrap_or(style == "form");
        let resolved = self.resolved_schema(parameter);
        let members: Vec<String> = resolved
            .and_then(|schema| schema.get("properties")?.as_object())
            .map(|members| members.keys().cloned().collect())
            .unwrap_or_default();
        let is_object =
            resolved.is_some_and(|schema| schema.get("type").is_some_and(|kind| kind == "object"));
        let is_list = is_list(&schema) || resolved.is_some_and(is_list);
        if parameter.get("schema").is_some() && (is_object || style == "deepObject") {
            return self.object_in_query(name, schema, &members, style, explode, is_required);
        }
        if is_list && matches!(style, "spaceDelimited" | "pipeDelimited") && !explode {
            return Err(format!("the style {style} is not supported"));
        }
        if self.endpoint.query_params.contains_key(name) {
            return Err("it is declared twice".into());
        }
        let own = self.declare(name, "query", schema, is_required);
        let text = Value::from(format!("{{{own}}}"));
        let value = if is_list && explode { QueryValue::Each(vec![text]) } else { QueryValue::One(text) };
        self.endpoint.query_params.insert(name.to_owned(), value);
        Ok(())
    }

    /// The members of an object are pairs of their own: `name[member]`, or `member` alone.
    fn object_in_query(
        &mut self,
        name: &str,
        schema: Value,
        members: &[String],
        style: &str,
        explode: bool,
        is_required: bool,
    ) -> Result<(), String> {
        if members.is_empty() {
            return Err("an object whose members are not declared cannot stand in a query".into());
        }
        if members.iter().any(|member| member.contains(['{', '}', '.'])) {
            return Err("a member's name cannot stand in a placeholder".into());
        }
        let pair = |member: &String| match (style, explode) {
            ("deepObject", _) => Some(format!("{name}[{member}]")),
            ("form", true) => Some(member.clone()),
            _ => None,
        };
        let pairs: Option<Vec<String>> = members.iter().map(pair).collect();
        let pairs = pairs.ok_or_else(|| format!("an object of the style {style} is not supported"))?;
        if pairs.iter().any(|pair| self.endpoint.query_params.contains_key(pair)) {
            return Err("one of its members is declared twice".into());
        }
        let own = self.declare(name, "query", schema, is_required);
        for (pair, member) in pairs.into_iter().zip(members) {
            let text = Value::from(format!("{{{own}.{member}}}"));
            self.endpoint.query_params.insert(pair, QueryValue::One(text));
        }
        Ok(())
    }

    fn resolved_schema(&self, parameter: &'d Value) -> Option<&'d Value> {
        self.schemas.resolved(parameter.get("schema")?)
    }

    fn body(&mut self, operation: &Operation<'d>) -> Result<(), String> {
        let Some(body) = operation.about.get("requestBody") else { return Ok(()) };
        let body = self.schemas.resolved(body).ok_or("the reference of its body leads nowhere")?;
        body.get("required").into_iter().for_each(|required| self.schemas.ledger().mapped(required));
        let is_required = body.get("required") == Some(&Value::Bool(true));
        let content: Vec<(&String, &Value)> =
            body.get("content").and_then(Value::as_object).into_iter().flatten().collect();
        let chosen = content
            .iter()
            .filter_map(|(media, content)| Some((rank(media)?, *media, *content)))
            .min_by_key(|(rank, ..)| *rank);
        let Some((_, media, content)) = chosen else {
            let media: Vec<&str> = content.iter().map(|(media, _)| media.as_str()).collect();
            let reason = format!("a body of type {} cannot be sent", media.join(", "));
            return if is_required || !content.is_empty() { Err(reason) } else { Ok(()) };
        };
        if matches!(operation.method, "get" | "head") {
            let reason = format!("a {} has no body", operation.method.to_ascii_uppercase());
            if is_required {
                return Err(reason);
            }
            self.notes.push(format!("the body was left out: {reason}"));
            return Ok(());
        }
        let schema = content.get("schema");
        match rank(media) {
            Some(FORM) => self.form(schema, media, is_required)?,
            Some(TEXT) => {
                schema.into_iter().for_each(|schema| self.schemas.ledger().mapped(schema));
                let own = self.declare(
                    BODY,
                    "body",
                    json!({"type": "string", "description": format!("the whole body, {media}")}),
                    is_required,
                );
                self.endpoint.headers.insert("Content-Type".into(), media.clone());
                self.endpoint.body = Some(format!("{{{own}}}").into());
            }
            _ => {
                let schema = schema.map_or_else(|| json!({}), |schema| self.schemas.read(schema));
                let own = self.declare(BODY, "body", schema, is_required);
                if !matches!(media.as_str(), "application/json" | "*/*") {
                    self.endpoint.headers.insert("Content-Type".into(), media.clone());
                }
                self.endpoint.body = Some(format!("{{{own}}}").into());
            }
        }
        Ok(())
    }

    /// A form has a pair for each declared member.
    fn form(&mut self, schema: Option<&'d Value>, media: &str, is_required: bool) -> Result<(), String> {
        let resolved = schema.and_then(|schema| self.schemas.resolved(schema));
        let members = resolved.and_then(|schema| schema.get("properties")?.as_object());
        let members =
            members.filter(|members| !members.is_empty()).ok_or("a form whose members are not declared")?;
        if members.keys().any(|member| member.contains(['{', '}', '.'])) {
            return Err("a member's name cannot stand in a placeholder".into());
        }
        let read = schema.map_or_else(|| json!({}), |schema| self.schemas.read(schema));
        let own = self.declare(BODY, "body", read, is_required);
        let pairs = members.keys().map(|member| (member.clone(), Value::from(format!("{{{own}.{member}}}"))));
        self.endpoint.body = Some(Value::Object(pairs.collect()));
        self.endpoint.headers.insert("Content-Type".into(), media.to_owned());
        Ok(())
    }

    /// Joins server and path; a name in the path that is not declared becomes a parameter.
    fn url(&mut self, server: &str, path: &str) -> String {
        // What stands behind `#` only tells operations apart.
        let path = path.split('#').next().unwrap_or_default();
        let mut url = server.to_owned();
        if !path.starts_with('/') {
            url.push('/');
        }
        let mut rest = path;
        while let Some(at) = rest.find('{') {
            let Some(end) = rest[at..].find('}').map(|end| at + end) else { break };
            url.push_str(&rest[..at]);
            let name = &rest[at + 1..end];
            let known = self.path.iter().find(|(declared, _)| declared == name).map(|(_, own)| own.clone());
            let own = known.unwrap_or_else(|| {
                self.notes.push(format!("the path names `{name}`, which is not declared: a text"));
                let own = self.declare(name, "path", json!({"type": "string"}), true);
                self.path.push((name.to_owned(), own.clone()));
                own
            });
            url.extend(["{", &own, "}"]);
            rest = &rest[end + 1..];
        }
        url.push_str(&rest.replace('{', "{{").replace('}', "}}"));
        url
    }
}

/// Returns `true` when the credentials of the operation fill it, or the client does.
fn is_credential(name: &str, place: &str, auth: Option<&AuthConfig>) -> bool {
    match (place, auth) {
        ("header", _) if IGNORED_HEADERS.iter().any(|own| name.eq_ignore_ascii_case(own)) => true,
        ("header", Some(AuthConfig::Header { name: own, .. })) => name.eq_ignore_ascii_case(own),
        ("query", Some(AuthConfig::Query { name: own, .. })) => name == own,
        _ => false,
    }
}

const JSON: u8 = 0;
const FORM: u8 = 2;
const TEXT: u8 = 3;

/// Rank of a media type for a body, best first; `None` where it cannot be sent.
fn rank(media: &str) -> Option<u8> {
    let plain = media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match plain.as_str() {
        "application/json" => Some(JSON),
        "*/*" => Some(1),
        json if json.ends_with("+json") || json == "text/json" => Some(1),
        "application/x-www-form-urlencoded" => Some(FORM),
        "application/xml" | "application/graphql" => Some(TEXT),
        text if text.starts_with("text/") || text.ends_with("+xml") => Some(TEXT),
        _ => None,
    }
}

fn is_list(schema: &Value) -> bool {
    match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "array"),
        Some(kind) => kind == "array",
        None => schema.get("items").is_some(),
    }
}

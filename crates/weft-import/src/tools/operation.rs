//! One operation of an OpenAPI description.

use http_caller::{AuthConfig, EndpointConfig, QueryStyle, QueryValue, StyledValue};
use serde_json::{Map, Value, json};
use tool_http::HttpToolFile;

use super::openapi::OpenApiOptions;
use super::schema::Schemas;
use super::security::auth_of;
use super::style::{Form, query_style};
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
        let resolved = builder.schemas.resolved(parameter);
        let parameter = resolved.map_err(|reason| format!("a parameter's reference {reason}"))?;
        builder.parameter(parameter, operation.path, auth.as_ref())?;
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
        schemas.resolved(parameter).ok().map(|parameter| (parameter.get("name"), parameter.get("in")))
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

    fn parameter(
        &mut self,
        parameter: &'d Value,
        path: &str,
        auth: Option<&AuthConfig>,
    ) -> Result<(), String> {
        let word = |key: &str| parameter.get(key).and_then(Value::as_str).unwrap_or_default();
        let (name, place) = (word("name"), word("in"));
        for key in ["name", "in", "required", "style", "explode", "description"] {
            parameter.get(key).into_iter().for_each(|part| self.schemas.ledger().mapped(part));
        }
        let is_required = place == "path" || parameter.get("required") == Some(&Value::Bool(true));
        if name.is_empty() || is_credential(name, place, auth) {
            return Ok(());
        }
        if place == "path" && !path.contains(&format!("{{{name}}}")) {
            self.notes.push(format!("the path parameter `{name}` was left out: the path does not hold it"));
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
                content.get("schema").map_or_else(|| json!({}), |schema| self.schemas.read(schema))
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
        let star = self.simple_style(name, parameter)?;
        let own = self.declare(name, "path", schema, true);
        self.path.push((name.to_owned(), format!("{own}{star}")));
        Ok(())
    }

    /// Checks that the style `simple` has a form for the values; gives the mark of exploded objects.
    fn simple_style(&mut self, name: &str, parameter: &'d Value) -> Result<&'static str, String> {
        let form = self.form_of(parameter)?;
        if parameter.get("schema").is_none() && form != Form::Plain {
            return Err("a list or an object as JSON text is supported in a query only".into());
        }
        self.note_nested(name, &form);
        let is_exploded = parameter.get("explode") == Some(&Value::Bool(true));
        Ok(if is_exploded && matches!(form, Form::Object { .. }) { "*" } else { "" })
    }

    /// The form of a parameter's values.
    fn form_of(&self, parameter: &'d Value) -> Result<Form, String> {
        let inside = || parameter.get("content")?.as_object()?.values().next()?.get("schema");
        let schema = parameter.get("schema").or_else(inside);
        schema.map_or(Ok(Form::Plain), |schema| Form::from_schema(self.schemas, schema))
    }

    fn note_nested(&mut self, name: &str, form: &Form) {
        if let Form::Object { nested } = form
            && !nested.is_empty()
        {
            let members = nested.join("`, `");
            self.notes
                .push(format!("members of `{name}` that are lists or objects cannot be sent: `{members}`"));
        }
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
        let star = self.simple_style(name, parameter)?;
        let own = self.declare(name, "header", schema, is_required);
        self.endpoint.headers.insert(name.to_owned(), format!("{{{own}{star}}}"));
        Ok(())
    }

    fn query_parameter(&mut self, name: &str, parameter: &'d Value, is_required: bool) -> Result<(), String> {
        let schema = self.schema_of(parameter)?;
        let style = parameter.get("style").and_then(Value::as_str).unwrap_or("form");
        let explode = parameter.get("explode").and_then(Value::as_bool).unwrap_or(style == "form");
        let form = self.form_of(parameter)?;
        let own_style = query_style(style)?;
        if self.endpoint.query_params.contains_key(name) {
            return Err("it is declared twice".into());
        }
        if parameter.get("schema").is_some() {
            self.note_nested(name, &form);
        }
        let own = self.declare(name, "query", schema, is_required);
        let text = format!("{{{own}}}");
        let styled = |style, explode| QueryValue::Styled(StyledValue { value: text.clone(), style, explode });
        let value = match (&form, own_style) {
            _ if parameter.get("schema").is_none() && parameter.get("content").is_some() => {
                styled(QueryStyle::Json, None)
            }
            (_, QueryStyle::DeepObject) => styled(QueryStyle::DeepObject, None),
            (Form::Object { .. }, style) => styled(style, Some(explode)),
            (Form::List, _) if explode => QueryValue::Each(vec![text.into()]),
            (Form::List, QueryStyle::SpaceDelimited | QueryStyle::PipeDelimited) => styled(own_style, None),
            (Form::List | Form::Plain, _) => QueryValue::One(text.into()),
        };
        self.endpoint.query_params.insert(name.to_owned(), value);
        Ok(())
    }

    fn body(&mut self, operation: &Operation<'d>) -> Result<(), String> {
        let Some(body) = operation.about.get("requestBody") else { return Ok(()) };
        let resolved = self.schemas.resolved(body);
        let body = resolved.map_err(|reason| format!("the reference of its body {reason}"))?;
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
        if operation.method == "head" {
            let reason = "a HEAD has no body".to_owned();
            if is_required {
                return Err(reason);
            }
            self.notes.push(format!("the body was left out: {reason}"));
            return Ok(());
        }
        let schema = content.get("schema");
        match rank(media) {
            Some(FORM) => self.form(content, media, is_required)?,
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

    /// A form has a pair for each member.
    fn form(&mut self, content: &'d Value, media: &str, is_required: bool) -> Result<(), String> {
        let schema = content.get("schema");
        let resolved = schema.and_then(|schema| self.schemas.resolved(schema).ok());
        if resolved.is_some_and(|schema| schema.get("type").is_some_and(|kind| kind != "object")) {
            return Err("a form whose value is not an object".into());
        }
        let encodings = content.get("encoding").and_then(Value::as_object).into_iter().flatten();
        for (member, encoding) in encodings {
            if let Some(style) =
                encoding.get("style").and_then(Value::as_str).filter(|style| *style != "form")
            {
                return Err(format!("the style {style} of the member `{member}` of a form is not supported"));
            }
            if encoding.get("explode") == Some(&Value::Bool(false)) {
                return Err(format!("the member `{member}` of a form cannot be one pair (`explode: false`)"));
            }
            self.schemas.ledger().mapped(encoding);
        }
        let read = schema.map_or_else(|| json!({"type": "object"}), |schema| self.schemas.read(schema));
        let own = self.declare(BODY, "body", read, is_required);
        self.endpoint.body = Some(format!("{{{own}}}").into());
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

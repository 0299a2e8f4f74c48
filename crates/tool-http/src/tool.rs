//! The tool of a file.

use std::collections::BTreeSet;

use agent_types::{Annotations, EventBody, ToolDefinition};
use async_trait::async_trait;
use http_caller::{CallValues, Endpoint, HttpCaller, HttpError, Scope};
use serde_json::{Map, Value, json};
use tool_registry::{
    FaultOrigin, Tool, ToolContext, ToolError, ToolErrorKind, ToolHandler, ToolKind, ToolOutput, ToolSettings,
};
use tool_schema::{OfferedParameters, no_parameters};

use crate::error::HttpToolError;
use crate::file::HttpToolFile;

/// Beginning of a secret's name in a template.
const SECRET: &str = "{$secret.";

/// Kind of HTTP tools.
pub const HTTP: ToolKind = ToolKind::foreign("http");

/// The tool of a file. `GET`, `HEAD` and `OPTIONS` are read-only, other methods are effects and ask.
///
/// # Errors
/// Whatever keeps it from being called: everything is checked here, not at the call.
pub fn http_tool(file: &HttpToolFile, caller: &HttpCaller) -> Result<Tool, HttpToolError> {
    let id: agent_types::ToolId = file.name.parse()?;
    let declared = file.parameters.clone().unwrap_or_else(no_parameters);
    let OfferedParameters { schema, defaults, .. } = OfferedParameters::new(declared.clone(), &file.context)?;
    let endpoint = Endpoint::new(&file.call_config(), &Scope::new(&declared, &file.context))?;
    let mut definition = ToolDefinition::new(id, file.description.as_str(), schema);
    definition.defaults.clone_from(&defaults);
    definition.annotations = Annotations {
        read_only: endpoint.is_read_only(),
        effect: !endpoint.is_read_only(),
        idempotent: endpoint.is_idempotent(),
        open_world: true,
    };
    let settings = ToolSettings::default().with_timeout(endpoint.timeout());
    let handler = HttpHandler { endpoint, caller: caller.clone(), defaults };
    Ok(Tool::new(definition, HTTP, handler).with_settings(settings).with_parts(parts(file)).checked()?)
}

/// Parts of what a call does: those of the request, and the secrets that it names.
fn parts(file: &HttpToolFile) -> Vec<(String, Value)> {
    let endpoint = serde_json::to_value(&file.endpoint).unwrap_or_default();
    let mut parts: Vec<(String, Value)> = match endpoint {
        Value::Object(endpoint) => endpoint.into_iter().filter(|(_, part)| !part.is_null()).collect(),
        other => vec![("endpoint".to_owned(), other)],
    };
    let whole = json!({"endpoint": file.endpoint, "auth": file.auth}).to_string();
    let secrets: BTreeSet<&str> =
        whole.split(SECRET).skip(1).filter_map(|rest| rest.split_once('}').map(|(name, _)| name)).collect();
    if !secrets.is_empty() {
        parts.push(("secrets".to_owned(), json!(secrets)));
    }
    parts.extend(file.auth.as_ref().map(|auth| ("auth".to_owned(), json!(auth))));
    if !file.context.is_empty() {
        parts.push(("context".to_owned(), json!(file.context)));
    }
    parts
}

struct HttpHandler {
    endpoint: Endpoint,
    caller: HttpCaller,
    defaults: Map<String, Value>,
}

#[async_trait]
impl ToolHandler for HttpHandler {
    async fn call(
        &self,
        mut arguments: Map<String, Value>,
        cx: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        for (name, value) in &self.defaults {
            arguments.entry(name.as_str()).or_insert_with(|| value.clone());
        }
        let values = CallValues { arguments: &arguments, context: &cx.values };
        let answer = self.caller.call(&self.endpoint, values).await.map_err(|error| tool_error(&error))?;
        for message in answer.warnings {
            cx.emit(EventBody::AgentWarning { kind: "http_answer".into(), message });
        }
        Ok(match answer.body {
            Value::String(text) => ToolOutput::Text(text),
            body => ToolOutput::Json(body),
        })
    }
}

/// The same failure in the words of tools.
fn tool_error(error: &HttpError) -> ToolError {
    let kind = match error {
        HttpError::BadArgument { .. } | HttpError::BadHeaderValue { .. } => ToolErrorKind::InvalidArguments,
        HttpError::Timeout { .. } => ToolErrorKind::Timeout,
        HttpError::MissingContext { .. }
        | HttpError::MissingSecret { .. }
        | HttpError::SecretNotAllowed { .. }
        | HttpError::Blocked { .. } => ToolErrorKind::Refused,
        _ => ToolErrorKind::Failed,
    };
    let mut failed =
        ToolError::new(kind, error.to_string()).with_code(error.code()).retryable(error.is_retryable());
    if let HttpError::Status { retry_after, status, .. } = error {
        failed.retry_after = *retry_after;
        failed = failed.with_origin(FaultOrigin { status: Some(*status), ..FaultOrigin::default() });
    }
    match error.help() {
        Some(help) => failed.with_detail(help),
        None => failed,
    }
}

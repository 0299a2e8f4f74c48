//! The tool of a file.

use std::collections::BTreeSet;
use std::time::Duration;

use agent_types::{Annotations, EventBody, ToolDefinition};
use async_trait::async_trait;
use http_caller::{CallValues, Endpoint, HttpCaller, Scope};
use serde_json::{Map, Value, json};
use tool_registry::{Answer, Tool, ToolContext, ToolError, ToolHandler, ToolKind, ToolOutput, ToolSettings};
use tool_schema::{OfferedParameters, no_parameters};

use crate::async_config::AsyncConfig;
use crate::callback::CallbackWait;
use crate::error::HttpToolError;
use crate::failure::tool_error;
use crate::file::HttpToolFile;
use crate::polling::Polling;

/// Beginning of a secret's name in a template.
const SECRET: &str = "{$secret.";

/// Time within which the end of a wait for a callback is seen.
const SEEN: Duration = Duration::from_secs(5);

/// Kind of HTTP tools.
pub const HTTP: ToolKind = ToolKind::foreign("http");

/// The tool of a file. `GET`, `HEAD` and `OPTIONS` are read-only, other methods are effects and ask.
///
/// # Errors
/// Whatever keeps it from being called: everything is checked here, not at the call.
pub fn http_tool(file: &HttpToolFile, caller: &HttpCaller) -> Result<Tool, HttpToolError> {
    let id: agent_types::ToolId = file.name.parse()?;
    let declared = file.parameters.clone().unwrap_or_else(no_parameters);
    let context = file.hidden_names();
    let OfferedParameters { schema, defaults, .. } = OfferedParameters::new(declared.clone(), &context)?;
    let endpoint = Endpoint::new(&file.call_config(), &Scope::new(&declared, &context))?;
    let mut definition = ToolDefinition::new(id, file.description.as_str(), schema);
    definition.defaults.clone_from(&defaults);
    definition.annotations = Annotations {
        read_only: endpoint.is_read_only(),
        effect: !endpoint.is_read_only(),
        idempotent: endpoint.is_idempotent(),
        open_world: true,
    };
    let later = file.asynchronous.as_ref().map(|config| Later::new(config, file)).transpose()?;
    let settings = match &later {
        Some(later) => ToolSettings::default().with_timeout(later.limit()).with_answer(Answer::Handle),
        None => ToolSettings::default().with_timeout(endpoint.timeout()),
    };
    let handler = HttpHandler { endpoint, caller: caller.clone(), defaults, later };
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
    parts.extend(file.asynchronous.as_ref().map(|later| ("async".to_owned(), json!(later))));
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
    /// Work that continues after the answer.
    later: Option<Later>,
}

/// Ways to learn of the end of work that continues.
enum Later {
    /// It is polled.
    Polled(Box<Polling>),
    /// The other system reports it.
    Reported(Box<CallbackWait>),
}

impl Later {
    fn new(config: &AsyncConfig, file: &HttpToolFile) -> Result<Self, HttpToolError> {
        Ok(match &config.callback {
            Some(callback) => Self::Reported(Box::new(CallbackWait::new(callback, config, file)?)),
            None => Self::Polled(Box::new(Polling::new(config, file)?)),
        })
    }

    fn limit(&self) -> Duration {
        match self {
            Self::Polled(polling) => polling.limit,
            // The wait ends with its own error, not with that of the call.
            Self::Reported(wait) => wait.limit.saturating_add(SEEN),
        }
    }
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
        let answer = match &self.later {
            Some(Later::Polled(polling)) => {
                let first = self.endpoint.unshaped();
                let start = self.caller.call(&first, values);
                polling.result(&self.endpoint, &self.caller, start, cx).await?
            }
            Some(Later::Reported(wait)) => wait.result(&self.endpoint, &self.caller, &arguments, cx).await?,
            None => self.caller.call(&self.endpoint, values).await.map_err(|error| tool_error(&error))?,
        };
        for message in answer.warnings {
            cx.emit(EventBody::AgentWarning { kind: "http_answer".into(), message });
        }
        Ok(match answer.body {
            Value::String(text) => ToolOutput::Text(text),
            body => ToolOutput::Json(body),
        })
    }

    fn resumes(&self) -> bool {
        self.later.is_some()
    }
}

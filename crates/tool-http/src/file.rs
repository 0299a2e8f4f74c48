//! Format of a `*.tool.json` file.

use http_caller::{AuthConfig, CallConfig, EndpointConfig, ResponseConfig, RetryConfig};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tool_registry::files::from_json;

use crate::async_config::AsyncConfig;
use crate::error::HttpToolError;

/// A `*.tool.json` file: an HTTP endpoint that a model may call. A key that is not known is an error.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HttpToolFile {
    /// The id of the tool, as agents list it.
    pub name: String,
    /// Purpose of the tool, for the model.
    pub description: String,
    /// JSON Schema (2020-12) of the arguments, an object; absent, there are none. A `default` is applied before the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Value>,
    /// The request.
    pub endpoint: EndpointConfig,
    /// Names that are context values: the model can neither see nor set them, and they win over arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub context: Vec<String>,
    /// Handling of the response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<ResponseConfig>,
    /// Authentication of calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<AuthConfig>,
    /// Retries of a failed call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryConfig>,
    /// Work that continues after the answer: the call is a task, whose result is polled or reported.
    #[serde(default, rename = "async", skip_serializing_if = "Option::is_none")]
    pub asynchronous: Option<AsyncConfig>,
}

impl HttpToolFile {
    /// A tool with these parameters (a JSON Schema) and this request.
    #[must_use]
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
        parameters: Value,
        endpoint: EndpointConfig,
    ) -> Self {
        let (name, description, parameters) = (name.into(), description.into(), Some(parameters));
        Self {
            name,
            description,
            parameters,
            endpoint,
            context: Vec::new(),
            response: None,
            auth: None,
            retry: None,
            asynchronous: None,
        }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// Invalid JSON, or an unknown key (with a suggestion), with line and column.
    pub fn from_json(text: &str) -> Result<Self, HttpToolError> {
        Ok(from_json(text)?)
    }

    /// The file as text.
    ///
    /// # Errors
    /// None in practice: everything in it is JSON.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// Names that the model can neither see nor set: the context values, and the address of a callback.
    pub(crate) fn hidden_names(&self) -> Vec<String> {
        let callback = self.asynchronous.as_ref().and_then(|config| config.callback.as_ref());
        self.context.iter().chain(callback.map(|callback| &callback.name)).cloned().collect()
    }

    pub(crate) fn call_config(&self) -> CallConfig {
        CallConfig {
            endpoint: self.endpoint.clone(),
            auth: self.auth.clone(),
            retry: self.retry,
            response: self.response.clone().unwrap_or_default(),
        }
    }
}

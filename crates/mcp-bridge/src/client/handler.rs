//! Notifications and requests that a server may send.
#![expect(deprecated, reason = "servers of today still log")]

use std::sync::Arc;

use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction, Implementation,
    LoggingLevel, LoggingMessageNotificationParam, ProgressNotificationParam, ProtocolVersion,
};
use rmcp::service::{NotificationContext, Peer, RequestContext};
use rmcp::{ClientHandler, ErrorData, RoleClient};
use serde_json::{Map, Value};

use super::foreign::harmless;
use super::listed::Listed;
use super::listing::list_tools;
use super::progress::Progress;
use super::settings::ElicitationPolicy;

/// Longest log line of a server, in characters.
const MAX_LINE: usize = 2000;

/// Answers a server.
#[derive(Debug, Clone)]
pub(super) struct Handler {
    pub(super) server: Arc<str>,
    pub(super) version: ProtocolVersion,
    pub(super) elicitation: ElicitationPolicy,
    pub(super) listed: Arc<Listed>,
    pub(super) progress: Arc<Progress>,
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        if self.elicitation == ElicitationPolicy::Defaults {
            capabilities = ClientCapabilities::builder().enable_elicitation().build();
        }
        ClientConfig::new(capabilities, Implementation::new("weft", env!("CARGO_PKG_VERSION")))
            .with_protocol_version(self.version.clone())
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let content = match (self.elicitation, &request) {
            (
                ElicitationPolicy::Defaults,
                ElicitRequestParams::FormElicitationParams { requested_schema, .. },
            ) => defaults(&serde_json::to_value(requested_schema).unwrap_or_default()),
            _ => None,
        };
        Ok(match content {
            Some(content) => {
                ElicitResult::new(ElicitationAction::Accept).with_content(Value::Object(content))
            }
            None => ElicitResult::new(ElicitationAction::Decline),
        })
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.progress.record(params);
    }

    async fn on_logging_message(
        &self,
        params: LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let text = match &params.data {
            Value::String(text) => harmless(text, MAX_LINE),
            other => harmless(&other.to_string(), MAX_LINE),
        };
        let level = match params.level {
            LoggingLevel::Debug => log::Level::Debug,
            LoggingLevel::Info | LoggingLevel::Notice => log::Level::Info,
            LoggingLevel::Warning => log::Level::Warn,
            _ => log::Level::Error,
        };
        log::log!(target: "mcp", level, "{}: {text}", self.server);
    }

    async fn on_tool_list_changed(&self, context: NotificationContext<RoleClient>) {
        self.list(&context.peer).await;
    }
}

impl Handler {
    /// Reads the list of tools anew. One that cannot be read leaves the list as it was.
    pub(super) async fn list(&self, peer: &Peer<RoleClient>) {
        match list_tools(peer).await {
            Ok(listing) => self.listed.take(&self.server, listing),
            Err(error) => log::warn!(target: "mcp", "{}: its tools cannot be listed: {error}", self.server),
        }
    }
}

/// Defaults of the requested fields; `None` if a required one has no default.
fn defaults(schema: &Value) -> Option<Map<String, Value>> {
    let properties = schema["properties"].as_object()?;
    let given: Map<String, Value> = properties
        .iter()
        .filter_map(|(name, property)| Some((name.clone(), property.get("default")?.clone())))
        .collect();
    let required = schema["required"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_given = |name: &Value| name.as_str().is_some_and(|name| given.contains_key(name));
    required.iter().all(is_given).then_some(given)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn defaults_answer_only_where_they_are_enough() {
        let properties = json!({"a": {"type": "string", "default": "x"}, "b": {"type": "integer"}});
        let schema = |required: Value| json!({"properties": properties, "required": required});
        assert_eq!(defaults(&schema(json!(["a"]))), json!({"a": "x"}).as_object().cloned());
        assert_eq!(defaults(&schema(json!(["b"]))), None);
    }
}

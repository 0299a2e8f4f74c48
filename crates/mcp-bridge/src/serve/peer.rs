//! Requests of a tool to the client that called it.
#![expect(deprecated, reason = "clients of today still know sampling")]

use std::fmt;

use rmcp::RoleServer;
use rmcp::model::{
    ClientCapabilities, CreateMessageRequestParams, ElicitRequestParams, ElicitationAction,
    ElicitationSchema, SamplingMessage,
};
use rmcp::service::Peer;
use serde_json::Value;
use tool_registry::ToolError;

/// Answer of a user to an elicitation.
#[derive(Debug, Clone, PartialEq)]
pub enum Elicited {
    /// This, which fits the schema as far as the client is right.
    Accepted(Value),
    /// No.
    Declined,
    /// Nothing.
    Cancelled,
}

/// The client that called a tool; tools find it among the services of their context.
#[derive(Clone)]
pub struct McpPeer {
    peer: Peer<RoleServer>,
    capabilities: Option<ClientCapabilities>,
}

impl fmt::Debug for McpPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpPeer").finish_non_exhaustive()
    }
}

impl McpPeer {
    pub(super) fn new(peer: Peer<RoleServer>, capabilities: Option<ClientCapabilities>) -> Self {
        Self { peer, capabilities }
    }

    /// Returns `true` if the client can ask its user.
    #[must_use]
    pub fn can_elicit(&self) -> bool {
        self.capabilities.as_ref().is_some_and(|client| client.elicitation.is_some())
    }

    /// Returns `true` if the client can ask its model.
    #[must_use]
    pub fn can_sample(&self) -> bool {
        self.capabilities.as_ref().is_some_and(|client| client.sampling.is_some())
    }

    /// Asks the client's user. The schema is an object of plain values.
    ///
    /// # Errors
    /// The client does not support elicitation, the schema does not suit it, or the client is gone.
    pub async fn elicit(&self, message: &str, schema: Value) -> Result<Elicited, ToolError> {
        if !self.can_elicit() {
            return Err(ToolError::failed("the client asks its user nothing").retryable(false));
        }
        let Value::Object(schema) = schema else {
            return Err(ToolError::failed("a question needs a schema that is an object").retryable(false));
        };
        let requested_schema = ElicitationSchema::from_json_schema(schema).map_err(|error| {
            ToolError::failed(format!("the schema of a question: {error}")).retryable(false)
        })?;
        let message = message.to_owned();
        let request = ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema };
        let answer = self.peer.create_elicitation(request).await.map_err(gone)?;
        Ok(match answer.action {
            ElicitationAction::Accept => Elicited::Accepted(answer.content.unwrap_or_default()),
            ElicitationAction::Decline => Elicited::Declined,
            _ => Elicited::Cancelled,
        })
    }

    /// Asks the client's model.
    ///
    /// # Errors
    /// The client has no model for tools, or is gone.
    pub async fn sample(&self, prompt: &str, max_tokens: u32) -> Result<String, ToolError> {
        if !self.can_sample() {
            return Err(ToolError::failed("the client has no model for tools").retryable(false));
        }
        let request = CreateMessageRequestParams::new(vec![SamplingMessage::user_text(prompt)], max_tokens);
        let answer = self.peer.create_message(request).await.map_err(gone)?;
        let value = serde_json::to_value(&answer.message).unwrap_or_default();
        let blocks = match &value["content"] {
            Value::Array(blocks) => blocks.clone(),
            one => vec![one.clone()],
        };
        let texts = blocks.iter().filter_map(|block| block["text"].as_str());
        Ok(texts.collect::<Vec<_>>().join("\n"))
    }
}

#[expect(clippy::needless_pass_by_value, reason = "so that `map_err` takes it by its name")]
fn gone(error: rmcp::ServiceError) -> ToolError {
    ToolError::failed(format!("the client did not answer: {error}"))
}

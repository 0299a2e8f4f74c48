//! Telling others, and ending.

use std::fmt;

use async_trait::async_trait;
use serde_json::Value;

use crate::dependency::Dep;
use crate::output::{ToolError, ToolOutput};
use crate::registry::RegistryError;
use crate::tool::Tool;

/// Where events of agents go: what wakes those that subscribe to them.
#[async_trait]
pub trait EventPublisher: Send + Sync + fmt::Debug {
    /// Takes an event; who hears of it is not known to the sender.
    ///
    /// # Errors
    /// It cannot be taken.
    async fn publish(&self, event: &str, payload: Value) -> Result<(), ToolError>;
}

/// Tells other agents that something happened.
/// * `event` - the name under which others wait for it
/// * `payload` - what they are told
#[tool_macros::tool(name = "system:publish_event", effect, approval = "auto")]
async fn publish_event(
    event: String,
    payload: Option<Value>,
    publisher: Dep<dyn EventPublisher>,
) -> Result<&'static str, ToolError> {
    publisher.publish(&event, payload.unwrap_or_default()).await.map(|()| "published")
}

/// Ends your work with its result.
/// * `result` - what came of it
#[tool_macros::tool(name = "system:done", read_only, quick)]
fn done(result: Value) -> ToolOutput {
    ToolOutput::Ended(result)
}

pub(super) fn tools() -> [Result<Tool, RegistryError>; 2] {
    crate::tools![publish_event, done]
}

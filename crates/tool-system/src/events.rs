//! Events for other agents, and the end of a run.

use std::fmt;

use agent_types::{EventBody, RunId};
use async_trait::async_trait;
use serde_json::Value;
use tool_registry::{Dep, RegistryError, Tool, ToolContext, ToolError, ToolOutput, tool};

/// Characters of a payload that the log shows; the whole stands in the call's arguments.
const SHOWN: usize = 200;

/// Publisher of agents' events, which start the agents that subscribe to them.
#[async_trait]
pub trait EventPublisher: Send + Sync + fmt::Debug {
    /// Publishes an event of a run; its subscribers are unknown to the sender.
    ///
    /// # Errors
    /// It cannot be taken, or the chain of events that led to it is too long.
    async fn publish(&self, event: &str, payload: Value, from: &RunId) -> Result<(), ToolError>;
}

/// Publishes an event to other agents.
/// * `event` - the name that others subscribe to
/// * `payload` - the data that they receive
#[tool(name = "system:publish_event", effect, approval = "auto")]
async fn publish_event(
    event: String,
    payload: Option<Value>,
    publisher: Dep<dyn EventPublisher>,
    cx: &ToolContext,
) -> Result<&'static str, ToolError> {
    let payload = payload.unwrap_or_default();
    let shown: String = payload.to_string().chars().take(SHOWN).collect();
    publisher.publish(&event, payload, cx.run()).await?;
    cx.emit(EventBody::LogLine {
        level: "info".into(),
        message: format!("event `{event}` published: {shown}"),
    });
    Ok("published")
}

/// Publishes an event to the event bus.
/// * `event_type` - the type of the event (such as `agent.action.completed`)
/// * `payload` - the data of the event
#[tool(name = "PublishEventTool", effect, approval = "auto")]
async fn publish_typed_event(
    event_type: String,
    payload: Option<Value>,
    publisher: Dep<dyn EventPublisher>,
    cx: &ToolContext,
) -> Result<&'static str, ToolError> {
    publish_event(event_type, payload, publisher, cx).await
}

/// Ends your work with its result.
/// * `result` - what came of it
#[tool(name = "system:done", read_only, quick)]
fn done(result: Value) -> ToolOutput {
    ToolOutput::Ended(result)
}

/// The same under the name of the tool invocation protocol.
pub(super) fn named_tools() -> [Result<Tool, RegistryError>; 1] {
    tool_registry::tools![publish_typed_event]
}

pub(super) fn tools() -> [Result<Tool, RegistryError>; 2] {
    tool_registry::tools![publish_event, done]
}

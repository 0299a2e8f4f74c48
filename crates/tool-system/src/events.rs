//! Events for other agents, and the end of a run.

use std::collections::VecDeque;
use std::fmt;

use agent_types::EventBody;
use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::Value;
use tool_registry::{Dep, RegistryError, Tool, ToolContext, ToolError, ToolOutput, tool};

/// Characters of a payload that the log shows; the whole stands in the call's arguments.
const SHOWN: usize = 200;

/// Publisher of agents' events, which start the agents that subscribe to them.
#[async_trait]
pub trait EventPublisher: Send + Sync + fmt::Debug {
    /// Publishes an event; its subscribers are unknown to the sender.
    ///
    /// # Errors
    /// It cannot be taken.
    async fn publish(&self, event: &str, payload: Value) -> Result<(), ToolError>;
}

/// An event that was published.
#[derive(Debug, Clone, PartialEq)]
pub struct Published {
    /// Its name.
    pub event: String,
    /// Payload of the event.
    pub payload: Value,
}

/// Events in memory, the newest ones up to a limit, until they are taken.
#[derive(Debug)]
pub struct MemoryEvents {
    limit: usize,
    waiting: Mutex<VecDeque<Published>>,
}

impl Default for MemoryEvents {
    /// Room for 1,000 events.
    fn default() -> Self {
        Self::new(1_000)
    }
}

impl MemoryEvents {
    /// Room for so many events; the oldest go first.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { limit, waiting: Mutex::default() }
    }

    /// Takes what waits, oldest first.
    #[must_use]
    pub fn take(&self) -> Vec<Published> {
        std::mem::take(&mut *self.waiting.lock()).into()
    }
}

#[async_trait]
impl EventPublisher for MemoryEvents {
    async fn publish(&self, event: &str, payload: Value) -> Result<(), ToolError> {
        let mut waiting = self.waiting.lock();
        waiting.push_back(Published { event: event.to_owned(), payload });
        while waiting.len() > self.limit {
            waiting.pop_front();
        }
        Ok(())
    }
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
    publisher.publish(&event, payload).await?;
    cx.emit(EventBody::LogLine {
        level: "info".into(),
        message: format!("event `{event}` published: {shown}"),
    });
    Ok("published")
}

/// Ends your work with its result.
/// * `result` - what came of it
#[tool(name = "system:done", read_only, quick)]
fn done(result: Value) -> ToolOutput {
    ToolOutput::Ended(result)
}

pub(super) fn tools() -> [Result<Tool, RegistryError>; 2] {
    tool_registry::tools![publish_event, done]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn events_wait_in_order_and_the_oldest_go_when_there_are_many() {
        let events = MemoryEvents::new(2);
        for number in 0..3 {
            events.publish("tick", json!(number)).await.unwrap();
        }
        let published = |number: i32| Published { event: "tick".into(), payload: json!(number) };
        assert_eq!(events.take(), [published(1), published(2)]);
        assert_eq!(events.take(), []);
    }
}

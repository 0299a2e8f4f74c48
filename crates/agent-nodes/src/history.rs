//! `agent:LoadHistory` and `agent:SaveHistory`: durable conversations.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use llm_provider::{Message, NativeCall};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;
use workflow_engine::{Inputs, Node, NodeContext, NodeError, Outputs};
use workflow_model::NodeDefinition;

use crate::chat;
use crate::define::{any, as_text, list, text};
use agent_runtime::prompt::messages::rendered;
use agent_runtime::prompt::text::{Protocol, exchange_messages, frame_of};
use agent_runtime::{Exchange, Turn, visible};

/// Reason for which a conversation cannot be read or stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct ThreadError {
    /// Description of the failure.
    pub message: String,
}

impl ThreadError {
    /// An error of this message.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }

    /// Stable code for logs, tests and the wire.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        "thread_failed"
    }
}

impl From<ThreadError> for NodeError {
    fn from(error: ThreadError) -> Self {
        Self::new(error.message.clone()).with_code(error.code())
    }
}

/// Store of conversations of workflows; one of the services of a run.
#[async_trait]
pub trait Threads: Send + Sync + fmt::Debug {
    /// Returns the exchanges of a thread; empty for an unknown one.
    ///
    /// # Errors
    /// It cannot be read.
    async fn load(&self, thread: &str) -> Result<Vec<Exchange>, ThreadError>;

    /// Appends to a thread, once for each `key`: the same key a second time changes nothing.
    /// Returns the whole thread.
    ///
    /// # Errors
    /// It cannot be stored.
    async fn append(&self, thread: &str, key: &str, more: &[Exchange]) -> Result<Vec<Exchange>, ThreadError>;
}

/// In-memory store of conversations.
#[derive(Debug, Default)]
pub struct MemoryThreads(Mutex<HashMap<String, Thread>>);

/// A conversation, and the keys of what was put there.
#[derive(Debug, Default)]
struct Thread {
    exchanges: Vec<Exchange>,
    keys: HashSet<String>,
}

#[async_trait]
impl Threads for MemoryThreads {
    async fn load(&self, thread: &str) -> Result<Vec<Exchange>, ThreadError> {
        let threads = self.0.lock();
        Ok(threads.get(thread).map(|kept| kept.exchanges.clone()).unwrap_or_default())
    }

    async fn append(&self, thread: &str, key: &str, more: &[Exchange]) -> Result<Vec<Exchange>, ThreadError> {
        let mut threads = self.0.lock();
        let kept = threads.entry(thread.to_owned()).or_default();
        if kept.keys.insert(key.to_owned()) {
            kept.exchanges.extend_from_slice(more);
        }
        Ok(kept.exchanges.clone())
    }
}

/// Gives a conversation.
pub(crate) struct LoadHistory(NodeDefinition);

/// Puts a message and its reply behind a conversation.
pub(crate) struct SaveHistory(NodeDefinition);

const THREAD: &str = "the name of the conversation; absent means the workflow's id";

impl LoadHistory {
    pub(crate) fn new() -> Self {
        let definition = NodeDefinition::new("agent:LoadHistory", "Gives a conversation that was kept.")
            .input("thread", text(THREAD).optional())
            .output("history", list("messages {role, content}, oldest first").with_category("ChatHistory"));
        Self(definition)
    }
}

impl SaveHistory {
    pub(crate) fn new() -> Self {
        let definition = NodeDefinition::new(
            "agent:SaveHistory",
            "Puts what a person said and what was replied behind a conversation, and keeps it.",
        )
        .input("thread", text(THREAD).optional())
        .input("message", any("what the person said").required().with_category("ChatMessage"))
        .input("response", any("the reply of a model, or its text").required().with_category("LlmOutput"))
        .output("history", list("the whole conversation").with_category("ChatHistory"))
        .effect()
        .idempotent();
        Self(definition)
    }
}

/// The thread that a node names, else the one of its workflow.
fn thread(ctx: &NodeContext, inputs: &Inputs) -> Result<String, NodeError> {
    let named = inputs.get("thread").map(|value| as_text(value)).filter(|name| !name.trim().is_empty());
    let own = || ctx.workflow_id().map(str::to_owned);
    named.or_else(own).ok_or_else(|| NodeError::fatal("no thread is named, and the workflow has no id"))
}

/// A conversation as a value.
fn value(ctx: &NodeContext, history: &[Exchange]) -> Value {
    let frame = frame_of(ctx.run_id());
    let (summary, seen) = visible(history);
    let mut messages: Vec<Value> = summary.map(rendered::summary).into_iter().collect();
    for (_, exchange) in seen {
        let mut parts: Vec<Message> = Vec::new();
        exchange_messages(exchange, Protocol::Text, &frame, &mut parts);
        messages.extend(parts.iter().map(rendered::value));
    }
    messages.into()
}

fn threads(ctx: &NodeContext) -> Result<Arc<dyn Threads>, NodeError> {
    ctx.required_service::<dyn Threads>()
}

#[async_trait]
impl Node for LoadHistory {
    fn definition(&self) -> &NodeDefinition {
        &self.0
    }

    async fn run(&self, ctx: NodeContext, inputs: Inputs) -> Result<Outputs, NodeError> {
        let history = threads(&ctx)?.load(&thread(&ctx, &inputs)?).await?;
        Ok(Outputs::value(value(&ctx, &history)))
    }
}

#[async_trait]
impl Node for SaveHistory {
    fn definition(&self) -> &NodeDefinition {
        &self.0
    }

    async fn run(&self, ctx: NodeContext, inputs: Inputs) -> Result<Outputs, NodeError> {
        let thread = thread(&ctx, &inputs)?;
        let mut more: Vec<Exchange> = Vec::new();
        for said in chat::read(inputs.required("message")?)? {
            if let Message::User { text, attachments } = said.message {
                more.push(Exchange::User { text, attachments });
            }
        }
        more.push(Exchange::Turn(turn(inputs.required("response")?)));
        let history = threads(&ctx)?.append(&thread, &ctx.idempotency_key(), &more).await?;
        Ok(Outputs::value(value(&ctx, &history)))
    }
}

/// A reply as a turn of a conversation.
fn turn(response: &Value) -> Turn {
    let part = |key: &str| response.get(key).filter(|value| !value.is_null());
    let text = match response {
        Value::Object(_) => part("text").or_else(|| part("content")).map(as_text).unwrap_or_default(),
        other => as_text(other),
    };
    let native = part("tool_calls").and_then(|calls| Vec::<NativeCall>::deserialize(calls).ok());
    Turn { text, native: native.unwrap_or_default(), ..Turn::default() }
}

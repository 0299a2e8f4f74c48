//! Real sockets: what servers say, well and badly, and what becomes of it.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod answers;
mod faults;
mod kept;
mod loose;
mod requests;
mod strict;
mod stub;
mod waits;

use std::sync::Arc;

use agent_types::{SystemClock, Timestamp, VirtualClock};
use futures::StreamExt;
use llm_provider::{
    GuardedModel, LlmError, LlmEvent, LlmProvider, LlmRequest, LlmStream, Message, ModelConfig, ProviderKind,
};

use self::stub::Stub;

/// An entry for the stub.
fn entry(kind: ProviderKind, stub: &Stub) -> ModelConfig {
    ModelConfig { base_url: Some(stub.address.clone()), ..ModelConfig::new(kind, "stub") }
}

fn connect(kind: ProviderKind, stub: &Stub) -> GuardedModel {
    entry(kind, stub).connect(Arc::new(SystemClock)).unwrap()
}

fn virtual_clock() -> VirtualClock {
    VirtualClock::new(Timestamp::parse("2026-01-02T03:04:05.000Z").unwrap())
}

fn request() -> LlmRequest {
    LlmRequest::new(vec![Message::user("hi")])
}

async fn ask(model: &GuardedModel) -> LlmStream {
    model.stream(request()).await.unwrap()
}

async fn next(stream: &mut LlmStream) -> Result<LlmEvent, LlmError> {
    stream.next().await.expect("the stream has another event")
}

/// A chunk of chat completions with this text.
fn says(text: &str) -> String {
    let delta = serde_json::json!({"choices": [{"index": 0, "delta": {"content": text}}]});
    format!("data: {delta}\n\n")
}

/// The end of chat completions.
fn stops() -> String {
    let end = serde_json::json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
    format!("data: {end}\n\ndata: [DONE]\n\n")
}

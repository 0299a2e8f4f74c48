//! State that belongs to one model or is kept by its provider: marks for its cache, cached tokens, reasoning, names of tools.

use std::sync::Arc;

use agent_types::{SystemClock, ToolSpec, Usage};
use async_trait::async_trait;
use futures::StreamExt;
use llm_provider::{
    CallPolicy, GuardedModel, LlmError, LlmProvider, LlmRequest, LlmStream, Message, ModelConfig, ModelInfo,
    NativeCall, ProviderKind, StandardResponse, complete,
};
use serde_json::{Value, json};

use super::loose::{event, hear};
use super::requests::sent;
use super::stub::Answer;

/// A request with a system message, an exchange and a message of the user.
fn talk() -> LlmRequest {
    let messages = vec![
        Message::system("Rules."),
        Message::user("One."),
        Message::assistant("1"),
        Message::user("Two."),
    ];
    LlmRequest::new(messages)
}

#[tokio::test]
async fn instructions_and_the_last_two_messages_are_marked_for_the_cache() {
    let (_, body) = sent(ProviderKind::Anthropic, |_| {}, talk()).await;
    let mark = json!({"type": "ephemeral"});
    assert_eq!(body["system"], json!([{"type": "text", "text": "Rules.", "cache_control": mark}]));
    for at in [0, 2] {
        assert_eq!(body["messages"][at]["content"][0]["cache_control"], mark, "{body}");
    }
    let count = body.to_string().matches("cache_control").count();
    assert!(count <= 4, "{count} marks are more than the server takes");
    let (_, plain) = sent(ProviderKind::Anthropic, |config| config.prompt_cache = Some(false), talk()).await;
    assert!(!plain.to_string().contains("cache_control"), "{plain}");
    assert_eq!(plain["system"], "Rules.");
    let summary = LlmRequest { purpose: Some("summary"), ..talk() };
    let (_, body) = sent(ProviderKind::Anthropic, |_| {}, summary).await;
    assert!(!body.to_string().contains("cache_control"), "{body}");
}

async fn usage(kind: ProviderKind, events: &[Value]) -> Usage {
    let body: String = events.iter().map(event).collect();
    let (_, _, end) = hear(kind, Answer::stream([body])).await;
    end.unwrap().usage
}

#[tokio::test]
async fn cached_tokens_are_in_the_usage() {
    let expected = Usage::new(10, 2).with_cache(6, 0);
    let chat = json!({"choices": [{"index": 0, "delta": {"content": "Hi there"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 6}}});
    assert_eq!(usage(ProviderKind::OpenAi, &[chat]).await, expected);
    let response = json!({"type": "response.completed", "response": {"status": "completed",
        "output": [{"type": "message", "content": [{"type": "output_text", "text": "Hi there"}]}],
        "usage": {"input_tokens": 10, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 6}}}});
    assert_eq!(usage(ProviderKind::OpenAiResponses, &[response]).await, expected);
    let gemini = json!({"candidates": [{"content": {"parts": [{"text": "Hi there"}]}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 2, "cachedContentTokenCount": 6}});
    assert_eq!(usage(ProviderKind::Gemini, &[gemini]).await, expected);
    let message = json!({"type": "message", "content": [{"type": "text", "text": "Hi there"}], "stop_reason": "end_turn",
        "usage": {"input_tokens": 1, "cache_read_input_tokens": 6, "cache_creation_input_tokens": 3, "output_tokens": 2}});
    assert_eq!(usage(ProviderKind::Anthropic, &[message]).await, Usage::new(10, 2).with_cache(6, 3));
}

#[test]
fn cached_tokens_have_prices_of_their_own() {
    let mut info = ModelInfo::default();
    info.price_in = Some(10.0);
    info.price_out = Some(100.0);
    let used = Usage::new(10, 1).with_cache(6, 3);
    assert_eq!(info.cost_micros(used), 200);
    info.price_cached = Some(1.0);
    info.price_cache_write = Some(20.0);
    assert_eq!(info.cost_micros(used), 10 + 6 + 60 + 100);
}

/// A model with prices, whose answers have tokens.
#[derive(Debug)]
struct Priced(ModelInfo);

#[async_trait]
impl LlmProvider for Priced {
    fn info(&self) -> &ModelInfo {
        &self.0
    }

    async fn stream(&self, _: LlmRequest) -> Result<LlmStream, LlmError> {
        let answer = StandardResponse { usage: Usage::new(10, 2), ..StandardResponse::default() };
        Ok(futures::stream::iter(answer.into_events().into_iter().map(Ok)).boxed())
    }
}

#[tokio::test]
async fn an_answer_has_its_cost() {
    for (price, cost) in [(None, 0), (Some(3.0), 30)] {
        let mut info = ModelInfo::default();
        info.price_in = price;
        let guarded = GuardedModel::new(Arc::new(Priced(info)), CallPolicy::default(), Arc::new(SystemClock));
        let answer = complete(&guarded, LlmRequest::new(vec![Message::user("Hi")])).await.unwrap();
        assert_eq!(answer.usage, Usage { cost_micros: cost, ..Usage::new(10, 2) });
    }
}

/// A conversation with a call of a model that reasoned.
fn reasoned(source: &str, reasoning: Value) -> LlmRequest {
    let call = NativeCall {
        reasoning: vec![reasoning],
        signatures: vec!["sig".into()],
        source: Some(source.to_owned()),
        ..NativeCall::new("c1", "add", "{}")
    };
    LlmRequest::new(vec![
        Message::user("Add."),
        Message::Assistant { text: String::new(), calls: vec![call] },
        Message::Tool { call: "c1".into(), name: "add".into(), text: "3".into() },
    ])
}

#[tokio::test]
async fn reasoning_of_another_model_is_not_sent() {
    for (kind, word, reasoning) in [
        (ProviderKind::OpenAi, "openai", json!({"reasoning_content": "secret"})),
        (
            ProviderKind::OpenAiResponses,
            "openai-responses",
            json!({"type": "reasoning", "summary": [], "encrypted_content": "secret"}),
        ),
        (
            ProviderKind::Anthropic,
            "anthropic",
            json!({"type": "thinking", "thinking": "secret", "signature": "s"}),
        ),
        (ProviderKind::Gemini, "gemini", json!({})),
        (ProviderKind::Ollama, "ollama", json!({"thinking": "secret"})),
    ] {
        let is_sent =
            |body: &Value| body.to_string().contains("secret") || body.to_string().contains("\"sig\"");
        let (_, own) = sent(kind, |_| {}, reasoned(&format!("{word}/stub"), reasoning.clone())).await;
        assert!(is_sent(&own), "{kind:?}: {own}");
        for source in [format!("{word}/other"), "elsewhere/stub".to_owned()] {
            let (_, body) = sent(kind, |_| {}, reasoned(&source, reasoning.clone())).await;
            assert!(!is_sent(&body) && body.to_string().contains("add"), "{kind:?}: {body}");
        }
    }
}

#[tokio::test]
async fn names_of_tools_agree_with_those_of_the_history() {
    let tool = ToolSpec {
        name: "fs.read".into(),
        description: "Reads.".into(),
        parameters: json!({"type": "object"}),
    };
    let call = NativeCall::new("c1", "fs.read", "{}");
    let request = LlmRequest::new(vec![
        Message::user("Read."),
        Message::Assistant { text: String::new(), calls: vec![call] },
        Message::Tool { call: "c1".into(), name: "fs.read".into(), text: "3".into() },
    ]);
    for kind in [
        ProviderKind::OpenAi,
        ProviderKind::OpenAiResponses,
        ProviderKind::Anthropic,
        ProviderKind::Gemini,
        ProviderKind::Ollama,
    ] {
        let (_, body) =
            sent(kind, |_: &mut ModelConfig| {}, request.clone().with_tools(vec![tool.clone()])).await;
        let text = body.to_string();
        assert!(!text.contains("fs.read") && text.matches("fs_read").count() >= 2, "{kind:?}: {text}");
    }
}

#[tokio::test]
async fn calls_of_a_message_that_is_repeated_count_once() {
    let message = |calls: Value, end: Value| {
        event(
            &json!({"choices": [{"index": 0, "message": {"role": "assistant", "content": "", "tool_calls": calls}, "finish_reason": end}]}),
        )
    };
    let call = |arguments: &str| json!({"function": {"name": "add", "arguments": arguments}});
    let body = [
        message(json!([call("{\"a\":")]), Value::Null),
        message(json!([call("{\"a\":1}")]), Value::Null),
        message(json!([call("{\"a\":1}"), call("{\"a\":1}")]), Value::Null),
        message(json!([call("{\"a\":1}"), call("{\"a\":1}")]), json!("tool_calls")),
    ];
    let (_, _, end) = hear(ProviderKind::OpenAi, Answer::stream([body.concat()])).await;
    let StandardResponse { tool_calls, .. } = end.unwrap();
    let found: Vec<&str> = tool_calls.iter().map(|call| call.arguments.as_str()).collect();
    assert_eq!(found, ["{\"a\":1}", "{\"a\":1}"]);
}

//! Bodies that no server should send: whatever they hold, they are read or refused.

use llm_provider::{LlmError, ProviderKind, StandardResponse, read_body};
use proptest::prelude::*;
use serde_json::{Value, json};

const KINDS: [ProviderKind; 5] = [
    ProviderKind::OpenAi,
    ProviderKind::OpenAiResponses,
    ProviderKind::Anthropic,
    ProviderKind::Gemini,
    ProviderKind::Ollama,
];

/// Names that some dialect knows.
const NAMES: [&str; 40] = [
    "choices",
    "delta",
    "message",
    "content",
    "tool_calls",
    "function",
    "name",
    "arguments",
    "index",
    "id",
    "type",
    "usage",
    "prompt_tokens",
    "completion_tokens",
    "finish_reason",
    "output",
    "item",
    "output_index",
    "item_id",
    "content_index",
    "response",
    "content_block",
    "content_block_start",
    "partial_json",
    "text",
    "thinking",
    "candidates",
    "parts",
    "functionCall",
    "args",
    "usageMetadata",
    "candidatesTokenCount",
    "done",
    "done_reason",
    "eval_count",
    "error",
    "code",
    "status",
    "delta_index",
    "input",
];

const WORDS: [&str; 14] = [
    "",
    "stop",
    "function_call",
    "tool_use",
    "content_block_start",
    "content_block_delta",
    "input_json_delta",
    "message_delta",
    "response.output_item.added",
    "response.function_call_arguments.delta",
    "response.completed",
    "text_delta",
    "{\"a\":",
    "message_stop",
];

fn number() -> impl Strategy<Value = Value> {
    prop_oneof![
        prop::sample::select(vec![
            json!(0),
            json!(-1),
            json!(1),
            json!(255),
            json!(1e300),
            json!(-0.5),
            json!(4_294_967_295_u64),
            json!(4_294_967_296_u64),
            json!(i64::MIN),
            json!(i64::MAX),
            json!(u64::MAX),
            json!(1_000_000_000),
        ]),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
    ]
}

fn event() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        number(),
        prop::sample::select(WORDS.to_vec()).prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 6, |inner| {
        let members = prop::collection::vec((prop::sample::select(NAMES.to_vec()), inner.clone()), 0..6);
        prop_oneof![
            prop::collection::vec(inner, 0..5).prop_map(Value::from),
            members.prop_map(|members| members
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect::<Value>()),
        ]
    })
}

fn read(kind: ProviderKind, body: Vec<u8>) -> Result<StandardResponse, LlmError> {
    futures::executor::block_on(read_body(kind, body))
}

/// A body of events in the framing of a dialect.
fn body(kind: ProviderKind, events: &[Value]) -> Vec<u8> {
    let line = |event: &Value| match (kind, event["type"].as_str()) {
        (ProviderKind::Ollama, _) => format!("{event}\n"),
        (_, Some(name)) if !name.contains(['\n', '\r']) => format!("event: {name}\ndata: {event}\n\n"),
        _ => format!("data: {event}\n\n"),
    };
    events.iter().map(line).collect::<String>().into_bytes()
}

proptest! {
    #[test]
    fn n02_any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        for kind in KINDS {
            let _ = read(kind, bytes.clone());
        }
    }

    #[test]
    fn n02_any_events_are_read_or_refused(events in prop::collection::vec(event(), 0..6)) {
        for kind in KINDS {
            let answer = read(kind, body(kind, &events));
            prop_assert!(answer.map_or(0, |answer| answer.tool_calls.len()) <= 256);
        }
    }
}

#[test]
fn n02_a_number_of_a_server_is_not_a_size() {
    let huge = json!(4_294_967_295_u64);
    let cases = [
        (
            ProviderKind::OpenAi,
            json!({"choices": [{"index": huge, "delta": {"tool_calls": [
            {"index": huge, "id": "c", "function": {"name": "f", "arguments": "{}"}}]}, "finish_reason": "tool_calls"}],
            "usage": {"prompt_tokens": huge, "completion_tokens": u64::MAX}}),
        ),
        (
            ProviderKind::OpenAiResponses,
            json!({"type": "response.output_item.added", "output_index": huge,
            "item": {"type": "function_call", "id": "i", "call_id": "c", "name": "f", "arguments": "{}"}}),
        ),
        (
            ProviderKind::Anthropic,
            json!({"type": "content_block_start", "index": huge,
            "content_block": {"type": "tool_use", "id": "c", "name": "f", "input": {}}}),
        ),
        (
            ProviderKind::Gemini,
            json!({"candidates": [{"index": huge, "content": {"parts": [
            {"functionCall": {"name": "f", "args": {}}}]}, "finishReason": "STOP"}],
            "usageMetadata": {"promptTokenCount": huge, "candidatesTokenCount": u64::MAX}}),
        ),
        (
            ProviderKind::Ollama,
            json!({"message": {"tool_calls": [{"function": {"index": huge, "name": "f", "arguments": {}}}]},
            "done": true, "eval_count": u64::MAX, "prompt_eval_count": u64::MAX}),
        ),
    ];
    for (kind, event) in cases {
        let start = std::time::Instant::now();
        let calls = read(kind, body(kind, &[event])).map_or(0, |answer| answer.tool_calls.len());
        assert!(calls <= 1 && start.elapsed() < std::time::Duration::from_secs(1), "{kind:?}: {calls}");
    }
}

#[test]
fn n02_calls_are_capped_where_they_are_collected() {
    let call = |index: usize| json!({"index": index, "id": format!("c{index}"), "function": {"name": "f", "arguments": "{}"}});
    let event = |count: usize| {
        let calls: Vec<Value> = (0..count).map(call).collect();
        json!({"choices": [{"delta": {"tool_calls": calls}, "finish_reason": "tool_calls"}]})
    };
    let read = |count| read(ProviderKind::OpenAi, body(ProviderKind::OpenAi, &[event(count)]));
    assert_eq!(read(256).unwrap().tool_calls.len(), 256);
    assert!(read(257).unwrap_err().to_string().contains("too many calls"));
}

#[test]
fn n11_a_reply_that_never_ends_is_bounded() {
    let comment = ": still here\n".repeat(64 << 10);
    let endless = format!("{comment}data: {{\"choices\":[{{\"delta\":{{\"content\":\"x\"}}}}]}}\n\n");
    let body = endless.repeat((130 << 20) / endless.len() + 1);
    let start = std::time::Instant::now();
    let error = read(ProviderKind::OpenAi, body.into_bytes()).unwrap_err();
    assert!(error.to_string().contains("too long"), "{error}");
    assert!(start.elapsed() < std::time::Duration::from_mins(1), "{:?}", start.elapsed());
}

#[test]
fn n27_an_error_repeats_little_of_what_a_server_says() {
    for kind in KINDS {
        let body = format!("data: {{\"error\": {{\"message\": \"{}\"}}}}\n\n", "x".repeat(1 << 20));
        let error = read(kind, body.into_bytes()).unwrap_err();
        assert!(error.to_string().len() < 2000, "{kind:?}: {}", error.to_string().len());
    }
}

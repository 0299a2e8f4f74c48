//! Answers of servers that keep to their format loosely, and of hostile ones.

use futures::StreamExt;
use llm_provider::{Finish, LlmError, LlmEvent, LlmProvider, ProviderKind, StandardResponse};
use serde_json::json;

use super::request;
use super::stub::{Answer, Stub};

/// Result of a body: the text that was emitted, the warnings, and the end.
pub(crate) async fn hear(
    kind: ProviderKind,
    answer: Answer,
) -> (String, Vec<String>, Result<StandardResponse, LlmError>) {
    let stub = Stub::serve([answer]).await;
    let config = llm_provider::ModelConfig { retries: Some(0), ..super::entry(kind, &stub) };
    let model = config.connect(std::sync::Arc::new(agent_types::SystemClock)).unwrap();
    let mut stream = model.stream(request()).await.unwrap();
    let (mut text, mut warnings) = (String::new(), Vec::new());
    while let Some(event) = stream.next().await {
        match event {
            Ok(LlmEvent::Text(piece)) => text.push_str(&piece),
            Ok(LlmEvent::Unread { message }) => warnings.push(message),
            Ok(LlmEvent::Finished(answer)) => return (text, warnings, Ok(answer)),
            Ok(_) => {}
            Err(error) => return (text, warnings, Err(error)),
        }
    }
    unreachable!("the stream ends with an answer or an error")
}

pub(crate) fn event(data: &serde_json::Value) -> String {
    format!("data: {data}\n\n")
}

async fn error(kind: ProviderKind, body: &str) -> String {
    let (_, _, end) = hear(kind, Answer::stream([body])).await;
    end.unwrap_err().to_string()
}

const EVENTS: [ProviderKind; 4] =
    [ProviderKind::OpenAi, ProviderKind::OpenAiResponses, ProviderKind::Anthropic, ProviderKind::Gemini];

#[tokio::test]
async fn an_error_is_one_in_any_form_and_keeps_its_words() {
    for kind in EVENTS {
        for body in [
            "data: {\"error\": {\"message\": \"it tipped over\"}}\n\n",
            "data: {\"error\": \"it tipped over\"}\n\n",
            "event: error\ndata: it tipped over\n\n",
            "{\"error\": {\"message\": \"it tipped over\"}}",
            "{\n  \"error\": {\n    \"message\": \"it tipped over\"\n  }\n}\n",
            "[{\"error\": {\"message\": \"it tipped over\"}}]",
            "it tipped over",
        ] {
            let error = error(kind, body).await;
            assert!(error.contains("it tipped over"), "{kind:?}, {body:?}: {error}");
        }
        let empty = error(kind, "").await;
        assert!(empty.contains("ended before its last event"), "{kind:?}: {empty}");
    }
    for body in ["{\"error\": \"it tipped over\"}\n", "{\n\"error\": \"it tipped over\"}", "it tipped over"] {
        assert!(error(ProviderKind::Ollama, body).await.contains("it tipped over"), "{body}");
    }
}

#[tokio::test]
async fn a_whole_answer_that_is_no_stream_is_an_answer() {
    for (kind, body) in [
        (
            ProviderKind::OpenAi,
            json!({"choices": [{"message": {"content": "Oak."}, "finish_reason": "stop"}]}),
        ),
        (
            ProviderKind::OpenAiResponses,
            json!({"object": "response", "status": "completed", "output": [{"type": "message", "content": [{"type": "output_text", "text": "Oak."}]}]}),
        ),
        (
            ProviderKind::Anthropic,
            json!({"type": "message", "content": [{"type": "text", "text": "Oak."}], "stop_reason": "end_turn"}),
        ),
        (
            ProviderKind::Gemini,
            json!([{"candidates": [{"content": {"parts": [{"text": "Oak."}]}, "finishReason": "STOP"}]}]),
        ),
        (ProviderKind::Ollama, json!({"message": {"content": "Oak."}, "done": true, "done_reason": "stop"})),
    ] {
        let (text, _, end) = hear(kind, Answer::stream([body.to_string()])).await;
        let end = end.unwrap();
        assert_eq!(
            (text.as_str(), end.text.as_str(), end.finish),
            ("Oak.", "Oak.", Finish::Stop),
            "{kind:?}"
        );
    }
}

#[tokio::test]
async fn only_a_natural_end_is_one() {
    for (word, whole) in [
        ("stop", true),
        ("eos_token", true),
        ("length", false),
        ("content_filter", false),
        ("error", false),
        ("insufficient_system_resource", false),
    ] {
        let body = event(&json!({"choices": [{"delta": {"content": "Oak."}, "finish_reason": word}]}));
        let (_, _, end) = hear(ProviderKind::OpenAi, Answer::stream([body])).await;
        assert_eq!(end.unwrap().finish.is_whole(), whole, "{word}");
    }
    let refused = event(&json!({"choices": [{"delta": {"refusal": "No."}, "finish_reason": "stop"}]}));
    let (text, _, end) = hear(ProviderKind::OpenAi, Answer::stream([refused])).await;
    assert_eq!((text.as_str(), end.unwrap().finish.as_str()), ("No.", "refusal"));
    let blocked =
        event(&json!({"promptFeedback": {"blockReason": "SAFETY", "blockReasonMessage": "too sharp"}}));
    let (_, _, end) = hear(ProviderKind::Gemini, Answer::stream([blocked])).await;
    assert_eq!(end.unwrap().finish.as_str(), "SAFETY: too sharp");
}

#[tokio::test]
async fn text_counts_once_wherever_it_comes() {
    let place = json!({"output_index": 0, "content_index": 0});
    let with = |kind: &str, key: &str, text: &str| {
        let mut data = place.clone();
        data["type"] = kind.into();
        data[key] = text.into();
        event(&data)
    };
    let item =
        json!({"type": "message", "id": "m", "content": [{"type": "output_text", "text": "Oak tree."}]});
    let last =
        event(&json!({"type": "response.completed", "response": {"status": "completed", "output": [item]}}));
    let done = event(&json!({"type": "response.output_item.done", "output_index": 0, "item": item}));
    let bodies = [
        vec![
            with("response.output_text.delta", "delta", "Oak "),
            with("response.output_text.delta", "delta", "tree."),
        ],
        vec![
            with("response.output_text.delta", "delta", "Oak "),
            with("response.output_text.done", "text", "Oak tree."),
        ],
        vec![with("response.output_text.done", "text", "Oak tree."), done.clone()],
        vec![done],
        vec![],
    ];
    for mut body in bodies {
        body.push(last.clone());
        let (text, warnings, end) =
            hear(ProviderKind::OpenAiResponses, Answer::stream([body.concat()])).await;
        assert_eq!(
            (text.as_str(), warnings.len(), end.unwrap().text.as_str()),
            ("Oak tree.", 0, "Oak tree."),
            "{body:?}"
        );
    }
}

#[tokio::test]
async fn what_cannot_be_read_is_said() {
    for (kind, data) in [
        (ProviderKind::OpenAi, json!({"odd": 1})),
        (
            ProviderKind::OpenAi,
            json!({"choices": [{"delta": {"tool_calls": [{"function": {"arguments": "{}"}}]}}]}),
        ),
        (ProviderKind::OpenAi, json!({"choices": [{"delta": {"content": [{"type": "video", "id": 1}]}}]})),
        (
            ProviderKind::OpenAiResponses,
            json!({"type": "response.output_item.done", "item": {"type": "dance"}}),
        ),
        (
            ProviderKind::Anthropic,
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "dance"}}),
        ),
        (ProviderKind::Gemini, json!({"candidates": [{"content": {"parts": [{"dance": {}}]}}]})),
    ] {
        let (_, warnings, _) = hear(kind, Answer::stream([event(&data)])).await;
        assert_eq!(warnings.len(), 1, "{kind:?}: {data}");
    }
}

#[tokio::test]
async fn tokens_that_are_not_reported_are_estimated() {
    let says = event(&json!({"choices": [{"delta": {"content": "x".repeat(400)}, "finish_reason": "stop"}]}));
    for (usage, output, estimated) in [
        (json!(null), 100, true),
        (json!({"prompt_tokens": 0, "completion_tokens": 0}), 100, true),
        (json!({"prompt_tokens": 5, "completion_tokens": 7}), 7, false),
    ] {
        let body = [says.clone(), event(&json!({"choices": [], "usage": usage}))].concat();
        let (_, _, end) = hear(ProviderKind::OpenAi, Answer::stream([body])).await;
        let usage_read = end.unwrap().usage;
        assert_eq!((usage_read.output, usage_read.estimated), (output, estimated), "{usage}");
    }
    let most = json!({"candidatesTokenCount": u64::MAX, "thoughtsTokenCount": 2, "promptTokenCount": 1});
    let ends = event(&json!({"candidates": [{"finishReason": "STOP"}], "usageMetadata": most}));
    let (_, _, end) = hear(ProviderKind::Gemini, Answer::stream([ends])).await;
    assert_eq!(end.unwrap().usage.output, u64::MAX);
    // Reported before the text came.
    let early = event(&json!({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 1}}));
    let (_, _, end) = hear(ProviderKind::OpenAi, Answer::stream([early + &says])).await;
    let usage_read = end.unwrap().usage;
    assert_eq!((usage_read.input, usage_read.output, usage_read.estimated), (5, 101, true));
}

fn says_on() -> String {
    event(&json!({"choices": [{"delta": {"content": "x"}}]}))
}

#[tokio::test]
async fn a_hostile_stream_is_bounded() {
    let huge = event(&json!({"choices": [{"delta": {"tool_calls": [
        {"index": 4_000_000_000_u64, "id": "a", "function": {"name": "x", "arguments": "{}"}}]}, "finish_reason": "tool_calls"}]}));
    let (_, _, end) = hear(ProviderKind::OpenAi, Answer::stream([huge])).await;
    assert_eq!(end.unwrap().tool_calls.len(), 1);
    let block = "x".repeat(1 << 20);
    let line = std::iter::once("data: \"".to_owned()).chain((0..40).map(|_| block.clone()));
    let (_, _, end) = hear(ProviderKind::OpenAi, Answer::stream(line)).await;
    assert_eq!(end.unwrap_err().to_string(), "the model's stream broke: it holds an event that is too long");
    let comments = std::iter::once(says_on()).chain((0..40).map(|_| ":\n".repeat(1 << 18)));
    let (_, warnings, end) = hear(ProviderKind::OpenAi, Answer::stream(comments)).await;
    assert!(warnings.is_empty() && end.unwrap_err().to_string().contains("before its last event"));
    let says = event(&json!({"choices": [{"delta": {"content": block}}]}));
    let (_, _, end) = hear(ProviderKind::OpenAi, Answer::stream((0..80).map(|_| says.clone()))).await;
    assert_eq!(end.unwrap_err().to_string(), "the model's stream broke: the answer is too long");
}

#[tokio::test]
async fn parts_beyond_the_bound_are_not_read() {
    let part = |index: u32| {
        event(
            &json!({"type": "response.output_text.delta", "output_index": index, "content_index": 0, "delta": "x"}),
        )
    };
    let last = event(&json!({"type": "response.completed", "response": {"status": "completed"}}));
    let body = (0..262).map(part).chain([last]).collect::<String>();
    let (text, warnings, end) = hear(ProviderKind::OpenAiResponses, Answer::stream([body])).await;
    assert_eq!((text.len(), warnings.len(), end.unwrap().text.len()), (256, 1, 256));
}

#[tokio::test]
async fn what_is_kept_without_being_shown_is_bounded_too() {
    let block = "x".repeat(1 << 20);
    let tool = |function: serde_json::Value| json!({"choices": [{"delta": {"tool_calls": [{"index": 0, "id": "a", "function": function}]}}]});
    let signed = json!({"functionCall": {"id": "a", "name": "x"}, "thoughtSignature": block});
    for (kind, first, again) in [
        (
            ProviderKind::OpenAi,
            tool(json!({"name": "x", "arguments": "{}"})),
            tool(json!({"arguments": block})),
        ),
        (
            ProviderKind::OpenAi,
            json!({"choices": []}),
            json!({"choices": [{"delta": {"reasoning_details": [block]}}]}),
        ),
        (
            ProviderKind::Gemini,
            json!({"candidates": []}),
            json!({"candidates": [{"content": {"parts": [signed]}}]}),
        ),
        (
            ProviderKind::Anthropic,
            json!({"type": "ping"}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": block}}),
        ),
    ] {
        let again = event(&again);
        let body = std::iter::once(event(&first)).chain((0..80).map(|_| again.clone()));
        let (_, _, end) = hear(kind, Answer::stream(body)).await;
        assert_eq!(
            end.unwrap_err().to_string(),
            "the model's stream broke: the answer is too long",
            "{kind:?}"
        );
    }
}

#[tokio::test]
async fn what_the_server_said_of_the_end_counts_though_the_connection_breaks() {
    let says = event(&json!({"choices": [{"delta": {"content": "Oak."}, "finish_reason": "stop"}]}));
    let (text, _, end) = hear(ProviderKind::OpenAi, Answer::stream([says]).then_cut()).await;
    assert_eq!((text.as_str(), end.unwrap().finish), ("Oak.", Finish::Stop));
}

//! Faulty answers of servers.

use std::sync::Arc;

use agent_types::SystemClock;
use futures::StreamExt;
use llm_provider::{LlmError, LlmEvent, LlmProvider, ModelConfig, ProviderKind, complete};

use super::stub::{Answer, Stub};
use super::{ask, connect, entry, next, request, says, stops, virtual_clock};

/// A model that is asked once only.
async fn ask_once(kind: ProviderKind, answer: Answer) -> LlmError {
    let stub = Stub::serve([answer]).await;
    let config = ModelConfig { retries: Some(0), ..entry(kind, &stub) };
    let model = config.connect(Arc::new(SystemClock)).unwrap();
    complete(&model, request()).await.unwrap_err()
}

const ALL: [ProviderKind; 5] = [
    ProviderKind::OpenAi,
    ProviderKind::OpenAiResponses,
    ProviderKind::Anthropic,
    ProviderKind::Gemini,
    ProviderKind::Ollama,
];

/// Stand-ins for the keys that these providers want.
fn with_key(config: ModelConfig, file: &std::path::Path) -> ModelConfig {
    ModelConfig { api_key_file: Some(file.to_owned()), ..config }
}

#[tokio::test]
async fn statuses_mean_the_same_with_every_provider() {
    for kind in ALL {
        for (status, code) in
            [(401, "authentication"), (429, "rate_limited"), (404, "provider_error"), (529, "provider_error")]
        {
            let error = ask_once(kind, Answer::status(status, r#"{"error": {"message": "it broke"}}"#)).await;
            assert_eq!(error.code(), code, "{kind:?}: {error}");
            if let LlmError::Status { message, .. } = error {
                assert_eq!(message, "it broke", "{kind:?}");
            }
        }
        let error = ask_once(kind, Answer::status(502, "<html>Bad gateway</html>")).await;
        assert!(
            error.to_string().contains("status 502") && error.to_string().contains("Bad gateway"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_conversation_that_is_too_long_is_told_apart() {
    let context = |message: &str, more: &str| format!(r#"{{"error": {{"message": "{message}"{more}}}}}"#);
    for (kind, status, body, window) in [
        (
            ProviderKind::OpenAi,
            400,
            context(
                "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens.",
                r#", "code": "context_length_exceeded""#,
            ),
            Some(8192),
        ),
        (
            ProviderKind::OpenAi,
            400,
            context(
                "the request exceeds the available context size",
                r#", "n_ctx": 4096, "n_prompt_tokens": 5000"#,
            ),
            Some(4096),
        ),
        (
            ProviderKind::OpenAiResponses,
            400,
            context(
                "Your input exceeds the context window of this model. Please adjust your input and try again.",
                r#", "code": "context_length_exceeded""#,
            ),
            None,
        ),
        (
            ProviderKind::Anthropic,
            400,
            context("prompt is too long: 205000 tokens > 200000 maximum", ""),
            Some(200_000),
        ),
        (
            ProviderKind::Anthropic,
            400,
            context("input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000", ""),
            Some(200_000),
        ),
        (
            ProviderKind::Gemini,
            400,
            context(
                "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
                r#", "status": "INVALID_ARGUMENT""#,
            ),
            Some(1_048_576),
        ),
        (
            ProviderKind::Ollama,
            400,
            r#"{"error": "the input length exceeds the context length"}"#.to_owned(),
            None,
        ),
    ] {
        let error = ask_once(kind, Answer::status(status, &body)).await;
        assert_eq!(error.code(), "llm_context_too_long", "{kind:?}: {error}");
        let LlmError::ContextTooLong { window: found, .. } = error else { continue };
        assert_eq!(found, window, "{body}");
    }
    // In the stream it is the same.
    let body = r#"{"error": {"message": "maximum context length is 8192 tokens, too long"}}"#;
    let error = ask_once(ProviderKind::OpenAi, Answer::stream([format!("data: {body}\n\n")])).await;
    assert_eq!(error.code(), "llm_context_too_long", "{error}");
    let error =
        ask_once(ProviderKind::OpenAi, Answer::status(400, r#"{"error": "maximum of 4 tools exceeded"}"#))
            .await;
    assert_eq!(error.code(), "provider_error", "{error}");
}

#[tokio::test]
async fn an_error_names_the_entry_the_address_and_the_fix() {
    let stub = Stub::serve([Answer::status(404, r#"{"error": "no such model"}"#)]).await;
    let config = ModelConfig { entry: Some("fast".into()), ..entry(ProviderKind::OpenAi, &stub) };
    let model = config.connect(Arc::new(SystemClock)).unwrap();
    let error = complete(&model, request()).await.unwrap_err();
    let said = model.info().describe(&error);
    let address = format!("{}/v1/chat/completions", stub.address);
    for part in ["no such model", "[models.fast]", "`stub`", &address, "fix `model` or `base_url`"] {
        assert!(said.contains(part), "{said} lacks {part}");
    }
}

#[tokio::test]
async fn an_answer_without_its_end_is_none() {
    let text = r#"{"candidates":[{"content":{"role":"model","parts":[{"text":"half"}]}}]}"#;
    for (kind, body) in [
        (ProviderKind::OpenAi, says("half")),
        (ProviderKind::Gemini, format!("data: {text}\n\n")),
        (ProviderKind::Ollama, "{\"message\":{\"content\":\"half\"},\"done\":false}\n".into()),
        (ProviderKind::Anthropic, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"half\"}}\n\n".into()),
    ] {
        let stub = Stub::serve([Answer::stream([body])]).await;
        let mut stream = ask(&connect(kind, &stub)).await;
        assert_eq!(next(&mut stream).await, Ok(LlmEvent::Text("half".into())), "{kind:?}");
        let error = next(&mut stream).await.unwrap_err();
        assert_eq!(error.code(), "stream_broken", "{kind:?}: {error}");
        assert!(stream.next().await.is_none());
    }
}

#[tokio::test]
async fn an_error_in_mid_stream_tells_what_the_server_said() {
    let failed = "data: {\"error\":{\"message\":\"out of memory\",\"type\":\"server_error\"}}\n\n";
    let stub = Stub::serve([Answer::stream([says("half"), failed.into()])]).await;
    let mut stream = ask(&connect(ProviderKind::OpenAi, &stub)).await;
    assert_eq!(next(&mut stream).await, Ok(LlmEvent::Text("half".into())));
    let error = next(&mut stream).await.unwrap_err();
    assert!(error.to_string().ends_with("out of memory"), "{error}");
    assert!(stream.next().await.is_none());
    assert_eq!(stub.seen().len(), 1);
}

#[tokio::test]
async fn an_overload_in_the_stream_before_the_answer_is_retried() {
    let start = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":1,\"output_tokens\":1}}}\n\n";
    let overloaded = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n";
    let stub = Stub::serve([Answer::stream([start, overloaded])]).await;
    let config = entry(ProviderKind::Anthropic, &stub);
    let mut stream = ask(&config.connect(Arc::new(virtual_clock())).unwrap()).await;
    let event = next(&mut stream).await;
    let Ok(LlmEvent::Retrying { attempt: 1, error, .. }) = event else { panic!("{event:?}") };
    assert_eq!(error.to_string(), "the model's server answered with status 529: Overloaded");
}

#[tokio::test]
async fn what_is_no_stream_is_said_to_be_none() {
    let error = ask_once(ProviderKind::OpenAi, Answer::stream(["data: {not json}\n\n"])).await;
    assert_eq!(error.code(), "stream_broken", "{error}");
    let error = ask_once(ProviderKind::OpenAi, Answer::stream(["<html>Welcome</html>"])).await;
    assert_eq!(error.code(), "stream_broken", "{error}");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unreachable() {
    // Bound without listening, so that no other process gets the port meanwhile.
    let held = tokio::net::TcpSocket::new_v4().unwrap();
    held.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = format!("http://{}", held.local_addr().unwrap());
    let config = ModelConfig {
        base_url: Some(address),
        retries: Some(0),
        ..ModelConfig::new(ProviderKind::OpenAi, "stub")
    };
    let error = complete(&config.connect(Arc::new(SystemClock)).unwrap(), request()).await.unwrap_err();
    assert_eq!(error.code(), "unreachable", "{error}");
}

#[tokio::test]
async fn keys_are_sent_and_never_shown() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    std::fs::write(&file, "sk-very-secret\n").unwrap();
    for kind in ALL {
        let body = r#"{"error": {"message": "the key sk-very-secret is odd"}}"#;
        let stub = Stub::serve([Answer::status(400, body)]).await;
        let config = with_key(entry(kind, &stub), &file);
        let model = config.connect(Arc::new(SystemClock)).unwrap();
        let error = complete(&model, request()).await.unwrap_err();
        assert!(error.to_string().contains("the key [key] is odd"), "{kind:?}: {error}");
        assert!(!format!("{error:?} {model:?} {:?}", model.info()).contains("secret"), "{kind:?}");
        let sent = stub.seen()[0].head.contains("sk-very-secret");
        assert_eq!(sent, kind != ProviderKind::Ollama, "{kind:?}");
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed_with_the_key() {
    let stub = Stub::serve([
        Answer::status(307, "").header("location", "/elsewhere"),
        Answer::stream([says("stolen"), stops()]),
    ])
    .await;
    let error = complete(&connect(ProviderKind::OpenAi, &stub), request()).await.unwrap_err();
    assert!(matches!(error, LlmError::Status { status: 307, .. }), "{error}");
    assert_eq!(stub.seen().len(), 1);
}

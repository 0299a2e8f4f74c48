//! A real HTTP server on loopback that answers as chat-completions servers do.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::sync::Arc;
use std::time::Duration;

use agent_types::SystemClock;
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use futures::{StreamExt, stream};
use llm_provider::{
    Finish, LlmError, LlmEvent, LlmProvider, LlmRequest, Message, ModelConfig, OpenAiCompatible,
    ProviderKind, complete,
};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

#[derive(Clone)]
enum Answer {
    Pieces(Vec<&'static str>),
    Status(u16, &'static str),
    Stalls(&'static str),
}

/// Serves `answer` until the set is dropped; gives the address.
async fn serve(answer: Answer) -> (String, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let app = Router::new().route("/v1/chat/completions", post(reply)).with_state(answer);
    let mut tasks = JoinSet::new();
    tasks.spawn(async move { axum::serve(listener, app).await.unwrap() });
    (address, tasks)
}

async fn reply(State(answer): State<Answer>) -> Response {
    let event_stream = [(header::CONTENT_TYPE, "text/event-stream")];
    match answer {
        Answer::Pieces(pieces) => {
            // Each piece is a chunk of its own, so the client sees them apart.
            let body = stream::iter(pieces).then(|piece| async move {
                tokio::task::yield_now().await;
                Ok::<_, std::io::Error>(piece)
            });
            (event_stream, Body::from_stream(body)).into_response()
        }
        Answer::Status(status, body) => {
            let status = StatusCode::from_u16(status).unwrap();
            let headers = [(header::RETRY_AFTER, "2"), (header::CONTENT_TYPE, "application/json")];
            (status, headers, body).into_response()
        }
        Answer::Stalls(first) => {
            let body = stream::once(async move { Ok::<_, std::io::Error>(first) }).chain(stream::pending());
            (event_stream, Body::from_stream(body)).into_response()
        }
    }
}

fn request() -> LlmRequest {
    LlmRequest::new(vec![Message::user("hi")])
}

#[tokio::test]
async fn text_cut_inside_a_tag_arrives_whole() {
    let (address, _server) = serve(Answer::Pieces(vec![
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"Go. <ACT\"}}]}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"ION><ping/></AC\"}}]}\n\ndata: {\"choi",
        "ces\":[{\"index\":0,\"delta\":{\"content\":\"TION>\"},\"finish_reason\":\"stop\"}]}\n\n",
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":5,\"total_tokens\":12}}\n\n",
        "data: [DONE]\n\n",
    ]))
    .await;
    let model = OpenAiCompatible::at(address, "stub").unwrap();
    let mut stream = model.stream(request()).await.unwrap();
    let mut pieces = Vec::new();
    let answer = loop {
        match stream.next().await.unwrap().unwrap() {
            LlmEvent::Text(text) => pieces.push(text),
            LlmEvent::Finished(answer) => break answer,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(pieces, ["Go. <ACT", "ION><ping/></AC", "TION>"]);
    assert_eq!(answer.text, "Go. <ACTION><ping/></ACTION>");
    assert_eq!((answer.usage.input, answer.usage.output), (7, 5));
    assert_eq!(answer.finish, Finish::Stop);
    assert!(stream.next().await.is_none());
}

#[tokio::test]
async fn deltas_of_two_native_calls_are_put_together() {
    let (address, _server) = serve(Answer::Pieces(vec![
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c1\",\"type\":\"function\",\"function\":{\"name\":\"add\",\"arguments\":\"\"}}]}}]}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"{\\\"a\\\": 1,\"}}]}}]}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\" \\\"b\\\": 2}\"}}]}}]}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":1,\"id\":\"c2\",\"type\":\"function\",\"function\":{\"name\":\"now\",\"arguments\":\"{\"}}]}}]}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\" \"}}]}}]}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\n",
        "data: [DONE]\n\n",
    ]))
    .await;
    let model = OpenAiCompatible::at(format!("{address}/v1/"), "stub").unwrap();
    let answer = complete(&model, request()).await.unwrap();
    let calls: Vec<_> = answer
        .tool_calls
        .iter()
        .map(|call| (call.id.as_str(), call.name.as_str(), call.arguments.as_str()))
        .collect();
    assert_eq!(calls, [("c1", "add", r#"{"a": 1, "b": 2} "#), ("c2", "now", "{")]);
    assert_eq!(answer.finish, Finish::ToolCalls);
}

#[tokio::test]
async fn http_errors_keep_their_meaning() {
    for (status, expected) in [
        (401, LlmError::Authentication { status: 401 }),
        (429, LlmError::RateLimited { retry_after: Some(Duration::from_secs(2)) }),
        (500, LlmError::Status { status: 500, message: "it broke".into() }),
    ] {
        let (address, _server) = serve(Answer::Status(status, r#"{"error": {"message": "it broke"}}"#)).await;
        let model = OpenAiCompatible::at(address, "stub").unwrap();
        assert_eq!(complete(&model, request()).await, Err(expected));
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unreachable() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let model = OpenAiCompatible::at(address, "stub").unwrap();
    let error = complete(&model, request()).await.unwrap_err();
    assert_eq!(error.code(), "unreachable", "{error}");
}

#[tokio::test]
async fn a_stream_that_ends_early_is_no_answer() {
    let (address, _server) = serve(Answer::Pieces(vec![
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"half\"}}]}\n\n",
    ]))
    .await;
    let model = OpenAiCompatible::at(address, "stub").unwrap();
    let error = complete(&model, request()).await.unwrap_err();
    assert_eq!(error.code(), "stream_broken", "{error}");
}

#[tokio::test]
async fn a_stalled_stream_runs_into_its_limit() {
    let (address, _server) =
        serve(Answer::Stalls("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"half\"}}]}\n\n"))
            .await;
    let config = ModelConfig {
        base_url: Some(address),
        token_timeout_ms: Some(50),
        ..ModelConfig::new(ProviderKind::OpenAi, "stub")
    };
    let model = config.connect(Arc::new(SystemClock)).unwrap();
    let error = complete(&model, request()).await.unwrap_err();
    assert_eq!(error, LlmError::Timeout { limit: Duration::from_millis(50) });
}

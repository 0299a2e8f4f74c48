//! An agent against a real HTTP server that streams chat completions.

use std::sync::{Arc, Mutex};

use crate::common::{Ran, desk, weft_with, write};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use futures::{StreamExt, stream};
use serde_json::{Value, json};
use tokio::task::JoinSet;

/// One answer, in the pieces that it is sent in.
type Pieces = Vec<String>;

/// Answers in order, and the requests that came.
#[derive(Clone)]
struct Server(Arc<Mutex<(Vec<Pieces>, Vec<Value>)>>);

async fn reply(State(Server(state)): State<Server>, body: Bytes) -> Response {
    let pieces = {
        let mut state = state.lock().unwrap();
        state.1.push(serde_json::from_slice(&body).unwrap());
        if state.0.is_empty() { Vec::new() } else { state.0.remove(0) }
    };
    let body = stream::iter(pieces).then(|piece| async move {
        tokio::task::yield_now().await;
        Ok::<_, std::io::Error>(piece)
    });
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(body)).into_response()
}

fn event(delta: &Value, finish: Option<&str>) -> String {
    format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}))
}

/// A stream of text pieces.
fn text(pieces: &[&str]) -> Vec<String> {
    let mut events: Vec<String> =
        pieces.iter().map(|piece| event(&json!({"content": piece}), None)).collect();
    events.push(event(&json!({}), Some("stop")));
    events.push("data: [DONE]\n\n".into());
    events
}

/// Runs the desk agent against a server with these answers; gives what it printed and what was asked.
async fn run(answers: Vec<Pieces>, settings: &str) -> (Ran, Vec<Value>) {
    let server = Server(Arc::new(Mutex::new((answers, Vec::new()))));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/v1", listener.local_addr().unwrap());
    let app = Router::new().route("/v1/chat/completions", post(reply)).with_state(server.clone());
    let mut tasks = JoinSet::new();
    tasks.spawn(async move { axum::serve(listener, app).await.unwrap() });
    let folder = desk();
    let base = "[kb.Query]\npath = \"docs/**\"\n";
    write(folder.path(), "weft.toml", &format!("{base}{}", settings.replace("ADDRESS", &address)));
    let path = folder.path().to_owned();
    let ran = tokio::task::spawn_blocking(move || {
        weft_with(
            &path,
            &["agent", "run", "desk", "What time is it?", "--output", "jsonl"],
            "",
            &[("OPENAI_API_KEY", "sk-very-secret")],
        )
    })
    .await
    .unwrap();
    let requests = server.0.lock().unwrap().1.clone();
    (ran, requests)
}

fn texts<'e>(events: &'e [Value], kind: &str) -> Vec<&'e str> {
    let found = events.iter().filter(|event| event["type"] == kind);
    found.map(|event| event["data"]["text"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn text_cut_inside_a_tag_becomes_a_call() {
    let settings = "[models.default]\nprovider = \"openai\"\nmodel = \"stub\"\nbase_url = \"ADDRESS\"\n";
    let (ran, requests) = run(
        vec![
            text(&[
                "I look. <ACT",
                "ION><tool name=\"system:get_cur",
                "rent_time\"><timezone>Asia/To",
                "kyo</timezone></to",
                "ol></ACTION>",
            ]),
            text(&["It is ", "late."]),
        ],
        settings,
    )
    .await;
    let events = ran.ok().lines();
    assert_eq!(texts(&events, "agent.message"), ["I look.", "It is late."]);
    assert!(texts(&events, "agent.text.delta").iter().all(|text| !text.contains('<')), "no tag is shown");
    let observation = texts(&events, "agent.observation")[0];
    assert!(observation.ends_with("Asia/Tokyo)"), "{observation}");
    let second = requests[1].to_string();
    assert!(second.contains("executed successfully"), "{second}");
    assert!(requests[0]["tools"].is_null(), "tools are told in text");
}

#[tokio::test(flavor = "multi_thread")]
async fn deltas_of_native_calls_become_a_call() {
    let settings =
        "[models.default]\nprovider = \"openai\"\nmodel = \"stub\"\nbase_url = \"ADDRESS\"\nnative = true\n";
    let call = |delta: Value| event(&json!({"tool_calls": [delta]}), None);
    let calls = vec![
        call(
            json!({"index": 0, "id": "x1", "type": "function", "function": {"name": "system__get_current_time", "arguments": ""}}),
        ),
        call(json!({"index": 0, "function": {"arguments": "{\"timezone\": \"Asia/"}})),
        call(json!({"index": 0, "function": {"arguments": "Tokyo\"}"}})),
        event(&json!({}), Some("tool_calls")),
        "data: [DONE]\n\n".to_owned(),
    ];
    let (ran, requests) = run(vec![calls, text(&["Done."])], settings).await;
    let events = ran.ok().lines();
    assert!(texts(&events, "agent.observation")[0].ends_with("Asia/Tokyo)"));
    assert_eq!(texts(&events, "agent.message"), ["Done."]);
    let names: Vec<&Value> =
        requests[0]["tools"].as_array().unwrap().iter().map(|tool| &tool["function"]["name"]).collect();
    assert_eq!(names, ["system__get_current_time", "kb__Query", "workflow__summarize_text"]);
    let roles: Vec<&str> = requests[1]["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["role"].as_str().unwrap())
        .collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool"]);
    assert_eq!(requests[1]["messages"][3]["tool_call_id"], "x1");
}

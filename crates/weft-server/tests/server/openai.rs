//! Agents as models, byte for byte; the real clients are tried by `cargo xtask clients`.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::common::{PLAIN, Running, project, serve, serve_with};
use crate::http::request;

const CLOCK: (&str, &str) = (
    "agents/clock.json",
    r#"{"id": "clock", "name": "Clock", "tool_ids_inventory": ["system:get_current_time"]}"#,
);

const SCRIPT: (&str, &str) = (
    "script.jsonl",
    r#"{"chunks": ["I look.\n<ACT", "ION><tool name=\"system:get_current_time\"><timezone>UTC</timezone></tool></ACTION>"], "usage": {"input": 10, "output": 5}}
{"chunks": ["It is ", "noon."], "usage": {"input": 20, "output": 3}}
"#,
);

fn chat(model: &str, more: &Value) -> Value {
    let mut body = json!({"model": model, "messages": [{"role": "user", "content": "how late is it"}]});
    for (key, value) in more.as_object().unwrap() {
        body[key] = value.clone();
    }
    body
}

/// The chunks of a stream, and whether it ended as it should.
async fn stream(server: &Running, body: &Value) -> (Vec<Value>, bool) {
    let answer = server.post("/v1/chat/completions", body).await.expect(200);
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    let data: Vec<&str> = answer.body.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
    let chunks = data.iter().filter_map(|data| serde_json::from_str(data).ok()).collect();
    (chunks, data.last() == Some(&"[DONE]"))
}

fn content(chunks: &[Value]) -> String {
    chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_are_models() {
    let server = serve(&[PLAIN, CLOCK]);
    let list = server.get("/v1/models").await.expect(200).json();
    assert_eq!((&list["object"], &list["data"][0]["id"]), (&json!("list"), &json!("clock")));
    let one = server.get("/v1/models/plain").await.expect(200).json();
    assert_eq!((&one["object"], &one["owned_by"]), (&json!("model"), &json!("weft")));
    assert_eq!(server.get("/v1/models/other").await.expect(404).json()["error"]["code"], "model_not_found");
    let nothing = server.post("/v1/embeddings", &json!({})).await.expect(404).json();
    assert_eq!(nothing["error"]["type"], "not_found_error");
    for (method, path, status, code) in [
        ("PUT", "/v1/models", 405, "method_not_allowed"),
        ("GET", "/v1/chat/completions", 405, "method_not_allowed"),
        ("DELETE", "/v1/files/x", 404, "not_found"),
        ("GET", "/v1", 404, "not_found"),
        ("GET", "/v1/", 404, "not_found"),
        ("GET", "/v1/models/%ff", 400, "bad_value"),
    ] {
        let refused = server.send(method, path, &[], "").await.expect(status);
        assert_eq!(refused.json()["error"]["code"], code, "{method} {path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_completion_is_the_last_word_of_a_run() {
    let server = serve(&[CLOCK, SCRIPT]);
    let answer = server.post("/v1/chat/completions", &chat("clock", &json!({}))).await.expect(200);
    let run = answer.header("x-weft-run").unwrap().to_owned();
    let body = answer.json();
    assert_eq!(body["choices"][0]["message"]["content"], "It is noon.");
    assert_eq!(body["choices"][0]["finish_reason"], "stop");
    assert_eq!(body["usage"], json!({"prompt_tokens": 30, "completion_tokens": 8, "total_tokens": 38}));
    assert_eq!((&body["object"], &body["weft"]), (&json!("chat.completion"), &Value::Null));
    assert_eq!(server.get(&format!("/api/runs/{run}")).await.json()["text"], "It is noon.");
    let steps = chat("clock", &json!({"weft": {"steps": true}}));
    let answer = server.post("/v1/chat/completions", &steps).await.json();
    assert_eq!(answer["weft"]["exit"], "completed");
    let steps = answer["weft"]["steps"].as_array().unwrap();
    assert!(steps.iter().any(|step| step["type"] == "agent.tool.finished"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_tells_the_same_piece_by_piece() {
    let server = serve(&[CLOCK, SCRIPT]);
    let more = json!({"stream": true, "stream_options": {"include_usage": true}});
    let (chunks, is_done) = stream(&server, &chat("clock", &more)).await;
    assert!(is_done);
    assert_eq!(content(&chunks), "It is noon.");
    assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
    assert!(chunks.iter().any(|chunk| chunk["choices"][0]["finish_reason"] == "stop"));
    assert!(chunks.iter().all(|chunk| chunk["object"] == "chat.completion.chunk"));
    assert_eq!(chunks.last().unwrap()["usage"]["total_tokens"], 38);
    let (chunks, _) =
        stream(&server, &chat("clock", &json!({"stream": true, "weft": {"steps": true}}))).await;
    let events = chunks.iter().filter(|chunk| chunk["weft"]["event"]["type"] == "agent.tool.started").count();
    assert_eq!((events, content(&chunks).as_str()), (1, "It is noon."));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_said_before_is_heard() {
    // The first reply stands for the assistant's message of the request.
    let script = r#"{"text": "Nice to meet you."}
{"text": "Ann.", "request": {"contains": ["I am Ann.", "Nice to meet you.", "Be brief."], "messages": 4}}
"#;
    let server = serve(&[PLAIN, ("script.jsonl", script)]);
    let messages = json!({"messages": [{"role": "system", "content": "Be brief."},
        {"role": "user", "content": "I am Ann."}, {"role": "assistant", "content": "Nice to meet you."},
        {"role": "user", "content": "Who am I?"}]});
    let answer = server.post("/v1/chat/completions", &chat("plain", &messages)).await.expect(200).json();
    assert_eq!(answer["choices"][0]["message"]["content"], "Ann.");
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_are_in_the_form_of_these_clients() {
    let server = serve(&[PLAIN]);
    let none = server.send("POST", "/v1/chat/completions", &[("authorization", "")], "{}").await.expect(401);
    assert_eq!(none.json()["error"]["code"], "invalid_api_key");
    let unknown = server.post("/v1/chat/completions", &chat("plan", &json!({}))).await.expect(404).json();
    assert_eq!(unknown["error"]["code"], "model_not_found");
    assert!(unknown["error"]["message"].as_str().unwrap().contains("did you mean `plain`?"));
    let tools = chat("plain", &json!({"tools": [{"type": "function"}]}));
    let refused = server.post("/v1/chat/completions", &tools).await.expect(400);
    assert_eq!(refused.header("x-should-retry"), Some("false"));
    let bad = server.send("POST", "/v1/chat/completions", &[], "{").await.expect(400).json();
    assert_eq!(bad["error"]["type"], "invalid_request_error");
    let host = server.send("GET", "/v1/models", &[("host", "evil.test")], "").await.expect(403).json();
    assert_eq!(host["error"]["type"], "permission_error");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_fails_is_an_error_also_in_a_stream() {
    let server = serve(&[PLAIN, ("script.jsonl", "{\"error\": {\"status\": 400}}\n")]);
    let failed = server.post("/v1/chat/completions", &chat("plain", &json!({}))).await.expect(502);
    assert_eq!(failed.json()["error"]["code"], "llm_failed");
    assert_eq!(failed.header("x-should-retry"), Some("false"));
    let (chunks, is_done) = stream(&server, &chat("plain", &json!({"stream": true}))).await;
    assert!(!is_done);
    assert_eq!(chunks.last().unwrap()["error"]["code"], "llm_failed");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_of_a_schema_is_json() {
    let server = serve(&[PLAIN, ("script.jsonl", "{\"text\": \"{\\\"n\\\": 3}\"}\n")]);
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let format = json!({"type": "json_schema", "json_schema": {"name": "n", "schema": schema}});
    let body = chat("plain", &json!({"response_format": format}));
    let answer = server.post("/v1/chat/completions", &body).await.expect(200).json();
    let text = answer["choices"][0]["message"]["content"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(text).unwrap(), json!({"n": 3}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_away_ends_its_run() {
    let server = serve(&[PLAIN, ("script.jsonl", "{\"chunks\": [\"Slowly.\"], \"hang\": true}\n")]);
    let body = chat("plain", &json!({"stream": true})).to_string();
    let (host, bearer) = (server.host(), format!("Bearer {}", server.token));
    let headers =
        [("host", host.as_str()), ("authorization", bearer.as_str()), ("content-type", "application/json")];
    let mut stream = tokio::net::TcpStream::connect(server.address).await.unwrap();
    stream.write_all(&request("POST", "/v1/chat/completions", &headers, &body)).await.unwrap();
    let mut heard = Vec::new();
    while !String::from_utf8_lossy(&heard).contains("Slowly.") {
        let mut piece = [0; 1024];
        let read = stream.read(&mut piece).await.unwrap();
        assert!(read > 0);
        heard.extend_from_slice(&piece[..read]);
    }
    drop(stream);
    let run = server.get("/api/runs").await.json()[0]["run"].as_str().unwrap().to_owned();
    server.until(&run, "cancelled").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_ends_leaves_its_runs_to_the_next() {
    let script = ("script.jsonl", "{\"chunks\": [\"Slowly.\"], \"hang\": true}\n");
    // Which of the two is dropped first, the connection or the run, is chance.
    for is_stream in [true, false].into_iter().cycle().take(20) {
        let mut server = serve_with(project(&[PLAIN, script]), |options| options.settings.grace_ms = 50);
        let body = chat("plain", &json!({"stream": is_stream})).to_string();
        let (host, bearer) = (server.host(), format!("Bearer {}", server.token));
        let headers = [
            ("host", host.as_str()),
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
        ];
        let mut stream = tokio::net::TcpStream::connect(server.address).await.unwrap();
        stream.write_all(&request("POST", "/v1/chat/completions", &headers, &body)).await.unwrap();
        let run = loop {
            if let Some(run) = server.get("/api/runs").await.json()[0]["run"].as_str() {
                break run.to_owned();
            }
        };
        server.until(&run, "running").await;
        server.handle.close();
        server.ended().await;
        let next = serve_with(server.folder, |_| ());
        next.until(&run, "interrupted").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_of_the_server_is_named() {
    let script = "{\"text\": \"One.\"}\n{\"text\": \"Two.\", \"request\": {\"contains\": [\"One.\"]}}\n";
    let server = serve(&[PLAIN, ("script.jsonl", script)]);
    let body = chat("plain", &json!({"weft": {"thread": "t"}}));
    for expected in ["One.", "Two."] {
        let answer = server.post("/v1/chat/completions", &body).await.expect(200).json();
        assert_eq!(answer["choices"][0]["message"]["content"], expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_was_cut_off_says_so() {
    for (finish, expected) in [("length", "length"), ("content_filter", "content_filter"), ("stop", "stop")] {
        let script = json!({"text": "Half of", "finish": finish}).to_string();
        let server = serve(&[CLOCK, ("script.jsonl", &script)]);
        let answer = server.post("/v1/chat/completions", &chat("clock", &json!({}))).await.expect(200).json();
        assert_eq!(answer["choices"][0]["message"]["content"], "Half of");
        assert_eq!(answer["choices"][0]["finish_reason"], expected);
    }
}

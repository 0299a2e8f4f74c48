//! Limits, each with its status, and the end of a server.

use std::time::Duration;

use agent_types::RunId;
use run_store::{Backend as _, Sqlite, Sync};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use weft_project::{Project, ProjectOptions};

use crate::common::{COUNT, PLAIN, SLEEP, pause, project, serve, serve_with};
use crate::http::{parse, raw, request};
use crate::live::Socket;

fn sleep() -> Value {
    json!({"workflow": "sleep", "inputs": {"value": "x"}})
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_wait_for_their_turn_and_too_many_are_refused() {
    let server = serve_with(project(&[SLEEP]), |options| {
        options.settings.max_runs = 1;
        options.settings.max_queue = 2;
    });
    let mut begun = Vec::new();
    for _ in 0..3 {
        begun.push(server.begin(&sleep()).await);
    }
    let refused = server.post("/api/runs", &sleep()).await.expect(429);
    assert_eq!(refused.code(), "queue_full");
    assert_eq!(refused.header("retry-after"), Some("1"));
    // One that waits needs no room to be cancelled.
    server.send("POST", &format!("/api/runs/{}/cancel", begun[2]), &[], "").await.expect(202);
    server.until(&begun[2], "cancelled").await;
    let waited = server.events(&begun[1]).await;
    assert_eq!((&waited[0]["type"], &waited[1]["type"]), (&json!("run.queued"), &json!("run.started")));
    assert_eq!(server.events(&begun[0]).await[0]["type"], "run.started");
    server.until(&begun[1], "ok").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_connections_are_told_so() {
    let server = serve_with(project(&[]), |options| options.settings.max_connections = 2);
    let one = TcpStream::connect(server.address).await.unwrap();
    let two = TcpStream::connect(server.address).await.unwrap();
    pause(50).await;
    let refused = server.send("GET", "/api/meta", &[], "").await.expect(503);
    assert_eq!(refused.code(), "too_many_connections");
    drop((one, two));
    for _ in 0..100 {
        if server.get("/api/meta").await.status == 200 {
            return;
        }
        pause(20).await;
    }
    panic!("the places were never given back");
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_are_too_long_or_of_another_kind_are_refused() {
    let server = serve_with(project(&[PLAIN]), |options| options.settings.max_body_kib = 16);
    let long = json!({"agent": "plain", "message": "x".repeat(17 * 1024)});
    assert_eq!(server.post("/api/runs", &long).await.expect(413).code(), "body_too_large");
    let form = [("content-type", "application/x-www-form-urlencoded")];
    assert_eq!(server.send("POST", "/api/runs", &form, "agent=plain").await.expect(415).code(), "not_json");
    let text = [("content-type", "text/plain")];
    assert_eq!(server.send("POST", "/api/runs", &text, "{}").await.expect(415).code(), "not_json");
    assert_eq!(server.send("POST", "/api/runs", &[], "{").await.expect(400).code(), "bad_json");
    // A head that is too long ends the connection with a status of its own.
    let long = "x".repeat(1 << 20);
    assert_eq!(server.send("GET", "/api/meta", &[("x-long", &long)], "").await.status, 431);
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_requests_are_ended() {
    let server = serve_with(project(&[]), |options| options.slow = Duration::from_millis(200));
    // A head that never ends.
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(b"GET /api/meta HTTP/1.1\r\nhost: ").await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    assert!(answer.is_empty() || parse(&answer).status == 408, "{answer:?}");
    // A body that never ends.
    let (host, bearer) = (server.host(), format!("Bearer {}", server.token));
    let headers = [
        ("host", host.as_str()),
        ("authorization", bearer.as_str()),
        ("content-type", "application/json"),
        ("content-length", "100"),
    ];
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(&request("POST", "/api/runs", &headers, "")).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    let answer = parse(&answer);
    assert_eq!((answer.status, answer.code()), (408, "slow_request".to_owned()));
    // A socket that never says hello.
    let mut socket = Socket::open(&server, &[]).await.unwrap();
    assert_eq!(socket.next().await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn nonsense_ends_its_own_connection_only() {
    let server = serve(&[]);
    for nonsense in [&b"\0\xff\r\n\r\n"[..], b"GET\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"]
    {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(nonsense).await.unwrap();
        stream.shutdown().await.unwrap();
        // The answer is the library's: a bad request, or nothing.
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
    }
    server.get("/api/meta").await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_ends_lets_runs_finish() {
    let mut server = serve(&[SLEEP]);
    let run = server.begin(&sleep()).await;
    server.handle.close();
    server.ended().await;
    let mut options = ProjectOptions::default();
    options.environment = None;
    let project = Project::open(server.folder.path(), &options).unwrap();
    let record = project.store().unwrap().unwrap().known(&agent_types::RunId::new(run)).unwrap();
    assert_eq!(record.state.phase.as_str(), "ok");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_ends_takes_no_new_runs() {
    let mut server = serve(&[SLEEP]);
    server.begin(&sleep()).await;
    // A request that was under way when the end began.
    let (host, bearer, body) = (server.host(), format!("Bearer {}", server.token), sleep().to_string());
    let headers =
        [("host", host.as_str()), ("authorization", bearer.as_str()), ("content-type", "application/json")];
    let whole = request("POST", "/api/runs", &headers, &body);
    let (first, rest) = whole.split_at(whole.len() - 10);
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(first).await.unwrap();
    pause(50).await;
    server.handle.close();
    pause(20).await;
    stream.write_all(rest).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    let answer = parse(&answer);
    assert_eq!((answer.status, answer.code()), (503, "shutting_down".to_owned()));
    server.ended().await;
    assert!(raw(server.address, b"").await.is_err(), "nothing listens any more");
}

#[tokio::test(flavor = "multi_thread")]
async fn single_calls_have_their_time_too() {
    let arguments = json!({"value": "x"});
    let rpc = |id: u64, method: &str, params: Value| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    for (path, request) in [
        ("/api/tools/workflow:sleep/call", json!({"arguments": arguments})),
        ("/mcp", rpc(2, "tools/call", json!({"name": "workflow__sleep", "arguments": arguments}))),
    ] {
        // A call that a busy machine has not begun by then is refused: then it gets more time to begin, though never
        // enough to be over.
        let mut body = String::new();
        for before in [200, 600, 1200, 1700] {
            body = answer_at_shutdown(path, &request, &hello, before).await;
            if body.contains(r#""x""#) {
                break;
            }
        }
        assert!(body.contains(r#""x""#), "{path}: {body}");
    }
}

/// Answer to a call when the server begins to drain so many milliseconds after it was sent.
async fn answer_at_shutdown(path: &str, body: &Value, hello: &Value, before: u64) -> String {
    let slow = SLEEP.1.replace("400", "2000");
    let mut server = serve(&[(SLEEP.0, &slow)]);
    let both = ("accept", "application/json, text/event-stream");
    let begun = server
        .send(
            "POST",
            "/mcp",
            &[both],
            &json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}).to_string(),
        )
        .await;
    let session = begun.header("mcp-session-id").unwrap_or_default().to_owned();
    let (host, bearer) = (server.host(), format!("Bearer {}", server.token));
    let headers = [
        ("host", host.as_str()),
        ("authorization", bearer.as_str()),
        ("content-type", "application/json"),
        both,
        ("mcp-session-id", session.as_str()),
    ];
    let headers = if session.is_empty() { &headers[..4] } else { &headers[..] };
    let (whole, address) = (request("POST", path, headers, &body.to_string()), server.address);
    let mut calls = JoinSet::new();
    calls.spawn(async move { parse(&raw(address, &whole).await.unwrap()) });
    pause(before).await;
    server.handle.close();
    let answer = calls.join_next().await.unwrap().unwrap();
    server.ended().await;
    answer.body
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_is_in_the_file() {
    let server = serve(&[COUNT, PLAIN]);
    let file = Sqlite::open(&server.folder.path().join(".weft/weft.db"), Sync::Normal).unwrap();
    let count = json!({"workflow": "count", "inputs": {"n": 3}});
    for body in [count, json!({"agent": "plain", "message": "hi"})].iter().cycle().take(20) {
        // As after a crash: what the server still holds is not asked.
        let run = RunId::new(server.begin(body).await);
        assert!(file.run(&run).unwrap().is_some(), "{run}");
        let done = server.until(run.as_str(), "ok").await;
        if done["workflow"] == "count" {
            let fork = server.post(&format!("/api/runs/{run}/fork"), &json!({})).await.expect(202).json();
            assert!(file.run(&RunId::new(fork["run"].as_str().unwrap())).unwrap().is_some(), "a fork");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_when_a_server_ends_goes_on_in_the_next() {
    let mut server = serve_with(project(&[COUNT]), |options| options.settings.grace_ms = 50);
    let run = server.begin(&json!({"workflow": "count", "inputs": {"n": 100_000}})).await;
    let mut socket = Socket::hello(&server).await;
    socket.say(&json!({"type": "sub", "run": run})).await;
    pause(100).await;
    server.handle.close();
    server.ended().await;
    while socket.next().await.is_some() {}
    let next = serve_with(server.folder, |_| ());
    let shown = next.get(&format!("/api/runs/{run}")).await.json();
    assert_eq!(shown["status"], "interrupted");
    // What was dropped may hold the run for a moment more, in the same process.
    while next.send("POST", &format!("/api/runs/{run}/resume"), &[], "").await.status != 202 {
        pause(20).await;
    }
    pause(50).await;
    next.send("POST", &format!("/api/runs/{run}/cancel"), &[], "").await.expect(202);
    next.until(&run, "cancelled").await;
}

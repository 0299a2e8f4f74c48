//! Channels of sessions: signed messages in, each answered once, and everything that is said out.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use agent_types::{Clock, SystemClock};
use serde_json::{Value, json};
use session_channels::{SignatureHeaders, Signer};
use weft_harness::StubServer;

use crate::common::{PLAIN, Running, pause, project, serve_with};
use crate::http::Response;
use crate::live::Socket;

/// A variable that every test has, as a secret.
const SECRET: &str = env!("CARGO_PKG_DESCRIPTION");

const FLOWS: (&str, &str) = (
    "flows.json",
    r#"{"agent": "plain",
    "flows": [{"flow_id": "hours", "trigger_patterns": ["open"], "target": {"endpoint": {"url": "http://127.0.0.1:1/"}}, "on_error": {"reply": "Nine to five."}}],
    "timers": [{"timer_id": "idle", "delay_ms": 3000, "action": {"reply": "Are you there?"}}],
    "system_actions": [{"action_id": "human", "handler": "handoff", "trigger_patterns": ["a person"]}]}"#,
);

/// A system that refuses so many messages before it takes them.
fn system(refusals: usize) -> StubServer {
    let left = Arc::new(AtomicUsize::new(refusals));
    StubServer::json(move |_| {
        let is_refused = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        (if is_refused.is_ok() { 500 } else { 200 }, Value::Null)
    })
}

fn desk(system: &StubServer, allowed: &str) -> Running {
    let settings = format!(
        "script = \"script.jsonl\"\n[store]\nsync = \"normal\"\n[network]\nallow = [\"{allowed}\"]\n\
         [channels.desk]\nkind = \"webhook\"\nagent = \"plain\"\nsecret = \"{{$secret.CARGO_PKG_DESCRIPTION}}\"\nto = \"{}\"\n\
         [channels.closed]\nkind = \"webhook\"\nagent = \"plain\"\nsecret = \"{{$secret.THERE_IS_NO_SUCH_VARIABLE}}\"\n\
         [widgets.shop]\nagent = \"plain\"\norigins = [\"https://shop.example\"]\n",
        system.url("/out")
    );
    serve_with(project(&[PLAIN, FLOWS, ("weft.toml", &settings)]), |_| ())
}

async fn post_as(server: &Running, secret: &str, path: &str, id: &str, body: &str) -> Response {
    let at = (SystemClock.now().as_millis() / 1000).to_string();
    let signature = Signer::new(secret).unwrap().sign(id, &at, body.as_bytes());
    let headers = [
        ("authorization", ""),
        ("webhook-id", id),
        ("webhook-timestamp", &at),
        ("webhook-signature", &signature),
    ];
    server.send("POST", path, &headers, body).await
}

async fn post(server: &Running, id: &str, text: &str) -> Response {
    let body = json!({"conversation": "c1", "text": text}).to_string();
    post_as(server, SECRET, "/channels/desk", id, &body).await
}

/// The first messages that a system received, once there are so many: ids, and the messages. All are signed.
async fn received(system: &StubServer, count: usize) -> Vec<(String, Value)> {
    for _ in 0..500 {
        if system.requests().len() >= count {
            break;
        }
        pause(20).await;
    }
    let requests = system.requests();
    assert!(requests.len() >= count, "{count} did not come: {requests:#?}");
    requests[..count].iter().map(|request| opened(request)).collect()
}

fn opened(request: &str) -> (String, Value) {
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    let header = |name: &str| {
        let found = head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        found.unwrap_or_else(|| panic!("{name}: {head}"))
    };
    let (id, timestamp) = (header("webhook-id"), header("webhook-timestamp"));
    let headers = SignatureHeaders { id, timestamp, signature: header("webhook-signature") };
    assert!(Signer::new(SECRET).unwrap().is_signed(headers, body.as_bytes()), "{request}");
    let message: Value = serde_json::from_str(body).unwrap();
    assert_eq!((&message["id"], &message["conversation"]), (&json!(id), &json!("c1")));
    (id.to_owned(), message)
}

fn lines(messages: &[(String, Value)]) -> Vec<String> {
    let line = |message: &Value| format!("{}: {}", message["author"], message["text"]).replace('"', "");
    messages.iter().map(|(_, message)| line(message)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_that_is_said_goes_out_in_order_and_once() {
    let system = system(2);
    let server = desk(&system, &system.address.to_string());
    let first = post(&server, "m1", "Hi").await.expect(202).json();
    assert_eq!(first["session"], "desk:c1");
    let again = post(&server, "m1", "Hi").await.expect(200).json();
    assert_eq!((&again["run"], &again["repeated"]), (&first["run"], &json!(true)));
    // Two attempts fail, and the third is the same message.
    let sent = received(&system, 3).await;
    assert_eq!(lines(&sent), ["agent: Hello."; 3]);
    assert!(sent.iter().all(|(id, _)| *id == sent[0].0), "{sent:?}");
    let timer = received(&system, 4).await.remove(3);
    assert_eq!((&timer.1["author"], &timer.1["text"]), (&json!("timer"), &json!("Are you there?")));
    post(&server, "m2", "When are you open?").await.expect(202);
    received(&system, 5).await;
    post(&server, "m3", "I want a person").await.expect(202);
    received(&system, 6).await;
    let said = json!({"person": "ann", "text": "Ann here."});
    server.post("/api/sessions/desk:c1/messages", &said).await.expect(200);
    server.post("/api/sessions/desk:c1/notes", &json!({"text": "Be kind."})).await.expect(200);
    let sent = received(&system, 7).await;
    assert_eq!(
        lines(&sent)[4..],
        ["flow: Nine to five.", "action: You are being connected to a person...", "person: Ann here."]
    );
    assert_eq!((&sent[4].1["failed"], &sent[6].1["name"]), (&json!(true), &json!("ann")));
    pause(1000).await;
    assert_eq!(system.requests().len(), 7, "nothing is sent twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_holder_of_the_secret_writes() {
    let system = system(0);
    let server = desk(&system, "127.0.0.1:1");
    let body = json!({"conversation": "c1", "text": "Hi"}).to_string();
    let refused = post_as(&server, "another secret of many", "/channels/desk", "m1", &body).await.expect(401);
    assert_eq!(refused.code(), "bad_signature");
    let unsigned = server.send("POST", "/channels/desk", &[], &body).await.expect(401);
    assert_eq!(unsigned.code(), "bad_signature");
    let closed = post_as(&server, SECRET, "/channels/closed", "m1", &body).await.expect(503);
    assert_eq!(closed.code(), "missing_secret");
    let unknown = post_as(&server, SECRET, "/channels/dsek", "m1", &body).await.expect(404);
    assert_eq!(unknown.code(), "unknown_channel");
    let empty = post_as(&server, SECRET, "/channels/desk", "m1", "{\"text\": \"Hi\"}").await.expect(400);
    assert_eq!(empty.code(), "bad_message");
    assert_eq!(server.get("/api/runs").await.expect(200).json(), json!([]));
    // An address that the network rules do not allow gets nothing.
    post(&server, "m1", "Hi").await.expect(202);
    pause(1500).await;
    assert_eq!(system.requests(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_widget_talks_over_a_socket() {
    let server = desk(&system(0), "127.0.0.1:1");
    let (path, key) = ("/widget/shop/socket", "a".repeat(64));
    let site = [("origin", "https://shop.example")];
    assert!(Socket::open_at(&server, path, &[("origin", "https://other.example")]).await.is_err());
    let mut wrong = Socket::open_at(&server, path, &site).await.unwrap();
    wrong.say(&json!({"type": "hello", "key": "short"})).await;
    assert_eq!(wrong.next().await.unwrap()["code"], "bad_key");
    let mut socket = Socket::open_at(&server, path, &site).await.unwrap();
    socket.say(&json!({"type": "hello", "key": key})).await;
    assert_eq!(socket.next().await.unwrap(), json!({"type": "state", "with": "agent", "person": null}));
    let message = json!({"type": "message", "text": "Hi", "id": "m1"});
    let heard = async |socket: &mut Socket, author: &str| loop {
        let frame = socket.next().await.unwrap();
        if frame["author"] == author {
            return frame;
        }
    };
    socket.say(&message).await;
    let accepted = socket.next().await.unwrap();
    assert_eq!((&accepted["type"], &accepted["id"]), (&json!("accepted"), &json!("m1")), "{accepted}");
    let (mut text, mut agent) = (String::new(), Value::Null);
    while text.is_empty() || agent.is_null() {
        let frame = socket.next().await.unwrap();
        text += frame["text"].as_str().filter(|_| frame["type"] == "delta").unwrap_or_default();
        if frame["author"] == "agent" {
            agent = frame;
        }
    }
    assert_eq!((&*text, &agent["text"]), ("Hello.", &json!("Hello.")));
    socket.say(&message).await;
    let repeated = loop {
        let frame = socket.next().await.unwrap();
        if frame["type"] == "accepted" {
            break frame["repeated"].clone();
        }
    };
    assert_eq!(repeated, true);
    socket.say(&json!({"type": "message", "text": " "})).await;
    socket.say(&json!({"type": "message", "text": "a person"})).await;
    assert_eq!(heard(&mut socket, "action").await["text"], "You are being connected to a person...");
    let sessions = server.get("/api/sessions?waiting=true").await.expect(200).json();
    let session = sessions[0]["session"].as_str().unwrap();
    let said = json!({"person": "ann", "text": "Ann here."});
    server.post(&format!("/api/sessions/{session}/messages"), &said).await.expect(200);
    let person = heard(&mut socket, "person").await;
    assert_eq!((&person["text"], &person["name"]), (&json!("Ann here."), &json!("ann")));
    // A client that comes back behind a message hears what follows it.
    let mut later = Socket::open_at(&server, path, &[]).await.unwrap();
    let after: usize = agent["id"].as_str().unwrap().parse().unwrap();
    later.say(&json!({"type": "hello", "key": key, "after": after})).await;
    assert_eq!(later.next().await.unwrap()["text"], "a person");
}

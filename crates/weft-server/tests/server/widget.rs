//! Chats that other sites embed: their users reach their own conversation and nothing else.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::common::{PLAIN, Running, project, serve_with};
use crate::http::{Response, request};

const SETTINGS: &str = "script = \"script.jsonl\"\n[store]\nsync = \"normal\"\n\
    [widgets.shop]\nagent = \"plain\"\norigins = [\"https://shop.example\"]\ntitle = \"Ask <us>\"\n\
    messages_per_minute = 2\n";

/// Replies of the model, one a run.
const SCRIPT: &str = "{\"text\": \"Hello.\"}\n";

fn shop() -> Running {
    serve_with(project(&[PLAIN, ("weft.toml", SETTINGS), ("script.jsonl", SCRIPT)]), |_| ())
}

/// A user's key of this digit.
fn key(digit: char) -> String {
    digit.to_string().repeat(64)
}

async fn say(server: &Running, key: &str, text: &str) -> Response {
    let bearer = format!("Bearer {key}");
    let body = json!({"text": text}).to_string();
    server.send("POST", "/widget/shop/messages", &[("authorization", &bearer)], &body).await
}

/// Messages that a user receives before the state.
async fn received(server: &Running, key: &str) -> Vec<Value> {
    let (host, bearer) = (server.host(), format!("Bearer {key}"));
    let headers = [("host", host.as_str()), ("authorization", bearer.as_str())];
    let mut socket = TcpStream::connect(server.address).await.unwrap();
    socket.write_all(&request("GET", "/widget/shop/events", &headers, "")).await.unwrap();
    let mut text = String::new();
    while !text.contains("event: state") {
        let mut piece = [0; 4096];
        let read = socket.read(&mut piece).await.unwrap();
        assert!(read > 0, "{text}");
        text.push_str(&String::from_utf8_lossy(&piece[..read]));
    }
    let before = text.split("event: state").next().unwrap_or_default();
    before.lines().filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_has_the_own_conversation_and_no_other() {
    let server = shop();
    let answer = say(&server, &key('a'), "Hi").await.expect(200);
    let text = answer.body;
    assert!(
        text.contains("event: delta\ndata: {\"text\":\"Hello.\"}")
            && text.ends_with("event: end\ndata: {}\n\n"),
        "{text}"
    );
    let messages = received(&server, &key('a')).await;
    let said: Vec<_> = messages.iter().map(|message| (&message["author"], &message["text"])).collect();
    assert_eq!(said, [(&json!("user"), &json!("Hi")), (&json!("agent"), &json!("Hello."))]);
    assert_eq!(received(&server, &key('b')).await, Vec::<Value>::new());
    // The key opens nothing else.
    let bearer = format!("Bearer {}", key('a'));
    for path in ["/api/runs", "/api/sessions", "/v1/models"] {
        server.send("GET", path, &[("authorization", &bearer)], "").await.expect(401);
    }
    say(&server, "short", "Hi").await.expect(401);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_has_so_many_messages_a_minute() {
    let server = shop();
    for status in [200, 200, 429] {
        say(&server, &key('c'), "Hi").await.expect(status);
    }
    say(&server, &key('d'), "Hi").await.expect(200);
    say(&server, &key('d'), "  ").await.expect(400);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_stands_in_frames_of_its_sites_alone() {
    let server = shop();
    let page = server.send("GET", "/widget/shop", &[("authorization", "")], "").await.expect(200);
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.ends_with("frame-ancestors 'self' https://shop.example"), "{policy}");
    let html = page.body;
    assert!(html.contains("<title>Ask &lt;us&gt;</title>"), "{html}");
    assert!(!html.contains(&server.token));
    let script = server.get("/widget/shop/embed.js").await.expect(200);
    assert_eq!(script.header("cross-origin-resource-policy"), Some("cross-origin"));
    let unknown = server.get("/widget/other").await.expect(404);
    assert_eq!(unknown.code(), "unknown_widget");
}

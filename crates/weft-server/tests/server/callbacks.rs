//! Tools whose work is reported to a one-time address.

use serde_json::{Value, json};
use weft_harness::StubServer;
use weft_server::ServerOptions;

use crate::common::{Running, pause, project, serve_with, write};

/// Name at which other systems reach the server.
const PUBLIC: (&str, &str) = ("host", "weft.example");

/// A system that accepts work, and an agent that asks for it.
fn at_work(callback: &Value) -> (tempfile::TempDir, StubServer) {
    let other = StubServer::json(|_| (202, Value::Null));
    let tool = json!({"name": "make_report", "description": "d",
        "endpoint": {"url": format!("http://{}/jobs", other.address), "method": "PUT", "body": {"notify": "{callback_url}"}},
        "response": {"select": "$.report"},
        "async": {"callback": callback, "failed": {"path": "$.state", "values": ["failed"]}}});
    let agent = json!({"id": "clerk", "name": "Clerk", "tool_ids_inventory": ["make_report"],
        "approval": {"default": "auto"}});
    let call = "<ACTION><tool name=\"make_report\"></tool></ACTION>";
    let lines = [
        json!({"text": call}),
        json!({"text": "It is under way."}),
        json!({"text": "It says kiwi.", "request": {"contains": ["kiwi"]}}),
    ];
    let settings = format!(
        "script = \"script.jsonl\"\n[store]\nsync = \"normal\"\n[network]\nallow = [\"{}\"]\n",
        other.address
    );
    let folder = project(&[
        ("weft.toml", &settings),
        ("tools/make_report.tool.json", &tool.to_string()),
        ("agents/clerk.json", &agent.to_string()),
        ("script.jsonl", &lines.map(|line| line.to_string()).join("\n")),
    ]);
    (folder, other)
}

fn public(options: &mut ServerOptions) {
    options.settings.public_url = Some("https://weft.example/".to_owned().try_into().unwrap());
}

/// A run that waits for a report, and the path at which it waits.
async fn waiting(server: &Running, other: &StubServer) -> (String, String) {
    let run = server.begin(&json!({"agent": "clerk", "message": "Begin."})).await;
    server.until(&run, "waiting").await;
    // The call is a task, which sends when the run waits already.
    for _ in 0..400 {
        if !other.requests().is_empty() {
            break;
        }
        pause(10).await;
    }
    let sent = other.only_request();
    let (_, body) = sent.split_once("\r\n\r\n").unwrap();
    let body: Value = serde_json::from_str(body).unwrap();
    let path = body["notify"].as_str().unwrap().strip_prefix("https://weft.example").unwrap().to_owned();
    (run, path)
}

async fn report(server: &Running, path: &str, body: &str) -> (u16, Value) {
    let answer = server.send("POST", path, &[PUBLIC, ("authorization", "none")], body).await;
    let code = if answer.body.is_empty() { Value::Null } else { answer.json()["code"].clone() };
    (answer.status, code)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_is_the_result_of_its_call_once() {
    let (folder, other) = at_work(&json!({"max_body_kib": 1}));
    let server = serve_with(folder, public);
    let (run, path) = waiting(&server, &other).await;
    let (place, secret) = path.rsplit_once('/').unwrap();
    let other_secret = "0".repeat(secret.len());
    for wrong in [
        format!("{place}/{other_secret}"),
        format!("/hooks/calls/{other_secret}/{secret}"),
        format!("{place}/x"),
    ] {
        assert_eq!(report(&server, &wrong, "{}").await, (404, json!("unknown_callback")), "{wrong}");
    }
    let long = json!({"report": "x".repeat(2000)}).to_string();
    assert_eq!(report(&server, &path, &long).await, (413, json!("body_too_large")));
    assert_eq!(server.get(&path).await.status, 405);
    let body = json!({"report": "kiwi"}).to_string();
    let (one, two) = tokio::join!(report(&server, &path, &body), report(&server, &path, &body));
    let mut both = [one, two];
    both.sort_by_key(|(status, _)| *status);
    assert_eq!(both, [(204, Value::Null), (410, json!("callback_used"))]);
    assert_eq!(report(&server, &path, "{}").await, (410, json!("callback_used")));
    assert_eq!(server.until(&run, "ok").await["text"], "It says kiwi.");
    // The store holds no secret.
    let store = std::fs::read(server.folder.path().join(".weft/runs.db")).unwrap_or_default();
    assert!(!store.windows(secret.len()).any(|part| part == secret.as_bytes()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_reaches_a_call_of_a_server_that_was_killed() {
    let (folder, other) = at_work(&json!({}));
    let server = serve_with(folder, public);
    let (run, path) = waiting(&server, &other).await;
    let server = restarted(server).await;
    let body = json!({"report": "kiwi"}).to_string();
    assert_eq!(report(&server, &path, &body).await, (204, Value::Null));
    assert_eq!(server.until(&run, "ok").await["text"], "It says kiwi.");
    assert_eq!(other.requests().len(), 1);
}

async fn restarted(mut server: Running) -> Running {
    server.handle.abandon();
    server.ended().await;
    serve_with(server.folder, public)
}

/// The failure that an agent reads, where the script plays it back.
fn failure(server: &Running, words: &str) {
    let lines = [
        json!({"text": "<ACTION><tool name=\"make_report\"></tool></ACTION>"}),
        json!({"text": "It is under way."}),
        json!({"text": "It failed.", "request": {"contains": [words]}}),
    ];
    write(server.folder.path(), "script.jsonl", &lines.map(|line| line.to_string()).join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn work_that_failed_is_reported_as_such() {
    let (folder, other) = at_work(&json!({}));
    let server = serve_with(folder, public);
    failure(&server, "the work failed");
    let (run, path) = waiting(&server, &other).await;
    let body = json!({"state": "failed", "why": "no paper"}).to_string();
    assert_eq!(report(&server, &path, &body).await, (204, Value::Null));
    assert_eq!(server.until(&run, "ok").await["text"], "It failed.");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_a_public_address_sends_nothing() {
    let (folder, other) = at_work(&json!({}));
    let server = serve_with(folder, |_| ());
    failure(&server, "no public address");
    let run = server.begin(&json!({"agent": "clerk", "message": "Begin."})).await;
    assert_eq!(server.until(&run, "ok").await["text"], "It failed.");
    pause(50).await;
    assert!(other.requests().is_empty());
}

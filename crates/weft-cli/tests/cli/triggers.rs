//! Triggers and tasks of `weft serve` as a real process, which is killed.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use weft_harness::StubServer;

use crate::common::{weft, write};
use crate::serving::{Served, TOKEN};

/// Secret of the hook.
const HOOK_KEY: &str = "a-secret-of-the-hook";

const SETTINGS: &str = "script = \"script.jsonl\"\n";

fn value(served: &Served, method: &str, path: &str, body: &str) -> (u16, Value) {
    let (status, answer) = served.ask(method, path, body);
    (status, serde_json::from_str(&answer).unwrap_or(Value::Null))
}

/// The answer at a path of the server, once it fits.
fn until(served: &Served, path: &str, fits: impl Fn(&Value) -> bool) -> Value {
    for _ in 0..300 {
        let (_, shown) = value(served, "GET", path, "");
        if fits(&shown) {
            return shown;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("{path}: {}", served.ask("GET", path, "").1);
}

fn script(folder: &Path, lines: &[Value]) {
    let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
    write(folder, "script.jsonl", &lines.join("\n"));
}

#[test]
fn a_webhook_and_a_published_event_wake_agents_of_a_server() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "weft.toml", SETTINGS);
    let first = json!({"id": "first", "name": "First", "tool_ids_inventory": ["system:publish_event"]});
    write(folder.path(), "agents/first.json", &first.to_string());
    write(
        folder.path(),
        "agents/second.json",
        r#"{"id": "second", "name": "Second", "subscribed_event_types": ["paid"]}"#,
    );
    let hook = json!({"triggers": [{"id": "orders", "webhook": {"secret": "{$secret.HOOK_KEY}"}}]});
    write(folder.path(), "agents/first.triggers.json", &hook.to_string());
    let call = "<ACTION><tool name=\"system:publish_event\"><event>paid</event></tool></ACTION>";
    script(folder.path(), &[json!({"text": call}), json!({"text": "Published."})]);
    let served = Served::start_in(folder.path(), TOKEN, &[], &[("HOOK_KEY", HOOK_KEY)]);
    let line = format!("x-hook-secret: {HOOK_KEY}\r\n");
    let answer = served.ask_with("POST", "/hooks/orders", &line, r#"{"total": 3}"#);
    assert!(answer.starts_with("HTTP/1.1 202 "), "{answer}");
    let woken = until(&served, "/api/triggers", |all| {
        let event = all.as_array().and_then(|all| all.iter().find(|entry| entry["id"] == "second:paid"));
        event.is_some_and(|event| event["runs"].as_array().is_some_and(|runs| runs.len() == 1))
    });
    assert!(woken.to_string().contains("\"cause\":\"webhook\""), "{woken}");
    drop(served);
    let listed = weft(folder.path(), &["trigger", "list"]).ok().stdout;
    assert_eq!(listed, "orders\twebhook\tfirst\t\t1 runs\nsecond:paid\tevent\tsecond\t\t1 runs\n");
}

#[test]
fn a_polled_task_survives_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let (begun, polls) = (Arc::new(AtomicUsize::new(0)), AtomicUsize::new(0));
    let count = Arc::clone(&begun);
    let other = StubServer::start(move |_, request, stream| {
        let (head, body) = if request.starts_with("POST ") {
            count.fetch_add(1, Ordering::SeqCst);
            ("202 Accepted\r\nlocation: /jobs/7", "")
        } else if polls.fetch_add(1, Ordering::SeqCst) < 15 {
            ("202 Accepted", "")
        } else {
            ("200 OK\r\ncontent-type: application/json", r#"{"report": "kiwi"}"#)
        };
        let length = body.len();
        // The client may have been killed.
        let _ =
            write!(stream, "HTTP/1.1 {head}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}");
    });
    let address = other.address;
    write(folder.path(), "weft.toml", &format!("{SETTINGS}[network]\nallow = [\"{address}\"]\n"));
    let report = json!({"name": "report", "description": "d", "async": {"interval_ms": 200},
        "endpoint": {"url": format!("http://{address}/jobs"), "method": "POST"}, "response": {"select": "$.report"}});
    write(folder.path(), "tools/report.tool.json", &report.to_string());
    let clerk =
        json!({"id": "clerk", "name": "Clerk", "tool_ids_inventory": [{"id": "report", "approval": "auto"}]});
    write(folder.path(), "agents/clerk.json", &clerk.to_string());
    let last = json!({"text": "It says kiwi.", "request": {"contains": ["is done: kiwi"]}});
    script(
        folder.path(),
        &[json!({"text": "<ACTION><report></report></ACTION>"}), json!({"text": "It is under way."}), last],
    );
    let served = Served::start(folder.path(), TOKEN, &[]);
    let run = served.begin(&json!({"agent": "clerk", "message": "Begin."}));
    let path = format!("/api/runs/{run}");
    until(&served, &path, |shown| shown["status"] == "waiting");
    std::thread::sleep(Duration::from_millis(600));
    // The process is killed: nothing of it ends in order.
    drop(served);
    let served = Served::start(folder.path(), TOKEN, &[]);
    let done = until(&served, &path, |shown| shown["status"] == "ok");
    assert_eq!(done["text"], "It says kiwi.");
    assert_eq!(begun.load(Ordering::SeqCst), 1, "the work is begun once");
}

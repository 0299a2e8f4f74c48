//! Triggers: webhooks, times, files and events that start agents.

use serde_json::{Value, json};

use crate::common::{PLAIN, Running, pause, project, serve, serve_with, write};

/// A variable that every test has, as a secret.
const SECRET: (&str, &str) = ("x-hook-secret", env!("CARGO_PKG_NAME"));

/// Signature of the body of a test.
const SIGNED: &str = "sha256=db010cccd1a5cefe52d493c4a38fa14813648a7dc5ec7d621bb2a8ede6829305";

fn triggers(list: &Value) -> String {
    json!({"agent": "plain", "triggers": list}).to_string()
}

/// The firings of a trigger, once there are so many.
async fn runs(server: &Running, id: &str, count: usize) -> Vec<Value> {
    for _ in 0..400 {
        let all = server.get("/api/triggers").await.expect(200).json();
        let found = all.as_array().unwrap().iter().find(|trigger| trigger["id"] == id);
        let runs = found.unwrap()["runs"].as_array().unwrap().clone();
        if runs.len() >= count {
            return runs;
        }
        pause(20).await;
    }
    panic!("{id} did not fire {count} times: {}", server.get("/api/triggers").await.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_starts_its_agent_once_a_message() {
    let list = json!([{"id": "orders", "webhook": {"secret": "{$secret.CARGO_PKG_NAME}", "max_body_kib": 1}},
        {"id": "closed", "webhook": {"secret": "{$secret.THERE_IS_NO_SUCH_VARIABLE}"}}]);
    let server = serve(&[PLAIN, ("agents/plain.triggers.json", &triggers(&list))]);
    let no_token = ("authorization", "Bearer wrong");
    let send = async |hook: &str, more: &[(&str, &str)], body: &str| {
        server.send("POST", &format!("/hooks/{hook}"), &[&[no_token], more].concat(), body).await
    };
    assert_eq!(send("orders", &[], "{}").await.expect(401).json()["code"], "bad_hook_secret");
    assert_eq!(send("ordres", &[SECRET], "{}").await.expect(404).json()["code"], "unknown_hook");
    assert_eq!(send("closed", &[SECRET], "{}").await.expect(503).json()["code"], "missing_secret");
    let long = format!("\"{}\"", "x".repeat(2000));
    assert_eq!(send("orders", &[SECRET], &long).await.expect(413).json()["code"], "body_too_large");
    let named = [SECRET, ("webhook-id", "m1")];
    let first = send("orders", &named, r#"{"total": 12}"#).await.expect(202).json();
    let again = send("orders", &named, r#"{"total": 12}"#).await.expect(200).json();
    assert_eq!((&again["run"], &again["repeated"]), (&first["run"], &json!(true)));
    let same = [SECRET, ("idempotency-key", "m2")];
    let (one, other) = tokio::join!(send("orders", &same, "{}"), send("orders", &same, "{}"));
    assert_eq!(one.json()["run"], other.json()["run"]);
    assert_ne!(one.json()["run"], first["run"]);
    let run = first["run"].as_str().unwrap();
    assert_eq!(server.until(run, "ok").await["agent"], "plain");
    let events = server.events(run).await;
    assert!(events.iter().any(|event| event.to_string().contains("orders")), "{events:?}");
    let bearer = ("authorization", concat!("Bearer ", env!("CARGO_PKG_NAME")));
    let other = server.send("POST", "/hooks/orders", &[bearer], "plain text").await.expect(202).json();
    assert_ne!(other["run"], first["run"]);
    let runs = runs(&server, "orders", 3).await;
    assert_eq!(runs.iter().map(|run| &run["cause"]).collect::<Vec<_>>(), ["webhook"; 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_takes_what_is_signed_with_its_secret() {
    let signature =
        json!({"header": "X-Hub-Signature-256", "secret": "{$secret.CARGO_PKG_NAME}", "prefix": "sha256="});
    let list = json!([{"id": "push", "webhook": {"signature": signature}},
        {"id": "both", "webhook": {"secret": "{$secret.CARGO_PKG_NAME}", "signature": signature}}]);
    let server = serve(&[PLAIN, ("agents/plain.triggers.json", &triggers(&list))]);
    let send = async |hook: &str, more: &[(&str, &str)], body: &str| {
        let headers = [&[("authorization", "none")], more].concat();
        let answer = server.send("POST", &format!("/hooks/{hook}"), &headers, body).await;
        (answer.status, answer.json()["code"].clone())
    };
    // HMAC-SHA256 of the body with the key `weft-server`.
    let body = "{\"ref\": \"main\"}";
    let right = ("x-hub-signature-256", SIGNED);
    let refused = (401, json!("bad_signature"));
    assert_eq!(send("push", &[], body).await, refused);
    assert_eq!(send("push", &[SECRET], body).await, refused);
    assert_eq!(send("push", &[right], "{\"ref\": \"mein\"}").await, refused);
    assert_eq!(send("push", &[right], body).await, (202, Value::Null));
    // The id is not signed: one more under another id is the same message.
    assert_eq!(send("push", &[right, ("webhook-id", "m1")], body).await, (200, Value::Null));
    assert_eq!(send("push", &[right, ("webhook-id", "m2")], body).await, (200, Value::Null));
    assert_eq!(send("both", &[right], body).await, (401, json!("bad_hook_secret")));
    assert_eq!(send("both", &[SECRET], body).await, refused);
    assert_eq!(send("both", &[SECRET, right], body).await, (202, Value::Null));
    assert_eq!(runs(&server, "push", 1).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn times_and_files_start_their_agent() {
    let list = json!([{"id": "pulse", "every_ms": 1000, "message": "Is all well?"},
        {"id": "inbox", "files": ["inbox/*.txt"]}, {"id": "notes", "files": ["**/*.note"]}, {"id": "off", "every_ms": 1000, "enabled": false}]);
    let server = serve(&[PLAIN, ("agents/plain.triggers.json", &triggers(&list)), ("deep/er/old.md", "no")]);
    let pulse = runs(&server, "pulse", 1).await;
    assert_eq!(pulse[0]["cause"], "schedule");
    let shown = server.until(pulse[0]["run"].as_str().unwrap(), "ok").await;
    assert_eq!(shown["text"], "Hello.");
    // The folder is made while the server runs.
    write(server.folder.path(), "inbox/note.md", "no");
    pause(1500).await;
    write(server.folder.path(), "inbox/a.txt", "yes");
    let inbox = runs(&server, "inbox", 1).await;
    let run = inbox[0]["run"].as_str().unwrap();
    let events = server.events(run).await;
    assert!(events.iter().any(|event| event.to_string().contains("event inbox")), "{events:?}");
    write(server.folder.path(), "deep/er/new.note", "yes");
    runs(&server, "notes", 1).await;
    let fired = server.post("/api/triggers/off/fire", &json!({})).await.expect(202).json();
    assert_eq!(runs(&server, "off", 1).await[0]["run"], fired["run"]);
    assert_eq!(
        server.post("/api/triggers/of/fire", &json!({})).await.expect(404).json()["code"],
        "unknown_trigger"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_that_was_missed_fires_when_a_server_begins() {
    let folder = project(&[PLAIN]);
    let seen = agent_types::Timestamp::from_system().as_millis() - 3 * 3_600_000;
    let seen = agent_types::Timestamp::from_millis(seen);
    let list = json!([{"id": "hourly", "every_ms": 3_000_000, "message": "Hello?"}]);
    write(folder.path(), "agents/plain.triggers.json", &triggers(&list));
    let mut options = weft_project::ProjectOptions::default();
    options.environment = None;
    let before = weft_project::Project::open(folder.path(), &options).unwrap();
    before.trigger_store().unwrap().update("hourly", move |record| record.up_to(seen)).unwrap();
    drop(before);
    let server = serve_with(folder, |_| ());
    let fired = runs(&server, "hourly", 1).await;
    assert_eq!((fired.len(), &fired[0]["cause"]), (1, &json!("missed")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_that_a_server_claimed_before_it_died_fires_with_the_next() {
    let folder = project(&[PLAIN]);
    let now = agent_types::Timestamp::from_system().as_millis();
    let ago = |minutes: i64| agent_types::Timestamp::from_millis(now - minutes * 60_000);
    let list = json!([{"id": "daily", "every_ms": 86_400_000, "message": "Hello?"}]);
    write(folder.path(), "agents/plain.triggers.json", &triggers(&list));
    let mut options = weft_project::ProjectOptions::default();
    options.environment = None;
    let before = weft_project::Project::open(folder.path(), &options).unwrap();
    let store = before.trigger_store().unwrap();
    let seen = ago(24 * 60 + 5);
    store.update("daily", move |record| record.up_to(seen)).unwrap();
    let trigger = before.trigger("daily").unwrap().trigger.clone();
    assert_eq!(store.claim_due(&trigger, ago(5)).unwrap().ticks.len(), 1);
    // Nothing more is due for a day.
    assert!(store.claim_due(&trigger, ago(5)).unwrap().ticks.is_empty());
    drop(before);
    let server = serve_with(folder, |_| ());
    let fired = runs(&server, "daily", 1).await;
    assert_eq!((fired.len(), &fired[0]["cause"]), (1, &json!("missed")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_published_event_wakes_its_agents_and_a_chain_ends() {
    let agent = json!({"id": "echo", "name": "Echo", "subscribed_event_types": ["ping"],
        "tool_ids_inventory": ["system:publish_event"]});
    let call = "<ACTION><tool name=\"system:publish_event\"><event>ping</event></tool></ACTION>";
    let script =
        [json!({"text": call}), json!({"text": "Published."})].map(|line| line.to_string()).join("\n");
    let server = serve(&[("agents/echo.json", &agent.to_string()), ("script.jsonl", &script)]);
    let run = server.begin(&json!({"agent": "echo", "message": "Begin."})).await;
    server.until(&run, "ok").await;
    // A message publishes the first; each woken run publishes the next, until the chain is too long.
    let woken = runs(&server, "echo:ping", 8).await;
    for run in &woken {
        server.until(run["run"].as_str().unwrap(), "ok").await;
    }
    let dead = server.get("/api/dead-letters").await.expect(200).json();
    assert_eq!(dead.as_array().unwrap().len(), 1, "{dead}");
    assert_eq!(dead[0]["event"], "ping");
    assert!(dead[0]["reason"].as_str().unwrap().contains("the limit is 8"), "{dead}");
    assert_eq!(runs(&server, "echo:ping", 8).await.len(), 8);
}

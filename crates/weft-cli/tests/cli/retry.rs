//! Runs that failed or were cancelled, retried by processes of their own.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::common::{command, desk, weft, write};

/// A server that counts its requests.
fn counter() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut head = [0; 4096];
            let _ = stream.read(&mut head);
            counted.fetch_add(1, Ordering::SeqCst);
            let _ = stream.write_all(
                b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\nconnection: close\r\n\r\n42",
            );
        }
    });
    (format!("http://{address}/pay"), count)
}

/// An effect, then a node `b` that is given by the test.
fn workflow(address: &str, b: &Value) -> String {
    let taken = if b["type"] == "core:Delay" { "value" } else { "value_in" };
    json!({
        "interfaceOutputs": {"v": {"dataFlowType": "WILDCARD"}},
        "nodes": [
            {"id": "pay", "type": "core:Http", "configValues": {"endpoint": {"method": "POST", "url": address}}},
            b,
            {"id": "c", "type": "core:Expression", "configValues": {"cel": "[b]"}},
            {"id": "out", "type": "core:GroupOutput"}],
        "edges": [
            {"source": "pay", "sourceHandle": "body", "target": "b", "targetHandle": taken},
            {"source": "b", "sourceHandle": "value", "target": "c", "targetHandle": "b"},
            {"source": "c", "sourceHandle": "value", "target": "out", "targetHandle": "v"}]
    })
    .to_string()
}

fn allow(folder: &Path) {
    let path = folder.join("weft.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{text}\n[network]\nallow = [\"127.0.0.1\"]\n")).unwrap();
}

fn newest(folder: &Path) -> Value {
    weft(folder, &["runs", "list", "--output", "json"]).ok().json()[0].clone()
}

fn events(folder: &Path, run: &str) -> Vec<Value> {
    let shown = weft(folder, &["runs", "show", run, "--output", "json"]).ok().json();
    shown["events"].as_array().unwrap().clone()
}

/// Numbers have no holes, and each start has one end.
#[track_caller]
fn check_laws(events: &[Value]) {
    for (number, event) in (1..).zip(events) {
        assert_eq!(event["seq"], number, "{event}");
    }
    for start in events.iter().filter(|event| event["type"] == "node.started") {
        let ends = events.iter().filter(|event| {
            let kind = event["type"].as_str().unwrap_or_default();
            let is_end = matches!(kind, "node.finished" | "node.failed" | "node.cancelled" | "node.skipped");
            is_end && event["span"] == start["span"] && event["path"] == start["path"]
        });
        assert_eq!(ends.count(), 1, "{start}");
    }
    let over = events.iter().filter(|event| event["type"] == "run.finished").count();
    assert_eq!(over, 1);
}

#[test]
fn a_retry_runs_what_failed_and_what_follows_and_nothing_else() {
    let folder = desk();
    allow(folder.path());
    let (address, paid) = counter();
    let broken = json!({"id": "b", "type": "core:Expression", "configValues": {"cel": "value_in.missing"}});
    write(folder.path(), "workflows/pay.json", &workflow(&address, &broken));
    let failed = weft(folder.path(), &["workflow", "run", "pay", "--output", "json"]);
    assert_ne!(failed.code, 0, "{failed:#?}");
    let id = failed.json()["run"].as_str().unwrap().to_owned();
    assert_eq!(paid.load(Ordering::SeqCst), 1);

    let mended = json!({"id": "b", "type": "core:Expression", "configValues": {"cel": "value_in + 1"}});
    write(folder.path(), "workflows/pay.json", &workflow(&address, &mended));
    let retried = weft(folder.path(), &["runs", "retry", &id, "--output", "json"]).ok().json();
    assert_eq!(retried["outputs"]["v"], json!([43]));
    assert_eq!(paid.load(Ordering::SeqCst), 1, "it was paid once");
    let run = retried["run"].as_str().unwrap();
    assert_eq!(newest(folder.path())["retry_of"], id.as_str());
    assert!(weft(folder.path(), &["runs", "show", run]).ok().stdout.contains(&format!("retry_of: {id}")));
    let events = events(folder.path(), run);
    check_laws(&events);
    assert!(events.iter().all(|event| event["type"] != "node.failed"), "{events:#?}");

    let refused = weft(folder.path(), &["runs", "retry", run]);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("error[not_retryable]"), "{refused:#?}");
}

#[test]
fn a_retry_refuses_a_change_of_what_has_finished() {
    let folder = desk();
    allow(folder.path());
    let (address, paid) = counter();
    let broken = json!({"id": "b", "type": "core:Expression", "configValues": {"cel": "value_in.missing"}});
    write(folder.path(), "workflows/pay.json", &workflow(&address, &broken));
    weft(folder.path(), &["workflow", "run", "pay"]);
    write(folder.path(), "workflows/pay.json", &workflow(&format!("{address}/more"), &broken));
    let refused = weft(folder.path(), &["runs", "retry", "last"]);
    assert_eq!(refused.code, 7, "{refused:#?}");
    assert!(refused.stderr.contains("error[plan_changed]") && refused.stderr.contains("pay"), "{refused:#?}");
    assert_eq!(paid.load(Ordering::SeqCst), 1);
}

#[test]
fn a_cancelled_run_is_retried_and_one_that_executes_is_not() {
    let folder = desk();
    allow(folder.path());
    let (address, paid) = counter();
    let slow = json!({"id": "b", "type": "core:Delay", "configValues": {"ms": 60000}});
    write(folder.path(), "workflows/pay.json", &workflow(&address, &slow));
    let mut child = command(folder.path())
        .args(["workflow", "run", "pay"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let started = Instant::now();
    while !weft(folder.path(), &["runs", "show", "last"]).stdout.contains("node.started b") {
        assert!(started.elapsed() < Duration::from_secs(30));
        std::thread::sleep(Duration::from_millis(50));
    }
    let id = newest(folder.path())["run"].as_str().unwrap().to_owned();
    let busy = weft(folder.path(), &["runs", "retry", &id]);
    assert!(busy.code == 1 && busy.stderr.contains("error[run_busy]"), "{busy:#?}");
    weft(folder.path(), &["runs", "cancel", &id]).ok();
    child.wait().unwrap();
    let quick = json!({"id": "b", "type": "core:Delay", "configValues": {"ms": 1}});
    write(folder.path(), "workflows/pay.json", &workflow(&address, &quick));
    let retried = weft(folder.path(), &["runs", "retry", &id, "--output", "json"]).ok().json();
    assert_eq!(retried["status"], "ok");
    assert_eq!(paid.load(Ordering::SeqCst), 1, "it was paid once");
    check_laws(&events(folder.path(), retried["run"].as_str().unwrap()));
}

#[test]
fn an_agent_whose_model_failed_continues_behind_its_last_call() {
    let folder = desk();
    let keeps = json!({"id": "keeper", "name": "keeper", "tool_ids_inventory": ["system:update_world"]});
    write(folder.path(), "agents/keeper.json", &keeps.to_string());
    let call =
        "<ACTION><system:update_world><changes>{\"door\": \"open\"}</changes></system:update_world></ACTION>";
    let one = json!({"text": call}).to_string();
    write(folder.path(), "one.jsonl", &one);
    write(folder.path(), "two.jsonl", &format!("{one}\n{}", json!({"text": "Open."})));
    let run =
        ["agent", "run", "keeper", "Open it.", "--thread", "t", "--approve", "all", "--script", "one.jsonl"];
    let failed = weft(folder.path(), &run);
    assert_eq!(failed.code, 4, "{failed:#?}");
    let retried =
        weft(folder.path(), &["runs", "retry", "last", "--script", "two.jsonl", "--output", "json"])
            .ok()
            .json();
    assert_eq!(retried["text"], "Open.");
    let events = events(folder.path(), retried["run"].as_str().unwrap());
    let count = |kind: &str| events.iter().filter(|event| event["type"] == kind).count();
    assert_eq!((count("agent.tool.started"), count("agent.tool.finished")), (1, 1), "it was called once");
    assert_eq!((count("agent.turn.started"), count("agent.turn.finished")), (2, 2));
    assert_eq!((count("agent.llm.started"), count("agent.llm.finished")), (2, 2));
    check_laws(&events);
}

//! Work that outlives its call.

use serde_json::{Value, json};

use crate::common::{Running, SLEEP, project, serve_with, write};

/// An agent that begins long work, and what a model says.
fn at_work(files: &[(&str, &str)]) -> Running {
    let folder = project(files);
    write(folder.path(), "workflows/sleep.json", &SLEEP.1.replace("400", "LENGTH"));
    let text = std::fs::read_to_string(folder.path().join("workflows/sleep.json")).unwrap();
    let long = text.replace("LENGTH", "60000").replace("\"sleep\"", "\"doze\"");
    write(folder.path(), "workflows/doze.json", &long);
    write(folder.path(), "workflows/sleep.json", &text.replace("LENGTH", "400"));
    let inventory = json!([
        {"id": "workflow:sleep", "stream": "handle"},
        {"id": "workflow:doze", "stream": "handle"},
    ]);
    let agent = json!({"id": "clerk", "name": "Clerk", "tool_ids_inventory": inventory});
    write(folder.path(), "agents/clerk.json", &agent.to_string());
    serve_with(folder, |_| ())
}

fn script(server: &Running, tool: &str, last: &str) {
    let call = format!("<ACTION><tool name=\"workflow:{tool}\"><value>kiwi</value></tool></ACTION>");
    let lines = [
        json!({"text": call}),
        json!({"text": "It is under way."}),
        json!({"text": last, "request": {"contains": ["kiwi"]}}),
    ];
    write(server.folder.path(), "script.jsonl", &lines.map(|line| line.to_string()).join("\n"));
}

fn cause(events: &[Value]) -> Vec<&str> {
    let resumed = events.iter().filter(|event| event["type"] == "run.resumed");
    resumed.filter_map(|event| event["data"]["cause"].as_str()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn work_that_ends_wakes_its_agent() {
    let server = at_work(&[]);
    script(&server, "sleep", "It says kiwi.");
    let run = server.begin(&json!({"agent": "clerk", "message": "Begin."})).await;
    let waiting = server.until(&run, "waiting").await;
    assert_eq!((&waiting["exit"], &waiting["text"]), (&json!("awaiting_result"), &json!("It is under way.")));
    let done = server.until(&run, "ok").await;
    assert_eq!((&done["exit"], &done["text"]), (&json!("completed"), &json!("It says kiwi.")));
    let events = server.events(&run).await;
    assert_eq!(cause(&events), ["task"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_of_a_conversation_is_answered_behind_its_work() {
    let flows = json!({"agent": "clerk", "flows": []}).to_string();
    for files in [&[][..], &[("flows.json", flows.as_str())]] {
        let server = at_work(files);
        script(&server, "sleep", "It says kiwi.");
        let messages = "/api/chat/clerk/threads/one/messages";
        let begun = server.post(messages, &json!({"text": "Begin."})).await.expect(202).json();
        let run = begun["run"].as_str().unwrap();
        let done = server.until(run, "ok").await;
        assert_eq!(done["text"], "It says kiwi.");
        let thread = server.get(messages).await.expect(200).body;
        assert!(thread.contains("It says kiwi."), "{thread}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn work_of_a_run_that_is_cancelled_ends_too() {
    let server = at_work(&[]);
    script(&server, "doze", "Never said.");
    let run = server.begin(&json!({"agent": "clerk", "message": "Begin."})).await;
    server.until(&run, "waiting").await;
    server.post(&format!("/api/runs/{run}/cancel"), &json!({})).await.expect(202);
    server.until(&run, "cancelled").await;
    let runs = server.get("/api/runs").await.expect(200).json();
    let inner = runs.as_array().unwrap().iter().find(|one| one["workflow"] == "doze");
    let inner = inner.unwrap()["run"].as_str().unwrap();
    server.until(inner, "cancelled").await;
}

/// The folder of a server that was left as a crash leaves it, served anew.
async fn restarted(mut server: Running) -> Running {
    server.handle.abandon();
    server.ended().await;
    serve_with(server.folder, |_| ())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workflow_of_a_server_that_ended_is_resumed() {
    let server = at_work(&[]);
    let long = std::fs::read_to_string(server.folder.path().join("workflows/sleep.json")).unwrap();
    write(
        server.folder.path(),
        "workflows/nap.json",
        &long.replace("400", "2500").replace("\"sleep\"", "\"nap\""),
    );
    let agent = json!({"id": "napper", "name": "Napper",
        "tool_ids_inventory": [{"id": "workflow:nap", "stream": "handle"}]});
    write(server.folder.path(), "agents/napper.json", &agent.to_string());
    script(&server, "nap", "It says kiwi.");
    let server = restarted(server).await;
    let run = server.begin(&json!({"agent": "napper", "message": "Begin."})).await;
    server.until(&run, "waiting").await;
    let server = restarted(server).await;
    let done = server.until(&run, "ok").await;
    assert_eq!(done["text"], "It says kiwi.");
}

#[tokio::test(flavor = "multi_thread")]
async fn work_that_cannot_be_resumed_is_lost_and_its_agent_hears_of_it() {
    let settings = "script = \"script.jsonl\"\n[store]\nsync = \"normal\"\n[commands]\nallow = [\"sleep\"]\n";
    let nap = json!({"name": "nap", "description": "d", "command": ["sleep", "60"], "read_only": true});
    let agent = json!({"id": "clerk", "name": "Clerk",
        "tool_ids_inventory": [{"id": "command:nap", "stream": "handle"}]});
    let call = "<ACTION><tool name=\"command:nap\"></tool></ACTION>";
    let lines = [
        json!({"text": call}),
        json!({"text": "It is under way."}),
        json!({"text": "It is lost.", "request": {"contains": ["is lost: its outcome is unknown"]}}),
    ];
    let server = crate::common::serve(&[
        ("weft.toml", settings),
        ("tools/nap.command.json", &nap.to_string()),
        ("agents/clerk.json", &agent.to_string()),
        ("script.jsonl", &lines.map(|line| line.to_string()).join("\n")),
    ]);
    let run = server.begin(&json!({"agent": "clerk", "message": "Begin."})).await;
    server.until(&run, "waiting").await;
    let server = restarted(server).await;
    assert_eq!(server.until(&run, "ok").await["text"], "It is lost.");
}

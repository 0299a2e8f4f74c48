//! `flows.json`: looked at, talked through, imported.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use weft_harness::StubServer;

use crate::common::{desk, weft, weft_with, write};

/// A server that remembers the paths and answers with them.
fn server() -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    let server = StubServer::json(move |request| {
        seen.lock().unwrap().push(request.path().to_owned());
        (200, json!({"path": request.path()}))
    });
    (server.address, asked)
}

fn project(folder: &Path, address: SocketAddr, script: &[Value]) {
    let settings = std::fs::read_to_string(folder.join("weft.toml")).unwrap();
    write(folder, "weft.toml", &format!("{settings}\n[network]\nallow = [\"{address}\"]\n"));
    let url = |path: &str| format!("http://{address}{path}");
    let file = json!({
        "agent": "desk",
        "flows": [{"flow_id": "leave", "trigger_patterns": ["leave"], "endpoint": {"url": url("/leave"), "method": "POST"}, "response_template": "Sent to {result.path}."},
            {"flow_id": "quiet", "trigger_patterns": ["log this"], "endpoint": {"url": url("/log"), "method": "POST"}, "silent": true}],
        "system_actions": [{"action_id": "human", "handler": "handoff", "trigger_patterns": ["a person"], "endpoint": {"url": url("/handoff"), "method": "POST"}},
            {"action_id": "bye", "handler": "close", "trigger_patterns": ["bye"]}],
        "tools": [{"name": "save", "description": "Saves a note.", "parameters": {"type": "object", "properties": {"note": {"type": "string"}}, "required": ["note"]},
            "endpoint": {"url": url("/save/{note}"), "method": "POST"}}],
        "timers": [{"timer_id": "idle", "delay_ms": 1, "max_triggers": 1, "action": {"reply": "Still there?"}}]
    });
    write(folder, "flows.json", &file.to_string());
    let lines: Vec<String> = script.iter().map(Value::to_string).collect();
    write(folder, "s.jsonl", &lines.join("\n"));
}

fn call() -> Value {
    json!({"text": "<ACTION><save><note>n1</note></save></ACTION>"})
}

#[test]
fn a_session_goes_on_in_another_process() {
    let folder = desk();
    let (address, asked) = server();
    let knows = json!({"text": "Your order is shipped.", "request": {"contains": ["Hello?", "human took over from 2", "my order"], "lacks": ["a person", "I want leave"]}});
    project(folder.path(), address, &[knows]);
    let say = |text: &str| {
        weft(folder.path(), &["chat", "--session", "s", "--script", "s.jsonl", "--output", "json", text])
            .ok()
            .json()
    };
    let shown = |value: &Value| format!("{} {}", value["exit"], value["text"]);
    assert_eq!(shown(&say("I want leave")), r#""flow_completed" "Sent to /leave.""#);
    assert_eq!(shown(&say("log this")), r#""flow_silent" null"#);
    assert_eq!(shown(&say("a person please")), r#""handed_off" "You are being connected to a person...""#);
    assert_eq!(shown(&say("Hello?")), r#""handed_off" null"#);
    let back = ["chat", "--session", "s", "--script", "s.jsonl", "--give-back", "And my order?"];
    assert_eq!(weft(folder.path(), &back).ok().stdout, "Your order is shipped.\n");
    let refused = weft(folder.path(), &["chat", "--session", "s", "--give-back", "x"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (2, ""));
    assert_eq!(*asked.lock().unwrap(), ["/leave", "/log", "/handoff"]);
    let runs = weft(folder.path(), &["runs", "list", "--output", "json"]).ok().json();
    let exits: Vec<&str> = runs.as_array().unwrap().iter().filter_map(|run| run["exit"].as_str()).collect();
    assert_eq!(
        exits,
        ["completed", "handed_off", "handed_off", "flow_silent", "flow_completed"],
        "newest first"
    );
}

#[test]
fn lines_commands_and_timers_in_a_pipe() {
    let folder = desk();
    let (address, asked) = server();
    project(folder.path(), address, &[call(), json!({"text": "Saved."}), json!({"text": "Open again."})]);
    let lines = "leave\n/state\nsave it\nmore?\n/approve\n/tools\nbye\nanyone?\n/reopen\nhello\n/nonsense\n";
    let ran = weft_with(folder.path(), &["chat", "--session", "s", "--script", "s.jsonl"], lines, &[]);
    let said: Vec<&str> = ran.stdout.lines().filter(|line| *line != "Still there?").collect();
    assert_eq!(
        said,
        ["Sent to /leave.", "Saved.", "This conversation is closed.", "Open again."],
        "{}",
        ran.stderr
    );
    for line in [
        "the agent answers",
        "waits for you: save {\"note\":\"n1\"}",
        "a call waits for you",
        "the session is open again",
        "unknown command `/nonsense`",
    ] {
        assert!(ran.stderr.contains(line), "{line}: {}", ran.stderr);
    }
    assert!(
        ran.stderr.contains("save\tSaves a note.") && !ran.stderr.contains("leave\t"),
        "flows are no tools: {}",
        ran.stderr
    );
    assert_eq!(*asked.lock().unwrap(), ["/leave", "/save/n1"]);
}

#[test]
fn a_call_of_a_session_is_approved_elsewhere() {
    let folder = desk();
    let (address, asked) = server();
    project(
        folder.path(),
        address,
        &[call(), json!({"text": "Saved.", "request": {"contains": ["/save/n1"]}})],
    );
    let waits = weft(folder.path(), &["chat", "--session", "s", "--script", "s.jsonl", "save it"]);
    assert_eq!((waits.code, waits.stdout.as_str()), (8, ""));
    assert!(waits.stderr.contains("weft runs approve"), "{}", waits.stderr);
    assert!(asked.lock().unwrap().is_empty());
    let approved = weft(folder.path(), &["runs", "approve", "last", "--script", "s.jsonl"]).ok();
    assert_eq!(approved.stdout, "Saved.\n");
    assert_eq!(*asked.lock().unwrap(), ["/save/n1"]);
    let events = weft(folder.path(), &["runs", "show", "last", "--output", "json"]).ok().json();
    let names: Vec<&str> =
        events["events"].as_array().unwrap().iter().filter_map(|event| event["type"].as_str()).collect();
    for once in ["run.started", "run.waiting", "run.resumed", "run.finished"] {
        assert_eq!(names.iter().filter(|name| **name == once).count(), 1, "{once}: {names:?}");
    }
    let fork = weft(folder.path(), &["runs", "fork", "last"]);
    assert!(fork.code != 0 && fork.stderr.contains("a message of a session"), "{}", fork.stderr);
}

#[test]
fn what_a_message_sets_off_is_shown() {
    let folder = desk();
    let (address, asked) = server();
    project(folder.path(), address, &[]);
    let matched = |text: &str| weft(folder.path(), &["flow", "match", text, "--output", "json"]).ok().json();
    assert_eq!(matched("LEAVE now"), json!({"flow": "leave", "why": "contains \"leave\""}));
    assert_eq!(matched("a person"), json!({"action": "human", "why": "contains \"a person\""}));
    assert_eq!(matched("what time is it"), json!({"why": "no pattern fits"}));
    let piped = weft_with(folder.path(), &["flow", "match", "-"], "a leave of absence", &[]).ok();
    assert_eq!(piped.stdout, "flow leave: contains \"leave\"\n");
    assert!(asked.lock().unwrap().is_empty(), "nothing is run");
    let list = weft(folder.path(), &["flow", "list", "--output", "json"]).ok().json();
    let ids: Vec<&str> = list.as_array().unwrap().iter().filter_map(|entry| entry["id"].as_str()).collect();
    assert_eq!(ids, ["leave", "quiet", "human", "bye", "idle"]);
    let check = weft(folder.path(), &["flow", "check", "--output", "json"]).ok().json();
    assert_eq!(check, json!({"ok": true, "problems": []}));
    let shown = weft(folder.path(), &["agent", "show", "desk"]).ok().stdout;
    assert!(shown.contains("save\tSaves a note.") && !shown.contains("leave"), "{shown}");
}

#[test]
fn faults_have_codes_and_places() {
    let folder = desk();
    let check = |text: &str| {
        write(folder.path(), "flows.json", text);
        let ran = weft(folder.path(), &["flow", "check", "--output", "json"]);
        (ran.code, ran)
    };
    let (code, ran) = check(
        r#"{"flows": [{"flow_id": "a", "trigger_patterns": ["x"], "target": {"workflow": "summarise_text"}}]}"#,
    );
    assert_eq!(code, 7);
    let problem = &ran.json()["problems"][0];
    assert_eq!(
        (&problem["code"], &problem["path"]),
        (&json!("unknown_workflow"), &json!("/flows/0/target/workflow"))
    );
    let (code, ran) = check("{\n  \"flows\": [}");
    assert_eq!(code, 7, "{}", ran.stderr);
    let error: Value = serde_json::from_str(&ran.stderr).unwrap();
    assert_eq!((&error["error"]["code"], &error["error"]["line"]), (&json!("bad_json"), &json!(2)));
    let (code, ran) = check(r#"{"agent": "dessk"}"#);
    assert_eq!(code, 2);
    assert!(ran.stderr.contains("did you mean `desk`?"), "{}", ran.stderr);
    // An agent that a broken file may stand around does not run without it.
    write(folder.path(), "flows.json", r#"{"flowss": []}"#);
    let run = weft(folder.path(), &["agent", "run", "desk", "hi"]);
    assert_eq!(run.code, 7);
    assert!(run.stderr.contains("error[unknown_key]"), "{}", run.stderr);
    std::fs::remove_file(folder.path().join("flows.json")).unwrap();
    assert_eq!(weft(folder.path(), &["flow", "list", "--output", "json"]).ok().json(), json!([]));
    assert!(weft(folder.path(), &["flow", "check"]).ok().stdout.contains("no flows.json"));
    let chat = weft(folder.path(), &["chat", "What time is it?", "--session", "s"]).ok();
    assert!(!chat.stdout.is_empty(), "without flows every message goes to the agent");
}

#[test]
fn a_workflow_answers_in_place_of_the_agent() {
    let folder = desk();
    write(
        folder.path(),
        "workflows/shout.json",
        r#"{"interfaceInputs": {"text": {"dataFlowType": "STRING", "required": true}}, "interfaceOutputs": {"out": {"dataFlowType": "STRING"}},
        "nodes": [{"id": "in", "type": "core:GroupInput"}, {"id": "t", "type": "core:TextTemplate", "configValues": {"template": "{{ text | upper }}!"}}, {"id": "out", "type": "core:GroupOutput"}],
        "edges": [{"source": "in", "sourceHandle": "text", "target": "t", "targetHandle": "text"}, {"source": "t", "sourceHandle": "text", "target": "out", "targetHandle": "out"}]}"#,
    );
    let file = json!({"agent": "desk", "flows": [{"flow_id": "shout", "match": "regex", "trigger_patterns": ["shout (?<what>.*)"],
        "target": {"workflow": "shout"}, "parameter_mapping": {"text": "$group.what"}}]});
    write(folder.path(), "flows.json", &file.to_string());
    let ran = weft(folder.path(), &["chat", "--session", "s", "Shout hello"]);
    assert_eq!(ran.stdout, "HELLO!\n", "{}", ran.stderr);
    let wrong = file.to_string().replace("\"text\":\"$group", "\"texxt\":\"$group");
    write(folder.path(), "flows.json", &wrong);
    let problems = weft(folder.path(), &["flow", "check", "--output", "json"]).json()["problems"].clone();
    let codes: Vec<&str> =
        problems.as_array().unwrap().iter().filter_map(|problem| problem["code"].as_str()).collect();
    assert_eq!(codes, ["unknown_parameter", "missing_parameter"]);
}

#[test]
fn a_configuration_of_another_system_is_imported() {
    let folder = desk();
    let theirs = json!({"basic_settings": {"name": "Tea", "description": "Helps.", "chatbot_id": "tea-1", "logo": "x"},
        "tools": [{"name": "find", "description": "Finds.", "parameters": {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]},
            "endpoint": {"url": "http://api.example.test/{id}", "method": "GET"}}]});
    write(folder.path(), "theirs.json", &theirs.to_string());
    let imported = weft(folder.path(), &["import", "bu", "theirs.json", "--output", "json"]).ok().json();
    assert_eq!(imported["agent"], "tea-1");
    assert_eq!(imported["warnings"][1]["path"], "/basic_settings/logo");
    weft(folder.path(), &["flow", "check"]).ok();
    assert!(weft(folder.path(), &["agent", "show", "tea-1"]).ok().stdout.contains("find\tFinds."));
    let again = weft(folder.path(), &["import", "bu", "theirs.json"]);
    assert_eq!(again.code, 2, "nothing is written over");
    write(folder.path(), "tools.json", &theirs["tools"].to_string());
    let tools = weft(folder.path(), &["import", "bu", "tools.json", "--output", "json"]).ok().json();
    assert_eq!(tools["tools"][0]["name"], "find", "single tools become tool files as before");
}

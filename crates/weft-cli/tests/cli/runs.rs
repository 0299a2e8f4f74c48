//! Durable runs: killed, answered, approved, cancelled by another process.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::common::{command, desk, weft, write};

const SLOW: &str = r#"{
  "interfaceOutputs": {"v": {"dataFlowType": "WILDCARD"}},
  "nodes": [
    {"id": "a", "type": "core:Const", "configValues": {"value": 7}},
    {"id": "slow", "type": "core:Delay", "configValues": {"ms": 60000}},
    {"id": "out", "type": "core:GroupOutput"}],
  "edges": [
    {"source": "a", "sourceHandle": "value", "target": "slow", "targetHandle": "value"},
    {"source": "slow", "sourceHandle": "value", "target": "out", "targetHandle": "v"}]
}"#;

fn list(folder: &Path) -> Vec<Value> {
    weft(folder, &["runs", "list", "--output", "json"]).ok().json().as_array().cloned().unwrap()
}

/// Waits until a run stands as it should.
fn wait_for(folder: &Path, status: &str) -> String {
    let started = Instant::now();
    loop {
        let found = list(folder).into_iter().find(|run| run["status"] == status);
        if let Some(run) = found {
            return run["run"].as_str().unwrap().to_owned();
        }
        assert!(started.elapsed() < Duration::from_secs(20), "{:#?}", list(folder));
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A slow run in a process of its own, at work on its slow node.
fn slow(folder: &Path) -> (std::process::Child, String) {
    write(folder, "workflows/slow.json", SLOW);
    let child = command(folder)
        .args(["workflow", "run", "slow", "--output", "json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let id = wait_for(folder, "running");
    let started = Instant::now();
    while !weft(folder, &["runs", "show", &id]).ok().stdout.contains("node.started slow") {
        assert!(started.elapsed() < Duration::from_secs(20), "{:#?}", list(folder));
        std::thread::sleep(Duration::from_millis(20));
    }
    (child, id)
}

#[test]
fn a_killed_run_is_interrupted_and_goes_on() {
    let folder = desk();
    let (mut child, id) = slow(folder.path());
    assert_eq!(weft(folder.path(), &["runs", "resume", &id]).code, 1, "somebody works on it");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(list(folder.path())[0]["status"], "interrupted");
    // The file changes: what the run has been through must not, the rest may.
    write(folder.path(), "workflows/slow.json", &SLOW.replace('7', "8"));
    let changed = weft(folder.path(), &["runs", "resume", &id]);
    assert_eq!(changed.code, 7, "{changed:#?}");
    assert!(
        changed.stderr.contains("error[plan_changed]: the workflow has changed where the run has been: a")
    );
    let quick = SLOW.replace("60000", "1");
    write(folder.path(), "workflows/slow.json", &quick);
    let changed = weft(folder.path(), &["runs", "resume", &id]);
    assert_eq!(changed.code, 7, "the slow node had begun: {changed:#?}");
    // A fork from before it takes the new file.
    let shown = weft(folder.path(), &["runs", "show", &id, "--output", "json"]).ok().json();
    let done = shown["events"]
        .as_array()
        .unwrap()
        .iter()
        .find(|event| event["path"] == "a" && event["type"] == "node.finished");
    let seq = done.unwrap()["seq"].to_string();
    let forked = weft(folder.path(), &["runs", "fork", &id, "--at", &seq, "--output", "json"]).ok().json();
    assert_eq!((forked["status"].as_str(), &forked["outputs"]["v"]), (Some("ok"), &json!(7)));
}

/// Long enough that its state is kept in between.
const LONG: &str = r#"{
  "interfaceOutputs": {"v": {"dataFlowType": "WILDCARD"}},
  "nodes": [
    {"id": "early", "type": "core:Const", "configValues": {"value": 7}},
    {"id": "loop", "type": "core:LoopZone", "configValues": {
      "mode": "times", "times": 1500, "state": [{"key": "n", "dataFlowType": "INTEGER", "initial": 0}]}},
    {"id": "state", "type": "core:LoopState", "parentNode": "loop"},
    {"id": "add", "type": "core:Expression", "parentNode": "loop", "configValues": {"cel": "n + 1"}},
    {"id": "next", "type": "core:LoopNext", "parentNode": "loop"},
    {"id": "late", "type": "core:Expression", "configValues": {"cel": "n"}},
    {"id": "sum", "type": "core:Expression", "configValues": {"cel": "a + b"}},
    {"id": "out", "type": "core:GroupOutput"}],
  "edges": [
    {"source": "state", "sourceHandle": "n", "target": "add", "targetHandle": "n"},
    {"source": "add", "sourceHandle": "value", "target": "next", "targetHandle": "n"},
    {"source": "loop", "sourceHandle": "n", "target": "late", "targetHandle": "n"},
    {"source": "early", "sourceHandle": "value", "target": "sum", "targetHandle": "a"},
    {"source": "late", "sourceHandle": "value", "target": "sum", "targetHandle": "b"},
    {"source": "sum", "sourceHandle": "value", "target": "out", "targetHandle": "v"}]
}"#;

#[test]
fn a_fork_of_a_long_run_changes_its_beginning_too() {
    let folder = desk();
    write(folder.path(), "workflows/long.json", LONG);
    let run = weft(folder.path(), &["workflow", "run", "long", "--output", "json"]).ok().json();
    assert_eq!(run["outputs"]["v"], 1507);
    let id = run["run"].as_str().unwrap();
    let fork = |more: &[&str]| {
        let arguments = [&["runs", "fork", id, "--output", "json"], more].concat();
        weft(folder.path(), &arguments)
    };
    let changed = fork(&["--set", "early:=40", "--set", "late:=2"]).ok().json();
    assert_eq!(changed["outputs"]["v"], 42);
    assert_eq!(fork(&["--set", "late:=2"]).ok().json()["outputs"]["v"], 9);
    let unknown = fork(&["--set", "lte:=2"]);
    assert_eq!(unknown.code, 2);
    assert!(unknown.stderr.contains("did you mean `late`?"), "{unknown:#?}");
    for at in ["0", "999999"] {
        let none = fork(&["--at", at]);
        assert_eq!(none.code, 2);
        assert!(none.stderr.contains("\"not_kept\""), "{none:#?}");
    }
    // A file that numbers its nodes otherwise goes by all events.
    let mut turned: Value = serde_json::from_str(LONG).unwrap();
    let nodes = turned["nodes"].as_array_mut().unwrap();
    nodes.reverse();
    nodes.push(json!({"id": "more", "type": "core:Const", "configValues": {"value": 1}}));
    write(folder.path(), "workflows/long.json", &turned.to_string());
    assert_eq!(fork(&["--set", "late:=2"]).ok().json()["outputs"]["v"], 9);
    // What stands before the kept state counts as well where the file was changed.
    write(folder.path(), "workflows/long.json", &LONG.replace(": 7}", ": 8}"));
    let refused = fork(&["--set", "late:=2"]);
    assert_eq!(refused.code, 7);
    assert!(refused.stderr.contains("plan_changed") && refused.stderr.contains("early"), "{refused:#?}");
}

#[test]
fn a_run_is_cancelled_from_another_process() {
    let folder = desk();
    let (child, id) = slow(folder.path());
    weft(folder.path(), &["runs", "cancel", &id]).ok();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let ended: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((ended["run"].as_str(), ended["status"].as_str()), (Some(id.as_str()), Some("cancelled")));
    assert_eq!(list(folder.path())[0]["status"], "cancelled");
    weft(folder.path(), &["runs", "cancel", &id]).ok();
}

#[test]
fn an_interrupted_run_can_be_cancelled() {
    let folder = desk();
    let (mut child, id) = slow(folder.path());
    child.kill().unwrap();
    child.wait().unwrap();
    weft(folder.path(), &["runs", "cancel", &id]).ok();
    let shown = weft(folder.path(), &["runs", "show", &id, "--output", "json"]).ok().json();
    assert_eq!(shown["status"], "cancelled");
    let ends: Vec<&Value> =
        shown["events"].as_array().unwrap().iter().filter(|event| event["path"] == "slow").collect();
    assert_eq!(ends.last().unwrap()["type"], "node.cancelled");
}

fn trip(folder: &Path, script: &[Value]) {
    write(
        folder,
        "tools/book.tool.json",
        &json!({"name": "book", "description": "Books a trip.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        "endpoint": {"url": "http://127.0.0.1:9/b", "method": "POST", "body": {"c": "{city}"}}})
        .to_string(),
    );
    write(
        folder,
        "agents/trip.json",
        &json!({"id": "trip", "name": "trip", "version": "1", "schema_version": "1",
        "tool_ids_inventory": ["book"], "skill_workflow_ids_inventory": []})
        .to_string(),
    );
    let lines: Vec<String> = script.iter().map(Value::to_string).collect();
    write(folder, "script.jsonl", &lines.join("\n"));
}

#[test]
fn a_call_is_approved_or_denied_later() {
    let folder = desk();
    let book = json!({"text": "<ACTION><book><city>Oslo</city></book></ACTION>"});
    trip(folder.path(), &[book, json!({"text": "I see."})]);
    let begin = || {
        let begun = weft(
            folder.path(),
            &["agent", "run", "trip", "Book", "--script", "script.jsonl", "--output", "json"],
        );
        assert_eq!(begun.code, 8, "{begun:#?}");
        let outcome = begun.json();
        assert_eq!(outcome["pending"][0]["tool"], "book");
        outcome["run"].as_str().unwrap().to_owned()
    };
    let id = begin();
    let denied =
        weft(folder.path(), &["runs", "approve", &id, "--deny", "too far", "--script", "script.jsonl"]).ok();
    assert_eq!(denied.stdout, "I see.\n");
    let shown = weft(folder.path(), &["runs", "show", &id]).ok().stdout;
    assert!(shown.contains("Observation: Error - Tool book was not run: denied: too far"), "{shown}");
    assert!(shown.contains(r#"agent.tool.approval {"tool":"book","state":"denied""#), "{shown}");
    let id = begin();
    weft(folder.path(), &["runs", "approve", &id, "--no-resume"]).ok();
    let went_on = weft(folder.path(), &["runs", "resume", &id, "--script", "script.jsonl"]).ok();
    assert_eq!(went_on.stdout, "I see.\n", "the call ran and failed: the address is not allowed");
    let forked = weft(folder.path(), &["runs", "fork", &id, "--at", "6", "--script", "script.jsonl"]);
    assert_eq!((forked.code, forked.stdout.as_str()), (8, ""), "before the word was said: {forked:#?}");
    let again = weft(folder.path(), &["runs", "approve", &id]);
    assert_eq!(again.code, 2, "{again:#?}");
}

#[test]
fn a_thread_remembers() {
    let folder = desk();
    let request = |contains: &[&str], messages: usize| json!({"contains": contains, "messages": messages});
    trip(folder.path(), &[json!({"text": "Hello Ann."})]);
    let say = |message: &str| {
        weft(folder.path(), &["agent", "run", "trip", message, "--thread", "t", "--script", "script.jsonl"])
            .ok()
    };
    say("I am Ann.");
    trip(
        folder.path(),
        &[json!({"text": "You are Ann.", "request": request(&["I am Ann.", "Hello Ann.", "Who am I?"], 4)})],
    );
    assert_eq!(say("Who am I?").stdout, "You are Ann.\n");
    let listed = list(folder.path());
    assert_eq!((listed.len(), listed[0]["thread"].as_str()), (2, Some("t")));
}

#[test]
fn a_workflow_inside_an_agent_asks_and_goes_on() {
    let folder = desk();
    let order = json!({
        "description": "Orders an item.",
        "interfaceInputs": {"item": {"dataFlowType": "STRING", "required": true, "description": "What."}},
        "interfaceOutputs": {"note": {"dataFlowType": "STRING"}},
        "nodes": [
            {"id": "in", "type": "core:GroupInput"},
            {"id": "first", "type": "core:TextMerge"},
            {"id": "agree", "type": "core:Ask", "configValues": {"prompt": "Order it?"}},
            {"id": "note", "type": "core:TextMerge", "inputValues": {"separator": ": "}},
            {"id": "out", "type": "core:GroupOutput"}],
        "edges": [
            {"source": "in", "sourceHandle": "item", "target": "first", "targetHandle": "text_inputs"},
            {"source": "first", "sourceHandle": "merged_text", "target": "agree", "targetHandle": "context"},
            {"source": "first", "sourceHandle": "merged_text", "target": "note", "targetHandle": "text_inputs"},
            {"source": "agree", "sourceHandle": "answer", "target": "note", "targetHandle": "text_inputs"},
            {"source": "note", "sourceHandle": "merged_text", "target": "out", "targetHandle": "note"}]});
    let call = json!({"text": "<ACTION><workflow__order><item>tea</item></workflow__order></ACTION>"});
    trip(folder.path(), &[call, json!({"text": "Done.", "request": {"contains": ["Result: tea: yes"]}})]);
    write(folder.path(), "workflows/order.json", &order.to_string());
    write(
        folder.path(),
        "agents/trip.json",
        &json!({"id": "trip", "name": "trip", "version": "1", "schema_version": "1", "tool_ids_inventory": [],
            "skill_workflow_ids_inventory": ["order"]})
        .to_string(),
    );
    let begun = weft(
        folder.path(),
        &["agent", "run", "trip", "Tea!", "--script", "script.jsonl", "--output", "json"],
    );
    assert_eq!(begun.code, 8, "{begun:#?}");
    let pending = begun.json()["pending"][0].clone();
    assert_eq!((&pending["ask"], &pending["path"]), (&json!("c1/agree"), &json!("agree")));
    let answered = weft(folder.path(), &["runs", "answer", "last", "yes", "--script", "script.jsonl"]).ok();
    assert_eq!(answered.stdout, "Done.\n");
    let shown = weft(folder.path(), &["runs", "show", "last", "--output", "json"]).ok().json();
    let count = |name: &str, path: Value| {
        let events = shown["events"].as_array().unwrap().iter();
        events.filter(|event| event["type"] == name && event["path"] == path).count()
    };
    assert_eq!(count("node.started", json!("first")), 1, "nothing before the question runs again");
    assert_eq!(count("agent.tool.started", Value::Null), 1);
    assert_eq!(count("agent.tool.finished", Value::Null), 1);
}

#[test]
fn a_long_result_is_read_from_the_store_later() {
    let folder = desk();
    let long = json!({"interfaceOutputs": {"v": {"dataFlowType": "STRING"}}, "description": "Says much.",
        "nodes": [{"id": "c", "type": "core:Const", "configValues": {"value": format!("{}needle{}", "x".repeat(150_000), "y".repeat(150_000))}},
            {"id": "out", "type": "core:GroupOutput"}],
        "edges": [{"source": "c", "sourceHandle": "value", "target": "out", "targetHandle": "v"}]});
    trip(folder.path(), &[json!({"text": "<ACTION><workflow__long/></ACTION>"}), json!({"text": "Much."})]);
    write(folder.path(), "workflows/long.json", &long.to_string());
    let profile = |tools: Value| {
        json!({"id": "trip", "name": "trip", "version": "1", "schema_version": "1", "tool_ids_inventory": tools,
            "skill_workflow_ids_inventory": []}).to_string()
    };
    write(folder.path(), "agents/trip.json", &profile(json!(["workflow:long", "system:read_blob"])));
    weft(folder.path(), &["agent", "run", "trip", "Say", "--script", "script.jsonl"]).ok();
    let shown = weft(folder.path(), &["runs", "show", "last"]).ok().stdout;
    let request = |turn: &str, more: &[&str]| {
        weft(folder.path(), &[&["runs", "show", "last", "--request", turn], more].concat())
    };
    let second = request("2", &[]).ok().stdout;
    assert!(second.starts_with("request of turn 2, event "), "{second}");
    assert!(second.contains("\nmodel: scripted\n") && second.contains("\n--- system\n"), "{second}");
    assert!(second.contains("Tool workflow:long executed successfully"), "the result of turn 1: {second}");
    let messages = |turn: &str| {
        let recorded = request(turn, &["--output", "json"]).ok().json();
        recorded["request"]["messages"].as_array().cloned().unwrap()
    };
    let (first, second) = (messages("1"), messages("2"));
    assert_eq!(first, second[..second.len() - 2]);
    let none = request("3", &["--call", "c1"]);
    assert_eq!(none.code, 2);
    assert!(none.stderr.contains("error[unknown_request]"), "{none:#?}");
    assert!(
        none.stderr.contains("turn 3 of call c1")
            && none.stderr.contains("help: it has those of turn 1, turn 2")
    );
    let at = shown.find("blob:").unwrap() + "blob:".len();
    let sha = &shown[at..at + 64];
    let read = format!(
        "<ACTION><system__read_blob><ref>blob:{sha}</ref><offset>149990</offset></system__read_blob></ACTION>"
    );
    trip(
        folder.path(),
        &[json!({"text": read}), json!({"text": "Found.", "request": {"contains": ["xxneedleyy"]}})],
    );
    write(folder.path(), "agents/trip.json", &profile(json!(["workflow:long", "system:read_blob"])));
    let found = weft(folder.path(), &["agent", "run", "trip", "Where?", "--script", "script.jsonl"]).ok();
    assert_eq!(found.stdout, "Found.\n");
    weft(folder.path(), &["runs", "rm", "--keep", "0"]).ok();
    assert_eq!(list(folder.path()), [] as [Value; 0]);
}

#[test]
fn the_request_of_a_model_node_is_kept_in_the_log() {
    let folder = desk();
    let ask = json!({"interfaceOutputs": {"v": {"dataFlowType": "STRING"}},
        "nodes": [{"id": "ask", "type": "core:GenericLlmRequest",
                "configValues": {"prompt": "You count.", "parameters": {"temperature": 0.5}},
                "inputValues": {"messages": "How many?"}},
            {"id": "out", "type": "core:GroupOutput"}],
        "edges": [{"source": "ask", "sourceHandle": "response", "target": "out", "targetHandle": "v"}]});
    write(folder.path(), "workflows/ask.json", &ask.to_string());
    write(folder.path(), "script.jsonl", &json!({"text": "Two."}).to_string());
    weft(folder.path(), &["workflow", "run", "ask", "--script", "script.jsonl"]).ok();
    let show = ["runs", "show", "last", "--request", "1", "--path", "ask", "--output", "json"];
    let request = weft(folder.path(), &show).ok().json();
    assert_eq!((&request["path"], &request["turn"]), (&json!("ask"), &json!(1)));
    let request = &request["request"];
    assert_eq!(request["parameters"]["temperature"], 0.5, "{request}");
    let texts: Vec<&Value> =
        request["messages"].as_array().unwrap().iter().map(|message| &message["text"]).collect();
    assert_eq!(texts, ["You count.", "How many?"]);
    let shown = weft(folder.path(), &["runs", "show", "last", "--output", "json"]).ok().json();
    let events = shown["events"].as_array().unwrap().iter();
    let of_model = events.filter(|event| event["type"].as_str().unwrap().starts_with("agent.llm."));
    let of_model: Vec<_> = of_model.map(|event| (event["type"].clone(), event["path"].clone())).collect();
    let both = ["agent.llm.started", "agent.llm.finished"].map(|name| (json!(name), json!("ask")));
    assert_eq!(of_model, both);
}

#[test]
fn n17_last_names_what_it_takes_and_does_not_choose_among_runs_that_wait() {
    let folder = desk();
    let ask = json!({"interfaceOutputs": {"v": {"dataFlowType": "STRING"}},
        "nodes": [{"id": "q", "type": "core:Ask", "configValues": {"prompt": "Now?"}},
            {"id": "out", "type": "core:GroupOutput"}],
        "edges": [{"source": "q", "sourceHandle": "answer", "target": "out", "targetHandle": "v"}]});
    write(folder.path(), "workflows/ask.json", &ask.to_string());
    let begin = || assert_eq!(weft(folder.path(), &["workflow", "run", "ask"]).code, 8);
    begin();
    let first = wait_for(folder.path(), "waiting");
    begin();
    for command in
        [&["runs", "answer", "last", "yes"][..], &["runs", "resume", "last"], &["runs", "cancel", "last"]]
    {
        let refused = weft(folder.path(), command);
        assert!(refused.code != 0 && refused.stderr.contains("which_run"), "{refused:#?}");
        assert!(refused.stderr.contains(&first), "{refused:#?}");
    }
    let shown = weft(folder.path(), &["runs", "show", "last"]).ok();
    assert!(shown.stderr.starts_with("last is ") && shown.stderr.contains("(ask, waiting)"), "{shown:#?}");
    assert_eq!(weft(folder.path(), &["runs", "answer", &first, "yes"]).ok().stdout, "yes\n");
    let answered = weft(folder.path(), &["runs", "answer", "last", "no"]).ok();
    assert_eq!(answered.stdout, "no\n");
    assert!(answered.stderr.starts_with("last is "), "{answered:#?}");
}

#[test]
fn the_developer_log_has_the_passes_of_loops() {
    let folder = desk();
    write(folder.path(), "workflows/short.json", &LONG.replace("1500", "2"));
    weft(folder.path(), &["workflow", "run", "short"]).ok();
    let shown = weft(folder.path(), &["runs", "show", "last", "--log"]).ok().stdout;
    for line in ["loop[0] ", "  n: 0 → 1", "  n: 1 → 2", "loop (times) ended after 2 passes"] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    let shown = weft(folder.path(), &["runs", "show", "last", "--log", "--output", "json"]).ok().json();
    let pass = &shown["loops"][1];
    assert_eq!((&pass["kind"], &pass["pass"]), (&json!("pass"), &json!(1)));
    assert_eq!((&pass["before"], &pass["after"]), (&json!({"n": 1}), &json!({"n": 2})));
    assert_eq!(pass["changed"], json!(["n"]));
    assert_eq!((&shown["loops"][2]["kind"], &shown["loops"][2]["why"]), (&json!("loop"), &json!("times")));
    assert!(shown["events"].as_array().unwrap().is_empty(), "lines of `core:Log` alone: {shown:#}");
    let lines = weft(folder.path(), &["runs", "show", "last", "--log", "--output", "jsonl"]).ok().stdout;
    assert_eq!(lines.lines().count(), 3);
}

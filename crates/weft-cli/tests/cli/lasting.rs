//! Data that outlives a run: state, blobs, waiting events.

use std::path::Path;

use serde_json::{Value, json};

use crate::common::{Ran, desk, weft, write};

fn agent(folder: &Path, id: &str, extra: &Value) {
    let mut profile = json!({"id": id, "name": id, "tool_ids_inventory": []});
    profile.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    write(folder, &format!("agents/{id}.json"), &profile.to_string());
}

fn run(folder: &Path, script: &[&str], arguments: &[&str]) -> Ran {
    let lines: Vec<String> = script.iter().map(|text| json!({"text": text}).to_string()).collect();
    write(folder, "said.jsonl", &lines.join("\n"));
    weft(folder, &[&["agent", "run"], arguments, &["--script", "said.jsonl"]].concat())
}

fn call(folder: &Path, arguments: &[&str]) -> Ran {
    weft(folder, &[&["tool", "call"], arguments, &["--output", "json"]].concat())
}

#[test]
fn what_an_agent_keeps_is_there_in_the_next_run_and_by_hand() {
    let folder = desk();
    let keeps = json!({"tool_ids_inventory": ["system:read_state", "system:update_state"],
        "initial_private_state_values": {"n": 1},
        "initial_private_state_schema": {"type": "object", "properties": {"n": {"type": "integer"}}}});
    agent(folder.path(), "keeper", &keeps);
    let change = "<ACTION><system:update_state><changes>{\"n\": 2}</changes></system:update_state></ACTION>";
    run(folder.path(), &[change, "Kept."], &["keeper", "Keep 2."]).ok();
    let read = |agent: &str| {
        call(folder.path(), &["system:read_state", "--agent", agent]).ok().json()["result"].clone()
    };
    assert_eq!(read("keeper"), json!({"n": 2}));
    let update = ["system:update_state", "--agent", "keeper", "-i", "changes:={\"n\": \"two\"}"];
    let refused = call(folder.path(), &update);
    assert_eq!(refused.code, 7, "{refused:#?}");
    assert!(refused.json()["error"]["message"].as_str().unwrap().contains("stays as it was"), "{refused:#?}");
    assert_eq!(read("keeper"), json!({"n": 2}));
    // There are two agents, and none was named.
    let whose = call(folder.path(), &["system:read_state"]);
    assert_eq!(whose.code, 2);
    assert!(
        whose.stderr.contains("missing_agent") && whose.stderr.contains("--agent ID"),
        "{}",
        whose.stderr
    );
}

#[test]
fn agents_share_a_world() {
    let folder = desk();
    agent(folder.path(), "porter", &json!({"tool_ids_inventory": ["system:update_world"]}));
    let open =
        "<ACTION><system:update_world><changes>{\"door\": \"open\"}</changes></system:update_world></ACTION>";
    run(folder.path(), &[open, "Open."], &["porter", "Open it.", "--approve", "all"]).ok();
    let add = ["system:update_world", "-i", "changes:={\"light\": true}"];
    assert_eq!(call(folder.path(), &add).ok().json()["result"], json!({"door": "open", "light": true}));
    let door = call(folder.path(), &["system:read_world", "-i", "key=door"]).ok();
    assert_eq!(door.json()["result"], "open");
}

#[test]
fn tasks_of_other_processes_are_said_to_be_out_of_reach() {
    let folder = desk();
    let status = call(folder.path(), &["system:task_status", "-i", "task=t1"]);
    assert_eq!(status.code, 2);
    assert!(status.stderr.contains("no_tasks"), "{}", status.stderr);
}

#[test]
fn a_published_event_waits_for_those_that_listen() {
    let folder = desk();
    agent(folder.path(), "seller", &json!({"tool_ids_inventory": ["system:publish_event"]}));
    let listens =
        json!({"subscribed_event_types": [{"type": "order", "filter_condition": "payload.total > 10"}]});
    agent(folder.path(), "clerk", &listens);
    let publish = |total: u32| {
        format!(
            "<ACTION><system:publish_event><event>order</event><payload>{{\"total\": {total}}}</payload></system:publish_event></ACTION>"
        )
    };
    let said = [publish(5), publish(12), "Told.".to_owned()];
    let output =
        run(folder.path(), &said.each_ref().map(String::as_str), &["seller", "Sell.", "--output", "jsonl"])
            .ok();
    let logged: Vec<String> = output
        .lines()
        .iter()
        .filter(|event| event["type"] == "log.line" && event["data"]["level"] == "info")
        .map(|event| event["data"]["message"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        logged,
        [r#"event `order` published: {"total":5}"#, r#"event `order` published: {"total":12}"#]
    );
    // The small order wakes nobody; the large one once.
    write(folder.path(), "said.jsonl", r#"{"text": "Noted.", "request": {"contains": ["\"total\":12"]}}"#);
    let woken = ["agent", "run", "clerk", "--event", "order", "--script", "said.jsonl"];
    assert_eq!(weft(folder.path(), &woken).ok().stdout, "Noted.\n");
    let again = weft(folder.path(), &woken);
    assert!(again.stderr.contains("not_subscribed"), "nothing waits any more: {again:#?}");
}

//! Talking with agents, changing what they may use, and scenarios of them.

use std::path::Path;

use serde_json::{Value, json};

use crate::common::{desk, weft, weft_with, write};

const PROFILE: &str = r#"{
  "id": "clerk",
  "name": "Clerk",
  "zz_unknown": [1, null],
  "tool_ids_inventory": ["system:get_current_time"],
  "subscribed_event_types": [{"type": "order", "filter_condition": "payload.total > 10"}]
}"#;

fn clerk(folder: &Path, script: &[Value]) {
    write(folder, "agents/clerk.json", PROFILE);
    let lines: Vec<String> = script.iter().map(Value::to_string).collect();
    write(folder, "clerk.jsonl", &lines.join("\n"));
}

#[test]
fn a_chat_works_in_a_pipe_and_goes_on_later() {
    let folder = desk();
    clerk(folder.path(), &[json!({"text": "Hello."}), json!({"text": "Blue."}), json!({"text": "Red."})]);
    let chat = ["agent", "chat", "clerk", "--thread", "t", "--script", "clerk.jsonl"];
    let first = weft_with(folder.path(), &chat, "Hi\n/tools\nWhich colour?\n/undo\n/nonsense\n", &[]);
    assert_eq!(first.stdout, "Hello.\nBlue.\n");
    assert!(first.stderr.contains("system:get_current_time"), "{}", first.stderr);
    assert!(first.stderr.contains("error[usage]: unknown command `/nonsense`"), "{}", first.stderr);
    // What was undone is not there, what was said before is.
    let lacks =
        json!({"text": "Green.", "request": {"contains": ["Hi", "Hello."], "lacks": ["colour", "Blue"]}});
    write(folder.path(), "clerk.jsonl", &lacks.to_string());
    let second = weft_with(folder.path(), &chat, "And now?\n/quit\nnever\n", &[]).ok();
    assert_eq!(second.stdout, "Green.\n");
}

#[test]
fn a_chat_asks_before_a_call_and_takes_the_answer() {
    let folder = desk();
    let call = json!({"text": "<ACTION><system:get_current_time/></ACTION>"});
    clerk(
        folder.path(),
        &[call.clone(), json!({"text": "It is late."}), call, json!({"text": "As you wish."})],
    );
    let asks = PROFILE.replace("\"zz_unknown\"", "\"approval\": {\"default\": \"ask\"}, \"zz_unknown\"");
    write(folder.path(), "agents/clerk.json", &asks);
    let chat = ["agent", "chat", "clerk", "--thread", "t", "--script", "clerk.jsonl"];
    let said = "Time?\nMore\n/approve\nAgain?\n/deny keep it\n";
    let shown = weft_with(folder.path(), &chat, said, &[]).ok();
    assert_eq!(shown.stdout, "It is late.\nAs you wish.\n", "{}", shown.stderr);
    assert!(shown.stderr.contains("waits for you: system:get_current_time {}"), "{}", shown.stderr);
    assert!(shown.stderr.contains("a call waits for you"), "{}", shown.stderr);
}

#[test]
fn a_tool_is_added_and_taken_away_and_nothing_else_changes() {
    let folder = desk();
    clerk(folder.path(), &[]);
    let read = || -> Value {
        serde_json::from_str(&std::fs::read_to_string(folder.path().join("agents/clerk.json")).unwrap())
            .unwrap()
    };
    let before = read();
    let dry =
        weft(folder.path(), &["agent", "add-tool", "clerk", "workflow:summarize_text", "--dry-run"]).ok();
    assert_eq!(dry.json()["tool_ids_inventory"][1], "workflow:summarize_text");
    assert_eq!(read(), before);
    weft(folder.path(), &["agent", "add-tool", "clerk", "workflow:summarize_text", "--skill"]).ok();
    assert_eq!(read()["skill_workflow_ids_inventory"], json!(["summarize_text"]));
    let again = weft(folder.path(), &["agent", "add-tool", "clerk", "workflow:summarize_text"]).ok();
    assert!(again.stderr.contains("has `workflow:summarize_text` already"), "{}", again.stderr);
    weft(folder.path(), &["agent", "remove-tool", "clerk", "workflow:summarize_text"]).ok();
    let mut after = read();
    after.as_object_mut().unwrap().remove("skill_workflow_ids_inventory");
    assert_eq!(after, before);
    let unknown = weft(folder.path(), &["agent", "add-tool", "clerk", "workflow:summarise_text"]);
    assert_eq!(unknown.code, 2);
    assert!(unknown.stderr.contains("did you mean `workflow:summarize_text`?"), "{}", unknown.stderr);
    let not_there = weft(folder.path(), &["agent", "remove-tool", "clerk", "system:get_curent_time"]);
    assert_eq!(not_there.code, 2);
    assert!(not_there.stderr.contains("did you mean `system:get_current_time`?"), "{}", not_there.stderr);
}

/// Every process had the same temporary file once: one of two changes was lost, or the profile was cut.
#[test]
fn profile_changes_side_by_side_are_all_kept() {
    let folder = desk();
    clerk(folder.path(), &[]);
    let tools = ["read_blob", "read_state", "update_state", "task_status", "task_result", "task_cancel"];
    let path = folder.path();
    std::thread::scope(|scope| {
        for tool in tools {
            let id = format!("system:{tool}");
            scope.spawn(move || weft(path, &["agent", "add-tool", "clerk", &id]).ok());
        }
    });
    let text = std::fs::read_to_string(folder.path().join("agents/clerk.json")).unwrap();
    let profile: Value = serde_json::from_str(&text).unwrap();
    for tool in tools {
        let id = format!("system:{tool}");
        assert!(profile["tool_ids_inventory"].as_array().unwrap().contains(&json!(id)), "{id}: {text}");
    }
    let left = std::fs::read_dir(folder.path().join("agents")).unwrap().flatten();
    let left: Vec<_> =
        left.map(|entry| entry.file_name()).filter(|name| name.to_string_lossy().ends_with(".new")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn an_event_sets_to_work_whoever_listens() {
    let folder = desk();
    let reply = json!({"text": "Noted.", "request": {"contains": ["order", "\"total\":12"]}});
    clerk(folder.path(), &[reply]);
    write(folder.path(), "big.json", r#"{"total": 12}"#);
    write(folder.path(), "small.json", r#"{"total": 2}"#);
    let run = |payload: &str| {
        let event = ["agent", "run", "clerk", "--event", "order", "--payload", payload];
        weft(folder.path(), &[&event[..], &["--script", "clerk.jsonl"]].concat())
    };
    assert_eq!(run("big.json").ok().stdout, "Noted.\n");
    let ignored = run("small.json");
    assert_eq!(ignored.code, 2);
    let said = "error[not_subscribed]: the agent `clerk` listens to `order`, and its condition does not hold";
    assert!(ignored.stderr.contains(said), "{}", ignored.stderr);
    let near = weft(folder.path(), &["agent", "run", "clerk", "--event", "oder", "--script", "clerk.jsonl"]);
    assert!(near.stderr.contains("did you mean `order`?"), "{}", near.stderr);
}

#[test]
fn an_answer_fits_the_schema_or_is_asked_for_again() {
    let folder = desk();
    clerk(folder.path(), &[json!({"text": "four"}), json!({"text": "{\"n\": 4}"})]);
    write(
        folder.path(),
        "answer.json",
        r#"{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}"#,
    );
    let arguments = ["agent", "run", "clerk", "2+2?", "--schema", "answer.json", "--script", "clerk.jsonl"];
    let answer = weft(folder.path(), &[&arguments[..], &["--output", "json"]].concat()).ok().json();
    assert_eq!((&answer["exit"], &answer["value"]), (&json!("completed"), &json!({"n": 4})));
}

#[test]
fn a_recorded_run_is_a_scenario_that_passes_and_tells_when_it_no_longer_does() {
    let folder = desk();
    weft(folder.path(), &["agent", "run", "desk", "What is new?"]).ok();
    weft(folder.path(), &["test", "--record", "last"]).ok();
    let passed = weft(folder.path(), &["test", "--output", "json"]).ok().json();
    assert_eq!(passed, json!({"passed": 1, "failed": []}));
    let file = folder.path().join("tests/recorded.jsonl");
    let text =
        std::fs::read_to_string(&file).unwrap().replace("\"exit\":\"completed\"", "\"exit\":\"max_turns\"");
    std::fs::write(&file, text).unwrap();
    let failed = weft(folder.path(), &["test"]);
    assert_eq!(failed.code, 1);
    assert!(failed.stdout.contains("wanted \"max_turns\"\n  got    \"completed\""), "{}", failed.stdout);
    assert!(failed.stdout.ends_with("0 passed, 1 failed\n"), "{}", failed.stdout);
}

#[test]
fn a_misspelt_scenario_is_not_a_passed_one() {
    let folder = desk();
    let line = |key: &str| {
        format!(
            "{{\"id\": \"a\", \"script\": [{{\"text\": \"x\"}}], \"turns\": [{{\"user\": \"hi\", {key}}}]}}"
        )
    };
    write(folder.path(), "tests/a.jsonl", &line("\"expect\": {\"text\": \"x\"}"));
    weft(folder.path(), &["test"]).ok();
    for wrong in [
        "\"expekt\": {}",
        "\"expect\": {\"txt\": \"x\"}",
        "\"expect\": {\"events\": [{\"type\": \"agent.unheard\"}]}",
    ] {
        write(folder.path(), "tests/a.jsonl", &line(wrong));
        let failed = weft(folder.path(), &["test"]);
        assert_eq!(failed.code, 1, "{wrong}");
        assert!(failed.stdout.contains("unknown"), "{}", failed.stdout);
    }
}

#[test]
fn an_end_that_is_no_answer_says_what_to_do() {
    let folder = desk();
    let call = |inner: &str| json!({"text": format!("<ACTION>{inner}</ACTION>")});
    let wrong = call("<get_wether><city>Oslo</city></get_wether>");
    clerk(folder.path(), &[wrong.clone(), wrong.clone(), wrong]);
    let run = ["agent", "run", "clerk", "Go.", "--script", "clerk.jsonl"];
    let ended = weft(folder.path(), &run);
    assert_eq!(ended.code, 1, "{ended:?}");
    for said in [
        "error[self_correction_failed]: 3 replies in a row could not be used, the last for `get_wether`",
        "budgets.corrections",
    ] {
        assert!(ended.stderr.contains(said), "{}", ended.stderr);
    }
    let again = call("<system:get_current_time></system:get_current_time>");
    clerk(folder.path(), &vec![again; 6]);
    let ended = weft(folder.path(), &run);
    assert_eq!(ended.code, 6, "{ended:?}");
    assert!(ended.stderr.contains("help: "), "{}", ended.stderr);
}

#[test]
fn a_schema_that_is_none_is_told_by_its_file() {
    let folder = desk();
    let run = ["agent", "run", "desk", "Hi", "--schema", "s.json"];
    for (text, code) in [("{\"type\": \"objekt\"}", "bad_schema"), ("{", "bad_json")] {
        write(folder.path(), "s.json", text);
        let ran = weft(folder.path(), &run);
        assert_eq!(ran.code, 7, "{ran:?}");
        assert!(ran.stderr.contains(code) && ran.stderr.contains("--> s.json"), "{}", ran.stderr);
    }
}

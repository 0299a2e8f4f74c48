//! Agreement of the command line, the prompts and the server about one run.

use std::path::Path;

use serde_json::{Value, json};

use crate::common::{desk, weft, weft_with, write};
use crate::serving::{Served, TOKEN, ask_http, ask_stdio, walk};

fn script(folder: &Path, replies: &[Value]) {
    let lines: Vec<String> = replies.iter().map(Value::to_string).collect();
    write(folder, "script.jsonl", &lines.join("\n"));
}

/// An agent that may read the clock, with approval, and ask which colour is meant.
fn clerk(folder: &Path) {
    let profile = json!({"id": "clerk", "name": "Clerk", "tool_ids_inventory": ["system:get_current_time"],
        "skill_workflow_ids_inventory": ["ask"],
        "approval": {"default": "auto", "tools": {"system:get_current_time": "ask"}}});
    write(folder, "agents/clerk.json", &profile.to_string());
    write(folder, "workflows/ask.json", weft_harness::ASK);
}

fn call(tool: &str) -> Value {
    json!({"text": format!("<ACTION><{tool}/></ACTION>")})
}

/// The system message of a client was in memory only: a run that another process resumed had lost it.
#[test]
fn a_run_of_v1_keeps_its_system_message_when_the_command_line_resumes_or_forks_it() {
    let folder = desk();
    clerk(folder.path());
    let wants = |text: &str| json!({"text": text, "request": {"contains": ["Speak like a sailor."]}});
    script(folder.path(), &[call("system__get_current_time"), wants("Aye.")]);
    write(folder.path(), "weft.toml", "script = \"script.jsonl\"\n");
    let body = json!({"model": "clerk", "messages": [
        {"role": "system", "content": "Speak like a sailor."}, {"role": "user", "content": "How late is it?"}]});
    let run = {
        let served = Served::start(folder.path(), TOKEN, &[]);
        let (status, answer) = served.ask("POST", "/v1/chat/completions", &body.to_string());
        assert_eq!(status, 200, "{answer}");
        weft(folder.path(), &["runs", "list", "--output", "json"]).ok().json()[0]["run"].clone()
    };
    let run = run.as_str().unwrap();
    let approved = weft(folder.path(), &["runs", "approve", run]).ok();
    assert_eq!(approved.stdout, "Aye.\n");
    let shown = weft(folder.path(), &["runs", "show", run, "--output", "json"]).ok().json();
    let finished = shown["events"]
        .as_array()
        .unwrap()
        .iter()
        .find(|event| event["type"] == "agent.tool.finished")
        .unwrap();
    let forked = weft(folder.path(), &["runs", "fork", run, "--at", &finished["seq"].to_string()]).ok();
    assert_eq!(forked.stdout, "Aye.\n");
}

/// One of the prompts took `/approve` as an answer to a question too, and forgot the run when an answer was refused.
#[test]
fn approvals_answer_calls_only_and_a_refused_answer_leaves_the_run_waiting() {
    for chat in [&["agent", "chat", "clerk", "--thread", "t"][..], &["chat", "--session", "t"]] {
        let folder = desk();
        std::fs::remove_dir_all(folder.path().join("agents/desk")).unwrap();
        clerk(folder.path());
        let said = json!({"text": "Blue it is.", "request": {"contains": ["Result: blue"]}});
        script(folder.path(), &[call("workflow__ask"), said]);
        let chat = [chat, &["--script", "script.jsonl"]].concat();
        let lines = "Which colour?\n/approve\n/deny no\nMore?\n/answer blue\n/answer red\n";
        let ran = weft_with(folder.path(), &chat, lines, &[]);
        assert_eq!(ran.stdout, "Blue it is.\n", "{chat:?}: {}", ran.stderr);
        assert_eq!(ran.stderr.matches("error[no_approval]").count(), 2, "{chat:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("a call waits for you"), "{chat:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("nothing waits for you"), "{chat:?}: {}", ran.stderr);
        // Nothing but the answer was recorded.
        let shown = weft(folder.path(), &["runs", "show", "last", "--output", "json"]).ok().json();
        let resumed =
            shown["events"].as_array().unwrap().iter().filter(|event| event["type"] == "run.resumed");
        assert_eq!(resumed.count(), 1, "{chat:?}");
    }
}

/// The key under which a request to end a run is left was written down twice.
#[test]
fn a_run_of_the_server_is_ended_by_the_command_line() {
    let folder = desk();
    write(folder.path(), "workflows/count.json", &walk());
    let served = Served::start(folder.path(), TOKEN, &[]);
    let run = served.begin(&json!({"workflow": "count", "inputs": {"n": 100_000}}));
    served.until(&run, 10);
    let cancelled = weft(folder.path(), &["runs", "cancel", &run]).ok();
    assert!(cancelled.stderr.contains("executes elsewhere"), "{cancelled:#?}");
    weft(folder.path(), &["runs", "watch", &run]).ok();
    let shown = weft(folder.path(), &["runs", "show", &run, "--output", "json"]).ok().json();
    assert_eq!(shown["status"], "cancelled");
    let (_, shown) = served.ask("GET", &format!("/api/runs/{run}"), "");
    assert!(shown.contains("\"cancelled\""), "{shown}");
}

/// The id of a single call named a run that no command knew.
#[test]
fn a_single_call_is_a_run_that_can_be_read_and_exported() {
    let folder = desk();
    let tool = "system:get_current_time";
    let called = weft(folder.path(), &["tool", "call", tool, "--output", "json"]).ok().json();
    let run = called["run"].as_str().unwrap();
    let shown = weft(folder.path(), &["runs", "show", run, "--output", "json"]).ok().json();
    assert_eq!((&shown["status"], &shown["tool"]), (&json!("ok"), &json!(tool)));
    let kinds: Vec<&str> =
        shown["events"].as_array().unwrap().iter().filter_map(|event| event["type"].as_str()).collect();
    assert_eq!(kinds, ["run.started", "agent.tool.started", "agent.tool.finished", "run.finished"]);
    let exported = weft(folder.path(), &["runs", "export", run]).ok().json();
    assert_eq!((&exported["plan"]["kind"], &exported["plan"]["tool"]), (&json!("call"), &json!(tool)));
    assert_eq!(exported["events"], shown["events"]);
    assert!(weft(folder.path(), &["runs", "list"]).ok().stdout.contains(tool));
    assert_eq!(weft(folder.path(), &["runs", "replay", run, "--output", "jsonl"]).ok().lines().len(), 4);
    for (command, code) in
        [("resume", "not_resumable"), ("retry", "not_retryable"), ("fork", "not_resumable")]
    {
        let refused = weft(folder.path(), &["runs", command, run]);
        assert!(refused.stderr.contains(&format!("error[{code}]")), "{command}: {refused:#?}");
    }
    weft(folder.path(), &["runs", "rm", run]).ok();
    assert!(weft(folder.path(), &["runs", "show", run]).stderr.contains("unknown_run"));
}

/// Calls of clients of the Model Context Protocol were kept nowhere.
#[test]
fn a_call_of_an_mcp_client_is_a_run() {
    let folder = desk();
    let served = Served::start(folder.path(), TOKEN, &[]);
    let (tool, arguments) = ("system:get_current_time", json!({"timezone": "UTC"}));
    let call = json!({"name": "system__get_current_time", "arguments": arguments});
    let answer = ask_http(&served, "tools/call", &call);
    assert!(answer.contains("UTC"), "{answer}");
    let answer = ask_stdio(folder.path(), &["mcp"], "tools/call", &call);
    assert!(answer.contains("UTC"), "{answer}");
    let runs = weft(folder.path(), &["runs", "list", "--output", "json"]).ok().json();
    let runs = runs.as_array().unwrap();
    assert_eq!(runs.len(), 2, "{runs:#?}");
    for run in runs {
        assert_eq!((&run["tool"], &run["status"]), (&json!(tool), &json!("ok")));
        let exported = weft(folder.path(), &["runs", "export", run["run"].as_str().unwrap()]).ok().json();
        assert_eq!(exported["plan"]["arguments"], arguments);
    }
}

//! Agents as workflows of nodes, and workflows in place of models.

use std::path::Path;

use serde_json::{Value, json};

use crate::common::{desk, weft, weft_with, write};

fn edge(from: (&str, &str), to: (&str, &str)) -> Value {
    json!({"source": from.0, "sourceHandle": from.1, "target": to.0, "targetHandle": to.1})
}

/// Calls that ran, with their arguments.
fn calls(folder: &Path, run: &str) -> Vec<Value> {
    let shown = weft(folder, &["runs", "show", run, "--output", "json"]).ok().json();
    let events = shown["events"].as_array().unwrap().clone();
    let of = |call: &Value, kind: &str| {
        events
            .iter()
            .find(|event| event["type"] == kind && event["call"] == *call)
            .cloned()
            .unwrap_or_default()
    };
    let started = events.iter().filter(|event| event["type"] == "agent.tool.started");
    started
        .map(|event| {
            let ready = of(&event["call"], "agent.call.ready");
            let finished = of(&event["call"], "agent.tool.finished");
            json!([event["data"]["tool"], ready["data"]["arguments"], finished["data"]["status"]])
        })
        .collect()
}

#[test]
fn the_loop_of_nodes_does_what_the_agent_does() {
    let folder = desk();
    let question = std::fs::read_to_string(folder.path().join("question.md")).unwrap();
    let agent = weft(folder.path(), &["agent", "run", "desk", &question, "--output", "json"]).ok().json();
    let workflow = weft(
        folder.path(),
        &["workflow", "run", "agent_loop", "-i", "query=@question.md", "--output", "json"],
    )
    .ok()
    .json();
    assert_eq!(workflow["outputs"]["answer"], agent["text"]);
    let [one, other] = [&agent, &workflow].map(|run| calls(folder.path(), run["run"].as_str().unwrap()));
    assert_eq!(one, other);
    assert_eq!(one.len(), 3);
}

const MISTAKES: &str = r#"{"text": "<ACTION><tool name=\"system:get_time\"/></ACTION>"}
{"text": "<ACTION><tool name=\"kb:Query\"><quary>dock</quary></tool></ACTION>", "request": {"contains": ["Unknown tool 'system:get_time', did you mean 'system:get_current_time'?"]}}
{"text": "Both. <ACTION><tool name=\"kb:Query\"><query>loading dock</query></tool><tool name=\"kb:Query\"><query>visitors</query></tool></ACTION>", "request": {"contains": ["Unknown parameter 'quary', did you mean 'query'?"]}}
{"text": "It opens at seven, and visitors sign in.", "request": {"contains": ["canal side", "wear a badge"]}}
"#;

#[test]
fn it_makes_the_same_of_mistakes() {
    let folder = desk();
    write(folder.path(), "mistakes.jsonl", MISTAKES);
    let script = ["--script", "mistakes.jsonl", "--output", "json"];
    let agent = weft(folder.path(), &[&["agent", "run", "desk", "When?"][..], &script].concat()).ok().json();
    let run = ["workflow", "run", "agent_loop", "-i", "query=When?"];
    let workflow = weft(folder.path(), &[&run[..], &script].concat()).ok().json();
    assert_eq!(workflow["outputs"]["answer"], agent["text"]);
    let [one, other] = [&agent, &workflow].map(|run| calls(folder.path(), run["run"].as_str().unwrap()));
    assert_eq!(one, other);
    assert_eq!(one.len(), 2);
}

#[test]
fn a_chat_remembers() {
    let folder = desk();
    let say = |message: &str, thread: &str, script: &str| {
        write(folder.path(), "reply.jsonl", script);
        let (message, thread) = (format!("message={message}"), format!("thread={thread}"));
        let ran = weft(
            folder.path(),
            &["workflow", "run", "chat", "-i", &message, "-i", &thread, "--script", "reply.jsonl"],
        );
        ran.ok().stdout
    };
    assert_eq!(say("I am Ada.", "", r#"{"text": "Hello Ada.", "request": {"messages": 2}}"#), "Hello Ada.\n");
    let second = r#"{"text": "Ada.", "request": {"messages": 4, "contains": ["I am Ada.", "Hello Ada.", "Who am I?"]}}"#;
    assert_eq!(say("Who am I?", "", second), "Ada.\n");
    let other = r#"{"text": "I do not know.", "request": {"messages": 2, "lacks": ["Ada"]}}"#;
    assert_eq!(say("Who am I?", "other", other), "I do not know.\n");
}

/// A project with a tool that must be approved, and a workflow of one decision.
fn booking() -> tempfile::TempDir {
    let folder = desk();
    let tool = json!({"name": "book", "description": "Books a room.",
        "parameters": {"type": "object", "properties": {"room": {"type": "string"}}, "required": ["room"]},
        "endpoint": {"url": "http://127.0.0.1:9/bookings", "method": "POST", "body": {"room": "{room}"}}});
    write(folder.path(), "tools/book.tool.json", &tool.to_string());
    let workflow = json!({
        "description": "Books rooms.",
        "availableTools": {"initial": ["book"]},
        "interfaceInputs": {"query": {"dataFlowType": "STRING", "description": "what is wanted"}},
        "interfaceOutputs": {"observation": {"dataFlowType": "STRING"}},
        "nodes": [{"id": "in", "type": "core:GroupInput"}, {"id": "out", "type": "core:GroupOutput"},
            {"id": "decide", "type": "agent:LlmDecisionWithTools"}, {"id": "run", "type": "agent:ExecuteTool"}],
        "edges": [edge(("in", "query"), ("decide", "query")),
            edge(("decide", "tool_call_requests"), ("run", "tool_call_requests")),
            edge(("run", "observation"), ("out", "observation"))],
    });
    write(folder.path(), "workflows/booking.json", &workflow.to_string());
    write(folder.path(), "book.jsonl", r#"{"text": "<ACTION><book><room>blue</room></book></ACTION>"}"#);
    folder
}

#[test]
fn a_call_in_a_node_waits_for_a_person() {
    let folder = booking();
    let run = ["workflow", "run", "booking", "-i", "query=blue", "--script", "book.jsonl"];
    let ran = weft(folder.path(), &run);
    assert_eq!(ran.code, 8, "{ran:#?}");
    assert!(ran.stderr.contains("run: `book` must be approved"), "{}", ran.stderr);
    assert!(ran.stderr.contains("help: weft runs approve "), "{}", ran.stderr);
    let shown = weft(folder.path(), &["runs", "show", "last", "--output", "json"]).ok().json();
    assert_eq!(shown["status"], "waiting");
    let text = weft(folder.path(), &["runs", "show", "last"]).ok().stdout;
    assert!(text.contains("\n  book {\"room\":\"blue\"}\n"), "{text}");
    let denied = weft(folder.path(), &["runs", "approve", "last", "--deny", "it is taken"]).ok();
    assert_eq!(denied.stdout, "Observation: Error - Tool book was not run: denied: it is taken\n");
    // Where nobody may be asked it is denied, where all is allowed it runs.
    let none = weft(folder.path(), &[&run[..], &["--approve", "none"]].concat()).ok();
    assert!(none.stdout.contains("denied: approvals are turned off for this run"), "{none:#?}");
    let all = weft(folder.path(), &[&run[..], &["--approve", "all"]].concat()).ok();
    assert!(all.stdout.contains("Error - Tool book failed"), "{all:#?}");
}

#[test]
fn a_workflow_of_nodes_is_a_tool_of_an_agent() {
    let folder = booking();
    let agent = json!({"id": "clerk", "name": "Clerk", "version": "1", "schema_version": "1",
        "tool_ids_inventory": [{"id": "workflow:booking", "approval": "auto"}], "skill_workflow_ids_inventory": []});
    write(folder.path(), "agents/clerk.json", &agent.to_string());
    let script = r#"{"text": "<ACTION><tool name=\"workflow:booking\"><query>the blue room</query></tool></ACTION>", "usage": {"input": 1, "output": 1}}
{"text": "<ACTION><book><room>blue</room></book></ACTION>", "usage": {"input": 3, "output": 4}, "request": {"contains": ["the blue room", "Books a room."]}}
{"text": "It is not free.", "usage": {"input": 1, "output": 1}, "request": {"contains": ["denied: it is taken"]}}"#;
    write(folder.path(), "clerk.jsonl", script);
    let run = ["agent", "run", "clerk", "Blue, please.", "--script", "clerk.jsonl", "--output", "json"];
    let first = weft(folder.path(), &run);
    assert_eq!(first.code, 8, "{first:#?}");
    let pending = first.json()["pending"].clone();
    assert_eq!((&pending[0]["tool"], &pending[0]["arguments"]), (&json!("book"), &json!({"room": "blue"})));
    assert_eq!(pending[0]["ask"], "c1/run");
    let second = weft_with(
        folder.path(),
        &["runs", "approve", "last", "--deny", "it is taken", "--script", "clerk.jsonl", "--output", "json"],
        "",
        &[],
    )
    .ok()
    .json();
    assert_eq!((&second["text"], &second["usage"]["total"]), (&json!("It is not free."), &json!(11)));
}

#[test]
fn a_workflow_deliberates_for_an_agent() {
    let folder = desk();
    let workflow = json!({
        "description": "Thinks.",
        "interfaceInputs": {"message": {"dataFlowType": "STRING"}, "observations": {"dataFlowType": "ARRAY"}},
        "interfaceOutputs": {"full_text": {"dataFlowType": "STRING"}},
        "nodes": [{"id": "in", "type": "core:GroupInput"}, {"id": "out", "type": "core:GroupOutput"},
            {"id": "say", "type": "core:TextTemplate", "configValues": {"template":
                "{% if observations %}You said {{ message }}. {{ observations[0] }}{% else %}I look. <ACTION><tool name=\"kb:Query\"><query>visitors</query></tool></ACTION>{% endif %}"}}],
        "edges": [edge(("in", "message"), ("say", "message")), edge(("in", "observations"), ("say", "observations")),
            edge(("say", "text"), ("out", "full_text"))],
    });
    write(folder.path(), "workflows/think.json", &workflow.to_string());
    let agent = json!({"id": "thinker", "name": "T", "version": "1", "schema_version": "1", "tool_ids_inventory": ["kb:Query"],
        "skill_workflow_ids_inventory": [], "core_deliberation_workflow_id": "think"});
    write(folder.path(), "agents/thinker.json", &agent.to_string());
    let ran = weft(folder.path(), &["agent", "run", "thinker", "hi"]).ok();
    assert!(
        ran.stdout.starts_with("You said hi. Observation: Tool kb:Query executed successfully."),
        "{ran:#?}"
    );
}

#[test]
fn a_workflow_that_allows_what_is_not_there_is_reported() {
    let folder = desk();
    let mut file: Value = serde_json::from_str(
        &std::fs::read_to_string(folder.path().join("workflows/agent_loop.json")).unwrap(),
    )
    .unwrap();
    file["availableTools"]["initial"] =
        json!(["kb:Query", "core:TextMerge", "mcp:files/read", "workflow:summarise_text"]);
    write(folder.path(), "workflows/agent_loop.json", &file.to_string());
    let checked = weft(folder.path(), &["workflow", "check", "agent_loop", "--output", "json"]);
    assert_eq!(checked.code, 7);
    let problems = checked.json()["problems"].clone();
    let found: Vec<_> = problems
        .as_array()
        .unwrap()
        .iter()
        .map(|own| (&own["code"], &own["slot"], &own["suggest"]))
        .collect();
    assert_eq!(
        found,
        [(&json!("unknown_tool"), &json!("workflow:summarise_text"), &json!("workflow:summarize_text"))]
    );
}

#[test]
fn the_nodes_are_known() {
    let folder = tempfile::tempdir().unwrap();
    let nodes = weft(folder.path(), &["node", "list", "--output", "json"]).ok().json();
    let agents =
        nodes.as_array().unwrap().iter().filter(|node| node["id"].as_str().unwrap().starts_with("agent:"));
    assert_eq!(agents.count(), 12);
    let shown = weft(folder.path(), &["node", "show", "agent:ExecuteTool", "--output", "json"]).ok().json();
    let outputs: Vec<&String> = shown["outputs"].as_object().unwrap().keys().collect();
    assert_eq!(outputs, ["results", "observation", "status", "stream"]);
}

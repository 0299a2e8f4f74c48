//! Output as a user reads it: prompts in both languages, renderings of schemas, lists, error messages.

use std::fmt::Write as _;

use serde_json::json;

use crate::common::{desk, weft, write};

#[test]
fn prompts_of_the_example_agent() {
    let folder = desk();
    for lang in ["en", "zh"] {
        let prompt = weft(folder.path(), &["prompt", "--agent", "desk", "--lang", lang]).ok().stdout;
        insta::assert_snapshot!(format!("prompt_{lang}"), prompt);
    }
}

#[test]
fn a_tool_in_the_form_of_each_provider() {
    let folder = desk();
    let tool = json!({"name": "book", "description": "Books a trip.", "parameters": {
        "type": "object", "required": ["city"],
        "properties": {
            "city": {"type": "string", "description": "where to"},
            "days": {"type": ["integer", "null"], "minimum": 1, "default": 2},
            "class": {"enum": ["first", "second"]},
            "stops": {"type": "array", "items": {"type": "object", "properties": {"at": {"type": "string"}}}}}},
        "endpoint": {"url": "https://example.com/b", "method": "POST"}});
    write(folder.path(), "tools/book.tool.json", &tool.to_string());
    let agent = json!({"id": "trip", "name": "Trip", "tool_ids_inventory": ["book"]});
    write(folder.path(), "agents/trip.json", &agent.to_string());
    let mut shown = String::new();
    for dialect in ["openai", "anthropic", "gemini", "mcp"] {
        let rendered = weft(folder.path(), &["prompt", "--agent", "trip", "--dialect", dialect]).ok().json();
        let _ = writeln!(shown, "{dialect}: {}", serde_json::to_string_pretty(&rendered[0]).unwrap());
    }
    insta::assert_snapshot!(shown);
}

#[test]
fn lists_and_details_of_the_example() {
    let folder = desk();
    let mut shown = String::new();
    for command in [
        "tool list",
        "tool show workflow:summarize_text",
        "agent list",
        "workflow list",
        "workflow show summarize_text",
        "node show core:Delay",
        "runs list",
    ] {
        let arguments: Vec<&str> = command.split(' ').collect();
        let ran = weft(folder.path(), &arguments).ok();
        let _ = writeln!(shown, "$ weft {command}\n{}", ran.stdout);
    }
    insta::assert_snapshot!(shown);
}

#[test]
fn errors_state_the_fact_and_the_fix() {
    let folder = desk();
    write(
        folder.path(),
        "tools/kb.tool.json",
        r#"{"name": "kb:x", "description": "d", "endpoint": {"url": "https://example.com"}}"#,
    );
    write(folder.path(), "tools/broken.tool.json", r#"{"name": "broken", "descripton": "d"}"#);
    write(
        folder.path(),
        "agents/old.json",
        r#"{"id": "old", "name": "Old", "tool_ids_inventory": ["system:get_curent_time"]}"#,
    );
    let mut shown = String::new();
    for command in [
        "agent show dsek",
        "agent check old",
        "agent add-tool desk kb:Qery",
        "agent remove-tool desk system:nothing",
        "tool show system:get_curent_time",
        "tool show nowhere:tool",
        "tool call system:read_state --agent nobody",
        "tool call system:task_status -i task=t1",
        "tool call kb:Query",
        "tool check",
        "tool check kb:Query -i limit=many",
        "workflow run summarise_text",
        "workflow run summarize_text -i text=x",
        "workflow run summarize_text -i text",
        "runs show r1",
        "runs list --status runing",
        "runs fork r1 --set a",
        "explain unknown_agnt",
    ] {
        let arguments: Vec<&str> = command.split(' ').collect();
        let ran = weft(folder.path(), &arguments);
        let stderr = ran.stderr.replace(folder.path().to_str().unwrap(), "FOLDER");
        let _ = writeln!(shown, "$ weft {command}\n{stderr}exit {}\n", ran.code);
    }
    insta::assert_snapshot!(shown);
}

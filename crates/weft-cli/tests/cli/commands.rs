//! Commands that succeed.

use crate::common::{desk, weft, weft_with, write};
use serde_json::{Value, json};

#[test]
fn the_demo_runs_anywhere_and_says_who_plays_the_model() {
    let folder = tempfile::tempdir().unwrap();
    let ran = weft(folder.path(), &["demo"]).ok();
    assert!(ran.stdout.contains("the north lift is renewed"), "{ran:#?}");
    for step in [
        "a script plays the model's part",
        "turn 1",
        "→ system:get_current_time  timezone: \"Asia/Shanghai\"",
        "✓ system:get_current_time",
        "turn 2",
        "→ workflow:summarize_text",
        "· model",
        "✓ workflow:summarize_text",
        "turn 3",
        "weft init my-desk",
    ] {
        assert!(ran.stderr.contains(step), "{step}: {}", ran.stderr);
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left behind");
}

#[test]
fn a_new_project_lists_shows_and_runs_its_agent() {
    let folder = desk();
    let list = weft(folder.path(), &["agent", "list", "--output", "json"]).ok().json();
    assert_eq!(list[0]["id"], "desk");
    let show = weft(folder.path(), &["agent", "show", "desk", "--output", "json"]).ok().json();
    let ids: Vec<&str> =
        show["tools"].as_array().unwrap().iter().map(|tool| tool["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["system:get_current_time", "kb:Query", "workflow:summarize_text"]);
    let checked = weft(folder.path(), &["agent", "check"]).ok();
    assert_eq!(checked.stdout, "desk: ok\n");
    let outcome = weft(folder.path(), &["agent", "run", "desk", "Hello.", "--output", "json"]).ok().json();
    assert_eq!(outcome["exit"], "completed");
    assert_eq!(outcome["partial"], false);
    assert_eq!(outcome["pending"], json!([]));
    assert!(outcome["usage"]["total"].as_u64().unwrap() > 0);
}

#[test]
fn a_workflow_tool_runs_inside_the_run_that_calls_it() {
    let folder = desk();
    let ran = weft(folder.path(), &["agent", "run", "desk", "Hello.", "--output", "jsonl"]).ok();
    let events = ran.lines();
    let numbers: Vec<u64> = events.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    let nodes: Vec<&Value> =
        events.iter().filter(|event| event["type"] == "node.finished" && event["path"] == "model").collect();
    let [node] = nodes[..] else { panic!("{nodes:#?}") };
    assert_eq!(node["call"], "c3");
    assert_eq!(node["turn"], 3);
    let observation = events.iter().filter(|event| event["type"] == "agent.observation").nth(2).unwrap();
    assert_eq!(
        observation["data"]["text"],
        "Observation: Tool workflow:summarize_text executed successfully. Result: The north lift is renewed for three weeks from the first Monday of next month, so please use the south lift or the ramp."
    );
    assert_eq!(events.last().unwrap()["type"], "run.finished");
    assert_eq!(events.iter().filter(|event| event["type"] == "run.finished").count(), 1);
}

#[test]
fn a_script_corrects_itself() {
    let folder = desk();
    let script = write(
        folder.path(),
        "fix.jsonl",
        concat!(
            r#"{"text": "I look.\n<ACTION>\n  <get_current_time>\n    <time_zone>Asia/Tokyo</time_zone>\n  </get_current_time>\n</ACTION>"}"#,
            "\n",
            r#"{"text": "<ACTION><system:get_current_time><time_zone>Asia/Tokyo</time_zone></system:get_current_time></ACTION>"}"#,
            "\n",
            r#"{"text": "<ACTION><system__get_current_time><timezone>Asia/Tokyo</timezone></system__get_current_time></ACTION>", "request": {"contains": ["Unknown parameter 'time_zone', did you mean 'timezone'?"]}}"#,
            "\n",
            r#"{"text": "Done."}"#
        ),
    );
    let run = ["agent", "run", "desk", "Time?", "--output", "jsonl", "--script", script.to_str().unwrap()];
    let events = weft(folder.path(), &run).ok().lines();
    let texts: Vec<&str> = events
        .iter()
        .filter(|event| event["type"] == "agent.observation")
        .map(|event| event["data"]["text"].as_str().unwrap())
        .collect();
    assert!(
        texts[0].starts_with(
            "Observation: Error - Unknown tool 'get_current_time', did you mean 'system:get_current_time'?"
        ),
        "{texts:#?}"
    );
    assert_eq!(
        texts[1],
        "Observation: Error - Invalid parameters for system:get_current_time: Unknown parameter 'time_zone', did you mean 'timezone'?"
    );
    assert!(texts[2].contains("+09:00 (") && texts[2].ends_with("Asia/Tokyo)"), "{texts:#?}");
}

#[test]
fn the_schema_of_the_summary_workflow_is_the_documented_one() {
    let folder = desk();
    let schema =
        weft(folder.path(), &["workflow", "schema", "summarize_text", "--output", "json"]).ok().json();
    let expected = json!({
        "name": "workflow:summarize_text",
        "description": "对提供的长文本进行摘要。当需要理解大量文本的核心内容时使用。",
        "parameters": {
            "type": "object",
            "properties": {
                "text_to_summarize": {"type": "string", "description": "需要进行摘要处理的原始长文本内容。"},
                "summary_length": {"type": "string", "description": "期望的摘要长度。", "enum": ["简短", "中等", "详细"]}
            },
            "required": ["text_to_summarize"]
        }
    });
    assert_eq!(schema, expected);
    assert_eq!(schema.to_string(), expected.to_string(), "the order of keys is that of the document");
}

#[test]
fn a_workflow_is_checked_and_run() {
    let folder = desk();
    let check =
        weft(folder.path(), &["workflow", "check", "summarize_text", "--as-tool", "--output", "json"]);
    assert_eq!(check.ok().json(), json!({"ok": true, "problems": []}));
    let script = write(
        folder.path(),
        "one.jsonl",
        r#"{"text": " Short. ", "request": {"contains": ["one sentence", "a long text"]}}"#,
    );
    let script = script.to_str().unwrap();
    let text = write(folder.path(), "text.txt", "a long text");
    let text = format!("text_to_summarize=@{}", text.display());
    let run =
        ["workflow", "run", "summarize_text", "-i", &text, "-i", "summary_length=简短", "--script", script];
    assert_eq!(weft(folder.path(), &run).ok().stdout, "Short.\n");
    let json_run: Vec<&str> = run.into_iter().chain(["--output", "json"]).collect();
    let outcome = weft(folder.path(), &json_run).ok().json();
    assert_eq!(outcome["status"], "ok");
    assert_eq!(outcome["outputs"], json!({"summary_result": "Short."}));
    let path = folder.path().join("workflows/summarize_text.json");
    let by_path = weft(folder.path(), &["workflow", "check", path.to_str().unwrap()]).ok();
    assert_eq!(by_path.stdout, "summarize_text: ok\n");
}

/// The examples of the protocol's document, as the program reads them.
#[test]
fn replies_are_read_into_calls() {
    let folder = tempfile::tempdir().unwrap();
    let tools = json!([
        {"name": "ReadWorldStateTool", "parameters": {"type": "object", "properties": {"path": {"type": "string"}, "default_value": {}}, "required": ["path"]}},
        {"name": "read_file", "parameters": {"type": "object", "properties": {"args": {"type": "object", "properties": {"file": {"type": "array", "items": {"type": "object", "properties": {"path": {"type": "string"}}}}}}}}},
        {"name": "ApplyProjectDiff", "parameters": {"type": "object", "properties": {"target_file": {"type": "string"}, "diff_patch": {"type": "string"}}}},
        {"name": "GetPlayerInfo", "parameters": {"type": "object", "properties": {"player_id": {"type": "string"}}, "required": ["player_id"]}}
    ]);
    let tools = write(folder.path(), "tools.json", &tools.to_string());
    let read = |text: &str| {
        weft_with(folder.path(), &["parse", "--tools", tools.to_str().unwrap()], text, &[]).ok().json()
    };
    let simple = read(
        "Okay, I check.\n<ACTION>\n    <ReadWorldStateTool>\n        <path>environment.weather</path>\n        <default_value>unknown</default_value>\n    </ReadWorldStateTool>\n</ACTION>",
    );
    assert_eq!(simple["text_before"], "Okay, I check.\n");
    assert_eq!(simple["calls"][0]["tool"], "ReadWorldStateTool");
    assert_eq!(
        simple["calls"][0]["arguments"],
        json!({"path": "environment.weather", "default_value": "unknown"})
    );
    assert_eq!(simple["calls"][0]["dialect"], "action");
    let nested = read(
        "<ACTION><read_file><args><file><path>src/app.ts</path></file><file><path>src/utils.ts</path></file></args></read_file></ACTION>",
    );
    assert_eq!(
        nested["calls"][0]["arguments"],
        json!({"args": {"file": [{"path": "src/app.ts"}, {"path": "src/utils.ts"}]}})
    );
    let diff = read(
        "<ACTION><ApplyProjectDiff><target_file>a.json</target_file><diff_patch>\n            <![CDATA[\n-  \"a\": \"<b>\",\n+  \"a\": 1,\n            ]]>\n        </diff_patch></ApplyProjectDiff></ACTION>",
    );
    assert_eq!(diff["calls"][0]["arguments"]["diff_patch"], "-  \"a\": \"<b>\",\n+  \"a\": 1,");
    let plain = read("The weather is sunny.");
    assert_eq!((&plain["calls"], &plain["errors"]), (&json!([]), &json!([])));
    let wrong = read("<ACTION><GetPlayerInfo><playerId>player123</playerId></GetPlayerInfo></ACTION>");
    assert_eq!(wrong["calls"], json!([]));
    assert_eq!(wrong["errors"][0]["code"], "unknown_parameter");
    assert_eq!(wrong["errors"][0]["message"], "Unknown parameter 'playerId', did you mean 'player_id'?");
}

#[test]
fn requests_are_answered_line_by_line() {
    let folder = tempfile::tempdir().unwrap();
    let input = [
        json!({"id": "a", "input": "<ACTION><t><n>3</n></t></ACTION>", "tools": [{"name": "t", "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}}}]}).to_string(),
        "{broken".to_owned(),
        json!({"id": 7, "input": "hi", "nonsense": 1}).to_string(),
        json!({"id": "c", "input": "", "tools": [{"name": "t"}], "native": [{"name": "t", "arguments": ""}]}).to_string(),
        json!({"id": "d", "input": "<ACTION><t><a>1</a></t></ACTION>"}).to_string(),
    ];
    let lines = weft_with(folder.path(), &["parse", "--jsonl"], &input.join("\n"), &[]).ok().lines();
    assert_eq!(lines[0]["calls"][0]["arguments"], json!({"n": 3}));
    assert_eq!(lines[0]["id"], "a");
    assert_eq!(lines[1]["errors"][0]["code"], "bad_request");
    assert_eq!((&lines[2]["id"], &lines[2]["errors"][0]["code"]), (&json!(7), &json!("bad_request")));
    assert_eq!(lines[3]["calls"][0]["dialect"], "native");
    assert_eq!(lines[4]["calls"][0]["tree"], json!({"name": "t", "children": [{"name": "a", "text": "1"}]}));
}

#[test]
fn the_result_does_not_depend_on_the_pieces() {
    let folder = tempfile::tempdir().unwrap();
    let tools = write(
        folder.path(),
        "t.json",
        r#"[{"name": "say", "parameters": {"type": "object", "properties": {"text": {"type": "string"}}}}]"#,
    );
    let text = "Gr\u{fc}\u{df}e. <ACTION><say><text>a </text> b &amp; <b>日本</b></text></say></ACTION> bye";
    let tools = tools.to_str().unwrap();
    let whole = weft_with(folder.path(), &["parse", "--tools", tools], text, &[]).ok();
    for size in ["1", "3", "4", "100"] {
        let pieces = weft_with(folder.path(), &["parse", "--tools", tools, "--stream", size], text, &[]).ok();
        assert_eq!(pieces.stdout, whole.stdout);
    }
}

#[test]
fn calls_are_written_and_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let tools = write(
        folder.path(),
        "t.json",
        r#"[{"name": "say", "parameters": {"type": "object", "properties": {"text": {"type": "string"}, "tags": {"type": "array", "items": {"type": "string"}}}}}]"#,
    );
    let tools = tools.to_str().unwrap();
    let calls = json!([{"tool": "say", "arguments": {"text": "</text> & ]]>\n", "tags": ["a", ""]}}]);
    let text = weft_with(folder.path(), &["encode", "--tools", tools], &calls.to_string(), &[]).ok().stdout;
    let read = weft_with(folder.path(), &["parse", "--tools", tools], &text, &[]).ok().json();
    assert_eq!(read["calls"][0]["arguments"], calls[0]["arguments"], "{text}");
}

#[test]
fn the_prompt_is_shown_and_counted() {
    let folder = desk();
    let prompt = weft(folder.path(), &["prompt", "--agent", "desk"]).ok().stdout;
    assert!(prompt.contains("<ACTION>") && prompt.contains("<workflow__summarize_text>"), "{prompt}");
    let chinese = weft(folder.path(), &["prompt", "--agent", "desk", "--lang", "zh"]).ok().stdout;
    assert!(chinese.contains("## 工具"), "{chinese}");
    let size = weft(folder.path(), &["prompt", "--agent", "desk", "--count"]).ok().json();
    assert_eq!(size["tools"], 3);
    assert!(size["tokens"].as_u64().unwrap() > 10);
    let request =
        weft(folder.path(), &["prompt", "--agent", "desk", "--turn", "When is it open?"]).ok().json();
    assert_eq!(request["messages"][1]["text"], "When is it open?", "{request}");
    assert!(request["messages"][0]["text"].as_str().unwrap().contains("<ACTION>"), "{request}");
}

#[test]
fn a_graph_of_comfyui_becomes_a_workflow_of_the_project() {
    let folder = desk();
    let graph = json!({"nodes": [{"id": 1, "type": "LoadImage", "outputs": [{"name": "IMAGE"}]},
        {"id": 2, "type": "SaveImage", "inputs": [{"name": "images"}]}], "links": [[1, 1, 0, 2, 0, "IMAGE"]]});
    write(folder.path(), "picture.json", &graph.to_string());
    let import = ["import", "comfyui", "picture.json", "--output", "json"];
    let imported = weft(folder.path(), &import).ok().json();
    assert_eq!(imported["workflows"], json!(["picture"]));
    assert_eq!(weft(folder.path(), &import).code, 2, "nothing is written over");
    let shown = weft(folder.path(), &["workflow", "graph", "picture"]).ok();
    assert_eq!(shown.stdout, "1\t1 (comfyui:LoadImage)\n2\t2 (comfyui:SaveImage) <- 1\n");
    let picture = weft(folder.path(), &["workflow", "export", "picture"]).ok();
    assert!(picture.stdout.starts_with("flowchart"), "{picture:#?}");
    let exported = weft(folder.path(), &["workflow", "export", "picture", "--format", "json"]).ok().json();
    assert_eq!(exported["edges"][0]["targetHandle"], "images");
    let checked = weft(folder.path(), &["workflow", "check", "picture", "--output", "json"]);
    assert_eq!((checked.code, checked.json()["problems"][0]["code"].clone()), (7, json!("unknown_type")));
}

#[test]
fn init_writes_to_the_named_folder() {
    let folder = tempfile::tempdir().unwrap();
    let ran = weft(folder.path(), &["init", "my-desk"]).ok();
    assert!(folder.path().join("my-desk/weft.toml").is_file(), "{ran:#?}");
    assert!(ran.stderr.contains("weft -C my-desk agent run desk"), "{ran:#?}");
    weft(folder.path(), &["-C", "my-desk", "init", "inner"]).ok();
    assert!(folder.path().join("my-desk/inner/weft.toml").is_file());
}

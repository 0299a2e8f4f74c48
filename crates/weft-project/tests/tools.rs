//! Tools of a project's agent: workflows inside the folder, nodes, knowledge bases.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::fs;
use std::path::Path;

use serde_json::json;
use tool_registry::{BrokenTool, Reach};
use weft_project::{Project, ProjectOptions};

const WORKFLOW: &str = r#"{"description": "Does it.", "nodes": [], "edges": []}"#;

/// A project of one agent that lists these tools and plays this script.
fn project(root: &Path, tools: &serde_json::Value, script: &[serde_json::Value]) -> Project {
    for folder in ["agents", "workflows", "docs/rules"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    let settings = "script = \"script.jsonl\"\n[kb.Query]\npath = \"docs/**\"\n";
    fs::write(root.join("weft.toml"), settings).unwrap();
    let lines: Vec<String> = script.iter().map(ToString::to_string).collect();
    fs::write(root.join("script.jsonl"), lines.join("\n")).unwrap();
    fs::write(root.join("docs/rules/leave.md"), "# Leave\nAsk two weeks ahead. 年假须提前两周申请。\n")
        .unwrap();
    fs::write(root.join("docs/pay.md"), "Salaries are paid on the last day.\n").unwrap();
    let agent = json!({"id": "a", "tool_ids_inventory": tools}).to_string();
    fs::write(root.join("agents/a.json"), agent).unwrap();
    fs::write(root.join("workflows/ours.json"), WORKFLOW).unwrap();
    let mut options = ProjectOptions::default();
    options.environment = None;
    Project::open(root, &options).unwrap()
}

fn broken_tools(project: &Project) -> Vec<BrokenTool> {
    project.providers().list(Reach::Local).into_iter().filter_map(Result::err).collect()
}

fn answer() -> serde_json::Value {
    json!({"text": "Done."})
}

#[cfg(unix)]
#[test]
fn s32_a_link_that_leaves_the_project_is_no_workflow() {
    let folder = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    let secret = outside.path().join("secret.json");
    fs::write(&secret, WORKFLOW).unwrap();
    let root = folder.path().join("project");
    fs::create_dir_all(root.join("workflows")).unwrap();
    std::os::unix::fs::symlink(&secret, root.join("workflows/theirs.json")).unwrap();
    std::os::unix::fs::symlink(outside.path(), root.join("workflows/folder")).unwrap();
    let project = project(&root, &json!(["workflow:theirs"]), &[answer()]);
    let ids: Vec<&str> = project.workflows().files().map(|file| file.id.as_str()).collect();
    assert_eq!(ids, ["ours"]);
    let mut passed: Vec<_> =
        project.passed_over().map(|passed| (passed.code, passed.at.path.clone())).collect();
    passed.sort();
    let links = ["workflows/folder", "workflows/theirs.json"];
    assert_eq!(passed, links.map(|link| ("link_outside", root.join(link))));
    assert_eq!(project.agent("a").unwrap_err().code(), "unknown_tool");
}

#[test]
fn s31_an_inventory_cannot_climb_out_of_the_folder() {
    for id in [
        "workflow:../weft",
        "workflow:/etc/passwd",
        "workflow:a/../ours",
        "workflow:..\\ours",
        "workflow:ours\0",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let project = project(folder.path(), &json!([id]), &[answer()]);
        assert_eq!(project.agent("a").unwrap_err().code(), "unknown_tool", "{id:?}");
    }
}

#[tokio::test]
async fn nodes_and_knowledge_are_tools_where_they_are_listed() {
    let call = |inner: &str| json!({"text": format!("<ACTION>{inner}</ACTION>")});
    let script = [
        call("<kb:Query><query>年假怎么申请</query></kb:Query>"),
        call(
            "<node:core:TextMerge><text_inputs><item>a</item><item>b</item></text_inputs><separator>-</separator></node:core:TextMerge>",
        ),
        answer(),
    ];
    let folder = tempfile::tempdir().unwrap();
    let project = project(folder.path(), &json!(["kb:Query", "core:TextMerge"]), &script);
    let outcome = project.agent("a").unwrap().run("Go.").await.unwrap();
    let history = serde_json::to_string(&outcome.history).unwrap();
    assert!(
        history.contains("Tool kb:Query executed successfully. Result: [docs/rules/leave.md › Leave]"),
        "{history}"
    );
    assert!(history.contains("Tool node:core:TextMerge executed successfully. Result: a-b"), "{history}");
    let near = project_with(&json!(["kb:Qery"])).unwrap_err();
    assert!(near.contains("kb:Query"), "{near}");
}

/// Result of opening an agent that lists these tools.
fn project_with(tools: &serde_json::Value) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    let project = project(folder.path(), tools, &[answer()]);
    project.agent("a").map(|_| ()).map_err(|error| format!("{error} {error:?}"))
}

#[test]
fn a_file_that_is_no_text_breaks_only_itself() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    project(root, &json!([]), &[answer()]);
    fs::create_dir_all(root.join("tools")).unwrap();
    for name in ["tools/x.tool.json", "workflows/x.json", "agents/x.json", "flows.json"] {
        fs::write(root.join(name), b"{\n \"a\": \"\xff\"}").unwrap();
    }
    let project = Project::open(root, &ProjectOptions::default()).unwrap();
    project.agent_file("a").unwrap();
    project.workflows().get("ours").unwrap();
    let broken = &broken_tools(&project)[0];
    let place = broken.place.as_ref().unwrap();
    assert_eq!((broken.code, place.line, place.column), ("bad_text", Some(2), Some(8)));
    let errors = [
        project.workflows().get("x").unwrap_err(),
        project.agent_file("x").unwrap_err(),
        project.flows_file().unwrap_err(),
    ];
    for (error, code) in errors.iter().zip(["bad_workflow", "bad_profile", "bad_json"]) {
        assert_eq!(error.code(), code);
        assert!(error.to_string().ends_with("it is not UTF-8 (byte 10)"), "{error}");
        assert_eq!(error.place().unwrap().1, Some(2), "{error:?}");
    }
    fs::write(root.join("weft.toml"), b"\xff\xfe").unwrap();
    assert_eq!(Project::open(root, &ProjectOptions::default()).unwrap_err().code(), "bad_settings");
}

#[test]
fn a_byte_order_mark_is_no_part_of_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    project(root, &json!([]), &[answer()]);
    let tool = r#"{"name": "x", "description": "d", "endpoint": {"url": "https://example.com"}}"#;
    fs::create_dir_all(root.join("tools")).unwrap();
    fs::write(root.join("tools/x.tool.json"), tool).unwrap();
    fs::write(root.join("flows.json"), "{}").unwrap();
    let files = [
        "weft.toml",
        "script.jsonl",
        "flows.json",
        "agents/a.json",
        "workflows/ours.json",
        "tools/x.tool.json",
    ];
    for file in files {
        let text = fs::read_to_string(root.join(file)).unwrap();
        fs::write(root.join(file), format!("\u{feff}{text}")).unwrap();
    }
    let project = Project::open(root, &ProjectOptions::default()).unwrap();
    project.agent_file("a").unwrap();
    project.workflows().get("ours").unwrap();
    project.flows_file().unwrap().unwrap();
    assert!(broken_tools(&project).is_empty(), "{:?}", broken_tools(&project));
    assert_eq!(project.providers().in_files(), ["x"]);
}

#[test]
fn a_folder_that_cannot_be_read_is_not_an_empty_one() {
    for name in ["workflows", "agents", "tools"] {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::write(root.join("weft.toml"), "").unwrap();
        Project::open(root, &ProjectOptions::default()).unwrap();
        fs::write(root.join(name), "no folder").unwrap();
        let error = Project::open(root, &ProjectOptions::default()).unwrap_err();
        assert_eq!(error.code(), "unreadable_file");
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[test]
fn s50_what_tools_and_servers_are_given_is_masked() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let settings = r#"
script = "script.jsonl"
[mcp.one]
url = "http://127.0.0.1:9"
token_env = "CARGO_PKG_NAME"
headers = {"X-Key" = "in-a-header", "X-Mode" = "fast"}
[mcp.two]
command = "none"
env_from = ["CARGO_PKG_LICENSE"]
env = {"TOKEN" = "in-the-environment"}
"#;
    let endpoint = json!({"url": "https://host.example/", "method": "GET",
        "headers": {"Authorization": "Bearer {$secret.CARGO_MANIFEST_DIR}"}});
    let tool =
        json!({"name": "h", "description": "Asks.", "parameters": {"type": "object"}, "endpoint": endpoint});
    fs::create_dir_all(root.join("tools")).unwrap();
    fs::write(root.join("weft.toml"), settings).unwrap();
    fs::write(root.join("script.jsonl"), "").unwrap();
    fs::write(root.join("tools/h.tool.json"), tool.to_string()).unwrap();
    let project = Project::open(root, &ProjectOptions::default()).unwrap();
    let store = project.store().unwrap().unwrap();
    let variable = |name: &str| std::env::var(name).unwrap();
    for (said, is_kept) in [
        (variable("CARGO_PKG_NAME"), false),
        (variable("CARGO_PKG_LICENSE"), false),
        (variable("CARGO_MANIFEST_DIR"), false),
        ("in-a-header".to_owned(), false),
        ("in-the-environment".to_owned(), false),
        ("fast".to_owned(), true),
    ] {
        store.put("said", Some(&json!(format!("it is {said}"))));
        let kept = store.value("said").unwrap().unwrap();
        assert_eq!(kept.as_str().unwrap().contains(&said), is_kept, "{said}: {kept}");
    }
}

#[tokio::test]
async fn a_bad_entry_costs_itself_and_all_faults_are_known() {
    let script = [answer()];
    let folder = tempfile::tempdir().unwrap();
    let inventory = json!([
        "system:get_current_time",
        "system:get_curent_time",
        "workflow:nowhere",
        {"id": "core:JsonSelect", "name": "a:b"},
        {"id": "kb:Query", "config": {"limit": 1}},
    ]);
    let project = project(folder.path(), &inventory, &script);
    let file = project.agent_file("a").unwrap();
    let faults: Vec<String> = project.faults_of(file).unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(faults.len(), 4, "{faults:?}");
    let tools = project.tools_of(file).unwrap();
    assert_eq!(tools.warnings(), faults);
    let ids: Vec<&str> = tools.tools().map(|tool| tool.id().as_str()).collect();
    assert_eq!(ids, ["system:get_current_time"]);
    assert!(project.agent("a").unwrap().run("Go.").await.is_ok());
}

#[tokio::test]
async fn a_node_is_a_tool_with_its_settings() {
    let call = |inner: &str| json!({"text": format!("<ACTION>{inner}</ACTION>")});
    let script = [
        call("<node:core:JsonSelect><value>{\"a\": [1, 2]}</value></node:core:JsonSelect>"),
        call("<pick><value>{\"a\": 1, \"b\": 7}</value><path>$.b</path></pick>"),
        call("<pick><value>{\"a\": 3}</value></pick>"),
        answer(),
    ];
    let folder = tempfile::tempdir().unwrap();
    let inventory = json!([
        {"id": "core:JsonSelect", "config": {"path": "$.a"}},
        {"id": "core:JsonSelect", "name": "pick", "config": {"path": "$.a"}, "parameters": ["path"]},
    ]);
    let project = project(folder.path(), &inventory, &script);
    let outcome = project.agent("a").unwrap().run("Go.").await.unwrap();
    let history = serde_json::to_string(&outcome.history).unwrap();
    for seen in [
        r#"Tool node:core:JsonSelect executed successfully. Result: {\"value\":[1,2]"#,
        r#"Tool pick executed successfully. Result: {\"value\":7"#,
        r#"Tool pick executed successfully. Result: {\"value\":3"#,
    ] {
        assert!(history.contains(seen), "{seen}: {history}");
    }
}

#[test]
fn wildcards_mean_all_tools_but_the_excluded_ones() {
    let folder = tempfile::tempdir().unwrap();
    let inventory = json!(["workflow:*", "system:*", "!system:done", "!system:update_world"]);
    let project = project(folder.path(), &inventory, &[answer()]);
    let tools = project.tools_of(project.agent_file("a").unwrap()).unwrap();
    for (id, is_there) in [
        ("workflow:ours", true),
        ("system:read_state", true),
        ("system:done", false),
        ("system:update_world", false),
    ] {
        assert_eq!(tools.get(id).is_some(), is_there, "{id}");
    }
}

#[tokio::test]
async fn the_state_is_read_by_the_names_of_the_protocol() {
    let read = "Okay, I need to check the current weather to answer the player's question.\n<ACTION>\n    <ReadWorldStateTool>\n        <path>environment.weather.current_conditions</path>\n        <default_value>unknown</default_value>\n    </ReadWorldStateTool>\n</ACTION>";
    let write = "<ACTION><UpdatePrivateStateTool><key>mood</key><value>calm</value></UpdatePrivateStateTool></ACTION>";
    let own = "<ACTION><ReadPrivateStateTool><path>mood</path></ReadPrivateStateTool></ACTION>";
    let script = [json!({"text": read}), json!({"text": write}), json!({"text": own}), answer()];
    let folder = tempfile::tempdir().unwrap();
    let inventory = json!(["ReadWorldStateTool", "UpdatePrivateStateTool", "ReadPrivateStateTool"]);
    let project = project(folder.path(), &inventory, &script);
    let outcome = project.agent("a").unwrap().run("How is the weather?").await.unwrap();
    let history = serde_json::to_string(&outcome.history).unwrap();
    for seen in [
        "Tool ReadWorldStateTool executed successfully. Result: unknown",
        "Tool ReadPrivateStateTool executed successfully. Result: calm",
    ] {
        assert!(history.contains(seen), "{seen}: {history}");
    }
}

#[test]
fn a_node_that_calls_a_tool_has_its_effect() {
    let folder = tempfile::tempdir().unwrap();
    let project = |root: &Path| project(root, &json!([]), &[answer()]);
    project(folder.path());
    fs::create_dir_all(folder.path().join("tools")).unwrap();
    for (name, method) in [("look", "GET"), ("send", "POST")] {
        let endpoint = json!({"url": "https://a.test/", "method": method});
        let tool = json!({"name": name, "description": "d", "endpoint": endpoint});
        fs::write(folder.path().join(format!("tools/{name}.tool.json")), tool.to_string()).unwrap();
    }
    let ids = [
        "look",
        "send",
        "node:core:TextJoin",
        "core:TextJoin",
        "node:core:WriteFile",
        "workflow:ours",
        "nowhere:tool",
    ];
    for (at, id) in ids.into_iter().enumerate() {
        let nodes = json!([{"id": "t", "type": "core:Tool", "configValues": {"tool": id}}]);
        let workflow = json!({"description": "d", "nodes": nodes, "edges": []});
        fs::write(folder.path().join(format!("workflows/w{at}.json")), workflow.to_string()).unwrap();
    }
    let project = project(folder.path());
    let effect =
        |at: usize| project.tool(&format!("workflow:w{at}")).unwrap().definition().annotations.effect;
    let effects: Vec<bool> = (0..ids.len()).map(effect).collect();
    assert_eq!(effects, [false, true, false, false, true, true, true]);
}

//! Tools of a workflow and of its nodes: `availableTools`, `dynamicTools`, `agent:AvailableTools`.

use std::path::Path;

use serde_json::{Value, json};
use weft_project::Project;

use crate::common::{echo, edge, problems, project, run};

/// The node that asks the model, as the document sets it.
fn model_node(more: &Value) -> Value {
    let mut config = json!({"profileId": "clever", "prompt": "Look at these figures."});
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"id": "llm-1", "type": "agent:LlmApiRequest", "displayName": "Look", "configValues": config})
}

/// Two tools that the node offers more, by an id and by a display name, with the template of the document.
fn dynamic() -> Value {
    json!({"dynamicTools": {"toolIds": ["workflow:chart-generator", "Report writer"],
        "descriptionTemplate": "工具 {toolName}: {toolDescription}"}})
}

fn workflow(node: &Value) -> Value {
    json!({
        "id": "workflow-1", "name": "Figures",
        "nodes": [node, {"id": "read", "type": "agent:ParseLlmDecision"},
            {"id": "run", "type": "agent:ExecuteTool"}, {"id": "out", "type": "core:GroupOutput"}],
        "edges": [edge(("llm-1", "response"), ("read", "response")),
            edge(("read", "tool_call_requests"), ("run", "tool_call_requests")),
            edge(("read", "errors"), ("out", "errors")), edge(("run", "observation"), ("out", "seen"))],
        "interfaceOutputs": {"seen": {"dataFlowType": "STRING"}, "errors": {"dataFlowType": "ARRAY"}},
        "availableTools": {"initial": ["calculator", "workflow:data-query"]},
    })
}

/// Files of the document's workflow with the tools that it names.
fn files(node: &Value) -> Vec<(&'static str, Value)> {
    let mut report = echo("Writes a report.", &[("title", "STRING", true)], "Report on {{ title }}");
    report["name"] = "Report writer".into();
    let tool = |description: &str| echo(description, &[("of", "STRING", true)], "{{ of }}!");
    vec![
        ("workflows/figures.json", workflow(node)),
        ("workflows/calculator.json", tool("Calculates.")),
        ("workflows/data-query.json", tool("Looks data up.")),
        ("workflows/chart-generator.json", tool("Draws a chart.")),
        ("workflows/other.json", tool("Does something else.")),
        ("workflows/writer.json", report),
        ("workflows/twice.json", two_requests()),
    ]
}

fn figures(root: &Path, node: &Value, script: &[Value]) -> Project {
    project(root, &files(node), script)
}

#[test]
fn a_node_offers_more_beside_the_tools_of_its_workflow() {
    let request = json!({
        "contains": ["Look at these figures.", "<workflow__calculator>", "<workflow__data-query>", "Calculates."],
        "once": ["工具 workflow:chart-generator: Draws a chart.", "工具 workflow:writer: Writes a report."],
        "lacks": ["Does something else.", "{toolName}"]});
    for (tool, seen) in [
        (
            "<tool name=\"workflow:writer\"><title>May</title></tool>",
            "Tool workflow:writer executed successfully. Result: Report on May",
        ),
        (
            "<workflow__calculator><of>2</of></workflow__calculator>",
            "Tool workflow:calculator executed successfully. Result: 2!",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let reply = json!({"text": format!("<ACTION>{tool}</ACTION>"), "request": request});
        let project = figures(folder.path(), &model_node(&dynamic()), &[reply]);
        assert_eq!(problems(&project, "figures"), Vec::<String>::new());
        let (outputs, _) = run(&project, "figures", &json!({}));
        assert_eq!(outputs["seen"], format!("Observation: {seen}"), "{outputs}");
    }
}

#[test]
fn a_tool_outside_of_the_set_does_not_run() {
    let folder = tempfile::tempdir().unwrap();
    let reply = json!({"text": "<ACTION><workflow__other><of>2</of></workflow__other></ACTION>"});
    let project = figures(folder.path(), &model_node(&dynamic()), &[reply]);
    let (outputs, _) = run(&project, "figures", &json!({}));
    assert_eq!(outputs["errors"][0]["code"], "unknown_tool", "{outputs}");
    assert_eq!(outputs["seen"], "", "{outputs}");
}

#[test]
fn without_tools_of_its_own_the_prompt_is_the_message() {
    let folder = tempfile::tempdir().unwrap();
    let request = json!({"messages": 2, "contains": ["Calculates."], "lacks": ["Draws a chart."]});
    let script = [json!({"text": "I see.", "request": request})];
    let project = figures(folder.path(), &model_node(&json!({})), &script);
    let (outputs, _) = run(&project, "figures", &json!({}));
    assert_eq!(outputs["errors"], json!([]), "{outputs}");
}

#[test]
fn names_that_mean_nothing_fail_the_check() {
    let folder = tempfile::tempdir().unwrap();
    let node = model_node(&json!({"profileId": "claver",
        "dynamicTools": {"toolIds": ["workflow:chart-genrator", "Report riter"], "descriptionTemplate": "{tool_name}"}}));
    let project = figures(folder.path(), &node, &[]);
    let found = problems(&project, "figures");
    for expected in [
        "llm-1.profileId: `profileId` names the model `claver`, which has no entry in weft.toml; did you mean `clever`?",
        "`dynamicTools` names `workflow:chart-genrator`, which is not a tool; did you mean `workflow:chart-generator`?",
        "`dynamicTools` names `Report riter`, which is not a tool",
        "`descriptionTemplate`: `{tool_name}` is not a placeholder",
    ] {
        assert!(found.iter().any(|problem| problem.contains(expected)), "{expected}: {found:#?}");
    }
}

/// A conversation of two requests, the second behind the reply to the first.
fn two_requests() -> Value {
    let ask = |id: &str| json!({"id": id, "type": "agent:LlmApiRequest", "configValues": dynamic()});
    let prompt = |id: &str| json!({"id": id, "type": "agent:FormatPrompt"});
    json!({
        "nodes": [{"id": "in", "type": "core:GroupInput"}, prompt("first"), ask("one"), {"id": "read", "type": "agent:ParseLlmDecision"},
            {"id": "said", "type": "core:MergeMessages"}, prompt("second"), ask("two"), {"id": "out", "type": "core:GroupOutput"}],
        "edges": [edge(("in", "query"), ("first", "query")), edge(("first", "messages"), ("one", "messages")),
            edge(("one", "response"), ("read", "response")), edge(("first", "messages"), ("said", "messages")),
            edge(("read", "reply"), ("said", "messages")), edge(("said", "messages"), ("second", "history")),
            edge(("in", "more"), ("second", "query")), edge(("second", "messages"), ("two", "messages")),
            edge(("two", "text"), ("out", "said"))],
        "interfaceInputs": {"query": {"dataFlowType": "STRING"}, "more": {"dataFlowType": "STRING"}},
        "interfaceOutputs": {"said": {"dataFlowType": "STRING"}},
        "availableTools": {"initial": ["calculator"]},
    })
}

#[test]
fn tools_are_described_once_in_a_conversation() {
    let once = ["工具 workflow:writer: Writes a report.", "Calculates.", "First?"];
    let script = [
        json!({"text": "Wait.", "request": {"once": once}}),
        json!({"text": "Done.", "request": {"once": ["工具 workflow:writer: Writes a report.", "Calculates.", "First?", "Second?"]}}),
    ];
    let folder = tempfile::tempdir().unwrap();
    let project = figures(folder.path(), &model_node(&json!({})), &script);
    let (outputs, _) = run(&project, "twice", &json!({"query": "First?", "more": "Second?"}));
    assert_eq!(outputs["said"], "Done.");
}

/// Ids that `agent:AvailableTools` gives in a workflow with this declaration and these settings.
fn given(available: Value, config: &Value) -> Vec<String> {
    let mut file = json!({
        "nodes": [{"id": "list", "type": "agent:AvailableTools", "configValues": config}, {"id": "out", "type": "core:GroupOutput"}],
        "edges": [edge(("list", "tools"), ("out", "tools"))],
        "interfaceOutputs": {"tools": {"dataFlowType": "ARRAY"}},
    });
    if !available.is_null() {
        file["availableTools"] = available;
    }
    let folder = tempfile::tempdir().unwrap();
    let broken = json!({"nodes": [{"id": "x", "type": "core:Nope"}], "edges": []});
    let tool = echo("Adds.", &[("a", "STRING", true)], "{{ a }}");
    let files =
        [("workflows/list.json", file), ("workflows/add.json", tool), ("workflows/broken.json", broken)];
    let project = project(folder.path(), &files, &[]);
    let (outputs, _) = run(&project, "list", &json!({}));
    let tools = outputs["tools"].as_array().unwrap();
    assert!(tools.iter().all(|tool| tool["description"].is_string() && tool["parameters"].is_object()));
    tools.iter().map(|tool| tool["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn all_tools_are_available_by_default() {
    let all = given(json!(null), &json!({}));
    let has = |id: &str| all.iter().any(|own| own == id);
    assert!(has("workflow:add") && has("system:get_current_time"), "{all:?}");
    for absent in ["workflow:list", "workflow:broken"] {
        assert!(!has(absent), "{absent}: it cannot be called here: {all:?}");
    }
    assert_eq!(given(json!({"initial": ["add"]}), &json!({})), ["workflow:add"]);
    assert_eq!(
        given(json!(null), &json!({"tools": ["get_current_time", "add"]})),
        ["system:get_current_time", "workflow:add"]
    );
}

#[test]
fn the_tools_that_a_node_lists_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let file = json!({"nodes": [{"id": "list", "type": "agent:AvailableTools", "configValues": {"tools": ["workflow:ad"]}}], "edges": []});
    let tool = echo("Adds.", &[("a", "STRING", true)], "{{ a }}");
    let project = project(folder.path(), &[("workflows/list.json", file), ("workflows/add.json", tool)], &[]);
    assert_eq!(
        problems(&project, "list"),
        ["list.workflow:ad: `tools` names `workflow:ad`, which is not a tool; did you mean `workflow:add`?"]
    );
}

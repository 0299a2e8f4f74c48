//! Ids of tools that files write shorter than they are: `core:TextMerge` is `node:core:TextMerge` wherever a file names tools.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::path::Path;

use agent_runtime::{ApprovalChoice, ApprovalMode};
use serde_json::{Map, Value, json};
use weft_harness::write;
use weft_project::{Project, ProjectOptions};
use workflow_engine::RunOptions;

/// A project of one agent that lists these tools.
fn project(root: &Path, inventory: &Value) -> Project {
    write(root, "weft.toml", "[kb.rules]\npath = \"docs/**\"\n");
    write(root, "docs/leave.md", "# Leave\nAsk two weeks ahead.\n");
    write(root, "workflows/ours.json", r#"{"description": "Does it.", "nodes": [], "edges": []}"#);
    write(root, "agents/a.json", &json!({"id": "a", "tool_ids_inventory": inventory}).to_string());
    open(root)
}

fn open(root: &Path) -> Project {
    let mut options = ProjectOptions::default();
    options.environment = None;
    Project::open(root, &options).unwrap()
}

fn ids(project: &Project) -> Vec<String> {
    let tools = project.tools_of(project.agent_file("a").unwrap()).unwrap();
    tools.tools().map(|tool| tool.id().to_string()).collect()
}

#[test]
fn inventories_name_nodes_by_their_types() {
    let folder = tempfile::tempdir().unwrap();
    let inventory =
        json!([{"id": "core:TextMerge", "approval": "ask"}, "node:core:TextMerge", "core:JsonMerg"]);
    let project = project(folder.path(), &inventory);
    assert_eq!(ids(&project), ["node:core:TextMerge"]);
    let file = project.agent_file("a").unwrap();
    assert_eq!(file.profile.approval_of("node:core:TextMerge"), Some(&ApprovalChoice::Ask));
    let faults = project.faults_of(file).unwrap();
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert!(faults[0].to_string().contains("`node:core:JsonMerg`"), "{faults:?}");
    assert!(faults[0].help().is_some_and(|help| help.contains("`node:core:Json")), "{faults:?}");
}

#[test]
fn wildcards_and_exclusions_are_short_too() {
    let folder = tempfile::tempdir().unwrap();
    let listed = ids(&project(folder.path(), &json!(["core:*", "!core:TextMerge"])));
    assert!(listed.len() > 3 && listed.iter().all(|id| id.starts_with("node:core:")), "{listed:?}");
    assert!(!listed.contains(&"node:core:TextMerge".to_owned()), "{listed:?}");
    let listed = ids(&project(folder.path(), &json!(["workflow:*"])));
    assert_eq!(listed, ["workflow:ours"], "a namespace is not a package of nodes");
}

#[test]
fn edits_know_an_entry_by_both_names() {
    let folder = tempfile::tempdir().unwrap();
    let project = project(folder.path(), &json!(["core:TextMerge"]));
    let edits = project.edits().unwrap();
    for id in ["core:TextMerge", "node:core:TextMerge"] {
        assert!(!edits.add_tool("a", id).unwrap().differs, "{id}");
        assert_eq!(edits.remove_tool("a", id).unwrap().profile["tool_ids_inventory"], json!([]), "{id}");
    }
    let added = edits.add_tool("a", "core:JsonMerge").unwrap();
    assert_eq!(added.profile["tool_ids_inventory"], json!(["core:TextMerge", "core:JsonMerge"]));
    let error = edits.remove_tool("a", "core:TextMerg").unwrap_err();
    assert!(error.help().is_some_and(|help| help.contains("node:core:TextMerge")), "{error:?}");
    assert_eq!(edits.add_skill("a", "core:TextMerge").unwrap_err().code(), "no_skill");
}

/// Runs a node that calls a tool, in a workflow that may use these.
async fn call(project: &Project, tool: &str, available: Value) -> String {
    let workflow = json!({
        "interfaceOutputs": {"said": {"dataFlowType": "STRING", "required": false}},
        "availableTools": available,
        "nodes": [{"id": "out", "type": "core:GroupOutput"},
            {"id": "run", "type": "agent:ExecuteTool", "inputValues": {"tool_call_requests": [
                {"tool": tool, "arguments": {"text_inputs": ["a", "b"], "separator": "-"}}]}}],
        "edges": [{"id": "e", "source": "run", "sourceHandle": "observation", "target": "out", "targetHandle": "said"}],
    });
    let workflow = workflow_model::Workflow::from_value(workflow).unwrap();
    let services = project.workflow_services(Map::new(), ApprovalMode::None, None).unwrap();
    let plan = project.plan("w", &workflow).unwrap();
    let outcome = plan.run(Map::new(), RunOptions::new().with_services(services)).outcome().await;
    outcome.outputs["said"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn workflows_and_their_calls_name_nodes_by_their_types() {
    let folder = tempfile::tempdir().unwrap();
    let project = project(folder.path(), &json!([]));
    let (short, long) = ("core:TextMerge", "node:core:TextMerge");
    for (tool, listed) in [(short, short), (short, long), (long, short)] {
        let said = call(&project, tool, json!({"initial": [listed]})).await;
        assert_eq!(
            said,
            format!("Observation: Tool {long} executed successfully. Result: a-b"),
            "{tool} {listed}"
        );
    }
    for hidden in [short, long] {
        let said = call(&project, short, json!({"initial": [short], "hidden": [hidden]})).await;
        assert!(!said.contains("executed successfully"), "{hidden}: {said}");
    }
    let said = call(&project, short, json!({"initial": ["workflow:ours"]})).await;
    assert!(!said.contains("executed successfully"), "{said}");
}

#[test]
fn flows_name_tools_with_and_without_their_namespace() {
    let folder = tempfile::tempdir().unwrap();
    project(folder.path(), &json!([]));
    let file = |workflow: &str, kb: &str, tool: &str| {
        json!({
            "flows": [{"flow_id": "f", "trigger_patterns": ["go"], "target": {"workflow": workflow}}],
            "skills": [{"skill_id": "s", "description": "Does it.", "execution_mode": "agent", "tools": [tool]}],
            "retrieve_knowledge": {"kb": kb},
        })
        .to_string()
    };
    for (workflow, kb, tool) in
        [("ours", "rules", "core:TextMerge"), ("workflow:ours", "kb:rules", "node:core:TextMerge")]
    {
        write(folder.path(), "flows.json", &file(workflow, kb, tool));
        let project = open(folder.path());
        let flows = project.flows().unwrap().unwrap();
        assert_eq!(flows.warnings(), [], "{workflow} {kb} {tool}");
        let ids: Vec<&str> = flows.offered_ids().map(agent_types::ToolId::as_str).collect();
        assert_eq!(ids, ["skill:s", "kb:rules"]);
    }
    for (workflow, kb, said) in [
        ("kb:rules", "rules", "unknown tool `workflow:kb:rules`"),
        ("ours", "rulez", "did you mean `kb:rules`?"),
    ] {
        write(folder.path(), "flows.json", &file(workflow, kb, "core:TextMerge"));
        let error = open(folder.path()).flows().unwrap_err();
        assert!(format!("{error} {:?}", error.help()).contains(said), "{error}");
    }
}

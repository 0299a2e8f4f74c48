//! `flows.json` in a project: which agent it stands around, what that agent is offered, and sessions that are kept.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::path::Path;

use agent_runtime::ApprovalMode;
use agent_types::ExitReason;
use executors_flow_system::Handlers;
use tool_registry::{tool, tools};
use weft_harness::write;
use weft_project::{Project, ProjectError, ProjectOptions};

/// Greets.
#[tool]
fn greet(name: String) -> String {
    format!("Good day, {name}.")
}

const FLOWS: &str = r#"{"flows": [{"flow_id": "greet", "match": "regex", "trigger_patterns": ["i am (?<name>\\w+)"], "target": {"handler": "greet"},
    "parameter_mapping": {"name": "$group.name"}}],
    "tools": [{"name": "find", "description": "Finds.", "endpoint": {"url": "https://x.test/find"}}],
    "skills": [{"skill_id": "writer", "description": "Writes.", "execution_mode": "agent", "tools": ["find"]}]}"#;

fn open(folder: &Path) -> Project {
    let mut options = ProjectOptions::default();
    options.environment = None;
    options.handlers = Handlers::new(tools![greet]).unwrap();
    Project::open(folder, &options).unwrap()
}

fn ids(project: &Project, agent: &str) -> Vec<String> {
    let tools = project.tools_of(project.agent_file(agent).unwrap()).unwrap();
    tools.tools().map(|tool| tool.id().to_string()).collect()
}

#[test]
fn it_stands_around_the_agent_that_is_meant() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "weft.toml", "");
    write(folder.path(), "flows.json", FLOWS);
    assert_eq!(open(folder.path()).flows_agent().unwrap(), "assistant", "there is no agent");
    write(
        folder.path(),
        "agents/a.json",
        r#"{"id": "a", "tool_ids_inventory": ["system:get_current_time", "find"]}"#,
    );
    let project = open(folder.path());
    assert_eq!(project.flows_agent().unwrap(), "a", "there is only one");
    assert_eq!(
        ids(&project, "a"),
        ["system:get_current_time", "find", "skill:writer"],
        "a tool that is listed too is there once"
    );
    write(folder.path(), "agents/b.json", r#"{"id": "b"}"#);
    let project = open(folder.path());
    assert_eq!(project.flows_agent().unwrap(), "assistant", "none of several is meant");
    assert!(
        matches!(project.tools_of(project.agent_file("a").unwrap()), Ok(tools) if tools.get("skill:writer").is_none())
    );
    write(folder.path(), "flows.json", &FLOWS.replacen('{', r#"{"agent": "b", "#, 1));
    let project = open(folder.path());
    assert_eq!(ids(&project, "b"), ["find", "skill:writer"]);
    write(folder.path(), "flows.json", &FLOWS.replacen('{', r#"{"agent": "c", "#, 1));
    assert!(matches!(open(folder.path()).flows_agent(), Err(ProjectError::UnknownAgent { .. })));
}

#[test]
fn the_tools_of_the_file_are_found_by_their_ids() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "weft.toml", "");
    write(folder.path(), "flows.json", FLOWS);
    let project = open(folder.path());
    assert_eq!(project.tool("find").unwrap().definition().description, "Finds.");
    assert_eq!(project.tool("skill:writer").unwrap().definition().description, "Writes.");
    assert!(project.providers().ids().ends_with(&["find".to_owned(), "skill:writer".to_owned()]));
    let Err(ProjectError::UnknownToolId { near, .. }) = project.tool("fnid") else {
        unreachable!("no such tool")
    };
    assert_eq!(near.as_deref(), Some("find"));
    // A flow is no tool, whatever it is called.
    assert!(project.tool("greet").is_err());
    // Without the program's code the file cannot be used, and that is told with its place.
    let bare = Project::open(folder.path(), &ProjectOptions::default()).unwrap();
    let error = bare.flows().unwrap_err();
    assert_eq!(error.code(), "unknown_handler");
    assert!(
        error.to_string().starts_with("/flows/0/target/handler: no handler is registered as `greet`"),
        "{error}"
    );
}

#[tokio::test]
async fn a_session_is_kept_with_the_thread_of_its_agent() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "weft.toml", "script = \"script.jsonl\"\n");
    write(folder.path(), "script.jsonl", "{\"text\": \"Yes, Ann.\"}\n");
    write(folder.path(), "flows.json", FLOWS);
    let project = open(folder.path());
    let agent = project.agent(project.flows_agent().unwrap()).unwrap();
    let orchestrator = project.orchestrator(agent.with_approval(ApprovalMode::None)).unwrap();
    let greeted = orchestrator.handle("s", "I am Ann").await.unwrap();
    assert_eq!((greeted.text.as_deref(), greeted.exit), (Some("Good day, Ann."), ExitReason::FlowCompleted));
    assert_eq!(orchestrator.handle("s", "Is that so?").await.unwrap().text.as_deref(), Some("Yes, Ann."));
    assert_eq!(
        project.store().unwrap().unwrap().messages("assistant/s").unwrap().len(),
        4,
        "what the flow said is in it, too"
    );
}

//! Failures of tools of each kind name no folder of the process to the model.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::fs;
use std::path::Path;
use std::sync::Arc;

use agent_runtime::{Agent, AgentProfile};
use agent_types::ToolDefinition;
use llm_provider::ScriptedModel;
use serde_json::{Value, json};
use tool_knowledge::{KnowledgeSource, Passage, knowledge_tool};
use tool_registry::{Tool, ToolContext, ToolError, ToolHandler, ToolKind, ToolOutput};
use tool_system::{BlobPart, BlobSource};
use weft_project::{Project, ProjectOptions};

const SETTINGS: &str = r#"
[models.locked]
provider = "openai"
base_url = "http://127.0.0.1:9/v1"
model = "m"
api_key_file = "keys/locked"

[network]
allow = ["127.0.0.1:9"]

[commands]
allow = ["bin/count"]
"#;

/// A workflow whose node needs a model that cannot be used.
const LOCKED: &str = r#"{"description": "Asks.", "nodes": [
    {"id": "ask", "type": "agent:LlmApiRequest", "configValues": {"profileId": "locked", "prompt": "Hi."}},
    {"id": "out", "type": "core:GroupOutput"}],
    "edges": [{"source": "ask", "sourceHandle": "text", "target": "out", "targetHandle": "text"}],
    "interfaceOutputs": {"text": {"dataFlowType": "STRING"}}}"#;

/// A tool that cannot reach its server, and one whose program is missing.
const WEATHER: &str = r#"{"name": "weather", "description": "Asks.", "parameters": {"type": "object", "properties": {}},
    "endpoint": {"method": "GET", "url": "http://127.0.0.1:9/now"}}"#;
const COUNT: &str = r#"{"name": "count", "description": "Counts.", "parameters": {"type": "object", "properties": {}},
    "command": ["bin/count", "a"], "read_only": true}"#;

/// A source of knowledge whose error names one of its files.
#[derive(Debug)]
struct Unreadable(String);

#[async_trait::async_trait]
impl KnowledgeSource for Unreadable {
    async fn search(&self, _: &str, _: usize) -> Result<Vec<Passage>, ToolError> {
        Err(ToolError::failed(format!("{}/kb/a.md: Permission denied (os error 13)", self.0)))
    }
}

/// Blobs that cannot be read.
#[derive(Debug)]
struct Broken(String);

#[async_trait::async_trait]
impl BlobSource for Broken {
    async fn put(&self, _: Vec<u8>) -> Result<String, ToolError> {
        Err(self.error())
    }

    async fn read(&self, _: &str, _: u64, _: usize) -> Result<Option<BlobPart>, ToolError> {
        Err(self.error())
    }
}

impl Broken {
    fn error(&self) -> ToolError {
        ToolError::failed(format!(
            "{}/.weft/weft.db: disk I/O error, at /rustc/1a2b/library/std/src/fs.rs:7:1",
            self.0
        ))
    }
}

/// A function tool that panics at a position of its sources.
struct Panics;

#[async_trait::async_trait]
impl ToolHandler for Panics {
    #[expect(clippy::panic, reason = "the tool is there to panic")]
    async fn call(
        &self,
        _: serde_json::Map<String, Value>,
        _: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        panic!("index out of range at /srv/app/src/main.rs:12:5")
    }
}

/// A function tool whose error names a file of the project.
struct Careless(String);

#[async_trait::async_trait]
impl ToolHandler for Careless {
    async fn call(
        &self,
        _: serde_json::Map<String, Value>,
        _: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        Err(ToolError::failed(format!("{0}/data/x.csv: no access, in {0}", self.0)))
    }
}

fn project(root: &Path) -> Project {
    for folder in ["agents", "workflows", "tools"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    fs::write(root.join("weft.toml"), SETTINGS).unwrap();
    let tools =
        ["workflow:locked", "node:agent:LlmApiRequest", "weather", "command:count", "system:read_blob"];
    let agent = json!({"id": "a", "tool_ids_inventory": tools});
    fs::write(root.join("tools/weather.tool.json"), WEATHER).unwrap();
    fs::write(root.join("tools/count.command.json"), COUNT).unwrap();
    fs::write(root.join("agents/a.json"), agent.to_string()).unwrap();
    fs::write(root.join("workflows/locked.json"), LOCKED).unwrap();
    let mut options = ProjectOptions::default();
    options.environment = None;
    Project::open(root, &options).unwrap()
}

#[tokio::test]
async fn no_failure_names_a_folder_of_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("shop");
    let node = "<node:agent:LlmApiRequest><messages>Hi.</messages></node:agent:LlmApiRequest>";
    let project = project(&root);
    let blob = format!("<system:read_blob><ref>blob:{}</ref></system:read_blob>", "a".repeat(64));
    let calls = [
        "<careless/>",
        "<panics/>",
        "<workflow:locked/>",
        node,
        "<weather/>",
        "<command:count/>",
        "<kb:Broken><query>x</query></kb:Broken>",
        &blob,
    ];
    let calls = calls.map(|call| format!("<ACTION>{call}</ACTION>"));
    let lines = calls.into_iter().chain(["Done.".to_owned()]).map(|text| json!({"text": text}).to_string());
    let model = ScriptedModel::from_jsonl(&lines.collect::<Vec<_>>().join("\n")).unwrap();
    let definition = ToolDefinition::new("careless".parse().unwrap(), "Fails.", json!({"type": "object"}));
    let own = root.display().to_string();
    let careless = Tool::new(definition, ToolKind::NATIVE, Careless(own.clone()));
    let definition = ToolDefinition::new("panics".parse().unwrap(), "Panics.", json!({"type": "object"}));
    let panics = Tool::new(definition, ToolKind::NATIVE, Panics);
    let knowledge = knowledge_tool("Broken", "Searches.", Arc::new(Unreadable(own.clone()))).unwrap();
    let tools = project.tools_of(project.agent_file("a").unwrap()).unwrap();
    let agent = Agent::from_profile(AgentProfile::new("a"), Arc::new(model), tools);
    let agent =
        agent.tool(careless).tool(panics).tool(knowledge).with::<dyn BlobSource>(Arc::new(Broken(own)));
    let outcome = agent.with(Arc::new(project.own_folders())).run("Go.").await.unwrap();
    let history = serde_json::to_string(&outcome.history).unwrap();
    for leaked in [&*folder.path().to_string_lossy(), "/srv/app", "out of range", ".rs:"] {
        assert!(!history.contains(leaked), "{leaked}: {history}");
    }
    for said in ["kb/a.md: Permission denied", ".weft/weft.db: disk I/O error", "panics failed", "bin/count"]
    {
        assert!(history.contains(said), "{said}: {history}");
    }
    assert!(history.contains("careless failed: data/x.csv: no access, in ."), "{history}");
    assert!(history.contains("is not in keys/locked"), "{history}");
}

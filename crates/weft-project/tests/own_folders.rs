//! Failures of tools of each kind name no folder of the process to the model.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::fs;
use std::path::Path;
use std::sync::Arc;

use agent_runtime::{Agent, AgentProfile};
use agent_types::ToolDefinition;
use llm_provider::ScriptedModel;
use serde_json::{Value, json};
use tool_registry::{Tool, ToolContext, ToolError, ToolHandler, ToolKind, ToolOutput};
use weft_project::{Project, ProjectOptions};

const SETTINGS: &str = r#"
[models.locked]
provider = "openai"
base_url = "http://127.0.0.1:9/v1"
model = "m"
api_key_file = "keys/locked"
"#;

/// A workflow whose node needs a model that cannot be used.
const LOCKED: &str = r#"{"description": "Asks.", "nodes": [
    {"id": "ask", "type": "agent:LlmApiRequest", "configValues": {"profileId": "locked", "prompt": "Hi."}},
    {"id": "out", "type": "core:GroupOutput"}],
    "edges": [{"source": "ask", "sourceHandle": "text", "target": "out", "targetHandle": "text"}],
    "interfaceOutputs": {"text": {"dataFlowType": "STRING"}}}"#;

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
    for folder in ["agents", "workflows"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    fs::write(root.join("weft.toml"), SETTINGS).unwrap();
    let agent = json!({"id": "a", "tool_ids_inventory": ["workflow:locked", "node:agent:LlmApiRequest"]});
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
    let calls = ["<careless/>", "<workflow:locked/>", node].map(|call| format!("<ACTION>{call}</ACTION>"));
    let lines = calls.into_iter().chain(["Done.".to_owned()]).map(|text| json!({"text": text}).to_string());
    let model = ScriptedModel::from_jsonl(&lines.collect::<Vec<_>>().join("\n")).unwrap();
    let definition = ToolDefinition::new("careless".parse().unwrap(), "Fails.", json!({"type": "object"}));
    let careless = Tool::new(definition, ToolKind::NATIVE, Careless(root.display().to_string()));
    let tools = project.tools_of(project.agent_file("a").unwrap()).unwrap();
    let agent = Agent::from_profile(AgentProfile::new("a"), Arc::new(model), tools).tool(careless);
    let outcome = agent.with(Arc::new(project.own_folders())).run("Go.").await.unwrap();
    let history = serde_json::to_string(&outcome.history).unwrap();
    assert!(!history.contains(&*folder.path().to_string_lossy()), "{history}");
    assert!(history.contains("careless failed: data/x.csv: no access, in ."), "{history}");
    assert!(history.contains("is not in keys/locked"), "{history}");
}

//! `flows.json`: what stands around an agent of the project.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use agent_runtime::{Agent, AgentProfile};
use agent_types::ToolId;
use executors_flow_system::{
    FlowSource, Flows, FlowsBuilder, FlowsError, FlowsFile, MemorySessions, NoTool, Orchestrator,
    SessionStore, StoredSessions, ToolLookup,
};
use llm_provider::{LlmProvider, ScriptedModel};
use serde_json::Value;
use tool_registry::{BrokenTool, Snapshot, Tool, ToolLookupError};

use crate::error::ProjectError;
use crate::files::read_file;
use crate::project::Project;

/// Type of the node that asks a question.
const ASK: &str = "core:Ask";

/// Name of the file.
const FILE: &str = "flows.json";

/// Id of the agent that answers where the project has none that could be meant.
const BUILT_IN: &str = "assistant";

/// The file of a project, read when the project is opened and checked when it is needed.
#[derive(Debug, Default)]
pub(crate) struct ProjectFlows {
    path: PathBuf,
    file: Option<Result<FlowsFile, FlowsError>>,
    checked: OnceLock<Flows>,
    /// Fault of the file as it is now, where an earlier version of it is used.
    fault: Option<String>,
}

impl ProjectFlows {
    pub(crate) fn read(root: &Path) -> Result<Self, ProjectError> {
        let path = root.join(FILE);
        let file = match read_file(&path) {
            Ok(text) => Some(FlowsFile::from_json(&text)),
            Err(ProjectError::MissingFile { .. }) => None,
            Err(ProjectError::NotText(at)) => Some(Err(FlowsError::Json {
                line: at.line.unwrap_or(1),
                column: at.column.unwrap_or(1),
                message: at.message,
            })),
            Err(error) => return Err(error),
        };
        Ok(Self { path, file, checked: OnceLock::new(), fault: None })
    }

    fn error(&self, source: FlowsError) -> ProjectError {
        ProjectError::Flows { path: self.path.clone(), source: Box::new(source) }
    }
}

/// The flows of `before`, where `flows.json` has changed and cannot be used any more.
pub(crate) fn last_good_flows(now: &Project, before: &Project) -> Option<ProjectFlows> {
    let fault = now.flows().err()?.to_string();
    before.flows().ok().flatten()?;
    let good = before.project_flows();
    if good.fault.as_ref() != Some(&fault) {
        log::warn!("flows.json cannot be used; its last good version stays in force: {fault}");
    }
    // What was checked stays as it was, also where it is the files around it that have changed.
    let (path, file, checked) = (good.path.clone(), good.file.clone(), good.checked.clone());
    Some(ProjectFlows { path, file, checked, fault: Some(fault) })
}

/// The tools of a project without those of its `flows.json`.
struct Tools<'p>(&'p Project);

impl ToolLookup for Tools<'_> {
    fn lookup(&self, id: &str) -> Result<Tool, NoTool> {
        let id = self.0.canonical_id(id);
        self.0.own_providers().resolve(&id, &self.0.services()).map_err(|error| match error {
            ToolLookupError::Unknown(unknown) => NoTool::new(
                format!("unknown tool `{}`", unknown.name),
                unknown.near.map(|near| near.to_string()),
            ),
            other => NoTool::new(other.to_string(), None),
        })
    }

    fn asks(&self, workflow: &str) -> bool {
        let id = workflow.strip_prefix("workflow:").unwrap_or(workflow);
        self.asks_within(id, &mut BTreeSet::new())
    }
}

impl Tools<'_> {
    /// Returns `true` if a workflow, or one that it names, has a node that asks.
    fn asks_within(&self, id: &str, seen: &mut BTreeSet<String>) -> bool {
        if !seen.insert(id.to_owned()) {
            return false;
        }
        let Ok((_, workflow)) = self.0.workflows().get(id) else { return false };
        let mut open = vec![workflow.to_value()];
        while let Some(value) = open.pop() {
            match value {
                Value::String(text) => {
                    let named = text.strip_prefix("workflow:").unwrap_or(&text);
                    if text == ASK || self.asks_within(named, seen) {
                        return true;
                    }
                }
                Value::Array(items) => open.extend(items),
                Value::Object(members) => open.extend(members.into_iter().map(|(_, member)| member)),
                Value::Null | Value::Bool(_) | Value::Number(_) => {}
            }
        }
        false
    }
}

/// The flows of a project, for the provider of their tools.
#[derive(Debug)]
pub(crate) struct ProjectFlowTools(pub(crate) Project);

impl FlowSource for ProjectFlowTools {
    fn ids(&self) -> Vec<String> {
        let flows = self.0.flows().ok().flatten();
        flows.map(|flows| flows.offered_ids().map(ToolId::to_string).collect()).unwrap_or_default()
    }

    fn offered(&self) -> Result<Vec<Tool>, BrokenTool> {
        let agent = self.0.flows_agent()?;
        let file = self.0.agent_file(agent);
        let profile = file.map_or_else(|_| AgentProfile::new(agent), |file| file.profile.clone());
        Ok(self.0.offered_by_flows(&profile)?)
    }

    fn file(&self) -> PathBuf {
        self.0.root().join(FILE)
    }
}

impl Project {
    /// Fault of `flows.json` as it is now, where the project goes by an earlier version of it.
    #[must_use]
    pub fn flows_fault(&self) -> Option<&str> {
        self.project_flows().fault.as_deref()
    }

    /// `flows.json` as it is written; `None` if the file is missing.
    ///
    /// # Errors
    /// Invalid JSON, or every part that cannot be read.
    pub fn flows_file(&self) -> Result<Option<&FlowsFile>, ProjectError> {
        let flows = self.project_flows();
        flows.file.as_ref().map(|file| file.as_ref().map_err(|error| flows.error(error.clone()))).transpose()
    }

    /// `flows.json`, checked; `None` if the file is missing.
    ///
    /// # Errors
    /// All errors in the file.
    pub fn flows(&self) -> Result<Option<&Flows>, ProjectError> {
        let Some(file) = self.flows_file()? else { return Ok(None) };
        let flows = self.project_flows();
        if let Some(checked) = flows.checked.get() {
            return Ok(Some(checked));
        }
        let built = self.build_flows(file)?;
        Ok(Some(flows.checked.get_or_init(|| built)))
    }

    fn build_flows(&self, file: &FlowsFile) -> Result<Flows, ProjectError> {
        let tools = Tools(self);
        let builder = FlowsBuilder::new(file).tools(&tools).handlers(self.handlers().clone());
        let built = builder.caller(self.caller().clone()).services(self.without_flows().services()).build();
        built.map_err(|error| self.project_flows().error(error))
    }

    /// Id of the agent that `flows.json` stands around: the one that it names, else the project's only one, else the built-in one.
    ///
    /// # Errors
    /// The file cannot be read, or names an agent that is not there.
    pub fn flows_agent(&self) -> Result<&str, ProjectError> {
        if let Some(named) = self.flows_file()?.and_then(|file| file.agent.as_deref()) {
            return self.agent_file(named).map(|file| file.profile.id.as_str());
        }
        let mut agents = self.agents();
        match (agents.next(), agents.next()) {
            (Some(only), None) => Ok(&only.profile.id),
            _ => Ok(BUILT_IN),
        }
    }

    /// The flows that stand around an agent, if they do.
    fn flows_of(&self, agent: &str) -> Result<Option<&Flows>, ProjectError> {
        if self.flows_file()?.is_none() || self.flows_agent()? != agent {
            return Ok(None);
        }
        self.flows()
    }

    /// Tools that `flows.json` adds to those of an agent. Without a model, its sub-agents are listed and cannot run.
    pub(crate) fn offered_by_flows(&self, profile: &AgentProfile) -> Result<Vec<Tool>, ProjectError> {
        let Some(flows) = self.flows_of(&profile.id)? else { return Ok(Vec::new()) };
        let entry = profile.llm.as_ref().and_then(|llm| llm.profile.as_deref());
        let model = llm_provider::ModelSource::model(&**self.models(), entry);
        let unset = || Arc::new(ScriptedModel::new(Vec::new())) as Arc<dyn LlmProvider>;
        let model = model.unwrap_or_else(|_| unset());
        Ok(flows.offered(&model, profile.language).map_err(agent_runtime::AgentError::from)?)
    }

    /// The agent that answers where the project has none that could be meant.
    pub(crate) fn built_in_agent(&self, id: &str) -> Result<Option<Agent>, ProjectError> {
        if id != BUILT_IN || self.flows_agent()? != BUILT_IN {
            return Ok(None);
        }
        let profile = AgentProfile::new(BUILT_IN);
        let tools = Snapshot::new(self.offered_by_flows(&profile)?)?;
        let model = llm_provider::ModelSource::model(&**self.models(), None)?;
        Ok(Some(self.equipped(Agent::from_profile(profile, model, tools))?))
    }

    /// The orchestrator of the sessions of [`flows_agent`](Self::flows_agent). Without `flows.json` every message goes to the agent.
    ///
    /// # Errors
    /// `flows.json`, the agent, its model or the store cannot be used.
    pub fn orchestrator(&self, agent: Agent) -> Result<Orchestrator, ProjectError> {
        let id = agent.profile().id.clone();
        let flows = match self.flows()? {
            Some(flows) => flows.clone(),
            None => self.build_flows(&FlowsFile::default())?,
        };
        let sessions: Arc<dyn SessionStore> = match self.store()? {
            Some(store) => Arc::new(StoredSessions::new(store.clone(), id)),
            None => MemorySessions::new(),
        };
        let orchestrator =
            Orchestrator::new(flows, agent, sessions).with_texts(self.settings().texts.clone());
        Ok(orchestrator.with_clock(Arc::clone(self.clock())))
    }
}

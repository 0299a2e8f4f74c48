//! The project as a server of the Model Context Protocol: its tools, its agents' prompts, its workflow files and runs.

use std::fmt;
use std::sync::Arc;

use agent_types::RunId;
use async_trait::async_trait;
use mcp_bridge::{
    CallContextProvider, CallScope, McpServer, MemoryCallContexts, PromptArgument, PromptInfo, PromptMessage,
    PromptSource, ResourceInfo, ResourceSource, ResourceTemplate, Speaker,
};
use parking_lot::Mutex;
use run_store::RunFilter;
use serde_json::{Map, Value, json};
use tool_registry::{Part, Reach, Services, Snapshot, Tool, ToolError, ToolSource};

use crate::error::ProjectError;
use crate::project::Project;

/// Beginnings of the addresses of workflow files and runs.
const WORKFLOWS: &str = "weft://workflows/";
const RUNS: &str = "weft://runs/";

/// The newest runs that are listed; older ones are read by their ids.
const LISTED_RUNS: usize = 20;

/// Events of a run that are read at once.
const MAX_EVENTS: usize = 2000;

/// Argument of an agent's prompt.
const MESSAGE: &str = "message";

/// Gives the project as its files are now.
type Now = Arc<dyn Fn() -> Arc<Project> + Send + Sync>;

/// The project, as its files are whenever it is looked at, for clients of the Model Context Protocol.
#[derive(Clone)]
pub struct ProjectMcp {
    now: Now,
    agent: Option<Arc<str>>,
    /// The tools of the project that was looked at last.
    made: Arc<Mutex<Option<Made>>>,
}

/// Tools, and the project that they were made of.
type Made = (Arc<Project>, Snapshot);

impl fmt::Debug for ProjectMcp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProjectMcp").field("agent", &self.agent).finish_non_exhaustive()
    }
}

impl ProjectMcp {
    /// All tools of the project that need nothing of an agent, or those of one agent.
    #[must_use]
    pub fn new(now: impl Fn() -> Arc<Project> + Send + Sync + 'static, agent: Option<&str>) -> Self {
        Self { now: Arc::new(now), agent: agent.map(Arc::from), made: Arc::default() }
    }

    /// A server with these tools, the prompts of agents, workflow files and runs. `contexts` provides the context of
    /// each call; without it, events of calls are not persisted.
    #[must_use]
    pub fn server(self, contexts: Option<Arc<dyn CallContextProvider>>) -> McpServer {
        let project = Arc::new(self);
        let contexts = contexts.unwrap_or_else(|| Arc::clone(&project) as Arc<dyn CallContextProvider>);
        McpServer::new(Arc::clone(&project) as Arc<dyn ToolSource>, contexts)
            .with_prompts(Arc::clone(&project) as Arc<dyn PromptSource>)
            .with_resources(project)
    }

    /// Services that tools need.
    ///
    /// # Errors
    /// The agent is unknown, or the store cannot be used.
    pub fn services(&self) -> Result<Services, ProjectError> {
        let project = (self.now)();
        let file = self.agent.as_deref().map(|agent| project.agent_file(agent)).transpose()?;
        project.tool_services(file)
    }

    /// Tools that the server offers.
    ///
    /// # Errors
    /// The agent is unknown, or one of its tools cannot be used.
    pub fn tools(&self) -> Result<Snapshot, ProjectError> {
        let project = (self.now)();
        let mut made = self.made.lock();
        if let Some((of, tools)) = &*made
            && Arc::ptr_eq(of, &project)
        {
            return Ok(tools.clone());
        }
        let tools = if let Some(agent) = &self.agent {
            project.tools_of(project.agent_file(agent)?)?
        } else {
            let services = self.services()?;
            // A tool that cannot be used does not hide the others.
            let usable = |tool: &Tool| tool.missing(&services).is_empty();
            let tools = project.tools(Reach::Local).into_iter().filter_map(Result::ok);
            Snapshot::new(tools.filter(usable))?
        };
        *made = Some((project, tools.clone()));
        Ok(tools)
    }
}

impl ToolSource for ProjectMcp {
    fn snapshot(&self) -> Snapshot {
        self.tools().unwrap_or_else(|error| Snapshot::default().with_warnings(vec![error.to_string()]))
    }
}

impl CallContextProvider for ProjectMcp {
    fn scope(&self, tool: &Tool) -> Result<CallScope, ToolError> {
        let services = self.services().map_err(|error| ToolError::failed(error.to_string()))?;
        MemoryCallContexts::new(Arc::clone((self.now)().clock()), services).scope(tool)
    }
}

#[async_trait]
impl PromptSource for ProjectMcp {
    fn prompts(&self) -> Vec<PromptInfo> {
        let project = (self.now)();
        let chosen = project
            .agents()
            .filter(|file| self.agent.as_deref().is_none_or(|agent| agent == file.profile.id));
        let prompts = chosen.map(|file| {
            let about = file.profile.description.clone().unwrap_or_else(|| file.profile.name.clone());
            let mut prompt = PromptInfo::new(file.profile.id.clone(), about).with_argument(PromptArgument {
                name: MESSAGE.to_owned(),
                description: Some("what is asked".to_owned()),
                required: false,
            });
            prompt.title = Some(file.profile.name.clone());
            prompt
        });
        prompts.collect()
    }

    async fn prompt(
        &self,
        name: &str,
        arguments: &Map<String, Value>,
    ) -> Result<Option<Vec<PromptMessage>>, ToolError> {
        let project = (self.now)();
        let Ok(file) = project.agent_file(name) else { return Ok(None) };
        let instructions = file.profile.system_prompt.clone();
        let message = arguments.get(MESSAGE).and_then(Value::as_str).map(str::to_owned);
        let texts = instructions.into_iter().chain(message).filter(|text| !text.is_empty());
        let said = |text| PromptMessage { speaker: Speaker::User, part: Part::Text { text } };
        Ok(Some(texts.map(said).collect()))
    }
}

#[async_trait]
impl ResourceSource for ProjectMcp {
    async fn resources(&self) -> Result<Vec<ResourceInfo>, ToolError> {
        let project = (self.now)();
        let workflows = project.workflows().files().map(|file| {
            let about = file.loaded.as_ref().ok().and_then(|workflow| workflow.description.clone());
            ResourceInfo::new(format!("{WORKFLOWS}{}", file.id), file.id.clone(), "application/json")
                .with_description(about)
        });
        let mut resources: Vec<ResourceInfo> = workflows.collect();
        let filter = RunFilter { limit: Some(LISTED_RUNS), ..RunFilter::default() };
        let runs = match project.store().map_err(|error| ToolError::failed(error.to_string()))? {
            Some(store) => store.runs(&filter).map_err(|error| ToolError::failed(error.to_string()))?,
            None => Vec::new(),
        };
        resources.extend(runs.into_iter().map(|record| {
            let what = record.new.agent.or(record.new.workflow).unwrap_or_default();
            let about = format!("run of {what}, begun {}: {}", record.started, record.state.phase.as_str());
            let run = record.new.run;
            ResourceInfo::new(format!("{RUNS}{run}"), run.to_string(), "application/json")
                .with_description(Some(about))
        }));
        Ok(resources)
    }

    fn templates(&self) -> Vec<ResourceTemplate> {
        let template = |beginning: &str, name: &str, description: &str| ResourceTemplate {
            uri_template: format!("{beginning}{{{name}}}"),
            name: name.to_owned(),
            description: description.to_owned(),
            mime: "application/json".to_owned(),
        };
        vec![
            template(WORKFLOWS, "workflow", "The file of a workflow."),
            template(RUNS, "run", "A run with its events."),
        ]
    }

    async fn read(&self, uri: &str) -> Result<Option<Part>, ToolError> {
        let project = (self.now)();
        let part = |content: String| Part::Resource {
            uri: uri.to_owned(),
            content: Some(content),
            blob: None,
            mime: Some("application/json".to_owned()),
        };
        if let Some(id) = uri.strip_prefix(WORKFLOWS) {
            // An id is looked up among those that there are, and never made to a path.
            let found = project.workflows().get(id).ok();
            return Ok(found.map(|(_, workflow)| part(workflow.to_json())));
        }
        let Some(run) = uri.strip_prefix(RUNS) else { return Ok(None) };
        let shown = run_as_json(&project, &RunId::new(run));
        Ok(shown.map_err(|error| ToolError::failed(error.to_string()))?.map(|run| part(run.to_string())))
    }

    fn complete(&self, uri_template: &str, name: &str, beginning: &str) -> Vec<String> {
        let project = (self.now)();
        if !uri_template.starts_with(WORKFLOWS) || name != "workflow" {
            return Vec::new();
        }
        let ids = project.workflows().files().map(|file| file.id.clone());
        ids.filter(|id| id.starts_with(beginning)).collect()
    }
}

/// A run with its first events; `None` if the run is unknown.
fn run_as_json(project: &Project, run: &RunId) -> Result<Option<Value>, ProjectError> {
    let Some(store) = project.store()? else { return Ok(None) };
    let Ok(record) = store.known(run) else { return Ok(None) };
    let events = store.events(run, 0, MAX_EVENTS)?;
    let events: Vec<&agent_types::TraceEvent> =
        events.iter().take(MAX_EVENTS).map(|kept| &kept.event).collect();
    Ok(Some(json!({
        "run": run,
        "status": record.state.phase.as_str(),
        "exit": record.state.exit,
        "agent": record.new.agent,
        "workflow": record.new.workflow,
        "started": record.started,
        "last_seq": record.last_seq,
        "events": events,
    })))
}

//! The project as a server of the Model Context Protocol: its tools, its agents' prompts, its workflow files and runs.

use std::fmt;
use std::sync::Arc;

use agent_types::RunId;
use async_trait::async_trait;
use futures::FutureExt;
use mcp_bridge::{
    CallRunner, ClientCall, McpServer, PromptArgument, PromptInfo, PromptMessage, PromptSource, ResourceInfo,
    ResourceSource, ResourceTemplate, Speaker, StartedCall,
};
use parking_lot::Mutex;
use run_store::RunFilter;
use serde_json::{Map, Value, json};
use tool_registry::{Part, Reach, Services, Snapshot, Tool, ToolError, ToolSource};
use weft_project::{Project, ProjectError};

use crate::local::{CallHandle, CallRequest, LocalRuns};

/// Beginnings of the addresses of workflow files and runs.
const WORKFLOWS: &str = "weft://workflows/";
const RUNS: &str = "weft://runs/";

/// The newest runs that are listed; older ones are read by their ids.
const LISTED_RUNS: usize = 20;

/// Events of a run that are read at once.
const MAX_EVENTS: usize = 2000;

/// Argument of an agent's prompt.
const MESSAGE: &str = "message";

/// The project, as its files are whenever it is read, for clients of the Model Context Protocol. Their calls are runs.
#[derive(Clone)]
pub struct ProjectMcp {
    runs: LocalRuns,
    agent: Option<Arc<str>>,
    /// The tools of the project that was read last.
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
    pub fn new(runs: LocalRuns, agent: Option<&str>) -> Self {
        Self { runs, agent: agent.map(Arc::from), made: Arc::default() }
    }

    /// A server with these tools, the prompts of agents, workflow files and runs.
    #[must_use]
    pub fn server(self) -> McpServer {
        let project = Arc::new(self);
        McpServer::new(
            Arc::clone(&project) as Arc<dyn ToolSource>,
            Arc::clone(&project) as Arc<dyn CallRunner>,
        )
        .with_prompts(Arc::clone(&project) as Arc<dyn PromptSource>)
        .with_resources(project)
    }

    fn project(&self) -> Arc<Project> {
        self.runs.project()
    }

    /// An error for the client, which is not shown the folders of the server.
    fn failed(&self, error: &dyn std::fmt::Display) -> ToolError {
        self.project().own_folders().in_error(ToolError::failed(error.to_string()))
    }

    fn services(&self) -> Result<Services, ProjectError> {
        let project = self.project();
        let file = self.agent.as_deref().map(|agent| project.agent_file(agent)).transpose()?;
        project.tool_services(file)
    }

    /// Tools that the server offers.
    ///
    /// # Errors
    /// The agent is unknown, or one of its tools cannot be used.
    pub fn tools(&self) -> Result<Snapshot, ProjectError> {
        let project = self.project();
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

#[async_trait]
impl CallRunner for ProjectMcp {
    async fn begin(&self, call: ClientCall) -> Result<StartedCall, ToolError> {
        let ClientCall { tool, arguments, peer, cancel: given_up, .. } = call;
        let services = self.services().map_err(|error| self.failed(&error))?.with(peer);
        // A call whose request is dropped ends as well.
        let guard = given_up.clone().drop_guard();
        let request = CallRequest { tool, arguments, services, values: Map::new(), given_up };
        // A client that waits for an answer is not put into a queue.
        let started = self.runs.call_now(request).await;
        let CallHandle { events, outcome, .. } = started.map_err(|error| self.failed(&error))?;
        let own = self.project().own_folders();
        let outcome = async move {
            let _guard = guard;
            let ended = outcome.await;
            ended.map_err(|error| own.in_error(ToolError::failed(error.to_string())))
        };
        Ok(StartedCall { events: events.readable(), outcome: outcome.boxed() })
    }
}

#[async_trait]
impl PromptSource for ProjectMcp {
    fn prompts(&self) -> Vec<PromptInfo> {
        let project = self.project();
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
        let project = self.project();
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
        let project = self.project();
        let workflows = project.workflows().files().map(|file| {
            let about = file.loaded.as_ref().ok().and_then(|workflow| workflow.description.clone());
            ResourceInfo::new(format!("{WORKFLOWS}{}", file.id), file.id.clone(), "application/json")
                .with_description(about)
        });
        let mut resources: Vec<ResourceInfo> = workflows.collect();
        let filter = RunFilter { limit: Some(LISTED_RUNS), ..RunFilter::default() };
        let runs = match project.store().map_err(|error| self.failed(&error))? {
            Some(store) => store.runs(&filter).map_err(|error| self.failed(&error))?,
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
        let project = self.project();
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
        Ok(shown.map_err(|error| self.failed(&error))?.map(|run| part(run.to_string())))
    }

    fn complete(&self, uri_template: &str, name: &str, beginning: &str) -> Vec<String> {
        let project = self.project();
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

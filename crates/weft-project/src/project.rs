//! A project, opened.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use agent_nodes::MemoryThreads;
use agent_types::Clock;
use executors_flow_system::Handlers;
use http_caller::{HttpCaller, NetworkPolicy};
use mcp_bridge::McpClients;
use run_store::{Store, StoreError};
use tokio::sync::Notify;
use tool_command::{CommandFormat, CommandTools};
use tool_http::{HttpFormat, HttpTools};
use tool_knowledge::KnowledgeTools;
use tool_registry::files::{FileError, PassedOver};
use tool_registry::{Providers, Reach, Snapshot, ToolProvider};
use tool_system::SystemTools;
use workflow_engine::{NodeCatalog, Services};

use crate::agents::{AgentFile, ProjectAgents};
use crate::callbacks::{CallbackServer, StoredCallbacks};
use crate::error::ProjectError;
use crate::files::{SETTINGS, root_of};
use crate::flows::{ProjectFlows, last_good_flows};
use crate::lookalikes::lookalikes;
use crate::models::ProjectModels;
use crate::options::ProjectOptions;
use crate::server_settings::ServerSettings;
use crate::settings::Settings;
use crate::triggers::{AgentTrigger, ProjectTriggers};
use crate::trust;
use crate::workflows::ProjectWorkflows;

mod equip;
mod one_run;

use one_run::{models_of, services_of};

/// A project: its settings, workflows and agents, and what is needed to run them. Clones share all of it.
#[derive(Debug, Clone)]
pub struct Project {
    root: PathBuf,
    settings: Arc<Settings>,
    workflows: Arc<ProjectWorkflows>,
    agents: Arc<ProjectAgents>,
    /// Providers that hang on the project's folder only.
    steady: Providers,
    flows: Arc<ProjectFlows>,
    triggers: Arc<ProjectTriggers>,
    /// Notified when an event waits for an agent.
    event_signal: Arc<Notify>,
    /// Server that takes callbacks of calls.
    callback_server: CallbackServer,
    /// Notified when a callback came.
    callback_signal: Arc<Notify>,
    handlers: Handlers,
    models: Arc<ProjectModels>,
    catalog: Arc<NodeCatalog>,
    services: Services,
    /// Conversations of workflows where nothing is kept.
    memory_threads: Arc<MemoryThreads>,
    caller: HttpCaller,
    clock: Arc<dyn Clock>,
    /// Opened when it is first needed; a folder without a project has none.
    store: Arc<OnceLock<Store>>,
    /// Servers of others, once one is asked for.
    mcp: Arc<OnceLock<Arc<McpClients>>>,
    keeps_runs: bool,
    /// Options that it was opened with.
    options: ProjectOptions,
}

impl Project {
    /// Opens the project of a folder, or of the closest folder above it.
    ///
    /// # Errors
    /// The project is missing, or above the folder and owned by another user who is not trusted; its settings do not fit, or a
    /// file cannot be read.
    pub fn find(start: &Path, options: &ProjectOptions) -> Result<Self, ProjectError> {
        let root = root_of(start)?;
        if std::path::absolute(start).map_or(true, |start| start != root) {
            trust::check(&root, &root.join(SETTINGS))?;
        }
        Self::open(&root, options)
    }

    /// Opens the project of exactly this folder.
    ///
    /// # Errors
    /// Its settings do not fit, or a file cannot be read.
    pub fn open(root: &Path, options: &ProjectOptions) -> Result<Self, ProjectError> {
        let settings = Settings::read(&root.join(SETTINGS))?;
        let workflows = ProjectWorkflows::read(root)?;
        let agents = ProjectAgents::read(root)?;
        let triggers = ProjectTriggers::read(root, &agents)?;
        let mut project = Self::with(root, settings, workflows, options)?;
        project.triggers = Arc::new(triggers);
        project.flows = Arc::new(ProjectFlows::read(root)?);
        for make in &options.providers {
            project.steady = project.steady.with_shared(make.make(root)?);
        }
        project.steady = project
            .steady
            .with(HttpTools::read(root, HttpFormat::new(&project.caller))?)
            .with(CommandTools::read(root, CommandFormat::new(project.settings.command_policy(root)))?);
        project.catalog = project.catalog_with_effects();
        project.agents = Arc::new(agents.with_canonical_ids(|id| project.canonical_id(id)));
        project.keeps_runs = true;
        for passed in project.passed_over() {
            log::warn!("{} is passed over: {}", passed.at.path.display(), passed.at.message);
        }
        for (id, like) in project.lookalikes(Reach::Local) {
            log::warn!("{}", alike(&id, &like));
        }
        Ok(project)
    }

    /// Ids of tools, and of agents, that look alike. Tools of other programs are among them where those are reached.
    #[must_use]
    pub fn lookalikes(&self, reach: Reach) -> Vec<(String, String)> {
        let tools: Vec<String> = match reach {
            Reach::Local => self.local_tools(),
            Reach::Remote => self.providers().list(reach).into_iter().flatten().collect(),
        };
        let agents: Vec<&str> = self.agents().map(|file| file.profile.id.as_str()).collect();
        let pairs = lookalikes(tools.iter().map(String::as_str)).into_iter().chain(lookalikes(agents));
        pairs.map(|(id, like)| (id.to_owned(), like.to_owned())).collect()
    }

    /// Warnings of ids in an agent's tools that look like others of these or of the project, and that were not known when the
    /// project was opened: those of other programs.
    pub(crate) fn lookalikes_of(&self, tools: &Snapshot) -> Vec<String> {
        let local = self.local_tools();
        let is_new = |id: &&str| !local.iter().any(|known| known == id);
        let offered: Vec<&str> = tools.tools().map(|tool| tool.id().as_str()).filter(is_new).collect();
        if offered.is_empty() {
            return Vec::new();
        }
        let all = local.iter().map(String::as_str).chain(offered.iter().copied());
        let pairs = lookalikes(all).into_iter().filter(|(id, _)| offered.contains(id));
        pairs.map(|(id, like)| alike(id, like)).collect()
    }

    /// The same project with its workflows, agents and tools as their files are now. Settings, models and the store stay.
    ///
    /// # Errors
    /// A file cannot be read, or two have one id. One that is broken is known as such.
    pub fn reloaded(&self) -> Result<Self, ProjectError> {
        let mut now = Self {
            steady: self.steady.reloaded()?,
            workflows: Arc::new(ProjectWorkflows::read(&self.root)?),
            ..self.clone()
        };
        now.catalog = now.catalog_with_effects();
        let agents = ProjectAgents::read(&self.root)?;
        now.triggers = Arc::new(ProjectTriggers::read(&self.root, &agents)?);
        now.agents = Arc::new(agents.with_canonical_ids(|id| now.canonical_id(id)));
        now.flows = Arc::new(ProjectFlows::read(&self.root)?);
        if let Some(flows) = last_good_flows(&now, self) {
            now.flows = Arc::new(flows);
        }
        Ok(now)
    }

    /// Context for workflow files in a folder without a project.
    ///
    /// # Errors
    /// A script that cannot be read.
    pub fn around(folder: &Path, options: &ProjectOptions) -> Result<Self, ProjectError> {
        let workflows = ProjectWorkflows::beside(folder);
        Self::with(folder, Settings::default(), workflows, options)
    }

    fn with(
        root: &Path,
        mut settings: Settings,
        workflows: ProjectWorkflows,
        options: &ProjectOptions,
    ) -> Result<Self, ProjectError> {
        for file in settings.models.values_mut().filter_map(|entry| entry.api_key_file.as_mut()) {
            *file = root.join(&*file);
        }
        let models = models_of(root, &settings, options)?;
        let policy = NetworkPolicy::public_only().allowing(settings.network.allow.iter().cloned());
        let bases = Arc::new(KnowledgeTools::new(root, &settings.kb));
        let caller = HttpCaller::builder(policy).clock(Arc::clone(&options.clock));
        let caller = caller.allowing_secrets(settings.secrets.by_host()).build();
        Ok(Self {
            workflows: Arc::new(workflows),
            agents: Arc::default(),
            catalog: Arc::new(crate::node_catalog()),
            services: services_of(&models, &caller).with(Arc::clone(&bases)),
            memory_threads: Arc::default(),
            root: root.to_owned(),
            steady: Providers::new()
                .with(SystemTools::new())
                .with_shared(Arc::clone(&bases) as Arc<dyn ToolProvider>),
            flows: Arc::default(),
            triggers: Arc::default(),
            event_signal: Arc::default(),
            callback_server: CallbackServer::default(),
            callback_signal: Arc::default(),
            handlers: options.handlers.clone(),
            caller,
            settings: Arc::new(settings),
            models,
            clock: Arc::clone(&options.clock),
            store: Arc::default(),
            mcp: Arc::default(),
            keeps_runs: false,
            options: options.clone(),
        })
    }

    /// The same project in a process that serves it, at the public address of these settings where they have one.
    #[must_use]
    pub fn served(mut self, settings: &ServerSettings) -> Self {
        let address = settings.public_url.clone();
        self.callback_server = address.map_or(CallbackServer::Private, CallbackServer::Public);
        self
    }

    /// One-time addresses of calls; `None` in a folder without a project.
    ///
    /// # Errors
    /// The store cannot be used.
    pub fn callbacks(&self) -> Result<Option<StoredCallbacks>, StoreError> {
        Ok(self.store()?.map(|store| self.callbacks_in(store)))
    }

    fn callbacks_in(&self, store: &Store) -> StoredCallbacks {
        let (server, arrived) = (self.callback_server.clone(), Arc::clone(&self.callback_signal));
        StoredCallbacks::new(store.clone(), Arc::clone(&self.clock), server, arrived)
    }

    /// Store of runs; `None` in a folder without a project.
    ///
    /// # Errors
    /// The store cannot be used.
    pub fn store(&self) -> Result<Option<&Store>, StoreError> {
        if !self.keeps_runs {
            return Ok(None);
        }
        if let Some(store) = self.store.get() {
            return Ok(Some(store));
        }
        let store = self.open_store()?;
        Ok(Some(self.store.get_or_init(|| store)))
    }

    /// Returns `true` if it was opened as a project, and is not only a folder with files.
    pub(crate) fn is_project(&self) -> bool {
        self.keeps_runs
    }

    /// The folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The models.
    #[must_use]
    pub fn models(&self) -> &Arc<ProjectModels> {
        &self.models
    }

    /// The workflows.
    #[must_use]
    pub fn workflows(&self) -> &Arc<ProjectWorkflows> {
        &self.workflows
    }

    /// Types of nodes.
    #[must_use]
    pub fn catalog(&self) -> &Arc<NodeCatalog> {
        &self.catalog
    }

    /// Services of nodes, without those that the project itself provides.
    pub(crate) fn base_services(&self) -> &Services {
        &self.services
    }

    pub(crate) fn memory_threads(&self) -> &Arc<MemoryThreads> {
        &self.memory_threads
    }

    /// The same project without `flows.json`, for what is part of the flows themselves.
    pub(crate) fn without_flows(&self) -> Self {
        Self { flows: Arc::default(), ..self.clone() }
    }

    /// Source of time.
    #[must_use]
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    pub(crate) fn project_flows(&self) -> &ProjectFlows {
        &self.flows
    }

    pub(crate) fn project_triggers(&self) -> &ProjectTriggers {
        &self.triggers
    }

    /// Waits until an event waits for an agent of the project that this process published.
    ///
    /// # Cancel safety
    /// No event is missed by dropping the future.
    pub async fn event_published(&self) {
        self.event_signal.notified().await;
    }

    pub(crate) fn handlers(&self) -> &Handlers {
        &self.handlers
    }

    pub(crate) fn mcp_slot(&self) -> &OnceLock<Arc<McpClients>> {
        &self.mcp
    }

    pub(crate) fn steady_providers(&self) -> &Providers {
        &self.steady
    }

    pub(crate) fn caller(&self) -> &HttpCaller {
        &self.caller
    }

    /// The agents in order of id.
    pub fn agents(&self) -> impl Iterator<Item = &AgentFile> {
        self.agents.all()
    }

    /// Files and links in the folders of workflows and agents that are passed over. Providers know those of other tools.
    pub fn passed_over(&self) -> impl Iterator<Item = &PassedOver> {
        self.workflows.passed().iter().chain(self.agents.passed())
    }

    /// Agent files that hold no profile.
    #[must_use]
    pub fn broken_agents(&self) -> &[FileError] {
        self.agents.broken()
    }

    /// File of an agent.
    ///
    /// # Errors
    /// The id is unknown, or its file does not hold a profile.
    pub fn agent_file(&self, id: &str) -> Result<&AgentFile, ProjectError> {
        self.agents.get(id)
    }

    /// The triggers in order of id.
    pub fn triggers(&self) -> impl Iterator<Item = &AgentTrigger> {
        self.triggers.all()
    }

    /// The trigger of an id.
    ///
    /// # Errors
    /// The id is unknown.
    pub fn trigger(&self, id: &str) -> Result<&AgentTrigger, ProjectError> {
        self.triggers.get(id)
    }

    /// Files of triggers that cannot be used.
    #[must_use]
    pub fn broken_triggers(&self) -> Vec<ProjectError> {
        self.triggers.broken().iter().cloned().map(ProjectError::Trigger).collect()
    }
}

fn alike(id: &str, like: &str) -> String {
    format!("the ids `{id}` and `{like}` look alike; rename one, so that it is not taken for the other")
}

//! Agents ready to run, and what a project gives its agents and nodes.

use std::sync::Arc;

use agent_runtime::Agent;
use llm_provider::{LlmProvider, ModelError, ModelSource, ScriptedModel};
use run_store::Store;
use tool_http::Callbacks;
use tool_registry::OwnFolders;
use tool_system::{BlobSource, EventPublisher};
use workflow_engine::Services;

use super::Project;
use crate::agents::AgentFile;
use crate::blobs::StoreBlobs;
use crate::deliberation::WorkflowDeliberator;
use crate::error::ProjectError;
use crate::events::StoredEvents;
use crate::state;

impl Project {
    /// An agent, ready to run: its model, and the tools of its inventories.
    ///
    /// # Errors
    /// An unknown agent, a deliberation workflow with problems, a model that is not set, or inventories of which no entry
    /// can be used. Else a tool that cannot be used is left out with a warning.
    pub fn agent(&self, id: &str) -> Result<Agent, ProjectError> {
        let file = match self.agent_file(id) {
            Ok(file) => file,
            Err(error) => return self.built_in_agent(id)?.ok_or(error),
        };
        let profile = file.profile.clone();
        let tools = self.tools_of(file)?;
        for warning in tools.warnings() {
            log::warn!("agent `{id}`: {warning}");
        }
        let model = model_of(self, file);
        let Some(workflow) = profile.core_deliberation_workflow_id.clone() else {
            let agent = Agent::from_profile(profile, model?, tools.clone());
            return self.equipped(agent.with_source(self.providers().follow(Arc::new(tools))));
        };
        let deliberator = WorkflowDeliberator::new(self, &workflow)?;
        // Only long conversations need a model then, and they can be shortened without one.
        let model = or_unset(model)?;
        let agent = Agent::from_profile(profile, model, tools.clone());
        let agent = agent.with_source(self.providers().follow(Arc::new(tools)));
        self.equipped(agent.with_deliberator(Arc::new(deliberator)))
    }

    /// An agent with what the project gives each of them.
    pub(crate) fn equipped(&self, agent: Agent) -> Result<Agent, ProjectError> {
        let agent = agent.with_clock(Arc::clone(&self.clock)).with(Arc::new(self.own_folders()));
        let Some(store) = self.store()? else { return Ok(agent) };
        let private = state::private(store, agent.profile());
        Ok(agent
            .with::<dyn BlobSource>(Arc::new(StoreBlobs(store.clone())))
            .with::<dyn Callbacks>(Arc::new(self.callbacks_in(store)))
            .with::<dyn EventPublisher>(Arc::new(events(self, store)))
            .with(Arc::new(state::world(store)))
            .with(Arc::new(private)))
    }

    /// Services of the built-in tools outside of a run, for calls by hand: blobs, the shared state, events, and the
    /// private state of an agent where one is named.
    ///
    /// # Errors
    /// The store cannot be used.
    pub fn tool_services(&self, agent: Option<&AgentFile>) -> Result<Services, ProjectError> {
        let services = self.stored_services(Services::new())?;
        Ok(match (agent, self.store()?) {
            (Some(file), Some(store)) => services.with(Arc::new(state::private(store, &file.profile))),
            _ => services,
        })
    }

    /// These services, with what the project keeps in their place where it keeps anything.
    pub(crate) fn stored_services(&self, services: Services) -> Result<Services, ProjectError> {
        let services = services.with(Arc::new(self.own_folders()));
        let Some(store) = self.store()? else { return Ok(services) };
        Ok(services
            .with::<dyn BlobSource>(Arc::new(StoreBlobs(store.clone())))
            .with::<dyn Callbacks>(Arc::new(self.callbacks_in(store)))
            .with::<dyn EventPublisher>(Arc::new(events(self, store)))
            .with(Arc::new(state::world(store))))
    }

    /// Folders that no message for a model names.
    #[must_use]
    pub fn own_folders(&self) -> OwnFolders {
        let root = std::path::absolute(self.root()).unwrap_or_else(|_| self.root().to_owned());
        let real = root.canonicalize().ok().filter(|real| *real != root);
        let folders = real.iter().fold(OwnFolders::default().with(&root, ""), |all, real| all.with(real, ""));
        std::env::home_dir().iter().fold(folders, |folders, home| folders.with(home, "~"))
    }
}

/// The model that an agent names, else the default one.
fn model_of(project: &Project, file: &AgentFile) -> Result<Arc<dyn LlmProvider>, ProjectError> {
    let entry = file.profile.llm.as_ref().and_then(|llm| llm.profile.as_deref());
    project.models.model(entry).map_err(|source| match source {
        source @ ModelError::Unknown { .. } => {
            ProjectError::AgentModel { agent: file.profile.id.clone(), path: file.path.clone(), source }
        }
        source => source.into(),
    })
}

/// The model, or one that cannot answer where none is set. A name without an entry is an error all the same.
fn or_unset(model: Result<Arc<dyn LlmProvider>, ProjectError>) -> Result<Arc<dyn LlmProvider>, ProjectError> {
    match model {
        Err(error) if error.code() != "unknown_model" => Ok(Arc::new(ScriptedModel::new(Vec::new()))),
        model => model,
    }
}

/// The publisher of events of the project's agents.
fn events(project: &Project, store: &Store) -> StoredEvents {
    let listeners = project.agents.all().map(|file| file.profile.clone());
    StoredEvents::new(store, listeners, &project.clock, &project.event_signal)
}

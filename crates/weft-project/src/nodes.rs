//! Services of agent nodes in a project's workflows: its tools and its conversations.

use std::collections::BTreeMap;
use std::sync::Arc;

use agent_nodes::{AgentLookupError, AgentSource, LlmNodeConfig, MemoryThreads, ThreadError, Threads};
use agent_runtime::{Agent, ApprovalMode, Exchange};
use agent_types::{ContextValues, FormerInputs};
use async_trait::async_trait;
use node_library::FilesFolder;
use run_store::{Store, UnblockedStore};
use serde_json::{Map, Value};
use tool_registry::{Changes, Tool, ToolInvoker, ToolLookupError};
use workflow_engine::{Plan, Services};
use workflow_model::{AvailableTools, FormerDefaults, Workflow, World, write_former_defaults};

use crate::error::ProjectError;
use crate::project::Project;

/// The tools of a project, for nodes.
#[derive(Debug)]
pub(crate) struct ProjectToolInvoker(pub(crate) Project);

#[async_trait]
impl ToolInvoker for ProjectToolInvoker {
    fn tool(&self, id: &str) -> Result<Tool, ToolLookupError> {
        self.0.providers().resolve(id, &self.0.services())
    }

    fn canonical(&self, id: &str) -> String {
        self.0.canonical_id(id)
    }

    fn ids(&self) -> Vec<String> {
        self.0.providers().ids()
    }
}

/// The agents of a project, for nodes.
#[derive(Debug)]
struct NodeAgents(Project);

impl AgentSource for NodeAgents {
    fn agent(&self, id: &str) -> Result<Agent, AgentLookupError> {
        self.0.agent(id).map_err(|error| AgentLookupError::new(error.code(), error.to_string()))
    }
}

/// Folder of the files that nodes read and write.
const FILES: &str = "files";

/// The key under which a message says what put it there.
const KEY: &str = "saved_by";

/// Conversations of workflows in the project's store; in a folder without a project they last as long as the process.
#[derive(Debug)]
pub(crate) struct ProjectThreads {
    pub(crate) project: Project,
    pub(crate) memory: Arc<MemoryThreads>,
}

/// Key of a workflow's thread, distinct from those of agents.
fn thread_key(thread: &str) -> String {
    format!("workflow:{thread}")
}

fn failed(error: &impl std::fmt::Display) -> ThreadError {
    ThreadError::new(error.to_string())
}

impl ProjectThreads {
    fn store(&self) -> Result<Option<&Store>, ThreadError> {
        self.project.store().map_err(|error| failed(&error))
    }
}

fn exchanges(messages: Vec<Value>) -> Vec<Exchange> {
    messages.into_iter().filter_map(|message| serde_json::from_value(message).ok()).collect()
}

#[async_trait]
impl Threads for ProjectThreads {
    async fn load(&self, thread: &str) -> Result<Vec<Exchange>, ThreadError> {
        let Some(store) = self.store()? else { return self.memory.load(thread).await };
        Ok(exchanges(
            UnblockedStore::from(store)
                .messages(&thread_key(thread))
                .await
                .map_err(|error| failed(&error))?,
        ))
    }

    async fn append(&self, thread: &str, key: &str, more: &[Exchange]) -> Result<Vec<Exchange>, ThreadError> {
        let Some(store) = self.store()? else { return self.memory.append(thread, key, more).await };
        let id = thread_key(thread);
        let mut messages = UnblockedStore::from(store).messages(&id).await.map_err(|error| failed(&error))?;
        if messages.iter().all(|message| message.get(KEY).and_then(Value::as_str) != Some(key)) {
            let more: Vec<Value> = more.iter().map(|exchange| marked(exchange, key)).collect();
            store.add_messages(&id, &more);
            UnblockedStore::from(store).flush().await.map_err(|error| failed(&error))?;
            messages.extend(more);
        }
        Ok(exchanges(messages))
    }
}

/// An exchange with what put it there.
fn marked(exchange: &Exchange, key: &str) -> Value {
    let mut value = serde_json::to_value(exchange).unwrap_or_default();
    if let Some(object) = value.as_object_mut() {
        object.insert(KEY.to_owned(), key.into());
    }
    value
}

/// Parameters of the tools that are nodes of a workflow, by the ids of the file. Those of other programs are known when
/// they are called.
fn parameters_for(project: &Project, workflow: &Workflow) -> BTreeMap<String, Value> {
    let named: Vec<&str> =
        workflow.tools_of_nodes().filter(|named| named.setting == "tool").map(|named| named.id).collect();
    if named.is_empty() {
        return BTreeMap::new();
    }
    let (providers, services) = (project.providers(), project.services());
    let is_announced =
        |id: &str| providers.owner(id).is_some_and(|owner| owner.changes() == Changes::Announced);
    let known = named.into_iter().filter(|id| !is_announced(id)).filter_map(|id| {
        let tool = providers.resolve(&project.canonical_id(id), &services).ok()?;
        Some((id.to_owned(), tool.definition().parameters.clone()))
    });
    known.collect()
}

impl Project {
    /// Services of nodes: models, the client of requests, tools, conversations.
    pub(crate) fn services(&self) -> Services {
        let memory = Arc::clone(self.memory_threads());
        let services = self.base_services().clone();
        let services = if self.is_project() {
            services.with(Arc::new(FilesFolder::new(self.root().join(FILES))))
        } else {
            services
        };
        services
            .with::<dyn ToolInvoker>(Arc::new(ProjectToolInvoker(self.clone())))
            .with::<dyn Threads>(Arc::new(ProjectThreads { project: self.clone(), memory }))
            .with::<dyn AgentSource>(Arc::new(NodeAgents(self.clone())))
    }

    /// Looks at a workflow in its world: the nodes and workflows there are, and the tools that it may name. It knows its own
    /// id, so that a workflow which embeds itself is found.
    pub fn in_world<T>(&self, id: &str, workflow: &Workflow, look: impl FnOnce(&World<'_>) -> T) -> T {
        let tools = self.tools_for(workflow);
        let models = self.models().names();
        let agents: Vec<String> = self.agents().map(|file| file.profile.id.clone()).collect();
        let bases: Vec<String> = self.settings().kb.keys().cloned().collect();
        let world = World::new(&**self.catalog(), &**self.workflows());
        let world = world.with_own_id(Some(id)).with_models(models.as_deref());
        let world = world
            .with_agents(self.is_project().then_some(&*agents))
            .with_bases(self.is_project().then_some(&*bases));
        let parameters = parameters_for(self, workflow);
        let world = world.with_parameters(&parameters);
        match &tools {
            Some(tools) => look(&world.with_tools(tools)),
            None => look(&world),
        }
    }

    /// A workflow, ready to run.
    ///
    /// # Errors
    /// Everything that keeps it from running.
    pub fn plan(&self, id: &str, workflow: &Workflow) -> Result<Plan, ProjectError> {
        Ok(self.in_world(id, workflow, |world| Plan::in_world(workflow, self.catalog(), world))?)
    }

    /// A workflow for a run that began when an input without a default had an empty value: it has its
    /// [former defaults](workflow_model::write_former_defaults), as have the workflows inside it.
    ///
    /// # Errors
    /// Everything that keeps it from running.
    pub fn plan_with_former_defaults(&self, id: &str, workflow: &Workflow) -> Result<Plan, ProjectError> {
        let mut workflow = workflow.clone();
        write_former_defaults(&mut workflow);
        let plan = self.in_world(id, &workflow, |world| {
            let workflows = FormerDefaults(world.workflows);
            Plan::in_world(&workflow, self.catalog(), &World { workflows: &workflows, ..*world })
        });
        Ok(plan?)
    }

    /// Ids that `availableTools` of a workflow may name; `None` in a folder without a project, where they are unknown.
    fn tools_for(&self, workflow: &Workflow) -> Option<Vec<String>> {
        self.is_project().then(|| {
            let nodes = self.catalog().definitions().map(|node| node.node_type.as_str());
            let nodes = nodes.flat_map(|node| [node.to_owned(), format!("node:{node}")]);
            // Tools that other programs announce are known once those are asked.
            let providers = self.providers();
            let lists = workflow.available_tools.iter().flat_map(AvailableTools::lists);
            let listed = lists.flat_map(|(_, ids)| ids).map(String::as_str);
            let written = listed.chain(workflow.tools_of_nodes().map(|named| named.id));
            let mut known: Vec<String> = providers.ids().into_iter().chain(nodes).collect();
            let is_known = |id: &&str| {
                let owner = providers.owner(id);
                owner.is_some_and(|owner| owner.changes() == Changes::Announced)
                    || known.contains(&self.canonical_id(id))
            };
            let named: Vec<String> = written.filter(is_known).map(str::to_owned).collect();
            known.extend(named);
            known
        })
    }

    /// The same for a run of a workflow by itself: with values that no model sees or sets, with what the calls of its
    /// nodes work on, and with the answer to calls that require approval. `former` has the absent inputs of workflow tools
    /// as earlier versions had them.
    ///
    /// # Errors
    /// The store cannot be used.
    pub fn workflow_services(
        &self,
        values: Map<String, Value>,
        approval: ApprovalMode,
        former: Option<FormerInputs>,
    ) -> Result<Services, ProjectError> {
        let values = Arc::new(values);
        let mut services = self.stored_services(LlmNodeConfig::in_memory().services)?;
        if let Some(former) = former {
            services = services.with(Arc::new(former));
        }
        let surroundings = LlmNodeConfig { services, values: Arc::clone(&values), approval };
        Ok(self.services().with(Arc::new(ContextValues(values))).with(Arc::new(surroundings)))
    }
}

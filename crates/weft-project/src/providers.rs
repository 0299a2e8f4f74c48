//! The tools of a project: a list of providers.

use std::path::PathBuf;
use std::sync::Arc;

use executors_flow_system::FlowTools;
use mcp_bridge::{McpClients, McpSettings, McpTools, MemoryPins, PinStore};
use tool_registry::{BrokenTool, Providers, Reach, Tool};
use tool_workflow::{NodeTools, WorkflowTools};
use workflow_engine::{NodeCatalog, Services};

use crate::error::ProjectError;
use crate::flows::ProjectFlowTools;
use crate::project::Project;

impl Project {
    /// The providers of the project's tools. The first that has a tool of an id counts.
    #[must_use]
    pub fn providers(&self) -> Providers {
        self.own_providers().with(FlowTools::new(ProjectFlowTools(self.clone())))
    }

    /// The providers without that of `flows.json`.
    pub(crate) fn own_providers(&self) -> Providers {
        let servers = if self.settings().mcp.is_empty() {
            let pins: Arc<dyn PinStore> = Arc::new(MemoryPins::default());
            Ok(McpClients::new(&self.settings().mcp, self.root(), self.clock(), &pins))
        } else {
            self.mcp().cloned().map_err(BrokenTool::from)
        };
        self.file_providers().with(McpTools::new(servers))
    }

    /// The providers that need no store.
    fn file_providers(&self) -> Providers {
        let (workflows, catalog) = (Arc::clone(self.workflows()), Arc::clone(self.catalog()));
        self.steady_providers()
            .clone()
            .with(WorkflowTools::new(workflows, Arc::clone(&catalog)))
            .with(NodeTools::new(catalog))
    }

    /// The types of nodes, of which `core:Tool` has the effect of the tool that it names: that of a file, a node or of weft
    /// itself. A workflow may name itself, and another program is not asked: these are effects.
    pub(crate) fn catalog_with_effects(&self) -> Arc<NodeCatalog> {
        let mut catalog = crate::node_catalog();
        let tools = self.steady_providers().clone().with(NodeTools::new(Arc::new(catalog.clone())));
        let effect = move |id: &str| {
            let tool = tools.resolve(&tools.canonical(id), &Services::new()).ok()?;
            Some(tool.definition().annotations.effect)
        };
        agent_nodes::register_tool_effects(&mut catalog, Box::new(effect));
        Arc::new(catalog)
    }

    /// Ids of the tools that are known without a store or another program.
    pub(crate) fn local_tools(&self) -> Vec<String> {
        self.file_providers().list(Reach::Local).into_iter().flatten().collect()
    }

    /// Canonical form of a tool's id, or of a wildcard, as a file or a user writes it.
    #[must_use]
    pub fn canonical_id(&self, id: &str) -> String {
        // Other programs and flows have no short ids.
        self.file_providers().canonical(id)
    }

    /// Resolves the tool of a canonical id.
    ///
    /// # Errors
    /// The id is unknown (the error holds a suggestion), or the tool cannot be used.
    pub fn tool(&self, id: &str) -> Result<Tool, ProjectError> {
        Ok(self.providers().resolve(id, &self.services())?)
    }

    /// All tools, and the faults of those that cannot be used.
    #[must_use]
    pub fn tools(&self, reach: Reach) -> Vec<Result<Tool, ProjectError>> {
        let (providers, services) = (self.providers(), self.services());
        let listed = providers.list(reach).into_iter();
        listed.map(|id| Ok(providers.resolve(&id?, &services)?)).collect()
    }

    /// Files and folders whose changes change the project.
    pub(crate) fn watched(&self) -> Vec<PathBuf> {
        let mut watched = self.providers().watched();
        watched.push(self.root().join("agents"));
        watched
    }

    /// Values that no event and no log may show: those that tools name, and those that servers are given.
    pub(crate) fn named_secrets(&self) -> Vec<String> {
        let servers = self.settings().mcp.values().flat_map(McpSettings::secrets);
        // What the store masks is known before it is opened.
        self.file_providers()
            .with(FlowTools::new(ProjectFlowTools(self.clone())))
            .secrets()
            .into_iter()
            .chain(servers)
            .chain(self.project_triggers().secrets())
            .collect()
    }
}

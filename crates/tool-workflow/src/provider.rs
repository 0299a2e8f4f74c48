//! Workflows and nodes as providers of tools.

use std::fmt;
use std::sync::Arc;

use agent_types::Services;
use tool_registry::{BrokenTool, Changes, Reach, Resolution, ToolKind, ToolProvider};
use workflow_engine::NodeCatalog;
use workflow_model::NodeDefinition;

use crate::library::WorkflowLibrary;
use crate::node::{NODE, node_tool};
use crate::workflow::{WORKFLOW, WorkflowRuntime, WorkflowToolError, workflow_tool};

/// Provider of the workflows of a library, `workflow:…`.
#[derive(Debug)]
pub struct WorkflowTools<L> {
    library: Arc<L>,
    catalog: Arc<NodeCatalog>,
}

impl<L: WorkflowLibrary> WorkflowTools<L> {
    /// The workflows of a library, run with these types of nodes.
    #[must_use]
    pub fn new(library: Arc<L>, catalog: Arc<NodeCatalog>) -> Self {
        Self { library, catalog }
    }
}

fn runtime(catalog: &Arc<NodeCatalog>, services: &Services) -> WorkflowRuntime {
    WorkflowRuntime { catalog: Arc::clone(catalog), services: services.clone() }
}

fn broken(id: &str, error: &WorkflowToolError) -> BrokenTool {
    let (kind, name) = id.split_once(':').unwrap_or((WORKFLOW.as_str(), id));
    BrokenTool::new("bad_workflow_tool", format!("{kind} `{name}` cannot be used as a tool: {error}"))
        .with_id(id)
        .with_help(format!("see `weft workflow check {name}`"))
}

impl<L: WorkflowLibrary> ToolProvider for WorkflowTools<L> {
    fn kind(&self) -> ToolKind {
        WORKFLOW
    }

    fn namespaces(&self) -> &[&'static str] {
        &["workflow"]
    }

    fn list(&self, _: Reach) -> Vec<Result<String, BrokenTool>> {
        self.library.workflow_ids().into_iter().map(|id| Ok(format!("workflow:{id}"))).collect()
    }

    fn resolve(&self, id: &str, services: &Services) -> Resolution {
        let Some(name) = id.strip_prefix("workflow:") else { return Resolution::NotMine };
        let workflow = match self.library.load(name) {
            None => return Resolution::NotMine,
            Some(Err(broken)) => return Resolution::Broken(Box::new(broken)),
            Some(Ok(workflow)) => workflow,
        };
        let made = workflow_tool(name, &workflow, &*self.library, &runtime(&self.catalog, services));
        made.map_err(|error| broken(id, &error)).into()
    }

    fn titled(&self, title: &str) -> Vec<String> {
        let is_titled = |id: &String| {
            self.library.workflow(id).is_some_and(|workflow| workflow.name.as_deref() == Some(title))
        };
        let ids = self.library.workflow_ids().into_iter().filter(is_titled);
        ids.map(|id| format!("workflow:{id}")).collect()
    }

    fn changes(&self) -> Changes {
        Changes::Files(self.library.folders())
    }

    fn secrets(&self) -> Vec<String> {
        self.library.secrets()
    }
}

/// Provider of single nodes, `node:…`. A node is a tool only where it is named, so the list is empty.
pub struct NodeTools(Arc<NodeCatalog>);

impl NodeTools {
    /// The nodes of these types.
    #[must_use]
    pub fn new(catalog: Arc<NodeCatalog>) -> Self {
        Self(catalog)
    }
}

impl fmt::Debug for NodeTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeTools").finish_non_exhaustive()
    }
}

impl ToolProvider for NodeTools {
    fn kind(&self) -> ToolKind {
        NODE
    }

    fn namespaces(&self) -> &[&'static str] {
        &["node"]
    }

    fn list(&self, _: Reach) -> Vec<Result<String, BrokenTool>> {
        Vec::new()
    }

    fn resolve(&self, id: &str, services: &Services) -> Resolution {
        let named = id.strip_prefix("node:").filter(|name| self.0.get(name).is_some());
        let Some(name) = named else { return Resolution::NotMine };
        let made = node_tool(name, &runtime(&self.0, services));
        made.map_err(|error| broken(id, &error)).into()
    }

    fn suggestions(&self) -> Vec<String> {
        self.0.definitions().map(|node| format!("node:{}", node.node_type)).collect()
    }

    fn canonical(&self, id: &str) -> Option<String> {
        // A type is short for its tool. One that is misspelt is a node of its package all the same, for the suggestion.
        let package = id.split_inclusive(':').next().filter(|package| package.ends_with(':'))?;
        let is_package = self.0.definitions().any(|node| node.node_type.starts_with(package));
        is_package.then(|| format!("node:{id}"))
    }

    fn expand(&self, entry: &str) -> Option<Vec<Result<String, BrokenTool>>> {
        let beginning = entry.strip_prefix("node:")?.strip_suffix('*')?;
        // What needs settings is a tool only with them.
        let needs_none = |node: &&NodeDefinition| {
            node.config.values().all(|setting| !setting.required || setting.default.is_some())
        };
        let nodes = self.0.definitions().filter(|node| node.node_type.starts_with(beginning));
        Some(nodes.filter(needs_none).map(|node| Ok(format!("node:{}", node.node_type))).collect())
    }

    fn changes(&self) -> Changes {
        // A node may call other tools: it is resolved anew with them.
        Changes::Files(Vec::new())
    }
}

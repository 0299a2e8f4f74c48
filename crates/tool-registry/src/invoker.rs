//! Tools for nodes of workflows, which never hold the registry.

use std::fmt;

use async_trait::async_trait;
use serde_json::{Map, Value};

use crate::context::ToolContext;
use crate::invoke::{CallEnd, CallOutcome};
use crate::output::{ToolError, ToolErrorKind};
use crate::own_folders::OwnFolders;
use crate::provider::BrokenTool;
use crate::registry::{Registry, Snapshot, Unresolved};
use crate::tool::Tool;

/// Reason for which a tool cannot be resolved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ToolLookupError {
    /// No tool has this id.
    #[error("{}{}", .0, .0.near.as_ref().map(|near| format!("; did you mean `{near}`?")).unwrap_or_default())]
    Unknown(Unresolved),
    /// There is one, and it cannot be used.
    #[error(transparent)]
    Broken(Box<BrokenTool>),
}

impl ToolLookupError {
    /// Stable code for logs, tests and the wire.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Unknown(unresolved) => unresolved.code(),
            Self::Broken(broken) => broken.code,
        }
    }
}

/// Finds tools and calls them. Nodes take it from the services of their run, as `dyn ToolInvoker`.
///
/// ```
/// use std::sync::Arc;
/// use tool_registry::{Services, Snapshot, Tool, ToolInvoker};
/// # use schemars::JsonSchema;
/// # use serde::Deserialize;
/// # #[derive(Deserialize, JsonSchema)]
/// # struct None {}
/// let tools = Snapshot::new([Tool::func("now", "Returns the time.", |_: None, _| async { "noon" })?])?;
/// let services = Services::new().with::<dyn ToolInvoker>(Arc::new(tools));
/// let invoker = services.get::<dyn ToolInvoker>().unwrap();
/// assert_eq!(invoker.tool("nov").unwrap_err().to_string(), "unknown tool `nov`; did you mean `now`?");
/// # Ok::<(), tool_registry::RegistryError>(())
/// ```
#[async_trait]
pub trait ToolInvoker: Send + Sync + fmt::Debug {
    /// Resolves the tool of a canonical id.
    ///
    /// # Errors
    /// The id is unknown (the error holds a suggestion), or the tool cannot be used.
    fn tool(&self, id: &str) -> Result<Tool, ToolLookupError>;

    /// Canonical form of an id or a wildcard as a file or a model writes it.
    fn canonical(&self, id: &str) -> String {
        id.to_owned()
    }

    /// The ids of all tools.
    fn ids(&self) -> Vec<String>;

    /// Runs one call with its limits; an id that no tool has is an end of the call too.
    /// The arguments must fit the tool's schema.
    ///
    /// # Cancel safety
    /// Dropping the future drops the call.
    async fn invoke(&self, id: &str, arguments: Map<String, Value>, cx: ToolContext) -> CallOutcome {
        match self.tool(id) {
            Ok(tool) => tool.invoke(arguments, cx).await,
            Err(error) => {
                let error = ToolError::new(ToolErrorKind::Refused, error.to_string()).with_code(error.code());
                let error = cx.services.get::<OwnFolders>().unwrap_or_default().in_error(error);
                CallOutcome { end: CallEnd::Failed(error), took: std::time::Duration::ZERO }
            }
        }
    }
}

impl ToolInvoker for Snapshot {
    fn tool(&self, id: &str) -> Result<Tool, ToolLookupError> {
        self.get(id).cloned().ok_or_else(|| ToolLookupError::Unknown(self.unresolved(id)))
    }

    fn ids(&self) -> Vec<String> {
        self.tools().map(|tool| tool.id().to_string()).collect()
    }
}

impl ToolInvoker for Registry {
    fn tool(&self, id: &str) -> Result<Tool, ToolLookupError> {
        self.snapshot().tool(id)
    }

    fn ids(&self) -> Vec<String> {
        self.snapshot().ids()
    }
}

/// The call that a workflow runs in, among the services of its nodes.
#[derive(Debug, Clone)]
pub struct EnclosingCall(pub ToolContext);

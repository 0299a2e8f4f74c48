//! The port for kinds of tools: a provider knows the tools of one kind, and a list of providers is what a project offers.

mod broken;
mod file_tools;
mod list;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use agent_types::Services;

use crate::files::PassedOver;
use crate::kind::ToolKind;
use crate::registry::{Registry, ToolSource};
use crate::tool::Tool;

pub use broken::{BrokenTool, Fault, FilePlace};
pub use file_tools::{FileTools, ToolFormat};
pub use list::Providers;

/// Result of asking a provider for the tool of an id.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Resolution {
    /// The tool.
    Found(Tool),
    /// The provider has no tool of that id.
    NotMine,
    /// The provider has such a tool, and it cannot be used.
    Broken(Box<BrokenTool>),
}

impl<E: Into<BrokenTool>> From<Result<Tool, E>> for Resolution {
    fn from(made: Result<Tool, E>) -> Self {
        match made {
            Ok(tool) => Self::Found(tool),
            Err(error) => Self::Broken(Box::new(error.into())),
        }
    }
}

/// Extent of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Tools that are known in this process.
    Local,
    /// Other programs are asked too, which takes time.
    Remote,
}

/// Changes of a provider's tools while a process runs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Changes {
    /// They do not: a tool that was resolved stays as it is.
    Never,
    /// With files, in these folders or at these paths: after a change they are resolved anew.
    Files(Vec<PathBuf>),
    /// Whenever another program says so; see [`ToolProvider::follow`].
    Announced,
}

/// The tools of one kind.
///
/// A provider is asked whenever tools are listed or resolved, so that the command line, agents, the page and clients of the Model
/// Context Protocol all see what it has. Its calls may read files and block; async code asks from a blocking thread.
///
/// ```
/// use agent_types::Services;
/// use tool_registry::{BrokenTool, Providers, Reach, Resolution, Tool, ToolKind, ToolProvider};
/// # use schemars::JsonSchema;
/// # use serde::Deserialize;
/// # #[derive(Deserialize, JsonSchema)]
/// # struct None {}
///
/// #[derive(Debug)]
/// struct Clocks;
///
/// impl ToolProvider for Clocks {
///     fn kind(&self) -> ToolKind {
///         const { ToolKind::own("clock") }
///     }
///     fn namespaces(&self) -> &[&'static str] {
///         &["clock"]
///     }
///     fn list(&self, _: Reach) -> Vec<Result<String, BrokenTool>> {
///         vec![Ok("clock:noon".to_owned())]
///     }
///     fn resolve(&self, id: &str, _: &Services) -> Resolution {
///         match id {
///             "clock:noon" => Resolution::from(Tool::func(id, "Returns the time of noon.", |_: None, _| async { "12:00" })),
///             _ => Resolution::NotMine,
///         }
///     }
/// }
///
/// let providers = Providers::new().with(Clocks);
/// assert!(providers.resolve("clock:noon", &Services::new()).is_ok());
/// let error = providers.resolve("clock:non", &Services::new()).unwrap_err();
/// assert_eq!(error.to_string(), "unknown tool `clock:non`; did you mean `clock:noon`?");
/// ```
pub trait ToolProvider: Send + Sync + fmt::Debug {
    /// Kind of its tools.
    fn kind(&self) -> ToolKind;

    /// Namespaces whose ids belong to this provider alone. A provider without any has tools in every namespace that is not reserved.
    fn namespaces(&self) -> &[&'static str];

    /// Ids of its tools, and those that cannot be used.
    fn list(&self, reach: Reach) -> Vec<Result<String, BrokenTool>>;

    /// The tool of an id; also asked for ids in namespaces that are not reserved. `services` are those of the project: what a tool that runs nodes gives them.
    fn resolve(&self, id: &str, services: &Services) -> Resolution;

    /// Ids that a wrong one may have meant: the listed ones, and those that are tools only where they are named.
    fn suggestions(&self) -> Vec<String> {
        self.list(Reach::Local).into_iter().flatten().collect()
    }

    /// Canonical form of an id or a wildcard that a file writes without the provider's namespace; `None` where it means no
    /// tool of this provider.
    fn canonical(&self, _id: &str) -> Option<String> {
        None
    }

    /// Ids of the tools that have this display name.
    fn titled(&self, _title: &str) -> Vec<String> {
        Vec::new()
    }

    /// Ids that an entry such as `mcp:server/*` stands for, and the faults of what it stands for and cannot be used; `None`
    /// where it is an id itself.
    fn expand(&self, _entry: &str) -> Option<Vec<Result<String, BrokenTool>>> {
        None
    }

    /// File that the tool of an id comes from.
    fn place(&self, _id: &str) -> Option<FilePlace> {
        None
    }

    /// Changes of the provider's tools.
    fn changes(&self) -> Changes {
        Changes::Never
    }

    /// The same provider as its files are now; `None` where it reads none.
    ///
    /// # Errors
    /// The files cannot be read: the provider stays as it was.
    fn reloaded(&self) -> Option<Result<Arc<dyn ToolProvider>, BrokenTool>> {
        None
    }

    /// The same tools, those of this provider as other programs announce them.
    fn follow(&self, tools: Arc<dyn ToolSource>) -> Arc<dyn ToolSource> {
        tools
    }

    /// Values that no event and no log may show.
    fn secrets(&self) -> Vec<String> {
        Vec::new()
    }

    /// Files that belong to this kind and are passed over. May read all of them.
    fn passed_over(&self) -> Vec<PassedOver> {
        Vec::new()
    }

    /// Fault of calling a tool outside of an agent's run, where a service that it needs is missing; `None` where nothing more is
    /// known than the name of the service.
    fn out_of_reach(&self, _id: &str) -> Option<BrokenTool> {
        None
    }
}

impl ToolProvider for Registry {
    fn kind(&self) -> ToolKind {
        ToolKind::NATIVE
    }

    fn namespaces(&self) -> &[&'static str] {
        &[]
    }

    fn list(&self, _: Reach) -> Vec<Result<String, BrokenTool>> {
        self.snapshot().tools().map(|tool| Ok(tool.id().to_string())).collect()
    }

    fn resolve(&self, id: &str, _: &Services) -> Resolution {
        self.snapshot().get(id).map_or(Resolution::NotMine, |tool| Resolution::Found(tool.clone()))
    }
}

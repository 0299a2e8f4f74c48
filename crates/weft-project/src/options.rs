//! Options for opening a project.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent_types::{Clock, SystemClock};
use executors_flow_system::Handlers;
use llm_provider::ModelConfig;
use tool_registry::{BrokenTool, ToolProvider};

/// Options for opening a project.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ProjectOptions {
    /// Replies, one a line, that are played in place of every model.
    pub script: Option<PathBuf>,
    /// The model that the environment names.
    pub environment: Option<ModelConfig>,
    /// Source of time.
    pub clock: Arc<dyn Clock>,
    /// Code that flows and system actions of `flows.json` name.
    pub handlers: Handlers,
    /// Kinds of tools beyond those that come with weft.
    pub providers: Vec<MakeProvider>,
}

impl Default for ProjectOptions {
    fn default() -> Self {
        Self {
            script: None,
            environment: ModelConfig::from_env(),
            clock: Arc::new(SystemClock),
            handlers: Handlers::default(),
            providers: Vec::new(),
        }
    }
}

type Make = dyn Fn(&Path) -> Result<Arc<dyn ToolProvider>, BrokenTool> + Send + Sync;

/// Makes the provider of a kind of tools for the folder of a project.
#[derive(Clone)]
pub struct MakeProvider(Arc<Make>);

impl fmt::Debug for MakeProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MakeProvider").finish_non_exhaustive()
    }
}

impl MakeProvider {
    /// A function of the project's folder; a provider that cannot be made keeps the project from being opened.
    #[must_use]
    pub fn new<P: ToolProvider + 'static>(
        make: impl Fn(&Path) -> Result<P, BrokenTool> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(move |root| Ok(Arc::new(make(root)?))))
    }

    pub(crate) fn make(&self, root: &Path) -> Result<Arc<dyn ToolProvider>, BrokenTool> {
        (self.0)(root)
    }
}

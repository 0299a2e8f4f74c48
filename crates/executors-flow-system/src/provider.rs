//! The tools that flows offer to their agent, as a provider.

use std::fmt;
use std::path::PathBuf;

use tool_registry::files::secrets_in;
use tool_registry::{BrokenTool, Changes, Reach, Resolution, Services, Tool, ToolKind, ToolProvider};

/// Source of the flows of a project, which are checked when they are first needed.
pub trait FlowSource: Send + Sync + fmt::Debug {
    /// Ids of what they offer; none where they cannot be used.
    fn ids(&self) -> Vec<String>;

    /// The tools that they offer.
    ///
    /// # Errors
    /// The file or its agent cannot be used.
    fn offered(&self) -> Result<Vec<Tool>, BrokenTool>;

    /// Their file.
    fn file(&self) -> PathBuf;
}

/// Provider of what flows offer to their agent: sub-agents, functions, knowledge.
#[derive(Debug)]
pub struct FlowTools<S>(S);

impl<S: FlowSource> FlowTools<S> {
    /// The tools of these flows.
    #[must_use]
    pub const fn new(source: S) -> Self {
        Self(source)
    }
}

impl<S: FlowSource> ToolProvider for FlowTools<S> {
    fn kind(&self) -> ToolKind {
        ToolKind::NATIVE
    }

    fn namespaces(&self) -> &[&'static str] {
        &["skill", "agent"]
    }

    fn list(&self, _: Reach) -> Vec<Result<String, BrokenTool>> {
        self.0.ids().into_iter().map(Ok).collect()
    }

    fn resolve(&self, id: &str, _: &Services) -> Resolution {
        if !self.0.ids().iter().any(|own| own == id) {
            return Resolution::NotMine;
        }
        match self.0.offered() {
            Ok(offered) => {
                let found = offered.into_iter().find(|tool| tool.id().as_str() == id);
                found.map_or(Resolution::NotMine, Resolution::Found)
            }
            Err(broken) => Resolution::Broken(Box::new(broken)),
        }
    }

    fn changes(&self) -> Changes {
        Changes::Files(vec![self.0.file()])
    }

    fn secrets(&self) -> Vec<String> {
        secrets_in(&self.0.file())
    }
}

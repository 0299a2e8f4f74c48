//! The built-in tools as a provider.

use agent_types::Services;
use tool_registry::{BrokenTool, Reach, Resolution, Tool, ToolKind, ToolProvider};

use crate::system_tools;

/// Provider of the built-in tools, `system:…`.
#[derive(Debug)]
pub struct SystemTools(Vec<Tool>);

impl SystemTools {
    /// All built-in tools.
    #[must_use]
    pub fn new() -> Self {
        // Their ids are fixed and valid.
        Self(system_tools().unwrap_or_default())
    }
}

impl Default for SystemTools {
    fn default() -> Self {
        Self::new()
    }
}

impl ToolProvider for SystemTools {
    fn kind(&self) -> ToolKind {
        ToolKind::NATIVE
    }

    fn namespaces(&self) -> &[&'static str] {
        &["system"]
    }

    fn list(&self, _: Reach) -> Vec<Result<String, BrokenTool>> {
        self.0.iter().map(|tool| Ok(tool.id().to_string())).collect()
    }

    fn resolve(&self, id: &str, _: &Services) -> Resolution {
        let found = self.0.iter().find(|tool| tool.id().as_str() == id);
        found.map_or(Resolution::NotMine, |tool| Resolution::Found(tool.clone()))
    }
}

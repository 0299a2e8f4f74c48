//! The built-in tools as a provider.

use agent_types::Services;
use tool_registry::{BrokenTool, Fault, Reach, RegistryError, Resolution, Tool, ToolKind, ToolProvider};

use crate::{events, state, system_tools, tasks};

/// Provider of the built-in tools, `system:…`. Some of them also have the names of the tool invocation protocol
/// (`ReadWorldStateTool`), and are tools under these only where they are named.
#[derive(Debug)]
pub struct SystemTools {
    listed: Vec<Tool>,
    named: Vec<Tool>,
}

impl SystemTools {
    /// All built-in tools.
    #[must_use]
    pub fn new() -> Self {
        // Their ids are fixed and valid.
        let named = state::named_private_tools().into_iter().chain(state::named_world_tools());
        let named = named.chain(events::named_tools()).flatten().collect();
        Self { listed: system_tools().unwrap_or_default(), named }
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
        self.listed.iter().map(|tool| Ok(tool.id().to_string())).collect()
    }

    fn resolve(&self, id: &str, _: &Services) -> Resolution {
        let found = self.listed.iter().chain(&self.named).find(|tool| tool.id().as_str() == id);
        found.map_or(Resolution::NotMine, |tool| Resolution::Found(tool.clone()))
    }

    fn suggestions(&self) -> Vec<String> {
        self.listed.iter().chain(&self.named).map(|tool| tool.id().to_string()).collect()
    }

    fn out_of_reach(&self, id: &str) -> Option<BrokenTool> {
        let has = |tools: &[Result<Tool, RegistryError>]| {
            tools.iter().flatten().any(|tool| tool.id().as_str() == id)
        };
        let broken = if has(&tasks::tools()) {
            let message = "tasks end with the run that started them, and a call by hand has none";
            BrokenTool::new("no_tasks", format!("`{id}`: {message}"))
                .with_help("the events of a run hold the ends of its tasks: weft runs show RUN")
        } else if has(&state::private_tools()) || has(&state::named_private_tools()) {
            BrokenTool::new("missing_agent", format!("`{id}` is about what one agent keeps"))
                .with_help("name the agent: --agent ID")
        } else {
            return None;
        };
        Some(broken.with_fault(Fault::Unknown))
    }
}

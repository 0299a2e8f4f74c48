//! Servers of the Model Context Protocol as a provider of tools.

use std::sync::Arc;

use agent_types::Services;
use tool_registry::{BrokenTool, Changes, Fault, Reach, Resolution, ToolKind, ToolProvider, ToolSource};

use super::{MCP, McpClients, McpError, NAMESPACE};

/// End of an entry that means all tools of a server: `mcp:server/*`.
const ALL: &str = "/*";

/// Provider of the tools of servers, `mcp:<server>/<tool>`. A server is reached when one of its tools is asked for, which blocks.
#[derive(Debug, Clone)]
pub struct McpTools(Result<Arc<McpClients>, BrokenTool>);

impl McpTools {
    /// The tools of these servers, or the reason why there are none.
    #[must_use]
    pub fn new(clients: Result<Arc<McpClients>, BrokenTool>) -> Self {
        Self(clients)
    }

    fn clients(&self) -> Result<&Arc<McpClients>, BrokenTool> {
        self.0.as_ref().map_err(Clone::clone)
    }
}

impl From<McpError> for BrokenTool {
    fn from(error: McpError) -> Self {
        let fault = match error {
            McpError::UnknownServer { .. } | McpError::UnknownTool { .. } => Fault::Unknown,
            McpError::Settings { .. } | McpError::BadTool { .. } => Fault::Settings,
            McpError::Start { .. } | McpError::Down { .. } => Fault::Unreachable,
        };
        Self::new(error.code(), error.to_string()).with_help(error.help()).with_fault(fault)
    }
}

impl ToolProvider for McpTools {
    fn kind(&self) -> ToolKind {
        MCP
    }

    fn namespaces(&self) -> &[&'static str] {
        &["mcp"]
    }

    fn list(&self, reach: Reach) -> Vec<Result<String, BrokenTool>> {
        if reach == Reach::Local {
            return Vec::new();
        }
        let clients = match self.clients() {
            Ok(clients) => clients,
            Err(broken) => return vec![Err(broken)],
        };
        // A server that cannot be reached does not hide the others.
        clients.names().flat_map(|server| listed(clients, server)).collect()
    }

    fn resolve(&self, id: &str, _: &Services) -> Resolution {
        if !id.starts_with(NAMESPACE) {
            return Resolution::NotMine;
        }
        self.clients().and_then(|clients| clients.tool(id).map_err(BrokenTool::from)).into()
    }

    fn expand(&self, entry: &str) -> Option<Vec<Result<String, BrokenTool>>> {
        let name = entry.strip_prefix(NAMESPACE)?;
        if name == "*" {
            return Some(self.list(Reach::Remote));
        }
        let server = name.strip_suffix(ALL)?;
        Some(match self.clients() {
            Ok(clients) => listed(clients, server),
            Err(broken) => vec![Err(broken)],
        })
    }

    fn changes(&self) -> Changes {
        Changes::Announced
    }

    fn follow(&self, tools: Arc<dyn ToolSource>) -> Arc<dyn ToolSource> {
        match &self.0 {
            Ok(clients) => clients.follow(tools),
            Err(_) => tools,
        }
    }
}

/// The tools of a server, and the faults of those that are not offered.
fn listed(clients: &McpClients, server: &str) -> Vec<Result<String, BrokenTool>> {
    let tools = match clients.tools(server) {
        Ok(tools) => tools,
        Err(error) => return vec![Err(error.into())],
    };
    let faults = clients.faults(server).unwrap_or_default();
    let good = tools.iter().map(|tool| Ok(tool.id().to_string()));
    good.chain(faults.into_iter().map(|fault| Err(fault.into()))).collect()
}

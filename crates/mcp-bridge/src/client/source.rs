//! Tools of an agent, those of servers as they are listed now.

use std::sync::{Arc, Mutex, PoisonError};

use tool_registry::{Snapshot, Tool, ToolKind, ToolSource};

use super::{McpClients, parts};

/// Tools of which some may change while an agent runs.
#[derive(Debug)]
struct FollowedTools {
    clients: Arc<McpClients>,
    base: Snapshot,
    servers: Vec<String>,
    /// The last snapshot, and the lists that it was made of.
    last: Mutex<(u64, Snapshot)>,
}

impl McpClients {
    /// The same tools, those of servers as they are listed when somebody looks: changed where the server changed them, gone where it
    /// took them away.
    #[must_use]
    pub fn follow(self: &Arc<Self>, base: Snapshot) -> Arc<dyn ToolSource> {
        let mut servers: Vec<String> = base
            .tools()
            .filter(|tool| tool.kind() == ToolKind::Mcp)
            .map(|tool| parts(tool.id().as_str()).0.to_owned())
            .collect();
        servers.dedup();
        if servers.is_empty() {
            return Arc::new(base);
        }
        servers.sort();
        servers.dedup();
        let last = Mutex::new((self.version(&servers), base.clone()));
        Arc::new(FollowedTools { clients: Arc::clone(self), base, servers, last })
    }
}

impl ToolSource for FollowedTools {
    fn snapshot(&self) -> Snapshot {
        let version = self.clients.version(&self.servers);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.0 != version {
            let now = self.base.tools().filter_map(|tool| match tool.kind() {
                ToolKind::Mcp => self.clients.listed(tool.id()),
                _ => Some(Tool::clone(tool)),
            });
            // The ids are those of the base, which differ.
            *last = (version, Snapshot::of(now).unwrap_or_else(|_| self.base.clone()));
        }
        last.1.clone()
    }
}

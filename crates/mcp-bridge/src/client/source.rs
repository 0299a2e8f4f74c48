//! Tools of an agent, those of servers as they are listed now.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use tool_registry::{Snapshot, ToolSource};

use super::{MCP, McpClients, parts};

/// Tools of which some may change while an agent runs.
#[derive(Debug)]
struct FollowedTools {
    clients: Arc<McpClients>,
    base: Arc<dyn ToolSource>,
    last: Mutex<Seen>,
}

/// Last merged snapshot, and the snapshots that it was made of.
#[derive(Debug)]
struct Seen {
    base: Snapshot,
    /// The servers of its tools.
    servers: BTreeSet<String>,
    /// Their lists.
    version: u64,
    shown: Snapshot,
}

impl McpClients {
    /// The same tools, with those of servers as they are listed at the time of the snapshot: updated where the server
    /// changed them, removed where it removed them.
    #[must_use]
    pub fn follow(self: &Arc<Self>, base: Arc<dyn ToolSource>) -> Arc<dyn ToolSource> {
        let last = Mutex::new(self.seen(base.snapshot()));
        Arc::new(FollowedTools { clients: Arc::clone(self), base, last })
    }

    fn seen(&self, base: Snapshot) -> Seen {
        let theirs = base.tools().filter(|tool| tool.kind() == MCP);
        let servers: BTreeSet<String> = theirs.map(|tool| parts(tool.id().as_str()).0.to_owned()).collect();
        // Before the tools are looked at: a list that comes meanwhile is looked at again.
        let version = self.version(&servers);
        let shown = if servers.is_empty() { base.clone() } else { self.as_listed(&base) };
        Seen { base, servers, version, shown }
    }

    /// The same tools, those of servers as they were listed last.
    fn as_listed(&self, base: &Snapshot) -> Snapshot {
        let now = base
            .tools()
            .filter_map(|tool| if tool.kind() == MCP { self.listed(tool) } else { Some(tool.clone()) });
        // The ids are those of the base, which differ.
        let now = Snapshot::new(now).unwrap_or_else(|_| base.clone());
        now.with_warnings(base.warnings().to_vec())
    }
}

impl ToolSource for FollowedTools {
    fn snapshot(&self) -> Snapshot {
        let base = self.base.snapshot();
        let mut last = self.last.lock();
        if !last.base.is_same(&base) || last.version != self.clients.version(&last.servers) {
            *last = self.clients.seen(base);
        }
        last.shown.clone()
    }
}

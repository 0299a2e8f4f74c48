//! A registry as a server.

mod call;
mod handler;
mod http;
mod log_lines;
mod message;
mod peer;
mod runner;
mod sources;
mod stdio;

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::task::TaskTracker;
use tool_registry::ToolSource;

use log_lines::Level;

pub use http::McpHttp;
pub use peer::{Elicited, McpPeer};
pub use runner::{CallRunner, ClientCall, MemoryCalls, StartedCall};
pub use sources::{
    PromptArgument, PromptInfo, PromptMessage, PromptSource, ResourceInfo, ResourceSource, ResourceTemplate,
    Speaker,
};

/// Server for MCP clients: tools, and prompts and resources where there are sources of them. Cheap to clone; each clone
/// serves a session of its own.
pub struct McpServer {
    shared: Arc<Shared>,
    session: Arc<Session>,
}

/// State that all sessions share.
#[derive(Debug)]
struct Shared {
    tools: Arc<dyn ToolSource>,
    calls: Arc<dyn CallRunner>,
    prompts: Option<Arc<dyn PromptSource>>,
    resources: Option<Arc<dyn ResourceSource>>,
    /// Changes when lists may have changed.
    changes: Option<watch::Receiver<u64>>,
    instructions: Option<String>,
}

/// State of one client.
#[derive(Debug)]
struct Session {
    /// The least log line that it wants; none before it has said so.
    level: Mutex<Option<Level>>,
    /// Resources whose changes it wants to hear of.
    subscribed: Mutex<HashSet<String>>,
    /// Background tasks of the session.
    tasks: TaskTracker,
}

impl Default for Session {
    fn default() -> Self {
        Self { level: Mutex::default(), subscribed: Mutex::default(), tasks: TaskTracker::new() }
    }
}

impl fmt::Debug for McpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpServer").field("shared", &self.shared).finish_non_exhaustive()
    }
}

impl Clone for McpServer {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), session: Arc::default() }
    }
}

impl McpServer {
    /// A server of these tools, whose calls this runner executes.
    #[must_use]
    pub fn new(tools: Arc<dyn ToolSource>, calls: Arc<dyn CallRunner>) -> Self {
        let shared =
            Shared { tools, calls, prompts: None, resources: None, changes: None, instructions: None };
        Self { shared: Arc::new(shared), session: Arc::default() }
    }

    fn changed(self, change: impl FnOnce(&mut Shared)) -> Self {
        let Shared { tools, calls, prompts, resources, changes, instructions } = &*self.shared;
        let mut shared = Shared {
            tools: Arc::clone(tools),
            calls: Arc::clone(calls),
            prompts: prompts.clone(),
            resources: resources.clone(),
            changes: changes.clone(),
            instructions: instructions.clone(),
        };
        change(&mut shared);
        Self { shared: Arc::new(shared), session: Arc::default() }
    }

    /// The same with prompts.
    #[must_use]
    pub fn with_prompts(self, prompts: Arc<dyn PromptSource>) -> Self {
        self.changed(|shared| shared.prompts = Some(prompts))
    }

    /// The same with resources.
    #[must_use]
    pub fn with_resources(self, resources: Arc<dyn ResourceSource>) -> Self {
        self.changed(|shared| shared.resources = Some(resources))
    }

    /// The same, with a notification of clients that lists may have changed whenever this value changes.
    #[must_use]
    pub fn with_changes(self, changes: watch::Receiver<u64>) -> Self {
        self.changed(|shared| shared.changes = Some(changes))
    }

    /// The same with a word to clients about how it is used.
    #[must_use]
    pub fn with_instructions(self, text: impl Into<String>) -> Self {
        self.changed(|shared| shared.instructions = Some(text.into()))
    }
}

impl Session {
    fn wants(&self, level: Level) -> bool {
        let least = self.level.lock();
        // Clients that said nothing hear what matters.
        level >= least.unwrap_or(Level::Info)
    }
}

//! Servers of others as tools.

mod call;
mod connection;
mod correlated;
mod error;
mod foreign;
mod handler;
mod in_flight;
mod listed;
mod listing;
mod post;
mod progress;
mod provider;
mod settings;
mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::fmt;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use agent_types::{Clock, nearest};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::runtime::{Handle, Runtime};
use tool_registry::{Tool, ToolKind, ToolSettings};

use call::ForeignHandler;
use connection::Connection;
use foreign::ForeignTool;
use listed::Listed;
use listing::ListFault;

pub use error::McpError;
pub use listed::{MemoryPins, PinStore};
pub use provider::McpTools;
pub use settings::{ElicitationPolicy, McpSettings};

/// Kind of tools of MCP servers.
pub const MCP: ToolKind = ToolKind::foreign("mcp");

/// Namespace of their tools.
const NAMESPACE: &str = "mcp:";

/// The servers that settings name. They are reached when they are needed, from a thread of their own.
pub struct McpClients {
    servers: BTreeMap<String, Arc<Connection>>,
    runtime: Arc<Background>,
}

/// Background runtime for connections, independent of the caller's.
#[derive(Debug)]
struct Background {
    started: OnceLock<Mutex<Option<Runtime>>>,
    /// Nothing is sent: the channel closes when the last task that holds a sender has ended.
    farewells: Mutex<Option<(SyncSender<Infallible>, Receiver<Infallible>)>>,
}

/// Longest time that the end of the process waits for the notifications of calls that were given up.
const FAREWELL: Duration = Duration::from_millis(500);

impl Default for Background {
    fn default() -> Self {
        Self { started: OnceLock::new(), farewells: Mutex::new(Some(sync_channel(1))) }
    }
}

impl fmt::Debug for McpClients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpClients").field("servers", &self.servers.keys()).finish_non_exhaustive()
    }
}

impl Background {
    /// Handle for spawning; `None` if the thread could not start or has ended.
    fn handle(&self) -> Option<Handle> {
        let started = self.started.get_or_init(|| {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .thread_name("weft-mcp")
                .enable_all()
                .build();
            Mutex::new(runtime.inspect_err(|error| log::error!("no thread for MCP servers: {error}")).ok())
        });
        let runtime = started.lock();
        runtime.as_ref().map(|runtime| runtime.handle().clone())
    }

    /// Guard of a notification, for which the end of the process waits for a moment.
    fn farewell(&self) -> Option<SyncSender<Infallible>> {
        self.farewells.lock().as_ref().map(|(sender, _)| sender.clone())
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some((sender, farewells)) = self.farewells.get_mut().take() {
            drop(sender);
            // Closed or too late, it is over.
            let _ = farewells.recv_timeout(FAREWELL);
        }
        let runtime = self.started.take().and_then(|started| {
            let mut runtime = started.lock();
            runtime.take()
        });
        // Waiting is not possible everywhere; programs that were started are ended with their connections.
        runtime.into_iter().for_each(Runtime::shutdown_background);
    }
}

impl McpClients {
    /// The servers of some settings; nothing is started yet. Programs run in `root` unless they say otherwise.
    #[must_use]
    pub fn new(
        servers: &BTreeMap<String, McpSettings>,
        root: &Path,
        clock: &Arc<dyn Clock>,
        pins: &Arc<dyn PinStore>,
    ) -> Arc<Self> {
        let servers = servers.iter().map(|(name, settings)| {
            let listed = Arc::new(Listed::new(Arc::clone(pins), settings.tools.clone()));
            let connection = Connection::new(name, settings.clone(), listed, root, Arc::clone(clock));
            (name.clone(), Arc::new(connection))
        });
        Arc::new(Self { servers: servers.collect(), runtime: Arc::default() })
    }

    /// Names of the servers.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.servers.keys().map(String::as_str)
    }

    fn server(&self, name: &str) -> Result<&Arc<Connection>, McpError> {
        self.servers.get(name).ok_or_else(|| McpError::UnknownServer {
            server: name.to_owned(),
            near: nearest(name, self.names()).map(str::to_owned),
        })
    }

    /// Reaches a server and waits until it is ready. Blocks: async code calls it from a blocking thread.
    fn reach(&self, connection: &Arc<Connection>) -> Result<(), McpError> {
        let failed = |message: &str| McpError::Start {
            server: connection.name.to_string(),
            message: message.to_owned(),
        };
        let handle = self.runtime.handle().ok_or_else(|| failed("no thread could be started"))?;
        let (sender, receiver) = sync_channel(1);
        let reached = Arc::clone(connection);
        handle.spawn(async move {
            // The caller may have stopped waiting.
            let _ = sender.send(reached.ready().await.map(|_| ()));
        });
        let patience = Duration::from_millis(connection.settings.start_timeout_ms) + Duration::from_secs(5);
        receiver.recv_timeout(patience).unwrap_or_else(|_| Err(failed("no answer")))
    }

    /// The tools of a server. Blocks until the server is ready, or has failed.
    ///
    /// # Errors
    /// The server is unknown or cannot be reached.
    pub fn tools(&self, server: &str) -> Result<Vec<Tool>, McpError> {
        let connection = self.server(server)?;
        self.reach(connection)?;
        let listed = connection.listed.tools();
        Ok(listed.iter().filter_map(|tool| self.tool_of(connection, tool).ok()).collect())
    }

    /// Faults of the entries of a server's list that are not offered. Blocks like [`McpClients::tools`].
    ///
    /// # Errors
    /// The server is unknown or cannot be reached.
    pub fn faults(&self, server: &str) -> Result<Vec<McpError>, McpError> {
        let connection = self.server(server)?;
        self.reach(connection)?;
        let (refused, listed) = (connection.listed.refused(), connection.listed.tools());
        let unusable = listed.iter().filter_map(|tool| self.tool_of(connection, tool).err());
        Ok(refused.iter().map(|fault| bad_tool(server, fault)).chain(unusable).collect())
    }

    /// The tool of an id, `mcp:server/tool`. Blocks until its server is ready, or has failed.
    ///
    /// # Errors
    /// The server or the tool is unknown, or the server cannot be reached.
    pub fn tool(&self, id: &str) -> Result<Tool, McpError> {
        let (server, name) = parts(id);
        let connection = self.server(server)?;
        self.reach(connection)?;
        let listed = connection.listed.tools();
        let found = listed.iter().find(|tool| tool.definition.id.as_str() == id);
        let names = listed.iter().map(|tool| tool.definition.id.as_str());
        let near = nearest(id, names).map(str::to_owned);
        if let Some(tool) = found {
            return self.tool_of(connection, tool);
        }
        let refused = connection.listed.refused();
        Err(match refused.iter().find(|fault| fault.tool == name) {
            Some(fault) => bad_tool(server, fault),
            None => McpError::UnknownTool { server: server.to_owned(), tool: name.to_owned(), near },
        })
    }

    /// Accepts the current descriptions of a server's tools: a change up to now no longer requires approval.
    ///
    /// # Errors
    /// The server is unknown or cannot be reached.
    pub fn trust(&self, server: &str) -> Result<(), McpError> {
        let connection = self.server(server)?;
        self.reach(connection)?;
        connection.listed.trust();
        Ok(())
    }

    /// Ends all connections and the programs that were started, and waits until it is done.
    pub async fn close(&self) {
        for connection in self.servers.values() {
            connection.close().await;
        }
    }

    fn tool_of(&self, connection: &Arc<Connection>, tool: &ForeignTool) -> Result<Tool, McpError> {
        let handler = ForeignHandler {
            connection: Arc::clone(connection),
            runtime: Arc::clone(&self.runtime),
            name: tool.name.clone(),
        };
        let made = Tool::new(tool.definition.clone(), MCP, handler).checked();
        let made = made
            .map_err(|error| bad_tool(&connection.name, &ListFault::new(&tool.name, &error.to_string())))?;
        let timeout = Duration::from_millis(connection.settings.timeout_ms);
        let parts = definition_of(&connection.settings, tool);
        Ok(made.with_settings(ToolSettings::default().with_timeout(timeout)).with_parts(parts))
    }

    /// A number that changes when the tools of these servers do.
    fn version(&self, servers: &BTreeSet<String>) -> u64 {
        servers.iter().filter_map(|name| self.servers.get(name)).map(|server| server.listed.version()).sum()
    }

    /// A tool as it was listed last; the server is not asked. Nothing where it is listed no longer.
    fn listed(&self, tool: &Tool) -> Option<Tool> {
        let connection = self.servers.get(parts(tool.id().as_str()).0)?;
        let listed = connection.listed.tools();
        let now = listed.iter().find(|now| now.definition.id == *tool.id())?;
        // How its calls are treated was said by the project, not by the server.
        Some(self.tool_of(connection, now).ok()?.with_settings(tool.settings().clone()))
    }
}

/// Parts of what a call does: its server, without values that may be secret, and what the server says of the tool.
fn definition_of(settings: &McpSettings, tool: &ForeignTool) -> [(String, Value); 2] {
    let McpSettings { command, args, env, env_from, cwd, url, headers, token_env, .. } = settings;
    let (env, headers): (Vec<&String>, Vec<&String>) = (env.keys().collect(), headers.keys().collect());
    let server = json!({"command": command, "args": args, "env": env, "env_from": env_from, "cwd": cwd, "url": url,
        "headers": headers, "token_env": token_env});
    let described = json!([tool.definition.description, tool.definition.parameters]);
    [("server".to_owned(), server), ("description".to_owned(), described)]
}

fn bad_tool(server: &str, fault: &ListFault) -> McpError {
    let (tool, message) = (fault.tool.clone(), fault.reason.clone());
    McpError::BadTool { server: server.to_owned(), tool, message }
}

/// The server and the tool that an id names.
fn parts(id: &str) -> (&str, &str) {
    let rest = id.strip_prefix(NAMESPACE).unwrap_or(id);
    rest.split_once('/').unwrap_or((rest, ""))
}

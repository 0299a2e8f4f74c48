//! What all requests share.

use std::sync::{Arc, PoisonError, RwLock};

use agent_types::Clock;
use run_store::Store;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tool_registry::ToolSource;
use weft_project::{Project, ProjectWatch};

use crate::access::Access;
use crate::live::Hubs;
use crate::mcp::McpServers;
use crate::options::ServerOptions;
use crate::problem::Problem;
use crate::runs::{Runs, Sessions};

/// The project's files.
#[derive(Debug)]
enum Files {
    /// They are looked after.
    Watched(ProjectWatch),
    /// The system tells of no changes: they are read when they are saved here.
    Alone(RwLock<Arc<Project>>),
}

/// A project that is served.
#[derive(Debug)]
pub(crate) struct App {
    files: Files,
    pub(crate) store: Store,
    pub(crate) clock: Arc<dyn Clock>,
    /// When the server began, in seconds since 1970.
    pub(crate) started: i64,
    pub(crate) options: ServerOptions,
    pub(crate) access: Access,
    pub(crate) runs: Runs,
    pub(crate) hubs: Hubs,
    /// Owner of everything that goes on beside the requests.
    pub(crate) tasks: TaskTracker,
    /// No new work is taken.
    pub(crate) closing: CancellationToken,
    /// Whatever still runs is left where it is.
    pub(crate) closed: CancellationToken,
    /// Told when the project has been read anew.
    changes: watch::Sender<u64>,
    /// What clients of the Model Context Protocol reach.
    pub(crate) mcp: McpServers,
    /// Who takes the messages of sessions.
    pub(crate) sessions: Sessions,
    /// One save at a time, so that what a save was made of is what it replaces.
    pub(crate) saving: tokio::sync::Mutex<()>,
}

impl App {
    pub(crate) fn new(
        project: Project,
        store: Store,
        options: ServerOptions,
        access: Access,
        closing: CancellationToken,
    ) -> Self {
        let clock = Arc::clone(project.clock());
        let files = match project.watch() {
            Ok(watch) => Files::Watched(watch),
            Err(error) => {
                log::warn!("changes of files are not seen: {error}");
                Files::Alone(RwLock::new(Arc::new(project)))
            }
        };
        Self {
            runs: Runs::new(options.settings.max_runs, options.settings.max_queue),
            files,
            store,
            started: clock.now().as_millis() / 1000,
            clock,
            options,
            access,
            hubs: Hubs::default(),
            mcp: McpServers::default(),
            sessions: Sessions::default(),
            changes: watch::Sender::new(0),
            tasks: TaskTracker::new(),
            closing,
            closed: CancellationToken::new(),
            saving: tokio::sync::Mutex::new(()),
        }
    }

    /// The project as its files are now.
    pub(crate) fn project(&self) -> Arc<Project> {
        match &self.files {
            Files::Watched(watch) => watch.project(),
            Files::Alone(project) => Arc::clone(&project.read().unwrap_or_else(PoisonError::into_inner)),
        }
    }

    /// The tools of an agent, which follow their files; nothing where they cannot.
    pub(crate) fn live_tools(&self, agent: &str) -> Option<Arc<dyn ToolSource>> {
        let Files::Watched(watch) = &self.files else { return None };
        // The built-in agent has no file to follow.
        let tools = watch.tools_of(agent).ok()?;
        Some(tools)
    }

    /// Does work that waits for disks or other programs, away from the requests.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let done = tokio::task::spawn_blocking(work).await;
        done.unwrap_or_else(|error| Err(Problem::internal(&format!("a request failed: {error}"))))
    }

    /// The same with the project.
    pub(crate) async fn with_project<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Arc<Project>) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let project = self.project();
        self.blocking(move || work(&project)).await
    }

    /// Reads the project's files anew. Where they cannot be read, the project stays as it was.
    pub(crate) fn reload(&self) -> Result<(), Problem> {
        match &self.files {
            Files::Watched(watch) => watch.reload_now()?,
            Files::Alone(project) => {
                let now = Arc::new(self.project().reloaded()?);
                *project.write().unwrap_or_else(PoisonError::into_inner) = now;
            }
        }
        self.changes.send_modify(|changes| *changes += 1);
        Ok(())
    }

    /// Changes with the project's files.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Tells when the files have been read anew.
    pub(crate) async fn tell_changes(self: Arc<Self>) {
        let Files::Watched(watch) = &self.files else { return };
        let mut seen = watch.reloads();
        loop {
            tokio::select! {
                () = self.closing.cancelled() => return,
                () = self.clock.sleep(self.options.look) => {}
            }
            let now = watch.reloads();
            if now != seen {
                seen = now;
                self.changes.send_modify(|changes| *changes += 1);
            }
        }
    }
}

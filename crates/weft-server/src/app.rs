//! State that all requests share.

use std::sync::Arc;

use agent_types::Clock;
use run_store::Store;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use weft_project::Project;
use weft_runs::{LocalRuns, ProjectFiles, RunsOptions, Scripts};

use crate::access::Access;
use crate::live::Hubs;
use crate::mcp::McpServers;
use crate::options::ServerOptions;
use crate::problem::Problem;
use crate::runs_runtime::RunsRuntime;

/// A project that is served.
#[derive(Debug)]
pub(crate) struct App {
    files: Arc<ProjectFiles>,
    pub(crate) store: Store,
    pub(crate) clock: Arc<dyn Clock>,
    /// Start of the server, in seconds since 1970.
    pub(crate) started: i64,
    pub(crate) options: ServerOptions,
    pub(crate) access: Access,
    pub(crate) runs: LocalRuns,
    /// Threads of the runs, apart from those of the requests.
    #[expect(dead_code, reason = "it ends when it is dropped")]
    runtime: RunsRuntime,
    pub(crate) hubs: Hubs,
    /// Owner of the tasks that run beside the requests.
    pub(crate) tasks: TaskTracker,
    /// No new work is taken.
    pub(crate) closing: CancellationToken,
    /// Whatever still runs is left where it is.
    pub(crate) closed: CancellationToken,
    /// Servers for clients of the Model Context Protocol.
    pub(crate) mcp: McpServers,
    pub(crate) locks: Locks,
}

/// Work of which one is done at a time.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    /// A save, so that what a save was made of is what it replaces.
    pub(crate) saving: tokio::sync::Mutex<()>,
}

impl App {
    pub(crate) fn new(
        project: Project,
        store: Store,
        options: ServerOptions,
        access: Access,
        closing: CancellationToken,
        runtime: RunsRuntime,
    ) -> Self {
        let clock = Arc::clone(project.clock());
        let (files, fault) = ProjectFiles::watched(project);
        if let Some(error) = fault {
            log::warn!("changes of files are not seen: {error}");
        }
        let (files, closed) = (Arc::new(files), CancellationToken::new());
        let runs = RunsOptions {
            max_runs: options.settings.max_runs,
            max_queue: options.settings.max_queue,
            scripts: Scripts::OfRun,
            continues: true,
            closing: closing.clone(),
            closed: closed.clone(),
            runtime: Some(runtime.handle()),
        };
        Self {
            runtime,
            runs: LocalRuns::new(Arc::clone(&files), runs),
            files,
            store,
            started: clock.now().as_millis() / 1000,
            clock,
            options,
            access,
            hubs: Hubs::default(),
            mcp: McpServers::default(),
            tasks: TaskTracker::new(),
            closing,
            closed,
            locks: Locks::default(),
        }
    }

    /// The project as its files are now.
    pub(crate) fn project(&self) -> Arc<Project> {
        self.files.project()
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

    /// Reads the project's files again. Where they cannot be read, the project stays as it was.
    pub(crate) fn reload(&self) -> Result<(), Problem> {
        Ok(self.files.reload()?)
    }

    /// Changes with the project's files.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.files.changes()
    }

    /// Notifies of changes of files until the server ends.
    pub(crate) async fn notify_changes(self: Arc<Self>) {
        self.files.notify_changes(self.options.look, self.closing.clone()).await;
    }
}

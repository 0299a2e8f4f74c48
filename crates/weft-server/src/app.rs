//! What all requests share.

use std::sync::{Arc, PoisonError, RwLock};

use agent_types::Clock;
use run_store::Store;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use weft_project::Project;

use crate::access::Access;
use crate::live::Hubs;
use crate::options::ServerOptions;
use crate::problem::Problem;
use crate::runs::{Runs, Sessions};

/// A project that is served.
#[derive(Debug)]
pub(crate) struct App {
    project: RwLock<Arc<Project>>,
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
    changed: tokio::sync::Notify,
    /// Who takes the messages of sessions.
    pub(crate) sessions: Sessions,
    /// One save at a time, so that what a save was made of is what it replaces.
    pub(crate) saving: tokio::sync::Mutex<()>,
}

impl App {
    pub(crate) fn new(
        project: Arc<Project>,
        store: Store,
        options: ServerOptions,
        access: Access,
        closing: CancellationToken,
    ) -> Self {
        let clock = Arc::clone(project.clock());
        Self {
            runs: Runs::new(options.settings.max_runs, options.settings.max_queue),
            project: RwLock::new(project),
            store,
            started: clock.now().as_millis() / 1000,
            clock,
            options,
            access,
            hubs: Hubs::default(),
            sessions: Sessions::default(),
            changed: tokio::sync::Notify::new(),
            tasks: TaskTracker::new(),
            closing,
            closed: CancellationToken::new(),
            saving: tokio::sync::Mutex::new(()),
        }
    }

    /// The project as its files were when they were last looked at.
    pub(crate) fn project(&self) -> Arc<Project> {
        Arc::clone(&self.project.read().unwrap_or_else(PoisonError::into_inner))
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

    /// Reads the project's files anew. Where they do not fit, the project stays as it was.
    pub(crate) fn reload(&self) {
        match self.project().reload() {
            Ok(now) => {
                *self.project.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(now);
                self.changed.notify_waiters();
            }
            Err(error) => log::warn!("the project's files do not fit, it stays as it was: {error}"),
        }
    }

    /// Resolves when the project has been read anew.
    pub(crate) async fn files_changed(&self) {
        self.changed.notified().await;
    }

    /// Looks at the files of the project again and again.
    pub(crate) async fn watch_files(self: Arc<Self>) {
        // Files that do not fit are told once.
        let mut tried = None;
        loop {
            tokio::select! {
                () = self.closing.cancelled() => return,
                () = self.clock.sleep(self.options.look) => {}
            }
            let app = Arc::clone(&self);
            let looked = tokio::task::spawn_blocking(move || {
                let changed = app.project().changed_files();
                if changed.is_some() && changed != tried {
                    app.reload();
                }
                changed
            });
            tried = looked.await.unwrap_or(tried);
        }
    }
}

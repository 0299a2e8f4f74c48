//! The project whose runs are driven, as its files are now.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tool_registry::ToolSource;
use weft_project::{Project, ProjectError, ProjectWatch};

/// A project as its files are now.
#[derive(Debug)]
pub struct ProjectFiles {
    files: Files,
    changes: watch::Sender<u64>,
}

#[derive(Debug)]
enum Files {
    /// Changes of files are followed.
    Watched(ProjectWatch),
    /// Files are read when [`ProjectFiles::reload`] asks for it.
    Fixed(RwLock<Arc<Project>>),
}

impl ProjectFiles {
    /// A project whose files are followed; where the system reports no changes, with the reason why it is not.
    #[must_use]
    pub fn watched(project: Project) -> (Self, Option<ProjectError>) {
        match project.watch() {
            Ok(watch) => (Self::new(Files::Watched(watch)), None),
            Err(error) => (Self::fixed(project), Some(error)),
        }
    }

    /// A project as it was read.
    #[must_use]
    pub fn fixed(project: Project) -> Self {
        Self::new(Files::Fixed(RwLock::new(Arc::new(project))))
    }

    fn new(files: Files) -> Self {
        Self { files, changes: watch::Sender::new(0) }
    }

    /// The project as its files are now.
    #[must_use]
    pub fn project(&self) -> Arc<Project> {
        match &self.files {
            Files::Watched(watch) => watch.project(),
            Files::Fixed(project) => Arc::clone(&project.read()),
        }
    }

    /// The tools of an agent that follow their files; none where they cannot.
    #[must_use]
    pub fn live_tools(&self, agent: &str) -> Option<Arc<dyn ToolSource>> {
        let Files::Watched(watch) = &self.files else { return None };
        // The built-in agent has no file to follow.
        let tools = watch.tools_of(agent).ok()?;
        Some(tools)
    }

    /// Reads the project's files. Where they cannot be read, the project stays as it was.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn reload(&self) -> Result<(), ProjectError> {
        match &self.files {
            Files::Watched(watch) => watch.reload_now()?,
            Files::Fixed(project) => {
                let now = Arc::new(self.project().reloaded()?);
                *project.write() = now;
            }
        }
        self.changes.send_modify(|changes| *changes += 1);
        Ok(())
    }

    /// A receiver that changes with the project's files.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Notifies the receivers of [`changes`](Self::changes) until it is cancelled, looking so often.
    pub async fn notify_changes(&self, look: Duration, until: CancellationToken) {
        let Files::Watched(watch) = &self.files else { return };
        let clock = Arc::clone(watch.project().clock());
        let mut seen = watch.reloads();
        loop {
            tokio::select! {
                () = until.cancelled() => return,
                () = clock.sleep(look) => {}
            }
            let now = watch.reloads();
            if now != seen {
                seen = now;
                self.changes.send_modify(|changes| *changes += 1);
            }
        }
    }
}

//! Changes of the files that triggers name.

use std::path::PathBuf;

use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc::{Receiver, channel};

use crate::error::ProjectError;
use crate::project::Project;
use crate::watch::is_change;

/// Changes that wait to be read at most; further ones are dropped.
const MAX_WAITING: usize = 1024;

/// Changes of the files of a project that its triggers name.
#[derive(Debug)]
pub struct PathWatch {
    notifier: RecommendedWatcher,
    root: PathBuf,
    changed: Receiver<PathBuf>,
}

impl Project {
    /// Follows the files that triggers name; `None` where they name none.
    ///
    /// # Errors
    /// The system does not report changes in the project's folder.
    pub fn watch_triggers(&self) -> Result<Option<PathWatch>, ProjectError> {
        if self.triggers().all(|entry| entry.trigger.kind.folders().is_empty()) {
            return Ok(None);
        }
        // The system names files by their real paths.
        let root = self.root().canonicalize().unwrap_or_else(|_| self.root().to_owned());
        let unwatchable = |error: &notify::Error| ProjectError::Unwatchable {
            path: self.root().to_owned(),
            message: error.to_string(),
        };
        let (send, changed) = channel(MAX_WAITING);
        let notifier = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            let Ok(event) = event else { return };
            if is_change(event.kind) && !matches!(event.kind, EventKind::Remove(_)) {
                for path in event.paths {
                    // What does not fit comes with the next change.
                    let _ = send.try_send(path);
                }
            }
        });
        let mut notifier = notifier.map_err(|error| unwatchable(&error))?;
        let watched = notifier.watch(&root, RecursiveMode::NonRecursive);
        watched.map_err(|error| unwatchable(&error))?;
        let mut watch = PathWatch { notifier, root, changed };
        watch.refresh(self);
        Ok(Some(watch))
    }
}

impl PathWatch {
    /// Follows folders that were made meanwhile.
    pub fn refresh(&mut self, project: &Project) {
        for folder in project.triggers().flat_map(|entry| entry.trigger.kind.folders()) {
            let path = self.root.join(&folder);
            if !folder.is_empty() && path.is_dir() {
                // One that goes away meanwhile is no loss.
                let _ = self.notifier.watch(&path, RecursiveMode::Recursive);
            }
        }
    }

    /// The next file that changed, by its path from the project's folder.
    ///
    /// # Cancel safety
    /// No change is lost by dropping the future.
    pub async fn next_file(&mut self) -> Option<String> {
        loop {
            let path = self.changed.recv().await?;
            if let Some(path) = self.relative(&path) {
                return Some(path);
            }
        }
    }

    /// The files that changed up to now.
    pub fn ready(&mut self) -> Vec<String> {
        let paths: Vec<PathBuf> = std::iter::from_fn(|| self.changed.try_recv().ok()).collect();
        paths.iter().filter_map(|path| self.relative(path)).collect()
    }

    fn relative(&self, path: &std::path::Path) -> Option<String> {
        let parts: Option<Vec<&str>> =
            path.strip_prefix(&self.root).ok()?.iter().map(|part| part.to_str()).collect();
        Some(parts?.join("/"))
    }
}

//! Changes of the files that triggers name.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use agent_triggers::TriggerKind;
use notify::event::ModifyKind;
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
    /// Folders that are followed with all below them.
    followed: BTreeSet<PathBuf>,
    /// Set when something was removed or renamed: a folder of the same name is then another one.
    is_removed: Arc<AtomicBool>,
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
        let is_removed = Arc::new(AtomicBool::new(false));
        let removed = Arc::clone(&is_removed);
        let notifier = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            let Ok(event) = event else { return };
            if matches!(event.kind, EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_))) {
                removed.store(true, Ordering::Relaxed);
            }
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
        let mut watch = PathWatch { notifier, root, changed, followed: BTreeSet::new(), is_removed };
        watch.refresh(self);
        Ok(Some(watch))
    }
}

impl PathWatch {
    /// Follows folders that were made meanwhile. Blocks while it reads them.
    pub fn refresh(&mut self, project: &Project) {
        if self.is_removed.swap(false, Ordering::Relaxed) {
            self.followed.clear();
        }
        for path in wanted(&self.root, project) {
            // One that goes away meanwhile is no loss.
            if !self.followed.contains(&path) && self.notifier.watch(&path, RecursiveMode::Recursive).is_ok()
            {
                self.followed.insert(path);
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

    fn relative(&self, path: &Path) -> Option<String> {
        let parts: Option<Vec<&str>> =
            path.strip_prefix(&self.root).ok()?.iter().map(|part| part.to_str()).collect();
        Some(parts?.join("/"))
    }
}

/// Folders that triggers name.
fn wanted(root: &Path, project: &Project) -> BTreeSet<PathBuf> {
    let kinds = || project.triggers().map(|entry| &entry.trigger.kind);
    let mut all: BTreeSet<PathBuf> = kinds()
        .flat_map(TriggerKind::folders)
        .filter(|folder| !folder.is_empty())
        .map(|folder| root.join(folder))
        .filter(|path| path.is_dir())
        .collect();
    if kinds().any(TriggerKind::is_of_any_folder) {
        all.extend(visible_folders(root));
    }
    all
}

/// The folders of a folder that no pattern with a wildcard passes over.
fn visible_folders(root: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir(root).into_iter().flatten().flatten();
    let is_visible = |entry: &std::fs::DirEntry| {
        let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        !is_hidden && entry.file_type().is_ok_and(|kind| kind.is_dir())
    };
    entries.filter(is_visible).map(|entry| entry.path())
}

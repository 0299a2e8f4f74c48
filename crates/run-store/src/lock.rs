//! One at a time works on a run, in this process and in others.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::path::PathBuf;
use std::sync::Arc;

use agent_types::RunId;
use parking_lot::Mutex;

use crate::StoreError;
use crate::blob::digest;
use crate::private::{make_folder, refuse_link};

/// Locks of the runs that are being executed.
#[derive(Debug, Clone)]
pub(crate) struct RunLocks {
    here: Arc<Mutex<HashSet<RunId>>>,
    /// Folder of the lock files, shared with other processes.
    folder: Option<PathBuf>,
}

/// The right to work on a run, until it is dropped or the process dies.
#[derive(Debug)]
pub(crate) struct RunLock {
    run: RunId,
    here: Arc<Mutex<HashSet<RunId>>>,
    /// The system frees it with the process, however that ends.
    _file: Option<File>,
}

impl RunLocks {
    pub(crate) fn new(folder: Option<PathBuf>) -> Self {
        Self { here: Arc::default(), folder }
    }

    /// The lock of a run.
    ///
    /// # Errors
    /// The lock is held already.
    pub(crate) fn take(&self, run: &RunId) -> Result<RunLock, StoreError> {
        let busy = || StoreError::RunBusy { run: run.to_string() };
        let file = match &self.folder {
            Some(folder) => {
                make_folder(folder).map_err(|error| StoreError::file(folder, &error))?;
                let path = folder.join(file_name(run));
                refuse_link(&path).map_err(|error| StoreError::file(&path, &error))?;
                let file = OpenOptions::new().create(true).write(true).truncate(false).open(&path);
                let file = file.map_err(|error| StoreError::file(&path, &error))?;
                match file.try_lock() {
                    Ok(()) => Some(file),
                    Err(std::fs::TryLockError::WouldBlock) => return Err(busy()),
                    Err(std::fs::TryLockError::Error(error)) => {
                        return Err(StoreError::file(&path, &error));
                    }
                }
            }
            None => None,
        };
        if !self.here.lock().insert(run.clone()) {
            return Err(busy());
        }
        Ok(RunLock { run: run.clone(), here: Arc::clone(&self.here), _file: file })
    }

    /// Returns `true` while a process executes the run.
    pub(crate) fn is_taken(&self, run: &RunId) -> bool {
        let has_file = |folder: &PathBuf| folder.join(file_name(run)).exists();
        // A question leaves no file behind.
        if !self.folder.as_ref().is_none_or(has_file) {
            return self.here.lock().contains(run);
        }
        self.take(run).is_err()
    }

    /// Forgets a run that is gone.
    pub(crate) fn forget(&self, run: &RunId) {
        if let Some(folder) = &self.folder {
            // A file that stays takes no room worth the name.
            let _ = std::fs::remove_file(folder.join(file_name(run)));
        }
    }
}

/// A name that no id can lead out of the folder.
fn file_name(run: &RunId) -> String {
    let plain = run.as_str().len() <= 64
        && run.as_str().bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    if plain { format!("{run}.lock") } else { format!("{}.lock", digest(run.as_str().as_bytes())) }
}

impl Drop for RunLock {
    fn drop(&mut self) {
        self.here.lock().remove(&self.run);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n20_lock_files_go_with_their_runs() {
        let folder = tempfile::tempdir().unwrap();
        let locks = RunLocks::new(Some(folder.path().join("locks")));
        let files = || std::fs::read_dir(folder.path().join("locks")).map_or(0, Iterator::count);
        let run = RunId::generate();
        assert!(!locks.is_taken(&run));
        assert_eq!(files(), 0, "a question makes no file");
        let lock = locks.take(&run).unwrap();
        assert!(locks.is_taken(&run));
        drop(lock);
        assert!(!locks.is_taken(&run));
        locks.forget(&run);
        assert!(!locks.is_taken(&run));
        assert_eq!(files(), 0);
    }
}

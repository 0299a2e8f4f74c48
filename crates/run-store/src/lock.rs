//! One at a time works on a run, in this process and in others.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agent_types::RunId;
use parking_lot::Mutex;

use crate::StoreError;
use crate::blob::digest;
use crate::private::{make_folder, refuse_link};

/// Ending of the lock files.
const SUFFIX: &str = ".lock";

/// Pause between two attempts to take a lock.
const PAUSE: Duration = Duration::from_millis(1);

/// Attempts while another holds the file alone: a run, or a sweep or an end for a moment.
const ATTEMPTS_BESIDE_A_RUN: u32 = 50;

/// Attempts while only questions hold the file, as long as the slowest of them may take on a busy machine.
const ATTEMPTS_BESIDE_QUESTIONS: u32 = 5_000;

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

/// The right to execute a run of a conversation, in this process and in others, until it is dropped or the process dies.
#[derive(Debug)]
pub struct ThreadLock {
    path: Option<PathBuf>,
    _lock: RunLock,
}

impl Drop for ThreadLock {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // Whoever locks a file that is gone makes a new one.
            let _ = std::fs::remove_file(path);
        }
    }
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
        if self.here.lock().contains(run) {
            return Err(busy());
        }
        let file = match &self.folder {
            Some(folder) => {
                make_folder(folder).map_err(|error| StoreError::file(folder, &error))?;
                let path = folder.join(file_name(run));
                let locked = lock_soon(&path).map_err(|error| StoreError::file(&path, &error))?;
                Some(locked.ok_or_else(busy)?)
            }
            None => None,
        };
        if !self.here.lock().insert(run.clone()) {
            return Err(busy());
        }
        Ok(RunLock { run: run.clone(), here: Arc::clone(&self.here), _file: file })
    }

    /// The lock of a conversation; `None` while another holds it. Its file is gone with it.
    ///
    /// # Errors
    /// The lock's file cannot be used.
    pub(crate) fn take_thread(&self, name: &str) -> Result<Option<ThreadLock>, StoreError> {
        let name = RunId::new(format!("thread/{name}"));
        if self.here.lock().contains(&name) {
            return Ok(None);
        }
        let (mut file, mut path) = (None, None);
        if let Some(folder) = &self.folder {
            make_folder(folder).map_err(|error| StoreError::file(folder, &error))?;
            let own = folder.join(file_name(&name));
            let locked = lock_file(&own).map_err(|error| StoreError::file(&own, &error))?;
            let Some(locked) = locked else { return Ok(None) };
            (file, path) = (Some(locked), Some(own));
        }
        if !self.here.lock().insert(name.clone()) {
            return Ok(None);
        }
        let lock = RunLock { run: name, here: Arc::clone(&self.here), _file: file };
        Ok(Some(ThreadLock { path, _lock: lock }))
    }

    /// Returns `true` while a process executes the run.
    pub(crate) fn is_taken(&self, run: &RunId) -> bool {
        let is_locked = |folder: &PathBuf| is_locked(&folder.join(file_name(run)));
        self.here.lock().contains(run) || self.folder.as_ref().is_some_and(is_locked)
    }

    /// Forgets a run that is gone.
    pub(crate) fn forget(&self, run: &RunId) {
        if let Some(folder) = &self.folder {
            // A file that stays takes no room worth the name.
            let _ = std::fs::remove_file(folder.join(file_name(run)));
        }
    }

    /// Removes the files of runs that are gone: earlier versions left them. `known` are the runs that are kept.
    pub(crate) fn sweep(&self, known: impl Iterator<Item = RunId>) {
        let Some(files) = self.folder.as_ref().and_then(|folder| std::fs::read_dir(folder).ok()) else {
            return;
        };
        let known: HashSet<String> = known.map(|run| file_name(&run)).collect();
        let is_left = |path: &PathBuf| {
            let name = path.file_name().and_then(OsStr::to_str);
            name.is_some_and(|name| name.ends_with(SUFFIX) && !known.contains(name))
        };
        for path in files.flatten().map(|file| file.path()).filter(is_left) {
            // The lock of a run that begins just now is held, and removed files are not locked.
            if let Ok(Some(_held)) = lock_file(&path) {
                let _ = std::fs::remove_file(&path);
            }
        }
    }

    /// Number of the files.
    pub(crate) fn files(&self) -> usize {
        let files = self.folder.as_ref().and_then(|folder| std::fs::read_dir(folder).ok());
        files.map_or(0, Iterator::count)
    }
}

/// The file at a path, locked; `None` where another holds it alone for longer than a moment.
fn lock_soon(path: &Path) -> std::io::Result<Option<File>> {
    let mut beside_runs = 0;
    for _ in 1..ATTEMPTS_BESIDE_QUESTIONS {
        if let Some(file) = lock_file(path)? {
            return Ok(Some(file));
        }
        beside_runs += u32::from(is_locked(path));
        if beside_runs >= ATTEMPTS_BESIDE_A_RUN {
            return Ok(None);
        }
        std::thread::sleep(PAUSE);
    }
    lock_file(path)
}

/// Returns `true` while another holds the file at a path. Leaves no file behind, and two questions are not in each other's way.
fn is_locked(path: &Path) -> bool {
    match refuse_link(path).and_then(|()| File::open(path)) {
        Ok(file) => file.try_lock_shared().is_err(),
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    }
}

/// The file at a path, locked; `None` while another holds it.
fn lock_file(path: &Path) -> std::io::Result<Option<File>> {
    loop {
        refuse_link(path)?;
        let file = OpenOptions::new().create(true).write(true).truncate(false).open(path)?;
        match file.try_lock() {
            Ok(()) if is_at(&file, path) => return Ok(Some(file)),
            // It was removed before it was locked.
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

/// Returns `true` if a file is the one at a path.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let id = |data: std::io::Result<std::fs::Metadata>| data.map(|data| (data.dev(), data.ino())).ok();
    id(file.metadata()).is_some_and(|own| id(std::fs::metadata(path)) == Some(own))
}

#[cfg(not(unix))]
fn is_at(_: &File, path: &Path) -> bool {
    path.exists()
}

/// A name that no id can lead out of the folder.
fn file_name(run: &RunId) -> String {
    let plain = run.as_str().len() <= 64
        && run.as_str().bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    if plain { format!("{run}{SUFFIX}") } else { format!("{}{SUFFIX}", digest(run.as_str().as_bytes())) }
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

    #[test]
    fn one_process_at_a_time_has_a_conversation() {
        let folder = tempfile::tempdir().unwrap();
        // As many processes.
        let [one, other] = [(); 2].map(|()| RunLocks::new(Some(folder.path().to_owned())));
        let lock = one.take_thread("a/t").unwrap();
        assert!(lock.is_some());
        assert!(one.take_thread("a/t").unwrap().is_none() && other.take_thread("a/t").unwrap().is_none());
        assert!(other.take_thread("a/u").unwrap().is_some(), "another conversation");
        drop(lock);
        assert!(other.take_thread("a/t").unwrap().is_some());
        assert_eq!(one.files(), 0, "the files are gone with the locks");
    }

    #[test]
    fn n20_lock_files_of_runs_that_are_gone_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let locks = RunLocks::new(Some(folder.path().to_owned()));
        let [kept, held, gone] = [RunId::generate(), RunId::generate(), RunId::generate()];
        drop(locks.take(&kept).unwrap());
        drop(locks.take(&gone).unwrap());
        let lock = locks.take(&held).unwrap();
        std::fs::write(folder.path().join("notes.txt"), "").unwrap();
        locks.sweep([kept.clone()].into_iter());
        let exists = |run: &RunId| folder.path().join(file_name(run)).exists();
        assert_eq!((exists(&kept), exists(&held), exists(&gone), locks.files()), (true, true, false, 3));
        drop(lock);
    }

    #[test]
    fn a_slow_question_is_waited_for_and_a_run_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let locks = RunLocks::new(Some(folder.path().to_owned()));
        let run = RunId::generate();
        drop(locks.take(&run).unwrap());
        let question = File::open(folder.path().join(file_name(&run))).unwrap();
        question.lock_shared().unwrap();
        let lock = std::thread::scope(|scope| {
            let taking = scope.spawn(|| locks.take(&run));
            std::thread::sleep(PAUSE * 4 * ATTEMPTS_BESIDE_A_RUN);
            drop(question);
            taking.join().unwrap().unwrap()
        });
        let others = RunLocks::new(Some(folder.path().to_owned()));
        let asked = std::time::Instant::now();
        assert!(matches!(others.take(&run), Err(StoreError::RunBusy { .. })));
        let patience = PAUSE * ATTEMPTS_BESIDE_QUESTIONS;
        assert!(asked.elapsed() < patience / 2, "a run is not waited for: {:?}", asked.elapsed());
        drop(lock);
    }

    #[test]
    fn a_run_can_be_taken_while_others_ask_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunId::generate();
        let over = std::sync::atomic::AtomicBool::new(false);
        // As many processes.
        let [taker, asker] = [(); 2].map(|()| RunLocks::new(Some(folder.path().to_owned())));
        let (run, over) = (&run, &over);
        std::thread::scope(|scope| {
            for asker in [&taker, &asker] {
                scope.spawn(move || {
                    while !over.load(std::sync::atomic::Ordering::Relaxed) {
                        asker.is_taken(run);
                    }
                });
            }
            let taken: Vec<bool> = (0..200).map(|_| taker.take(run).is_ok()).collect();
            over.store(true, std::sync::atomic::Ordering::Relaxed);
            assert!(!taken.contains(&false));
        });
    }

    #[test]
    fn n20_a_lock_that_is_taken_while_its_file_goes_is_held_once() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunId::generate();
        let held = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    // As many processes.
                    let locks = RunLocks::new(Some(folder.path().to_owned()));
                    for _ in 0..500 {
                        let Ok(lock) = locks.take(&run) else { continue };
                        assert_eq!(held.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0);
                        held.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                        drop(lock);
                        locks.sweep(std::iter::empty());
                    }
                });
            }
        });
    }
}

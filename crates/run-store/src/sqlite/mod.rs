//! A store in one SQLite file.
//!
//! One connection writes, others read beside it (write-ahead log). Events lie in groups as they were committed, so a
//! row costs as much as a group, not as much as an event.

mod index;
mod read;
mod schema;
mod write;

use std::path::{Path, PathBuf};
use std::time::Duration;

pub use index::SqliteIndex;

use agent_types::RunId;
use parking_lot::Mutex;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use serde_json::Value;

use crate::private;
use crate::reserve::Reserve;
use crate::{AskRecord, Backend, Change, Footprint, RunFilter, RunRecord, StoreError, Update};

/// Attempts to get a file that another process holds, with [`pause`] between them: half a minute.
const ATTEMPTS: i32 = 1_510;
/// Attempt with which a warning says that it waits: within half a second.
const NOTICE: i32 = 30;
/// Longest pause between two attempts, in milliseconds.
const LONGEST_PAUSE: i32 = 20;
/// Attempts to remove something when the disk is full.
const REMOVALS: u32 = 50;
/// Pages of the write-ahead log after which it is folded into the file.
const CHECKPOINT_PAGES: u32 = 256;

/// Durability level of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sync {
    /// Commits wait until the data is on disk: they survive a loss of power.
    #[default]
    Full,
    /// Commits wait until the operating system has the data: they survive any end of the process.
    Normal,
}

/// A store in one SQLite file.
#[derive(Debug)]
pub struct Sqlite {
    path: PathBuf,
    reserve: Reserve,
    writer: Mutex<Connection>,
    reader: Mutex<Connection>,
}

impl Sqlite {
    /// Opens a file, or makes it and its folder; brings an older format up to date.
    ///
    /// # Errors
    /// The file is damaged, newer than this program, or cannot be written.
    pub fn open(path: &Path, sync: Sync) -> Result<Self, StoreError> {
        private::prepare(path)?;
        let mut writer = connect(path)?;
        schema::bring_up_to_date(&mut writer)?;
        let level = match sync {
            Sync::Full => "FULL",
            Sync::Normal => "NORMAL",
        };
        let set = |name: &str, value: &str| writer.pragma_update(None, name, value);
        set("synchronous", level).map_err(store_error)?;
        set("wal_autocheckpoint", &CHECKPOINT_PAGES.to_string()).map_err(store_error)?;
        set("journal_size_limit", &(1 << 20).to_string()).map_err(store_error)?;
        let reader = connect(path)?;
        let reserve = Reserve::beside(path);
        Ok(Self { path: path.to_owned(), reserve, writer: Mutex::new(writer), reader: Mutex::new(reader) })
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Commits a removal with the room that is kept for it. Another process may have given it up for a removal of its own,
    /// and takes it again when that is done.
    fn remove_when_full(&self, writer: &mut Connection, changes: &[Change]) -> Result<(), StoreError> {
        let mut done = Err(StoreError::Full);
        for attempt in 0..REMOVALS {
            if !self.reserve.release() && attempt > 0 {
                std::thread::sleep(pause(LONGEST_PAUSE));
            }
            // The log of earlier commits may be what takes the room.
            fold(writer);
            done = write::commit(writer, changes);
            if done != Err(StoreError::Full) {
                break;
            }
        }
        fold(writer);
        self.reserve.fill();
        done
    }

    /// Refuses to grow beyond so many pages of 4 KiB, as a full disk would.
    ///
    /// # Errors
    /// The file cannot be used.
    pub fn limit_pages(&self, pages: u32) -> Result<(), StoreError> {
        let sql = format!("PRAGMA max_page_count = {pages}");
        self.writer.lock().query_row(&sql, [], |_| Ok(())).map_err(store_error)
    }
}

/// Folds the write-ahead log into the file, so that what was removed makes room on the disk.
fn fold(writer: &Connection) {
    // Another process may read it still; the next commit folds it.
    let _ = writer.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
}

fn connect(path: &Path) -> Result<Connection, StoreError> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags).map_err(store_error)?;
    connection.set_prepared_statement_cache_capacity(64);
    connection.busy_handler(Some(wait_for_others)).map_err(store_error)?;
    Ok(connection)
}

/// Waits before the next attempt to get a file that another process holds; `false` behind the last one.
fn wait_for_others(attempt: i32) -> bool {
    if attempt == NOTICE {
        log::warn!("the store is locked by another process: waiting for it, up to 30 s");
    }
    if attempt < ATTEMPTS {
        std::thread::sleep(pause(attempt));
    }
    attempt < ATTEMPTS
}

fn pause(attempt: i32) -> Duration {
    Duration::from_millis((attempt + 1).clamp(1, LONGEST_PAUSE).unsigned_abs().into())
}

/// Maps an error of the database to an error of the store.
#[expect(clippy::needless_pass_by_value, reason = "so that `map_err` takes it by its name")]
pub(crate) fn store_error(error: rusqlite::Error) -> StoreError {
    let message = error.to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full,
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Locked,
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StoreError::Corrupt { message },
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            StoreError::ReadOnly { message }
        }
        _ => StoreError::Io { message },
    }
}

impl Backend for Sqlite {
    fn commit(&self, changes: &[Change]) -> Result<(), StoreError> {
        let removes = changes.iter().any(|change| matches!(change, Change::Remove { .. }));
        let mut writer = self.writer.lock();
        match write::commit(&mut writer, changes) {
            // What makes room needs some room itself.
            Err(StoreError::Full) if removes => self.remove_when_full(&mut writer, changes),
            done => done,
        }
    }

    fn update(&self, key: &str, change: Update<'_>) -> Result<(), StoreError> {
        write::update(&mut self.writer.lock(), key, change)
    }

    fn run(&self, run: &RunId) -> Result<Option<RunRecord>, StoreError> {
        read::run(&self.reader.lock(), run)
    }

    fn runs(&self, filter: &RunFilter) -> Result<Vec<RunRecord>, StoreError> {
        read::runs(&self.reader.lock(), filter)
    }

    fn lines(&self, run: &RunId, after: u64, limit: usize) -> Result<Vec<Vec<u8>>, StoreError> {
        read::lines(&self.reader.lock(), run, after, limit)
    }

    fn snapshot(&self, run: &RunId, at_most: u64) -> Result<Option<(u64, Vec<u8>)>, StoreError> {
        read::snapshot(&self.reader.lock(), run, at_most)
    }

    fn blob(&self, sha: &str) -> Result<Option<Vec<u8>>, StoreError> {
        read::blob(&self.reader.lock(), sha)
    }

    fn asks(&self, run: &RunId) -> Result<Vec<AskRecord>, StoreError> {
        read::asks(&self.reader.lock(), run)
    }

    fn messages(&self, thread: &str) -> Result<Vec<Value>, StoreError> {
        read::messages(&self.reader.lock(), thread)
    }

    fn thread_length(&self, thread: &str) -> Result<usize, StoreError> {
        read::thread_length(&self.reader.lock(), thread)
    }

    fn value(&self, key: &str) -> Result<Option<Value>, StoreError> {
        read::value(&self.reader.lock(), key)
    }

    fn values(&self, prefix: &str) -> Result<Vec<(String, Value)>, StoreError> {
        read::values(&self.reader.lock(), prefix)
    }

    fn footprint(&self) -> Result<Footprint, StoreError> {
        let runs = read::count(&self.reader.lock())?;
        let size = |suffix: &str| {
            let mut name = self.path.clone().into_os_string();
            name.push(suffix);
            std::fs::metadata(name).map_or(0, |file| file.len())
        };
        Ok(Footprint { runs, bytes: size("") + size("-wal") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_locked_store_is_reported_within_a_second_and_given_up_after_half_a_minute() {
        let waits = |attempts: i32| (0..attempts).map(pause).sum::<Duration>();
        assert!(waits(NOTICE) < Duration::from_secs(1));
        assert!((29_000..31_000).contains(&waits(ATTEMPTS).as_millis()));
    }
}

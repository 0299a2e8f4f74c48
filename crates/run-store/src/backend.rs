//! Interface of storage backends.

use std::fmt;

use agent_types::{RunId, Timestamp};
use serde_json::Value;

use crate::{AskRecord, NewRun, RunFilter, RunRecord, RunState, StoreError};

/// Events of one run that are kept together, as lines of JSON.
#[derive(Debug, Clone, PartialEq)]
pub struct Events {
    /// The run.
    pub run: RunId,
    /// Number of the first.
    pub first: u64,
    /// Number of the last.
    pub last: u64,
    /// The group as [`read_lines`](crate::read_lines) reads it.
    pub lines: Vec<u8>,
    /// Blobs that the lines name.
    pub blobs: Vec<String>,
    /// The highest span number used so far.
    pub last_span: u64,
    /// State of the run afterwards, if it changed.
    pub state: Option<RunState>,
    /// Questions that they put.
    pub asks: Vec<AskRecord>,
}

/// One thing to write.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// A run begins.
    Begin {
        /// Metadata of the run.
        new: Box<NewRun>,
        /// Time at which the run started.
        started: Timestamp,
    },
    /// A run has new events.
    Events(Events),
    /// Bytes under their SHA-256 in hex.
    Blob {
        /// The name.
        sha: String,
        /// The bytes.
        data: Vec<u8>,
    },
    /// The whole state of a run after its event `seq`.
    Snapshot {
        /// The run.
        run: RunId,
        /// The last event before it.
        seq: u64,
        /// The state, as the run wrote it.
        state: Vec<u8>,
    },
    /// Events that end before `seq`, and snapshots before it, may go; at most so many bytes of them stay.
    Trim {
        /// The run.
        run: RunId,
        /// The newest snapshot.
        seq: u64,
        /// Bytes of older events that may stay.
        keep: u64,
    },
    /// An open question has its answer.
    Answer {
        /// The run.
        run: RunId,
        /// The question.
        ask: String,
        /// The answer.
        value: Value,
        /// The last event before it.
        seq: u64,
    },
    /// A run and all that belongs to it goes.
    Remove {
        /// The run.
        run: RunId,
    },
    /// A thread has new messages behind those it has.
    Messages {
        /// The thread.
        thread: String,
        /// The messages.
        messages: Vec<Value>,
    },
    /// A thread loses its newest messages.
    CutThread {
        /// The thread.
        thread: String,
        /// Messages that stay, from the oldest on.
        keep: usize,
    },
    /// A named value of the project.
    Put {
        /// Its name.
        key: String,
        /// The value; `None` removes it.
        value: Option<Value>,
    },
}

/// Function that computes the new value of a key from the old one; `None` leaves it unchanged.
pub type Update<'u> = Box<dyn FnOnce(Option<Value>) -> Option<Value> + Send + 'u>;

/// Disk usage of a store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Runs.
    pub runs: u64,
    /// Bytes of all its files; 0 in memory.
    pub bytes: u64,
}

/// Storage backend. All calls block; [`commit`](Self::commit) is called by one thread only.
pub trait Backend: Send + Sync + fmt::Debug {
    /// Writes all changes or none. They are safe when it returns.
    ///
    /// # Errors
    /// Nothing was written then.
    fn commit(&self, changes: &[Change]) -> Result<(), StoreError>;

    /// Returns `true` if commits outlive the process. Otherwise no effect waits for a commit, because no run
    /// could be resumed without it.
    fn is_lasting(&self) -> bool {
        true
    }

    /// Updates a named value atomically, also with respect to other processes.
    /// `change` gives the new value, or `None` to leave it unchanged. Only the writer's thread calls it.
    ///
    /// # Errors
    /// Nothing was written then.
    fn update(&self, key: &str, change: Update<'_>) -> Result<(), StoreError>;

    /// A run.
    ///
    /// # Errors
    /// The store cannot be read.
    fn run(&self, run: &RunId) -> Result<Option<RunRecord>, StoreError>;

    /// Runs, newest first.
    ///
    /// # Errors
    /// The store cannot be read.
    fn runs(&self, filter: &RunFilter) -> Result<Vec<RunRecord>, StoreError>;

    /// Groups of lines that hold events behind `after`, oldest first, so many groups at most.
    ///
    /// # Errors
    /// The store cannot be read.
    fn lines(&self, run: &RunId, after: u64, limit: usize) -> Result<Vec<Vec<u8>>, StoreError>;

    /// The newest snapshot at or before an event.
    ///
    /// # Errors
    /// The store cannot be read.
    fn snapshot(&self, run: &RunId, at_most: u64) -> Result<Option<(u64, Vec<u8>)>, StoreError>;

    /// The bytes of a blob.
    ///
    /// # Errors
    /// The store cannot be read.
    fn blob(&self, sha: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// The questions of a run in the order in which they were put.
    ///
    /// # Errors
    /// The store cannot be read.
    fn asks(&self, run: &RunId) -> Result<Vec<AskRecord>, StoreError>;

    /// The messages of a thread.
    ///
    /// # Errors
    /// The store cannot be read.
    fn messages(&self, thread: &str) -> Result<Vec<Value>, StoreError>;

    /// Number of messages of a thread.
    ///
    /// # Errors
    /// The store cannot be read.
    fn thread_length(&self, thread: &str) -> Result<usize, StoreError> {
        Ok(self.messages(thread)?.len())
    }

    /// A named value of the project.
    ///
    /// # Errors
    /// The store cannot be read.
    fn value(&self, key: &str) -> Result<Option<Value>, StoreError>;

    /// The named values whose names begin so, in order of name.
    ///
    /// # Errors
    /// The store cannot be read.
    fn values(&self, prefix: &str) -> Result<Vec<(String, Value)>, StoreError>;

    /// Returns the disk usage of the store.
    ///
    /// # Errors
    /// The store cannot be read.
    fn footprint(&self) -> Result<Footprint, StoreError>;
}

//! Persistent storage of runs: events, records, checkpoints, blobs, questions, chats, and a text index.
//!
//! A [`Store`] has one writer: it puts the events of all runs of this process into groups, commits each group and only
//! then delivers it to subscribers: an event number that was delivered keeps its meaning. Secrets are masked there too.
//! A [`Backend`] holds the data: [`Memory`], or a file of SQLite (feature `sqlite`).
//!
//! The store executes nothing: the engine and the agents decide the next step of a run.

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod backend;
mod blob;
mod encode;
mod error;
mod fork;
mod held;
mod inbox;
mod json;
mod lines;
mod lock;
mod memory;
mod private;
mod record;
#[cfg(feature = "sqlite")]
mod reserve;
mod run;
#[cfg(feature = "sqlite")]
mod sqlite;
mod store;
mod text_index;
mod unblocked;
mod writer;

pub use backend::{Backend, Change, Events, Footprint, Update};
pub use error::StoreError;
pub use lines::{cut_lines, read_lines};
pub use lock::ThreadLock;
pub use memory::Memory;
pub use record::{AskRecord, NewRun, RunFilter, RunPhase, RunRecord, RunState};
pub use run::StoredRun;
#[cfg(feature = "sqlite")]
pub use sqlite::{Sqlite, SqliteIndex, Sync};
pub use store::{Store, StoreOptions, WorkLock};
pub use text_index::{Hit, MemoryIndex, Passage, TextIndex, terms};
pub use unblocked::UnblockedStore;

/// The main types are shared between threads.
const _: () = {
    const fn is_shared<T: Send + std::marker::Sync>() {}
    is_shared::<RunRecord>();
    is_shared::<Store>();
    is_shared::<StoreError>();
    is_shared::<StoredRun>();
};

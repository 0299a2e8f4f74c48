//! Index of the recorded events of a run, used during replay.

use std::collections::HashMap;

use agent_types::{CallId, StoredEvent};
use run_journal::Journal;

use crate::run::graph_state::frame::Key;

/// A node that was running when the log ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AtWork {
    pub(crate) span: u64,
    pub(crate) attempt: u32,
    pub(crate) interrupted: u32,
    /// The log says already that it was interrupted.
    pub(crate) closed: bool,
    /// Its code was called.
    pub(crate) called: bool,
}

/// Index of a log during replay.
#[derive(Debug, Default)]
pub(crate) struct ReplayIndex {
    /// Matcher of the run's own events; those from inside calls are matched by the nodes that made them.
    pub(crate) journal: Journal,
    pub(crate) at_work: HashMap<Key, AtWork>,
    /// Events from inside running nodes.
    pub(crate) inner: HashMap<Key, Vec<StoredEvent>>,
    /// The nodes that made calls.
    pub(crate) callers: HashMap<CallId, Key>,
}

impl ReplayIndex {
    pub(crate) fn new(events: &[StoredEvent]) -> Self {
        let own = events.iter().filter(|stored| stored.event.place.call.is_none());
        Self { journal: Journal::new(own), ..Self::default() }
    }
}

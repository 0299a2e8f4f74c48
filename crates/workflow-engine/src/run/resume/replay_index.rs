//! Index of the recorded events of a run, used during replay.

use std::collections::HashMap;
use std::sync::Arc;

use agent_types::{CallId, StoredEvent};
use run_journal::Journal;

use crate::run::graph_state::frame::Key;
use crate::run::resume::restart::AtWork;

/// Index of a log during replay.
#[derive(Debug, Default)]
pub(in crate::run) struct ReplayIndex {
    /// Matcher of the run's own events; those from inside calls are matched by the nodes that made them.
    pub(in crate::run) journal: Journal,
    /// Frames by what stands before the paths of their nodes.
    pub(in crate::run) frames: HashMap<Arc<str>, u32>,
    pub(in crate::run) nodes: HashMap<u32, HashMap<Arc<str>, u32>>,
    pub(in crate::run) at_work: HashMap<Key, AtWork>,
    /// Events from inside running nodes.
    pub(in crate::run) inner: HashMap<Key, Vec<StoredEvent>>,
    /// The nodes that made calls.
    pub(in crate::run) callers: HashMap<CallId, Key>,
}

impl ReplayIndex {
    pub(in crate::run) fn new(events: &[StoredEvent]) -> Self {
        let own = events.iter().filter(|stored| stored.event.place.call.is_none());
        Self { journal: Journal::new(own), ..Self::default() }
    }
}

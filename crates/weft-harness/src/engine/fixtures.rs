//! State outside of the runs of one case: counters, sets, time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;

/// Outside counters and sets, shared by all runs of a case.
#[derive(Debug, Default)]
pub(crate) struct World {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    counters: BTreeMap<String, i64>,
    sets: BTreeMap<String, BTreeSet<String>>,
}

impl World {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Adds to a counter and gives its new value.
    pub(crate) fn add(&self, key: &str, by: i64) -> i64 {
        let mut state = self.lock();
        let counter = state.counters.entry(key.to_owned()).or_default();
        *counter += by;
        *counter
    }

    /// Puts a member into a set; its size is the counter of that name.
    pub(crate) fn insert(&self, key: &str, member: String) -> i64 {
        let mut state = self.lock();
        let set = state.sets.entry(key.to_owned()).or_default();
        set.insert(member);
        let size = i64::try_from(set.len()).unwrap_or(i64::MAX);
        state.counters.insert(key.to_owned(), size);
        size
    }

    pub(crate) fn counter(&self, key: &str) -> i64 {
        self.lock().counters.get(key).copied().unwrap_or(0)
    }
}

/// A counter that is one higher while this lives.
pub(crate) struct Alive {
    world: Arc<World>,
    key: String,
}

impl Alive {
    pub(crate) fn new(world: &Arc<World>, key: Option<&Value>) -> Option<Self> {
        let key = key?.as_str()?.to_owned();
        world.add(&key, 1);
        Some(Self { world: Arc::clone(world), key })
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.world.add(&self.key, -1);
    }
}

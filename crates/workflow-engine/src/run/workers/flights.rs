//! Results of pure nodes in the cache, and the nodes whose result others wait for.

use std::sync::Arc;

use crate::cache::{Cache, CacheKey, Lead, Lookup};
use crate::hash::{NumberMap, NumberSet};
use crate::outputs::Outputs;
use crate::run::graph_state::frame::Key;

/// The cache as one run uses it.
pub(crate) struct Flights {
    cache: Arc<Cache>,
    /// Nodes whose result others may wait for.
    leads: NumberMap<Key, Lead>,
    /// Nodes that were to be cached and cannot be.
    unkeyable: NumberSet<Key>,
}

impl Flights {
    pub(crate) fn new(cache: Arc<Cache>) -> Self {
        Self { cache, leads: NumberMap::default(), unkeyable: NumberSet::default() }
    }

    /// Returns `true` if the node has looked and must do the work.
    pub(crate) fn leads(&self, key: Key) -> bool {
        self.leads.contains_key(&key)
    }

    pub(crate) fn look(&self, hash: CacheKey, path: &Arc<str>) -> Lookup {
        self.cache.look(hash, path)
    }

    pub(crate) fn lead(&mut self, key: Key, lead: Lead) {
        self.leads.insert(key, lead);
    }

    /// The node has failed or was stopped: those who wait for its result must try themselves.
    pub(crate) fn give_up(&mut self, key: Key) {
        if !self.leads.is_empty() {
            self.leads.remove(&key);
        }
    }

    /// Hands the result of a node to the cache and to those who wait for it.
    pub(crate) fn bring(&mut self, key: Key, outputs: &Outputs) {
        if let Some(lead) = self.take(key) {
            lead.bring(&Arc::new(outputs.clone()));
        }
    }

    fn take(&mut self, key: Key) -> Option<Lead> {
        if self.leads.is_empty() { None } else { self.leads.remove(&key) }
    }

    pub(crate) fn note_unkeyable(&mut self, key: Key) {
        self.unkeyable.insert(key);
    }

    /// Returns `true` once for a node that was to be cached and cannot be.
    pub(crate) fn take_unkeyable(&mut self, key: Key) -> bool {
        !self.unkeyable.is_empty() && self.unkeyable.remove(&key)
    }
}

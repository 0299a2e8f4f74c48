//! Nodes and frames whose turn has come.

use std::collections::VecDeque;

use super::frame::{Key, Turn};

/// Nodes that are ready or to be skipped, and frames that are complete, each in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    ready: VecDeque<Key>,
    skips: VecDeque<Key>,
    complete: VecDeque<Key>,
}

impl Queues {
    /// Queues that a checkpoint has.
    pub(crate) fn restored(ready: Vec<Key>, skips: Vec<Key>, complete: Vec<Key>) -> Self {
        Self { ready: ready.into(), skips: skips.into(), complete: complete.into() }
    }

    pub(crate) fn ready(&self) -> impl Iterator<Item = Key> + '_ {
        self.ready.iter().copied()
    }

    pub(crate) fn skips(&self) -> Vec<Key> {
        self.skips.iter().copied().collect()
    }

    pub(crate) fn complete(&self) -> Vec<Key> {
        self.complete.iter().copied().collect()
    }

    pub(super) fn push_ready(&mut self, key: Key) {
        self.ready.push_back(key);
    }

    /// Queues a node whose turn has come.
    pub(super) fn take_turn(&mut self, key: Key, turn: Turn) {
        match turn {
            Turn::NotYet => {}
            Turn::Ready => self.ready.push_back(key),
            Turn::Skip => self.skips.push_back(key),
        }
    }

    /// The node comes before all others.
    pub(super) fn push_first(&mut self, key: Key) {
        self.ready.push_front(key);
    }

    /// The frame of the key is complete.
    pub(super) fn push_complete(&mut self, key: Key) {
        self.complete.push_back(key);
    }

    pub(crate) fn next_ready(&mut self) -> Option<Key> {
        self.ready.pop_front()
    }

    pub(crate) fn next_skip(&mut self) -> Option<Key> {
        self.skips.pop_front()
    }

    pub(crate) fn next_complete(&mut self) -> Option<Key> {
        self.complete.pop_front()
    }
}

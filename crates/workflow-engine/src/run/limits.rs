//! How many nodes are at work at once, in the run and in its named groups.

use std::collections::VecDeque;

use super::frame::Key;
use crate::inputs::Given;

/// A node that could start if there were room.
pub(super) struct Parked {
    pub(super) key: Key,
    pub(super) inputs: Vec<Given>,
}

/// Room for nodes at work. Nodes without room wait in the order in which they came.
pub(super) struct Limits {
    run: Counter,
    groups: Vec<Counter>,
    parked: VecDeque<(Option<u32>, Parked)>,
}

struct Counter {
    used: usize,
    limit: usize,
}

impl Counter {
    fn new(limit: Option<usize>) -> Self {
        // A limit of none at all would only stop the run.
        Self { used: 0, limit: limit.unwrap_or(usize::MAX).max(1) }
    }

    fn has_room(&self) -> bool {
        self.used < self.limit
    }
}

impl Limits {
    pub(super) fn new(run: Option<usize>, groups: impl Iterator<Item = Option<usize>>) -> Self {
        Self { run: Counter::new(run), groups: groups.map(Counter::new).collect(), parked: VecDeque::new() }
    }

    fn has_room(&self, group: Option<u32>) -> bool {
        self.run.has_room() && group.is_none_or(|group| self.groups[group as usize].has_room())
    }

    /// Takes room for a node, if there is some and nobody came before it.
    pub(super) fn enter(&mut self, group: Option<u32>) -> bool {
        let before = self.parked.iter().any(|(other, _)| *other == group);
        let enters = self.has_room(group) && !before;
        if enters {
            self.take(group);
        }
        enters
    }

    /// Takes room whether there is some or not; for a node that had it, gave it back to wait, and goes on.
    pub(super) fn take(&mut self, group: Option<u32>) {
        self.run.used += 1;
        if let Some(group) = group {
            self.groups[group as usize].used += 1;
        }
    }

    pub(super) fn leave(&mut self, group: Option<u32>) {
        self.run.used -= 1;
        if let Some(group) = group {
            self.groups[group as usize].used -= 1;
        }
    }

    pub(super) fn park(&mut self, group: Option<u32>, parked: Parked) {
        self.parked.push_back((group, parked));
    }

    /// The first node waiting for which there is room now; the room is taken.
    pub(super) fn unpark(&mut self) -> Option<Parked> {
        if self.parked.is_empty() || !self.run.has_room() {
            return None;
        }
        let at = self.parked.iter().position(|(group, _)| self.has_room(*group))?;
        let (group, parked) = self.parked.remove(at)?;
        self.take(group);
        Some(parked)
    }

    pub(super) fn has_parked(&self) -> bool {
        !self.parked.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parked(node: u32) -> Parked {
        Parked { key: Key { frame: 0, generation: 0, node }, inputs: Vec::new() }
    }

    #[test]
    fn a_full_group_does_not_hold_back_others() {
        let mut limits = Limits::new(Some(2), [Some(1)].into_iter());
        assert!(limits.enter(Some(0)));
        assert!(!limits.enter(Some(0)));
        limits.park(Some(0), parked(1));
        assert!(limits.enter(None));
        assert!(!limits.enter(None));
        limits.park(None, parked(2));
        limits.leave(None);
        assert_eq!(limits.unpark().map(|parked| parked.key.node), Some(2));
        assert!(limits.unpark().is_none());
        limits.leave(Some(0));
        assert_eq!(limits.unpark().map(|parked| parked.key.node), Some(1));
    }
}

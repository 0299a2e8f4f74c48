//! Concurrency limits of a run and of its named groups.

use std::collections::VecDeque;

use crate::inputs::Given;
use crate::run::graph_state::frame::Key;

/// Permits that a start needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Claim {
    /// Permit of a running node; containers only hold other nodes and need none.
    run: bool,
    /// A place in a named group.
    group: Option<u32>,
}

impl Claim {
    /// The claim of what runs elsewhere.
    pub(crate) const NONE: Self = Self { run: false, group: None };

    /// The claim of a node whose code runs.
    pub(crate) fn of_node(group: Option<u32>) -> Self {
        Self { run: true, group }
    }

    /// The claim of a container, or of a node that shares the permit of another.
    pub(crate) fn of_container(group: Option<u32>) -> Self {
        Self { run: false, group }
    }

    pub(crate) fn group(self) -> Option<u32> {
        self.group
    }
}

/// A node that could start if a permit were free.
pub(crate) struct Parked {
    pub(crate) key: Key,
    pub(crate) inputs: Vec<Given>,
}

/// Permits for running nodes. Nodes without a permit wait in the order in which they came.
pub(crate) struct Permits {
    run: Counter,
    groups: Vec<Counter>,
    parked: VecDeque<(Claim, Parked)>,
    /// None of the parked nodes can start before a permit is returned.
    is_blocked: bool,
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

impl Permits {
    pub(crate) fn new(run: Option<usize>, groups: impl Iterator<Item = Option<usize>>) -> Self {
        Self {
            run: Counter::new(run),
            groups: groups.map(Counter::new).collect(),
            parked: VecDeque::new(),
            is_blocked: false,
        }
    }

    fn has_room(&self, claim: Claim) -> bool {
        let in_run = !claim.run || self.run.has_room();
        in_run && claim.group.is_none_or(|group| self.groups[group as usize].has_room())
    }

    /// Takes a permit for a node, if one is free and no other node came before it.
    pub(crate) fn enter(&mut self, claim: Claim) -> bool {
        let before = self.parked.iter().any(|(other, _)| *other == claim);
        let enters = self.has_room(claim) && !before;
        if enters {
            self.take(claim);
        }
        enters
    }

    /// Takes a permit even if none is free, for a node that had returned its permit to wait and now continues.
    pub(crate) fn take(&mut self, claim: Claim) {
        self.run.used += usize::from(claim.run);
        if let Some(group) = claim.group {
            self.groups[group as usize].used += 1;
        }
    }

    pub(crate) fn leave(&mut self, claim: Claim) {
        self.is_blocked = false;
        self.run.used -= usize::from(claim.run);
        if let Some(group) = claim.group {
            self.groups[group as usize].used -= 1;
        }
    }

    pub(crate) fn park(&mut self, claim: Claim, parked: Parked) {
        self.parked.push_back((claim, parked));
    }

    /// The first waiting node for which a permit is free now; the permit is taken.
    pub(crate) fn unpark(&mut self) -> Option<(Claim, Parked)> {
        if self.is_blocked || self.parked.is_empty() {
            return None;
        }
        let Some(at) = self.parked.iter().position(|(claim, _)| self.has_room(*claim)) else {
            self.is_blocked = true;
            return None;
        };
        let (claim, parked) = self.parked.remove(at)?;
        self.take(claim);
        Some((claim, parked))
    }

    /// Nodes without a permit.
    pub(crate) fn parked(&self) -> impl Iterator<Item = Key> + '_ {
        self.parked.iter().map(|(_, parked)| parked.key)
    }

    pub(crate) fn has_parked(&self) -> bool {
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
        let mut permits = Permits::new(Some(2), [Some(1)].into_iter());
        let (grouped, free) = (Claim { run: true, group: Some(0) }, Claim { run: true, group: None });
        let next = |permits: &mut Permits| permits.unpark().map(|(_, parked)| parked.key.node);
        assert!(permits.enter(grouped));
        assert!(!permits.enter(grouped));
        permits.park(grouped, parked(1));
        assert!(permits.enter(free));
        assert!(!permits.enter(free));
        permits.park(free, parked(2));
        permits.leave(free);
        assert_eq!(next(&mut permits), Some(2));
        assert_eq!(next(&mut permits), None);
        permits.leave(grouped);
        assert_eq!(next(&mut permits), Some(1));
    }
}

//! Nodes that a result or an effect needs.

use super::data::{LocalIx, NONE, ScopePlan, SlotIx, slots};

impl ScopePlan {
    /// The nodes that fill these slots.
    pub(crate) fn owners_of<'a>(
        &'a self,
        slots: impl IntoIterator<Item = SlotIx> + 'a,
    ) -> impl Iterator<Item = LocalIx> + 'a {
        slots.into_iter().map(|slot| self.owners[slot as usize]).filter(|owner| *owner != NONE)
    }

    /// The roots, everything they need, and nothing else.
    pub(crate) fn reach(&self, roots: impl IntoIterator<Item = LocalIx>) -> Vec<bool> {
        let mut reached = vec![false; self.nodes.len()];
        roots.into_iter().for_each(|root| reached[root as usize] = true);
        for node in self.order.iter().rev() {
            if reached[*node as usize] {
                self.sources.row(*node).iter().for_each(|source| reached[*source as usize] = true);
            }
        }
        reached
    }

    /// The nodes that the named results need, besides those that run whatever is wanted.
    pub(crate) fn needed_for(&self, wanted: &[String]) -> Vec<bool> {
        let results = self.results.iter().filter(|result| wanted.iter().any(|name| **name == *result.name));
        let slots = results.flat_map(|result| slots(&result.origins));
        self.reach(self.owners_of(slots).chain(self.always.iter().copied()))
    }
}

impl ScopePlan {
    /// The nodes all of whose ways lead to `target`, and that nothing needs otherwise.
    pub(crate) fn only_for(&self, target: LocalIx) -> Vec<LocalIx> {
        let behind = self.reach([target]);
        let wanted: Vec<LocalIx> =
            self.owners_of(self.results.iter().flat_map(|result| slots(&result.origins))).collect();
        let mut only = behind.clone();
        only[target as usize] = false;
        for node in wanted.iter().chain(&self.always) {
            only[*node as usize] &= *node == target;
        }
        // A node that something else needs makes what it needs needed too.
        for node in self.order.iter().rev().filter(|node| **node != target) {
            if !only[*node as usize] {
                self.sources.row(*node).iter().for_each(|source| only[*source as usize] = false);
            }
        }
        (0..).zip(&only).filter(|(_, only)| **only).map(|(node, _)| node).collect()
    }
}

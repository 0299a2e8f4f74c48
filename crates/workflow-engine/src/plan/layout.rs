//! Whether two plans number their parts alike.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::{Origin, Plan, PlanInner, ScopePlan};
use crate::run::layout_of;

impl Plan {
    /// Whether a run of this plan can go on from a snapshot. A snapshot of another version of the workflow may number
    /// its nodes otherwise: then a run is taken up by all of its events.
    #[must_use]
    pub fn fits(&self, snapshot: &str) -> bool {
        layout_of(snapshot) == Some(self.0.layout())
    }
}

impl PlanInner {
    /// A number for how nodes and values are numbered, the same in every process. It may change with the compiler, which
    /// costs no more than going through the events of a run.
    pub(crate) fn layout(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.scopes.len().hash(&mut hasher);
        for scope in &self.scopes {
            self.hash_scope(scope, &mut hasher);
        }
        hasher.finish()
    }

    fn hash_scope(&self, scope: &ScopePlan, hasher: &mut DefaultHasher) {
        let name = |name: u32| &*self.names[name as usize];
        (scope.n_slots, scope.owner, &scope.owners, &scope.counts, &scope.needed).hash(hasher);
        for node in &scope.nodes {
            (&*node.path, node.kind).hash(hasher);
            for input in scope.inputs(node) {
                name(input.slot).hash(hasher);
                (input.stream, input.lazy, input.multi).hash(hasher);
                for origin in input.from.origins() {
                    hash_origin(origin, hasher);
                }
            }
            for out in scope.outs(node) {
                (name(out.name), out.slot, out.stream, out.joined).hash(hasher);
            }
        }
        scope.entries.hash(hasher);
        for result in &scope.results {
            (&*result.name, result.multi).hash(hasher);
            result.origins.iter().for_each(|origin| hash_origin(origin, hasher));
        }
    }
}

/// Constants may differ: they are in no snapshot.
fn hash_origin(origin: &Origin, hasher: &mut DefaultHasher) {
    match origin {
        Origin::Slot(slot) => Some(*slot),
        Origin::Value(_) => None,
    }
    .hash(hasher);
}

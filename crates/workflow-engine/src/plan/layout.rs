//! Compatibility of a plan with the checkpoints of another plan.

use std::hash::{DefaultHasher, Hash, Hasher};

use workflow_model::DataFlowType;

use super::Plan;
use super::data::{Kind, Origin, PlanData, ScopePlan};

impl Plan {
    /// The type of the main output of the node at a path, as events have it; none where the path is not that of a node
    /// which executes, but of a loop, a group, an argument or a result.
    #[must_use]
    pub fn output_type(&self, path: &str) -> Option<DataFlowType> {
        self.data().output_type(0, path)
    }
}

impl PlanData {
    fn output_type(&self, scope: u32, path: &str) -> Option<DataFlowType> {
        self.scopes[scope as usize].nodes.iter().find_map(|node| {
            let rest = path.strip_prefix(&*node.path)?;
            let inside = |scope: u32| {
                let (pass, rest) = rest.split_once('/')?;
                self.output_type(scope, rest).filter(|_| is_pass(pass))
            };
            match node.kind {
                Kind::Run(node_type) => rest.is_empty().then(|| self.types[node_type as usize].output_type),
                Kind::Bypass(_) | Kind::Muted => rest.is_empty().then_some(DataFlowType::ConvertibleAny),
                Kind::Call(body) => inside(body),
                Kind::Zone(zone) => inside(self.zones[zone as usize].scope),
            }
        })
    }

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
                for origin in scope.origins(input) {
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

/// Returns `true` for the number of a pass in brackets, and for an empty text.
fn is_pass(text: &str) -> bool {
    text.is_empty()
        || text
            .strip_prefix('[')
            .and_then(|text| text.strip_suffix(']'))
            .is_some_and(|pass| pass.parse::<u64>().is_ok())
}

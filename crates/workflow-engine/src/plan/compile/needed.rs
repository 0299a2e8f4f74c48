//! Selection of the nodes to run: those that a result or an effect needs.

use std::collections::HashSet;
use std::sync::Arc;

use workflow_model::graph::Graph;

use super::layout::{ScopeDraft, index};
use crate::node::Node;
use crate::plan::data::{Kind, LocalIx, OutPlan, PlanData, ScopePlan, SlotIx, slots};

/// Finds the nodes that run whatever is wanted, and with them those that something needs.
pub(super) fn mark_needed(
    plan: &mut PlanData,
    nodes: &[Arc<dyn Node>],
    graph: &Graph<'_>,
    local: &[LocalIx],
    drafts: &[ScopeDraft],
) {
    let mut always: Vec<HashSet<LocalIx>> = vec![HashSet::new(); plan.scopes.len()];
    for (number, node) in graph.nodes.iter().enumerate() {
        let spec = graph.spec(node);
        let kind = plan.scopes[node.scope as usize].nodes[local[number] as usize].kind;
        let node_type = match kind {
            Kind::Run(node_type) => nodes.get(node_type as usize),
            Kind::Muted | Kind::Bypass(_) | Kind::Call(_) | Kind::Zone(_) => None,
        };
        let by_type = node_type.is_some_and(|node_type| node_type.has_effect(&spec.config_values));
        let always_runs = node_type.is_some_and(|node_type| node_type.definition().always);
        if spec.effect.unwrap_or(by_type) || always_runs {
            let (mut scope, mut at) = (node.scope as usize, local[number]);
            while always[scope].insert(at) {
                let Some((home, container)) = plan.scopes[scope].owner else { break };
                (scope, at) = (home as usize, container);
            }
        }
    }
    for ((scope, always), draft) in plan.scopes.iter_mut().zip(always).zip(drafts) {
        scope.always = always.into_iter().collect();
        scope.always.sort_unstable();
        let wanted = scope.results.iter().flat_map(|result| slots(&result.origins)).chain(slots(&draft.next));
        let wanted: Vec<SlotIx> = wanted.collect();
        scope.needed = if scope.results.is_empty() {
            scope.reach(sinks(scope).into_iter().chain(scope.always.iter().copied()))
        } else {
            scope.reach(scope.owners_of(wanted).chain(scope.always.iter().copied()))
        };
        scope.n_needed = index(scope.needed.iter().filter(|needed| **needed).count());
    }
}

/// Nodes that nothing hangs on. Without wanted results everything runs that leads to one of them, which leaves out
/// what only inputs take that ask for it.
fn sinks(scope: &ScopePlan) -> Vec<LocalIx> {
    let mut taken = vec![false; scope.nodes.len()];
    for input in scope.inputs.iter().filter(|input| input.lazy) {
        scope.owners_of(slots(scope.origins(input))).for_each(|owner| taken[owner as usize] = true);
    }
    for (node, taken) in taken.iter_mut().enumerate() {
        let waits = |out: &OutPlan| {
            !scope.readers.row(out.slot).is_empty() || !scope.stream_readers.row(out.slot).is_empty()
        };
        *taken |=
            !scope.followers.row(index(node)).is_empty() || scope.outs(&scope.nodes[node]).iter().any(waits);
    }
    (0..index(taken.len())).filter(|node| !taken[*node as usize]).collect()
}

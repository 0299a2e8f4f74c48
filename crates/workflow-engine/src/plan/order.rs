//! Topological order of the nodes of a scope.

use petgraph::algo::toposort;
use petgraph::graph::DiGraph;

use super::data::{LocalIx, NONE};

/// Orders nodes so that each stands behind those that it waits for. `sources` are pairs of a node and one of those.
///
/// # Errors
/// A node that waits for itself.
pub(in crate::plan) fn topological_order(
    n_nodes: usize,
    sources: &[(LocalIx, LocalIx)],
) -> Result<Vec<LocalIx>, LocalIx> {
    let index = |node: usize| LocalIx::try_from(node).unwrap_or(NONE);
    // Most files name nodes in an order in which they can run.
    if sources.iter().all(|(node, source)| source < node) {
        return Ok((0..index(n_nodes)).collect());
    }
    let mut links = DiGraph::<(), (), LocalIx>::with_capacity(n_nodes, sources.len());
    for _ in 0..n_nodes {
        links.add_node(());
    }
    links.extend_with_edges(sources.iter().map(|(node, source)| (*source, *node)));
    match toposort(&links, None) {
        Ok(order) => Ok(order.into_iter().map(|node| index(node.index())).collect()),
        Err(cycle) => Err(index(cycle.node_id().index())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_stand_behind_those_that_they_wait_for() {
        assert_eq!(topological_order(3, &[(0, 2), (2, 1), (0, 1)]), Ok(vec![1, 2, 0]));
        assert!(topological_order(2, &[(0, 1), (1, 0)]).is_err());
    }
}

//! The expanded workflow in the order in which it could run.

use petgraph::algo::kosaraju_scc;
use petgraph::graph::{DiGraph, NodeIndex};
use serde::Serialize;

use super::{Graph, NodeIx, Source};

/// A node of the expanded workflow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct OutlineStep {
    /// Its path from the root, without passes.
    pub path: String,
    /// Its type.
    #[serde(rename = "type")]
    pub node_type: String,
    /// Nodes on the longest way to it, itself included. The nodes of a cycle share theirs.
    pub depth: usize,
    /// Paths of the nodes that it waits for, without repeats.
    pub needs: Vec<String>,
}

impl Graph<'_> {
    /// All nodes, each after those it waits for; a body comes after its zone. Nodes of a cycle come in file order.
    ///
    /// Takes time linear in nodes and edges, but for the texts of the paths.
    #[must_use]
    pub fn outline(&self) -> Vec<OutlineStep> {
        let mut links = DiGraph::<(), (), NodeIx>::with_capacity(self.nodes.len(), self.nodes.len());
        for _ in &self.nodes {
            links.add_node(());
        }
        for (target, needs) in (0..).zip(self.nodes.iter().map(|node| self.needs(node))) {
            for source in needs {
                links.add_edge(NodeIndex::from(source), NodeIndex::from(target), ());
            }
        }
        // The components come in reverse order, and are found without recursion.
        let mut knots = kosaraju_scc(&links);
        knots.reverse();
        let mut depths = vec![0_usize; self.nodes.len()];
        let mut steps = Vec::with_capacity(self.nodes.len());
        for mut knot in knots {
            knot.sort_unstable();
            let before = |node: &NodeIndex<NodeIx>| {
                let sources = links.neighbors_directed(*node, petgraph::Direction::Incoming);
                sources.map(|source| depths[source.index()]).max().unwrap_or(0)
            };
            let depth = knot.iter().map(before).max().unwrap_or(0) + knot.len();
            for node in knot {
                depths[node.index()] = depth;
                let index = NodeIx::try_from(node.index()).unwrap_or(NodeIx::MAX);
                let own = &self.nodes[node.index()];
                steps.push(OutlineStep {
                    path: self.full_path(index),
                    node_type: self.spec(own).node_type.clone(),
                    depth,
                    needs: self.needs(own).into_iter().map(|source| self.full_path(source)).collect(),
                });
            }
        }
        steps
    }

    /// The nodes that one waits for, in order and without repeats.
    fn needs(&self, node: &super::GraphNode) -> Vec<NodeIx> {
        let sources = node.inputs.iter().flat_map(|input| &input.sources);
        let sources = sources.filter_map(|source| match source {
            Source::Node(node, _) => Some(*node),
            Source::Entry(..) | Source::Value(_) | Source::Fallback(_) | Source::Absent(_) => None,
        });
        let holder = self.scopes[node.scope as usize].owner;
        let mut needs: Vec<NodeIx> = sources.chain(node.after.iter().copied()).chain(holder).collect();
        let mut seen = std::collections::HashSet::new();
        needs.retain(|node| seen.insert(*node));
        needs
    }
}

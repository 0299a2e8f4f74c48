//! Nodes that wait for each other.

use std::collections::VecDeque;

use agent_types::Problem;
use petgraph::Direction;
use petgraph::algo::{kosaraju_scc, toposort};
use petgraph::graph::{DiGraph, NodeIndex};

use super::NodeIx;
use super::build::Builder;
use crate::problem::ProblemCode;

type Links = DiGraph<(), (), u32>;

impl Builder<'_, '_> {
    /// Reports one cycle of each knot of nodes; `true` if there is none.
    pub(super) fn find_cycles(&mut self) -> bool {
        // Edges that all lead to later nodes close no cycle, and most files are written like that.
        if self.links.iter().all(|(from, to)| from < to) {
            return true;
        }
        let mut links = Links::with_capacity(self.graph.nodes.len(), self.links.len());
        for _ in 0..self.graph.nodes.len() {
            links.add_node(());
        }
        for (from, to) in std::mem::take(&mut self.links) {
            links.add_edge(NodeIndex::from(from), NodeIndex::from(to), ());
        }
        if toposort(&links, None).is_ok() {
            return true;
        }
        let mut knots = kosaraju_scc(&links);
        knots.retain(|knot| knot.len() > 1 || links.contains_edge(knot[0], knot[0]));
        for knot in &mut knots {
            knot.sort_unstable();
        }
        knots.sort_unstable();
        let mut inside = vec![usize::MAX; self.graph.nodes.len()];
        for (number, knot) in knots.iter().enumerate() {
            for node in knot {
                inside[node.index()] = number;
            }
        }
        for knot in &knots {
            self.report_cycle(&cycle_from(&links, knot[0], &inside));
        }
        false
    }

    fn report_cycle(&mut self, nodes: &[NodeIx]) {
        let paths: Vec<String> = nodes.iter().map(|node| self.path_of(*node)).collect();
        let shown = match paths.len() {
            0..=20 => paths.join(" → "),
            more => format!("{} … ({more} nodes)", paths[..20].join(" → ")),
        };
        let message = format!(
            "these nodes wait for each other: {shown} → {}; to repeat work put it into a loop zone (`core:LoopZone`)",
            paths.first().map_or("", String::as_str)
        );
        self.problem(Problem::error(ProblemCode::Cycle, message).cycle(paths));
    }
}

/// A shortest cycle through `start`, in edge order, within its knot.
fn cycle_from(links: &Links, start: NodeIndex<u32>, inside: &[usize]) -> Vec<NodeIx> {
    let knot = inside[start.index()];
    let mut came_from = std::collections::HashMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(node) = queue.pop_front() {
        for next in links.neighbors_directed(node, Direction::Outgoing) {
            if next == start {
                return path_back(&came_from, start, node);
            }
            if inside[next.index()] == knot && !came_from.contains_key(&next) {
                came_from.insert(next, node);
                queue.push_back(next);
            }
        }
    }
    vec![NodeIx::try_from(start.index()).unwrap_or(NodeIx::MAX)]
}

fn path_back(
    came_from: &std::collections::HashMap<NodeIndex<u32>, NodeIndex<u32>>,
    start: NodeIndex<u32>,
    end: NodeIndex<u32>,
) -> Vec<NodeIx> {
    let mut path = vec![end];
    while let Some(last) = path.last().filter(|last| **last != start) {
        path.push(came_from[last]);
    }
    path.reverse();
    path.into_iter().map(|node| NodeIx::try_from(node.index()).unwrap_or(NodeIx::MAX)).collect()
}

//! Graphs that every engine is given.

/// Nodes from 0 on and the edges between them, each to a later node.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    pub(crate) name: &'static str,
    pub(crate) nodes: usize,
    pub(crate) edges: Vec<(usize, usize)>,
}

impl Shape {
    /// Each node hands on to the next.
    pub(crate) fn chain(nodes: usize) -> Self {
        Self { name: "chain of 10,000", nodes, edges: (1..nodes).map(|at| (at - 1, at)).collect() }
    }

    /// One node to many to one.
    pub(crate) fn fan(width: usize) -> Self {
        let edges = (1..=width).flat_map(|at| [(0, at), (at, width + 1)]).collect();
        Self { name: "fan 1 → 10,000 → 1", nodes: width + 2, edges }
    }

    /// Layers of 100 nodes; each node takes from three of the layer before.
    pub(crate) fn layered(nodes: usize) -> Self {
        const LAYER: usize = 100;
        let before = |at: usize| {
            let start = (at / LAYER - 1) * LAYER;
            (0..3).map(move |arm| (start + (at * 7 + arm * 31) % LAYER, at))
        };
        Self { name: "DAG 100,000 / 300,000", nodes, edges: (LAYER..nodes).flat_map(before).collect() }
    }

    /// Where each node hands on to.
    pub(crate) fn successors(&self) -> Vec<Vec<usize>> {
        let mut after = vec![Vec::new(); self.nodes];
        self.edges.iter().for_each(|&(from, to)| after[from].push(to));
        after
    }

    /// Where each node takes from.
    pub(crate) fn sources(&self) -> Vec<Vec<usize>> {
        let mut before = vec![Vec::new(); self.nodes];
        self.edges.iter().for_each(|&(from, to)| before[to].push(from));
        before
    }

    /// Nodes that hand on to nobody.
    pub(crate) fn ends(&self) -> Vec<usize> {
        let after = self.successors();
        (0..self.nodes).filter(|&at| after[at].is_empty()).collect()
    }
}

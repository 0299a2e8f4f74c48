//! The peer `dagrs`: a channel an edge, a task a node.

use std::sync::Arc;

use anyhow::{Result, anyhow};
use async_trait::async_trait;
use dagrs::{Action, Content, DefaultNode, EnvVar, Graph, InChannels, Node, NodeTable, OutChannels, Output};

use super::shape::Shape;

/// Waits for all inputs and hands a value on.
struct Pass;

#[async_trait]
impl Action for Pass {
    async fn run(&self, inputs: &mut InChannels, outputs: &mut OutChannels, _env: Arc<EnvVar>) -> Output {
        let taken = inputs.map(|content| content.is_ok()).await;
        outputs.broadcast(Content::new(taken.len())).await;
        Output::empty()
    }
}

/// A graph, ready for one run.
pub(crate) fn graph(shape: &Shape) -> Result<Graph> {
    let mut table = NodeTable::default();
    let nodes: Vec<_> =
        (0..shape.nodes).map(|at| DefaultNode::with_action(format!("n{at}"), Pass, &mut table)).collect();
    let ids: Vec<_> = nodes.iter().map(Node::id).collect();
    let mut graph = Graph::new();
    for node in nodes {
        graph.add_node(node).map_err(|error| anyhow!("{error:?}"))?;
    }
    for (from, after) in shape.successors().into_iter().enumerate().filter(|(_, after)| !after.is_empty()) {
        let after: Vec<_> = after.into_iter().map(|to| ids[to]).collect();
        graph.add_edge(ids[from], after).map_err(|error| anyhow!("{error:?}"))?;
    }
    graph.set_env(EnvVar::new(table));
    Ok(graph)
}

/// Runs it; whether it ended well.
pub(crate) async fn run(mut graph: Graph) -> bool {
    graph.async_start().await.is_ok()
}

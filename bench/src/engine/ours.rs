//! Our engine with nodes that do nothing.

use std::sync::Arc;

use agent_types::{Delivery, EventSubscription, Recorder, RunId, RunStatus, SystemClock};
use anyhow::Result;
use async_trait::async_trait;
use serde_json::{Map, Value, json};
use workflow_engine::{
    Inputs, Node, NodeCatalog, NodeContext, NodeError, Outputs, Plan, RunOptions, StreamItem,
};
use workflow_model::{DataFlowType, NoWorkflows, NodeDefinition, SlotDefinition, Workflow};

use super::shape::Shape;

/// Events a watcher may be behind.
const WATCHED: usize = 4096;

/// Hands its first input on at once, as the nodes of the library that compute do.
struct Id(NodeDefinition);

/// Waits for a person.
struct Ask(NodeDefinition);

/// Writes a stream of `n` chunks.
struct Source(NodeDefinition);

/// Hands a stream on, chunk by chunk.
struct Tap(NodeDefinition);

/// Counts the chunks of a stream.
struct Sink(NodeDefinition);

#[async_trait]
impl Node for Id {
    fn definition(&self) -> &NodeDefinition {
        &self.0
    }

    fn compute(&self, _ctx: &NodeContext, inputs: &Inputs) -> Option<Result<Outputs, NodeError>> {
        Some(Ok(inputs.at(0).cloned().map_or_else(|| Outputs::value(Value::Null), Outputs::shared)))
    }

    async fn run(&self, ctx: NodeContext, inputs: Inputs) -> Result<Outputs, NodeError> {
        self.compute(&ctx, &inputs).unwrap_or_else(|| Ok(Outputs::none()))
    }
}

#[async_trait]
impl Node for Ask {
    fn definition(&self) -> &NodeDefinition {
        &self.0
    }

    async fn run(&self, ctx: NodeContext, _inputs: Inputs) -> Result<Outputs, NodeError> {
        ctx.ask("go on?").await.map(Outputs::value)
    }
}

#[async_trait]
impl Node for Source {
    fn definition(&self) -> &NodeDefinition {
        &self.0
    }

    async fn run(&self, ctx: NodeContext, _inputs: Inputs) -> Result<Outputs, NodeError> {
        for _ in 0..ctx.config("n").and_then(Value::as_u64).unwrap_or(0) {
            ctx.chunk("out", "token ").await?;
        }
        Ok(Outputs::none())
    }
}

#[async_trait]
impl Node for Tap {
    fn definition(&self) -> &NodeDefinition {
        &self.0
    }

    async fn run(&self, ctx: NodeContext, inputs: Inputs) -> Result<Outputs, NodeError> {
        let mut stream = inputs.stream("in").ok_or_else(|| NodeError::fatal("no stream"))?;
        while let Some(item) = stream.next().await {
            if let StreamItem::Chunk(text) = item {
                ctx.chunk("out", text).await?;
            }
        }
        Ok(Outputs::none())
    }
}

#[async_trait]
impl Node for Sink {
    fn definition(&self) -> &NodeDefinition {
        &self.0
    }

    async fn run(&self, _ctx: NodeContext, inputs: Inputs) -> Result<Outputs, NodeError> {
        let mut stream = inputs.stream("in").ok_or_else(|| NodeError::fatal("no stream"))?;
        let mut chunks = 0;
        while stream.next().await.is_some() {
            chunks += 1;
        }
        Ok(Outputs::value(chunks))
    }
}

/// The nodes of the benchmarks.
pub(crate) fn catalog() -> NodeCatalog {
    let any = || SlotDefinition::new(DataFlowType::Wildcard, "anything");
    let node = |name: &str| NodeDefinition::new(name, "does nothing");
    NodeCatalog::new()
        .with(Id(node("b:id").input("in", any()).output("out", any())))
        .with(Id(node("b:join").input("in", any().multi()).output("out", any())))
        .with(Ask(node("b:ask").input("in", any()).output("out", any())))
        .with(Source(node("b:source").output("out", any().stream())))
        .with(Tap(node("b:tap").input("in", any().stream()).output("out", any().stream())))
        .with(Sink(node("b:sink").input("in", any().stream()).output("out", any())))
}

/// The shape as a workflow; all its nodes run, because it declares no results.
pub(crate) fn workflow(shape: &Shape) -> Result<Workflow> {
    let name = |at: usize| format!("n{at}");
    let sources = shape.sources();
    let nodes = sources.iter().enumerate().map(
        |(at, before)| json!({"id": name(at), "type": if before.len() > 1 { "b:join" } else { "b:id" }}),
    );
    let edges = sources.iter().enumerate().flat_map(|(to, before)| {
        let many = before.len() > 1;
        before.iter().enumerate().map(move |(index, &from)| {
            let slot = if many { format!("in__{index}") } else { "in".to_owned() };
            json!({"source": name(from), "sourceHandle": "out", "target": name(to), "targetHandle": slot})
        })
    });
    flow(&nodes.collect::<Vec<_>>(), &edges.collect::<Vec<_>>())
}

/// A loop zone of two nodes.
pub(crate) fn zone(settings: &Value) -> Result<Workflow> {
    let wire = |(from, slot, to, into): (&str, &str, &str, &str)| json!({"source": from, "sourceHandle": slot, "target": to, "targetHandle": into});
    let edges = [("s", "index", "a", "in"), ("a", "out", "b", "in"), ("b", "out", "n", "k")].map(wire);
    let mut config = settings.clone();
    config["body"] = json!({
        "nodes": [
            {"id": "s", "type": "core:LoopState"}, {"id": "a", "type": "b:id"},
            {"id": "b", "type": "b:id"}, {"id": "n", "type": "core:LoopNext"},
        ],
        "edges": edges,
    });
    flow(&[json!({"id": "L", "type": "core:LoopZone", "configValues": config})], &[])
}

/// Three stages of a stream.
pub(crate) fn stream(chunks: usize) -> Result<Workflow> {
    let wire = |from: &str, to: &str| json!({"source": from, "sourceHandle": "out", "target": to, "targetHandle": "in"});
    let nodes = [
        json!({"id": "a", "type": "b:source", "configValues": {"n": chunks}}),
        json!({"id": "b", "type": "b:tap"}),
        json!({"id": "c", "type": "b:sink"}),
    ];
    flow(&nodes, &[wire("a", "b"), wire("b", "c")])
}

fn flow(nodes: &[Value], edges: &[Value]) -> Result<Workflow> {
    Ok(Workflow::from_value(json!({"nodes": nodes, "edges": edges}))?)
}

/// The checked form.
pub(crate) fn plan(workflow: &Workflow) -> Result<Plan> {
    Ok(Plan::new(workflow, &catalog(), &NoWorkflows)?)
}

/// Runs without a watcher; the number of nodes that started.
pub(crate) async fn run(plan: Plan) -> u64 {
    let outcome = plan.run(Map::new(), RunOptions::new()).outcome().await;
    assert_eq!(outcome.status, RunStatus::Ok, "{:?}", outcome.error);
    outcome.node_starts
}

/// Runs while a watcher reads all events; their number, lost ones included.
pub(crate) async fn run_watched(plan: Plan) -> u64 {
    let recorder = Recorder::new(RunId::generate(), Arc::new(SystemClock));
    let watcher = recorder.subscribe(WATCHED);
    let options = RunOptions::new().with_sink(Arc::clone(&recorder) as _);
    let run = async {
        let outcome = plan.run(Map::new(), options).outcome().await;
        recorder.close();
        outcome
    };
    let (outcome, events) = futures::join!(run, count(watcher));
    assert_eq!(outcome.status, RunStatus::Ok, "{:?}", outcome.error);
    events
}

async fn count(mut watcher: EventSubscription) -> u64 {
    let mut events = 0;
    while let Some(watched) = watcher.next().await {
        events += match watched {
            Delivery::Events(batch) => u64::try_from(std::hint::black_box(batch).len()).unwrap_or_default(),
            Delivery::Lagged(lost) => lost,
        };
    }
    events
}

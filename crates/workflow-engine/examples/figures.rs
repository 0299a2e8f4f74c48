//! What a node, a pass and a chunk cost: `cargo run --release -p workflow-engine --example figures`.
//!
//! One thread, no-op nodes, events recorded and read by one watcher; times are those of the thread.
#![expect(
    clippy::print_stdout,
    clippy::cast_precision_loss,
    clippy::needless_pass_by_value,
    reason = "a program that prints rounded figures"
)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use workflow_engine::{Inputs, Node, NodeCatalog, NodeContext, NodeError, Outputs, Plan, RunOptions};
use workflow_model::{DataFlowType, NoWorkflows, NodeDefinition, SlotDefinition, Workflow};

/// Hands its input on, streams, or reads a stream.
struct Plain(NodeDefinition);

fn any() -> SlotDefinition {
    SlotDefinition::new(DataFlowType::Wildcard, "any")
}

#[async_trait]
impl Node for Plain {
    fn definition(&self) -> &NodeDefinition {
        &self.0
    }

    async fn run(&self, ctx: NodeContext, inputs: Inputs) -> Result<Outputs, NodeError> {
        match &*self.0.node_type {
            "f:stream" => {
                for _ in 0..ctx.config("n").and_then(Value::as_u64).unwrap_or(0) {
                    ctx.chunk("out", "x").await?;
                }
                Ok(Outputs::none())
            }
            "f:tap" => {
                let mut stream = inputs.stream("in").ok_or_else(|| NodeError::fatal("no stream"))?;
                while let Some(item) = stream.next().await {
                    if let workflow_engine::StreamItem::Chunk(text) = item {
                        ctx.chunk("out", text).await?;
                    }
                }
                Ok(Outputs::none())
            }
            "f:count" => {
                let mut stream = inputs.stream("in").ok_or_else(|| NodeError::fatal("no stream"))?;
                let mut count = 0;
                while stream.next().await.is_some() {
                    count += 1;
                }
                Ok(Outputs::value(count))
            }
            _ => Ok(inputs.at(0).cloned().map_or_else(|| Outputs::value(Value::Null), Outputs::shared)),
        }
    }
}

fn catalog() -> NodeCatalog {
    let node = |name: &str| NodeDefinition::new(name, "no-op");
    NodeCatalog::new()
        .with(Plain(node("f:id").input("in", any().multi()).output("out", any())))
        .with(Plain(node("f:one").input("in", any()).output("out", any())))
        .with(Plain(node("f:stream").output("out", any().stream())))
        .with(Plain(node("f:tap").input("in", any().stream()).output("out", any().stream())))
        .with(Plain(node("f:count").input("in", any().stream()).output("out", any())))
}

fn workflow(nodes: Vec<Value>, edges: Vec<Value>) -> Workflow {
    Workflow::from_value(json!({"nodes": nodes, "edges": edges})).expect("the file is made here")
}

fn edge(from: usize, to: usize, slot: &str) -> Value {
    json!({"source": format!("n{from}"), "sourceHandle": "out", "target": format!("n{to}"), "targetHandle": slot})
}

/// Plans and runs; the times of both and the number of events.
fn measure(workflow: &Workflow, watched: bool) -> (Duration, Duration, u64) {
    let catalog = catalog();
    let started = Instant::now();
    let plan = Plan::new(workflow, &catalog, &NoWorkflows).expect("the plan is sound");
    let planned = started.elapsed();
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let started = Instant::now();
    let events = runtime.block_on(async {
        let (options, mut watcher) = RunOptions::new().watched(1 << 20);
        if !watched {
            drop(watcher);
            let outcome = plan.run(Map::new(), options).outcome().await;
            assert!(outcome.error.is_none(), "{:?}", outcome.error);
            return 0;
        }
        let outcome = plan.run(Map::new(), options).outcome();
        tokio::pin!(outcome);
        let mut events = 0;
        loop {
            tokio::select! {
                biased;
                batch = watcher.next() => if let Some(agent_types::Watched::Events(batch)) = batch { events += black_box(&batch).len() as u64 },
                outcome = &mut outcome => { assert!(outcome.error.is_none(), "{:?}", outcome.error); return events; }
            }
        }
    });
    (planned, started.elapsed(), events)
}

fn report(name: &str, per: u64, workflow: impl FnOnce() -> Workflow) {
    if std::env::args().nth(1).is_some_and(|part| !name.contains(&part)) {
        return;
    }
    let workflow = &workflow();
    let mut best = [Duration::MAX; 3];
    let mut events = 0;
    for _ in 0..3 {
        let (planned, bare, _) = measure(workflow, false);
        let (_, traced, seen) = measure(workflow, true);
        for (best, new) in best.iter_mut().zip([planned, bare, traced]) {
            *best = (*best).min(new);
        }
        events = seen;
    }
    let each = |time: Duration| time.as_nanos() as f64 / per as f64 / 1000.0;
    println!(
        "{name:28} plan {:9.3} ms  bare {:6.3} µs  traced {:6.3} µs  ({events} events)",
        best[0].as_secs_f64() * 1e3,
        each(best[1]),
        each(best[2])
    );
}

fn node(at: usize, node_type: &str) -> Value {
    json!({"id": format!("n{at}"), "type": node_type})
}

fn main() {
    let chain = |n: usize| {
        workflow(
            (0..n).map(|at| node(at, "f:one")).collect(),
            (1..n).map(|at| edge(at - 1, at, "in")).collect(),
        )
    };
    report("chain 10,000", 10_000, || chain(10_000));
    report("chain 100,000", 100_000, || chain(100_000));
    let fan = |n: usize| {
        let mut edges: Vec<Value> = (1..=n).map(|at| edge(0, at, "in")).collect();
        edges.extend((1..=n).map(|at| edge(at, n + 1, &format!("in__{at}"))));
        workflow((0..n + 2).map(|at| node(at, "f:id")).collect(), edges)
    };
    report("fan 10,000", 10_000, || fan(10_000));
    let layers = |n: usize, layer: usize| {
        let edges = (layer..n).flat_map(|at| {
            let before = (at / layer - 1) * layer;
            (0..3).map(move |k| edge(before + (at * 7 + k * 31) % layer, at, &format!("in__{k}")))
        });
        workflow((0..n).map(|at| node(at, "f:id")).collect(), edges.collect())
    };
    report("graph 100,000 / 300,000", 100_000, || layers(100_000, 100));
    let zone = |condition: Value| {
        let mut config = json!({"state": [{"key": "k", "initial": 0}]});
        config.as_object_mut().expect("an object").extend(condition.as_object().cloned().expect("an object"));
        let wire = |from: &str, slot: &str, to: &str, into: &str| json!({"source": from, "sourceHandle": slot, "target": to, "targetHandle": into});
        config["body"] = json!({
            "nodes": [{"id": "s", "type": "core:LoopState"}, {"id": "a", "type": "f:one"}, {"id": "b", "type": "f:one"}, {"id": "n", "type": "core:LoopNext"}],
            "edges": [wire("s", "index", "a", "in"), wire("a", "out", "b", "in"), wire("b", "out", "n", "k")]
        });
        workflow(vec![json!({"id": "L", "type": "core:LoopZone", "configValues": config})], vec![])
    };
    report("passes of two, times", 100_000, || zone(json!({"mode": "times", "times": 100_000})));
    report("passes of two, expression", 100_000, || {
        zone(json!({"mode": "until", "condition": "state.k >= 99999", "maxIterations": 200_000}))
    });
    let stream = workflow(
        vec![
            json!({"id": "n0", "type": "f:stream", "configValues": {"n": 300_000}}),
            node(1, "f:tap"),
            node(2, "f:count"),
        ],
        vec![edge(0, 1, "in"), edge(1, 2, "in")],
    );
    report("chunks over three stages", 300_000, || stream);
    let single = workflow(vec![node(0, "f:one")], vec![]);
    let started = Instant::now();
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let catalog = catalog();
    for _ in 0..10_000 {
        let plan = Plan::new(&single, &catalog, &NoWorkflows).expect("the plan is sound");
        black_box(runtime.block_on(async { plan.run(Map::new(), RunOptions::new()).outcome().await }));
    }
    println!("one node, planned and run: {:.2} µs", started.elapsed().as_secs_f64() * 1e6 / 10_000.0);
}

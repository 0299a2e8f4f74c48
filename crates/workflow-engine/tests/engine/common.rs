//! Test nodes and a world with virtual time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use agent_types::{EventBody, TraceEvent, VirtualClock};
use async_trait::async_trait;
use serde_json::{Map, Value, json};
use weft_harness::VirtualTime;
use workflow_engine::{
    Inputs, Node, NodeCatalog, NodeContext, NodeError, Outputs, Plan, RunOptions, RunOutcome, StopScope,
    StreamItem,
};
use workflow_model::{DataFlowType, NoWorkflows, NodeDefinition, SlotDefinition, Workflow};

fn any(description: &str) -> SlotDefinition {
    SlotDefinition::new(DataFlowType::Wildcard, description)
}

/// One node for many operations, chosen by its type's name.
struct Op {
    definition: NodeDefinition,
    runs: AtomicU32,
}

impl Op {
    fn new(name: &str) -> Self {
        let slot = |slot: SlotDefinition| slot;
        let base = NodeDefinition::new(format!("t:{name}"), "test");
        let definition = match name {
            "if" => {
                let base = base.input("in", any("c").required()).routes().pure();
                base.output("then", any("t")).output("else", any("e"))
            }
            "list" => base.input("in", any("i").multi()).output("out", any("o")),
            "stream" => base.input("in", any("i")).output("out", slot(any("o")).stream()),
            "tap" => base.input("in", any("i").stream()).output("out", any("o").stream()).pure(),
            "reply" => {
                base.input("in", any("i").stream()).input("more", any("m").stream()).output("out", any("o"))
            }
            "join" => base.input("in", any("i").stream()).output("out", any("o")),
            "lazy" => base.input("in", any("i")).input("other", any("l").lazy()).output("out", any("o")),
            "effect" => base.input("in", any("i")).output("out", any("o")).effect(),
            "calls" => base.input("in", any("i")).output("out", any("o")).effect().idempotent(),
            "pure" => base.input("in", any("i")).input("other", any("x")).output("out", any("o")).pure(),
            "optional" => base
                .input("in", any("i").optional())
                .input("other", any("x").optional())
                .output("out", any("o")),
            "block" => base.input("in", any("i")).output("out", any("o")).blocking(),
            _ => base.input("in", any("i")).output("out", any("o")),
        };
        Self { definition, runs: AtomicU32::new(0) }
    }
}

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("dropped");
    }
}

fn number(ctx: &NodeContext, key: &str) -> u64 {
    ctx.config(key).and_then(Value::as_u64).unwrap_or(0)
}

#[async_trait]
impl Node for Op {
    fn definition(&self) -> &NodeDefinition {
        &self.definition
    }

    fn compute(&self, ctx: &NodeContext, inputs: &Inputs) -> Option<Result<Outputs, NodeError>> {
        let first = || inputs.get("in").cloned().unwrap_or_default();
        Some(match &*self.definition.node_type {
            "t:id" => Ok(Outputs::shared(first())),
            "t:emit" => Ok(Outputs::value(ctx.config("v").cloned().unwrap_or_default())),
            "t:add" => Ok(Outputs::value(
                first().as_i64().unwrap_or(0) + ctx.config("n").and_then(Value::as_i64).unwrap_or(1),
            )),
            "t:list" => Ok(Outputs::value(inputs.taken().map(|value| (**value).clone()).collect::<Vec<_>>())),
            "t:if" => {
                let slot = if first().as_bool() == Some(true) { "then" } else { "else" };
                Ok(Outputs::named(slot, (*first()).clone()))
            }
            "t:fail" => fail(ctx, first()),
            "t:panic" => panic!("boom"),
            _ => return None,
        })
    }

    async fn run(&self, ctx: NodeContext, inputs: Inputs) -> Result<Outputs, NodeError> {
        if let Some(given) = self.compute(&ctx, &inputs) {
            return given;
        }
        let first = || inputs.get("in").cloned().unwrap_or_default();
        let wait = Duration::from_millis(number(&ctx, "ms"));
        match &*self.definition.node_type {
            "t:effect" | "t:optional" => Ok(Outputs::shared(first())),
            "t:wait" => {
                ctx.sleep(wait).await;
                Ok(Outputs::shared(first()))
            }
            "t:beat" => {
                for _ in 0..number(&ctx, "n") {
                    ctx.sleep(wait).await;
                    ctx.heartbeat();
                }
                Ok(Outputs::shared(first()))
            }
            "t:panic_on_drop" => {
                let _bomb = Bomb;
                ctx.sleep(Duration::from_hours(1)).await;
                Ok(Outputs::none())
            }
            "t:stop" => {
                let scope = if ctx.config("scope") == Some(&json!("loop")) {
                    StopScope::Loop
                } else {
                    StopScope::Run
                };
                Ok(Outputs::stop(first(), scope))
            }
            "t:stream" => stream(&ctx, &first()).await,
            "t:tap" => tap(&ctx, &inputs).await,
            "t:reply" => {
                // Both are open before one is read.
                let streams: Vec<_> = ["in", "more"].iter().filter_map(|slot| inputs.stream(slot)).collect();
                let mut text = String::new();
                for mut stream in streams {
                    text.push_str(&stream.read_to_end().await);
                }
                Ok(Outputs::value(text))
            }
            "t:join" => {
                let text = match inputs.stream("in") {
                    Some(mut stream) => stream.read_to_end().await,
                    None => String::new(),
                };
                Ok(Outputs::value(text))
            }
            "t:lazy" => match first().as_bool() {
                Some(true) => {
                    Ok(ctx.pull(&inputs, "other").await?.map_or_else(Outputs::none, Outputs::shared))
                }
                _ => Ok(Outputs::shared(first())),
            },
            "t:calls" => crate::inner::calls(&ctx).await,
            "t:ask" => ctx.ask("what?").await.map(Outputs::value),
            "t:asks" => crate::questions::ask_twice(&ctx).await,
            "t:cancel" => {
                let id = ctx.config("node").and_then(Value::as_str).unwrap_or_default().to_owned();
                Ok(Outputs::value(ctx.cancel_node(&id).await))
            }
            "t:block" => {
                std::thread::sleep(wait);
                Ok(Outputs::shared(first()))
            }
            "t:pure" => {
                ctx.sleep(wait).await;
                match ctx.config("fail") {
                    Some(_) => Err(NodeError::new("no")),
                    None => Ok(Outputs::value(first().as_i64().unwrap_or(0) + 1)),
                }
            }
            "t:runs" => Ok(Outputs::value(self.runs.fetch_add(1, Ordering::Relaxed) + 1)),
            other => Err(NodeError::fatal(format!("no operation {other}"))),
        }
    }
}

fn fail(ctx: &NodeContext, first: Arc<Value>) -> Result<Outputs, NodeError> {
    let times = ctx.config("times").and_then(Value::as_u64).unwrap_or(u64::MAX);
    if ctx.config("on").is_some_and(|on| *on != *first) || u64::from(ctx.attempt()) > times {
        return Ok(Outputs::shared(first));
    }
    Err(NodeError::new(ctx.config("msg").and_then(Value::as_str).unwrap_or("no")).with_code("c"))
}

async fn stream(ctx: &NodeContext, input: &Value) -> Result<Outputs, NodeError> {
    let chunks = ctx.config("chunks").unwrap_or(input).as_array().cloned().unwrap_or_default();
    let fail_after = ctx.config("fail_after").and_then(Value::as_u64).filter(|_| ctx.attempt() == 1);
    for (at, chunk) in chunks.iter().enumerate() {
        if fail_after == Some(at as u64) {
            return Err(NodeError::new("cut"));
        }
        let wait = Duration::from_millis(number(ctx, "ms"));
        if !wait.is_zero() {
            ctx.sleep(wait).await;
        }
        ctx.chunk("out", chunk.as_str().unwrap_or("?")).await?;
    }
    Ok(Outputs::none())
}

async fn tap(ctx: &NodeContext, inputs: &Inputs) -> Result<Outputs, NodeError> {
    let Some(mut stream) = inputs.stream("in") else { return Ok(Outputs::none()) };
    while let Some(item) = stream.next().await {
        match item {
            StreamItem::Chunk(text) => {
                let wait = Duration::from_millis(number(ctx, "ms"));
                if !wait.is_zero() {
                    ctx.sleep(wait).await;
                }
                ctx.chunk("out", text).await?;
            }
            StreamItem::Mark(mark) => ctx.mark("out", mark).await?,
            StreamItem::Retracted => return Err(NodeError::new("taken back")),
        }
    }
    Ok(Outputs::none())
}

/// All test nodes.
pub(crate) fn catalog() -> NodeCatalog {
    let mut catalog = NodeCatalog::new();
    for name in [
        "id",
        "emit",
        "wait",
        "add",
        "list",
        "if",
        "fail",
        "panic",
        "stop",
        "stream",
        "tap",
        "join",
        "lazy",
        "ask",
        "asks",
        "effect",
        "optional",
        "calls",
        "block",
        "cancel",
        "runs",
        "beat",
        "pure",
        "reply",
        "panic_on_drop",
    ] {
        catalog.register(Op::new(name));
    }
    catalog
}

/// A workflow in short: `(id, type, extra keys)`, `"a.slot -> b.slot"` or `"a -> b"`, and results by name.
pub(crate) fn flow(nodes: &[(&str, &str, Value)], edges: &[&str], results: &[(&str, &str)]) -> Workflow {
    let mut all: Vec<Value> = nodes.iter().map(|(id, node_type, extra)| node(id, node_type, extra)).collect();
    let mut wires: Vec<Value> = edges.iter().map(|text| wire(text)).collect();
    let mut interface = Map::new();
    if !results.is_empty() {
        all.push(json!({"id": "$out", "type": "core:GroupOutput"}));
    }
    for (name, from) in results {
        interface.insert((*name).to_owned(), json!({"dataFlowType": "WILDCARD"}));
        wires.push(wire(&format!("{from} -> $out.{name}")));
    }
    Workflow::from_value(json!({"nodes": all, "edges": wires, "interfaceOutputs": interface})).unwrap()
}

fn node(id: &str, node_type: &str, extra: &Value) -> Value {
    let full = if node_type.contains(':') { node_type.to_owned() } else { format!("t:{node_type}") };
    let mut node = json!({"id": id, "type": full});
    let mut config = Map::new();
    for (key, value) in extra.as_object().into_iter().flatten() {
        let own = [
            "parentNode",
            "inputValues",
            "configValues",
            "timeoutMs",
            "idleMs",
            "totalMs",
            "retry",
            "onError",
            "bypass",
            "lazy",
            "group",
            "effect",
            "first",
            "cancelRest",
            "skipIf",
            "cache",
        ];
        if own.contains(&key.as_str()) {
            node[key] = value.clone();
        } else {
            config.insert(key.clone(), value.clone());
        }
    }
    if !config.is_empty() {
        node["configValues"] = Value::Object(config);
    }
    node
}

/// Handles may hold dots; ids may not.
fn wire(text: &str) -> Value {
    let (from, to) = text.split_once(" -> ").unwrap();
    let part = |text: &str| match text.split_once('.') {
        Some((node, slot)) => (json!(node), json!(slot)),
        None => (json!(text), Value::Null),
    };
    let ((source, source_handle), (target, target_handle)) = (part(from), part(to));
    json!({"source": source, "sourceHandle": source_handle, "target": target, "targetHandle": target_handle})
}

/// Observed events and outcome of a run.
pub(crate) struct Seen {
    pub(crate) outcome: RunOutcome,
    pub(crate) events: Vec<TraceEvent>,
    pub(crate) elapsed: Duration,
}

impl Seen {
    /// One line an event: type, path, and what matters of its data. `node.started` is left out where it adds nothing.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.events.iter().map(line).collect()
    }

    /// The terminal events, in order.
    pub(crate) fn ends(&self) -> Vec<String> {
        let terminal = |line: &String| {
            [
                "node.finished",
                "node.failed",
                "node.skipped",
                "node.cancelled",
                "node.cached",
                "run.",
                "loop.exited",
            ]
            .iter()
            .any(|start| line.starts_with(start))
        };
        self.lines().into_iter().filter(|line| terminal(line) && !line.starts_with("run.started")).collect()
    }
}

fn line(event: &TraceEvent) -> String {
    let whole = serde_json::to_value(event).unwrap();
    let mut text = whole["type"].as_str().unwrap().to_owned();
    for key in ["path", "iteration"] {
        if let Some(value) = whole.get(key) {
            text.push_str(&format!(" {}", value.as_str().map_or_else(|| value.to_string(), str::to_owned)));
        }
    }
    for key in [
        "kind", "cause", "handled", "why", "passes", "text", "status", "limit_ms", "value", "changed",
        "cache", "from",
    ] {
        if let Some(value) = whole["data"].get(key) {
            text.push_str(&format!(
                " {key}={}",
                value.as_str().map_or_else(|| value.to_string(), str::to_owned)
            ));
        }
    }
    text
}

/// Runs in virtual time, on one thread.
pub(crate) fn run_with(workflow: &Workflow, inputs: Value, options: RunOptions) -> Seen {
    let plan = Plan::new(workflow, &catalog(), &NoWorkflows).unwrap_or_else(|error| panic!("{error}"));
    run_plan(&plan, inputs, options, |_| async {})
}

/// Runs a plan in virtual time; `beside` gets the handle's token and runs at the same time.
pub(crate) fn run_plan<F: Future<Output = ()>>(
    plan: &Plan,
    inputs: Value,
    options: RunOptions,
    beside: impl FnOnce(Beside) -> F,
) -> Seen {
    let time = VirtualTime::default();
    let clock = time.clock();
    let inputs = inputs.as_object().cloned().unwrap_or_default();
    let (options, mut watcher) = options.with_clock(Arc::new(clock.clone())).watched(1_000_000);
    let outcome = time.block_on(async {
        let handle = plan.run(inputs, options);
        let world = Beside { clock: clock.clone(), cancel: handle.cancel_token() };
        let (outcome, ()) = futures::join!(handle.outcome(), beside(world));
        outcome
    });
    let events = weft_harness::events(&mut watcher);
    let seen = Seen { outcome, events, elapsed: agent_types::Clock::elapsed(&clock) };
    check_order(&seen);
    seen
}

/// Capabilities of a task that runs beside a run.
pub(crate) struct Beside {
    pub(crate) clock: VirtualClock,
    pub(crate) cancel: tokio_util::sync::CancellationToken,
}

/// Holds for every run: numbers without holes, one end for every start, nothing after the end.
fn check_order(seen: &Seen) {
    let mut open: std::collections::BTreeSet<(String, Option<u64>)> = std::collections::BTreeSet::new();
    let mut ended = std::collections::BTreeSet::new();
    for (at, event) in seen.events.iter().enumerate() {
        assert_eq!(event.seq, at as u64 + 1);
        let key = (event.place.path.as_deref().unwrap_or("").to_owned(), event.place.iteration);
        match &event.body {
            EventBody::NodeStarted { .. } => {
                assert!(open.insert(key.clone()), "{key:?} starts twice");
            }
            EventBody::NodeFinished { .. }
            | EventBody::NodeFailed { .. }
            | EventBody::NodeCancelled { .. }
            | EventBody::NodeSkipped { .. }
            | EventBody::NodeCached { .. } => {
                open.remove(&key);
                assert!(ended.insert(key.clone()), "{key:?} ends twice");
            }
            // Inside a container that is tried again, nodes may end again.
            EventBody::NodeRetrying { .. } => {
                ended.retain(|(path, _): &(String, _)| !path.starts_with(&format!("{}/", key.0)));
            }
            EventBody::RunFinished { .. } => assert_eq!(at + 1, seen.events.len(), "nothing after the end"),
            _ => {}
        }
    }
    if seen.outcome.status != agent_types::RunStatus::Waiting {
        assert!(open.is_empty(), "without an end: {open:?}");
    }
}

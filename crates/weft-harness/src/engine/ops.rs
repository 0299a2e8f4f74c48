//! The operations of scenario flows, as nodes.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use workflow_engine::{
    Expression, Inputs, Node, NodeCatalog, NodeContext, NodeError, Outputs, Scope, StopScope, StreamItem,
};
use workflow_model::{DataFlowType, DynamicSlots, NodeDefinition, SlotDefinition};

use super::fixtures::{Alive, World};

/// Operations and the options that only they take.
pub(crate) const OPERATIONS: [(&str, &[&str]); 21] = [
    ("emit", &["v"]),
    ("id", &[]),
    ("list", &[]),
    ("sum", &[]),
    ("text", &["bytes"]),
    ("wait", &["ms", "ms_by_input"]),
    ("count", &["key", "ms"]),
    ("distinct", &["key", "ms"]),
    ("bump", &["key", "by"]),
    ("fail", &["times", "msg", "on"]),
    ("panic", &["msg"]),
    ("stream", &["chunks", "n", "every_ms", "fail_after", "times", "gap"]),
    ("tap", &[]),
    ("join", &["every", "ms"]),
    ("reply", &[]),
    ("beat", &["every_ms", "ms"]),
    ("if", &["cond"]),
    ("ask", &["prompt", "prompts"]),
    ("block", &["ms"]),
    ("stop", &["v", "scope"]),
    ("cancel_node", &["node"]),
];

/// The one slot of operations that take several edges; constants stand behind them, in [`REST`].
pub(crate) const MANY: &str = "in";
/// The setting that holds the constants of [`MANY`].
pub(crate) const REST: &str = "rest";

/// Streams that one `reply` may write.
const MAX_STREAMS: usize = 16;

/// All operations, of the versions that the flows of a case ask for.
pub(crate) fn catalog(world: &Arc<World>, versions: &[String]) -> NodeCatalog {
    let mut catalog = NodeCatalog::new();
    for (name, _) in OPERATIONS {
        catalog.register(Operation::new(name, None, world));
        for version in versions {
            catalog.register(Operation::new(name, Some(version), world));
        }
    }
    catalog
}

struct Operation {
    name: &'static str,
    definition: NodeDefinition,
    world: Arc<World>,
}

fn any() -> SlotDefinition {
    SlotDefinition::new(DataFlowType::Wildcard, "")
}

impl Operation {
    fn new(name: &'static str, version: Option<&str>, world: &Arc<World>) -> Self {
        let full = version.map_or_else(|| format!("op:{name}"), |version| format!("op:{name}@{version}"));
        let mut definition =
            NodeDefinition::new(full, "an operation of scenarios").pure().dynamic_inputs(DynamicSlots::Any);
        version.unwrap_or("1").clone_into(&mut definition.version);
        definition = match name {
            "if" => definition.input("0", any()).output("then", any()).output("else", any()).routes(),
            "list" | "sum" => definition.input(MANY, any().multi()).output("out", any()),
            "stream" => definition.output("out", any().stream()),
            "tap" | "reply" => {
                let streams = if name == "tap" { 1 } else { MAX_STREAMS };
                let inputs = (0..streams)
                    .fold(definition, |definition, at| definition.input(at.to_string(), any().stream()));
                inputs.output("out", any().stream())
            }
            "join" => definition.input("0", any().stream().required()).output("out", any()),
            "id" | "bump" => definition.input("0", any().required()).output("out", any()),
            "stop" | "cancel_node" => definition.output("out", any()).always(),
            "block" => definition.output("out", any()).blocking(),
            _ => definition.output("out", any()),
        };
        Self { name, definition, world: Arc::clone(world) }
    }
}

fn number(ctx: &NodeContext, key: &str) -> u64 {
    ctx.config(key).and_then(Value::as_u64).unwrap_or(0)
}

fn text<'c>(ctx: &'c NodeContext, key: &str) -> &'c str {
    ctx.config(key).and_then(Value::as_str).unwrap_or_default()
}

async fn rest(ctx: &NodeContext, ms: u64) {
    if ms > 0 {
        ctx.sleep(Duration::from_millis(ms)).await;
    }
}

/// The values of slots that are numbers, in their order.
fn numbered(inputs: &Inputs) -> Vec<Arc<Value>> {
    let mut numbers: Vec<usize> = inputs.slots().filter_map(|slot| slot.parse().ok()).collect();
    numbers.sort_unstable();
    numbers.iter().filter_map(|at| inputs.get(&at.to_string()).cloned()).collect()
}

/// The inputs that were taken, in declared order, and the constants behind them.
fn taken(ctx: &NodeContext, inputs: &Inputs) -> Vec<Arc<Value>> {
    let rest = ctx.config(REST).and_then(Value::as_array);
    let rest = rest.into_iter().flatten().map(|value| Arc::new(value.clone()));
    inputs.all(MANY).into_iter().chain(rest).collect()
}

fn first(inputs: &Inputs) -> Arc<Value> {
    inputs.get("0").cloned().unwrap_or_default()
}

#[async_trait]
impl Node for Operation {
    fn definition(&self) -> &NodeDefinition {
        &self.definition
    }

    async fn run(&self, ctx: NodeContext, inputs: Inputs) -> Result<Outputs, NodeError> {
        let _alive = Alive::new(&self.world, ctx.config("guard"));
        match self.name {
            "emit" => {
                Ok(Outputs::value(ctx.config_map().and_then(|map| map.get("v")).cloned().unwrap_or_default()))
            }
            "id" => Ok(Outputs::shared(first(&inputs))),
            "list" => Ok(Outputs::value(
                taken(&ctx, &inputs).iter().map(|value| (**value).clone()).collect::<Vec<_>>(),
            )),
            "sum" => sum(&taken(&ctx, &inputs)),
            "text" => Ok(Outputs::value("x".repeat(usize::try_from(number(&ctx, "bytes")).unwrap_or(0)))),
            "wait" => {
                let by_input = number(&ctx, "ms_by_input") * first(&inputs).as_u64().unwrap_or(0);
                rest(&ctx, number(&ctx, "ms") + by_input).await;
                Ok(Outputs::shared(first(&inputs)))
            }
            "count" => {
                rest(&ctx, number(&ctx, "ms")).await;
                Ok(Outputs::value(self.world.add(text(&ctx, "key"), 1)))
            }
            "distinct" => {
                let size = self.world.insert(text(&ctx, "key"), ctx.idempotency_key());
                rest(&ctx, number(&ctx, "ms")).await;
                Ok(Outputs::value(size))
            }
            "bump" => bump(&ctx, &first(&inputs)),
            "fail" => fail(&ctx, &first(&inputs)),
            "panic" => panic_with(text(&ctx, "msg")),
            "stream" => stream(&ctx, &first(&inputs)).await,
            "tap" => relay(&ctx, &inputs, 1).await,
            "reply" => relay(&ctx, &inputs, MAX_STREAMS).await,
            "join" => join(&ctx, &inputs).await,
            "beat" => beat(&ctx, &inputs).await,
            "if" => branch(&ctx, &inputs).await,
            "ask" => ask(&ctx).await,
            "block" => {
                std::thread::sleep(Duration::from_millis(number(&ctx, "ms")));
                Ok(Outputs::shared(first(&inputs)))
            }
            "stop" => {
                let scope = if text(&ctx, "scope") == "loop" { StopScope::Loop } else { StopScope::Run };
                Ok(Outputs::stop(Arc::new(ctx.config("v").cloned().unwrap_or_default()), scope))
            }
            "cancel_node" => {
                ctx.cancel_node(text(&ctx, "node")).await;
                Ok(Outputs::shared(first(&inputs)))
            }
            other => Err(NodeError::fatal(format!("no operation `{other}`"))),
        }
    }
}

#[expect(clippy::panic, reason = "the operation is there to panic")]
fn panic_with(message: &str) -> Result<Outputs, NodeError> {
    panic!("{message}")
}

fn sum(values: &[Arc<Value>]) -> Result<Outputs, NodeError> {
    let whole: Option<i64> = values.iter().map(|value| value.as_i64()).sum();
    let float = || values.iter().map(|value| value.as_f64()).sum::<Option<f64>>().map(Value::from);
    let total = whole.map(Value::from).or_else(float);
    total.map(Outputs::value).ok_or_else(|| NodeError::fatal("only numbers can be added"))
}

fn bump(ctx: &NodeContext, input: &Value) -> Result<Outputs, NodeError> {
    let mut copy = input.clone();
    let by = ctx.config("by").and_then(Value::as_i64).unwrap_or(1);
    let member = copy.get_mut(text(ctx, "key")).ok_or_else(|| NodeError::fatal("no such key"))?;
    *member = json!(member.as_i64().unwrap_or(0) + by);
    Ok(Outputs::value(copy))
}

fn fail(ctx: &NodeContext, input: &Value) -> Result<Outputs, NodeError> {
    let on = ctx.config_map().and_then(|map| map.get("on"));
    let hit = on.is_none_or(|on| on == input);
    let times = ctx.config("times").and_then(Value::as_u64).unwrap_or(u64::MAX);
    if hit && u64::from(ctx.attempt()) <= times {
        return Err(NodeError::new(text(ctx, "msg")));
    }
    Ok(Outputs::value(if on.is_some() { input.clone() } else { json!("ok") }))
}

async fn stream(ctx: &NodeContext, input: &Value) -> Result<Outputs, NodeError> {
    let listed = ctx.config("chunks").or_else(|| input.is_array().then_some(input)).and_then(Value::as_array);
    let count =
        ctx.config("n").and_then(Value::as_u64).unwrap_or(listed.map_or(0, |chunks| chunks.len() as u64));
    let fails = ctx.config("fail_after").and_then(Value::as_u64);
    let times = ctx.config("times").and_then(Value::as_u64).unwrap_or(1);
    let gap = |key: &str| ctx.config("gap").and_then(|gap| gap.get(key)).and_then(Value::as_u64);
    let x: Arc<str> = Arc::from("x");
    let mut whole = String::new();
    for at in 0..=count {
        if fails == Some(at) && u64::from(ctx.attempt()) <= times {
            return Err(NodeError::new(format!("cut after {at} chunks")));
        }
        if at == count {
            break;
        }
        let more = if gap("after") == Some(at) { gap("ms").unwrap_or(0) } else { 0 };
        rest(ctx, number(ctx, "every_ms") + more).await;
        let listed = listed.and_then(|chunks| chunks.get(usize::try_from(at).ok()?)?.as_str());
        let chunk = listed.map_or_else(|| Arc::clone(&x), Arc::from);
        whole.push_str(&chunk);
        ctx.chunk("out", chunk).await?;
    }
    Ok(Outputs::value(whole))
}

/// Passes streams on, one behind the other.
async fn relay(ctx: &NodeContext, inputs: &Inputs, most: usize) -> Result<Outputs, NodeError> {
    let streams: Vec<_> = (0..most).filter_map(|at| inputs.stream(&at.to_string())).collect();
    let mut whole = String::new();
    for mut stream in streams {
        while let Some(item) = stream.next().await {
            match item {
                StreamItem::Chunk(text) => {
                    whole.push_str(&text);
                    ctx.chunk("out", text).await?;
                }
                StreamItem::Mark(mark) => ctx.mark("out", mark).await?,
                StreamItem::Retracted => {
                    return Err(NodeError::new("what was passed on has been taken back"));
                }
            }
        }
    }
    Ok(Outputs::value(whole))
}

async fn join(ctx: &NodeContext, inputs: &Inputs) -> Result<Outputs, NodeError> {
    let Some(mut stream) = inputs.stream("0") else { return Ok(Outputs::value("")) };
    let every = number(ctx, "every");
    let (mut whole, mut chunks) = (String::new(), 0_u64);
    while let Some(item) = stream.next().await {
        match item {
            StreamItem::Chunk(text) => whole.push_str(&text),
            StreamItem::Mark(_) => continue,
            StreamItem::Retracted => whole.clear(),
        }
        chunks += 1;
        if every > 0 && chunks.is_multiple_of(every) {
            rest(ctx, number(ctx, "ms")).await;
        }
    }
    Ok(Outputs::value(whole))
}

async fn beat(ctx: &NodeContext, inputs: &Inputs) -> Result<Outputs, NodeError> {
    let (every, mut left) = (number(ctx, "every_ms").max(1), number(ctx, "ms"));
    while left > 0 {
        let step = every.min(left);
        rest(ctx, step).await;
        ctx.heartbeat();
        left -= step;
    }
    Ok(Outputs::shared(first(inputs)))
}

async fn branch(ctx: &NodeContext, inputs: &Inputs) -> Result<Outputs, NodeError> {
    let holds = match ctx.config("cond").and_then(Value::as_str) {
        None => first(inputs).as_bool().ok_or_else(|| NodeError::fatal("`if` needs true or false"))?,
        Some(source) => {
            let scope = Scope::new().with("inputs");
            let values: Vec<Value> = numbered(inputs).iter().map(|value| (**value).clone()).collect();
            let decided = Expression::compile(source, &scope)
                .and_then(|expression| expression.evaluate_bool(|_| Some(Value::Array(values.clone()))));
            decided.map_err(|error| {
                NodeError::fatal(error.to_string()).with_kind(agent_types::NodeErrorKind::Condition)
            })?
        }
    };
    let (slot, given) = if holds { ("then", "1") } else { ("else", "2") };
    let has = inputs.slots().any(|slot| slot == given);
    let value = if has { ctx.pull(inputs, given).await? } else { Some(first(inputs)) };
    Ok(value.map_or_else(Outputs::none, |value| Outputs::none().with_shared(slot, value)))
}

async fn ask(ctx: &NodeContext) -> Result<Outputs, NodeError> {
    match ctx.config("prompts").and_then(Value::as_array) {
        Some(prompts) => {
            let prompts = prompts.iter().map(|prompt| prompt.as_str().unwrap_or_default().to_owned());
            ctx.ask_all(prompts).await.map(Outputs::value)
        }
        None => ctx.ask(text(ctx, "prompt")).await.map(Outputs::value),
    }
}

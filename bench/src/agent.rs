//! The agent's loop: an instant model, one typed tool.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agent_runtime::{Agent, AgentProfile, AgentState};
use agent_types::ToolDefinition;
use agent_types::{EventSink, RunId, SystemClock};
use anyhow::{Context, Result, ensure};
use async_trait::async_trait;
use futures::stream;
use llm_provider::{LlmError, LlmEvent, LlmProvider, LlmRequest, LlmStream, ModelInfo, StandardResponse};
use rig_agent::AgentBuilder;
use rig_agent::tool::{Tool as RigTool, ToolContext as RigContext};
use rig_core::test_utils::{MockCompletionModel, MockTurn};
use run_store::{NewRun, Store};
use serde_json::{Map, Value, json};
use tool_registry::{Snapshot, Tool, ToolContext, ToolError, ToolHandler, ToolKind, ToolOutput};

use crate::measure::{Work, count, cpu, medians};
use crate::table::{Aim, Figure, against, begin, row};

/// Turns of the run whose cost for a turn is the figure.
const TURNS: usize = 10;

/// Turns of the run that must stay flat, and of its first and last part.
const LONG: usize = 1_000;
const PART: usize = 100;

/// Says the same at once, with another number each time; at last it answers.
#[derive(Debug)]
struct Instant {
    info: ModelInfo,
    said: AtomicUsize,
    turns: usize,
}

impl Instant {
    fn new(turns: usize) -> Self {
        Self { info: ModelInfo::default(), said: AtomicUsize::new(0), turns }
    }
}

#[async_trait]
impl LlmProvider for Instant {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    async fn stream(&self, _: LlmRequest) -> Result<LlmStream, LlmError> {
        let number = self.said.fetch_add(1, Ordering::Relaxed);
        let text = if number < self.turns {
            format!("I add.\n<ACTION><add><a>{number}</a><b>1</b></add></ACTION>")
        } else {
            "done".to_owned()
        };
        let answer = StandardResponse { text: text.clone(), ..StandardResponse::default() };
        Ok(Box::pin(stream::iter([Ok(LlmEvent::Text(text)), Ok(LlmEvent::Finished(answer))])))
    }
}

/// Times of calls.
type Times = Arc<Mutex<Vec<Duration>>>;

/// Adds, and notes the CPU time of each call where it is asked for: reading it is a system call.
#[derive(Clone, Default)]
struct Add(Option<Times>);

#[async_trait]
impl ToolHandler for Add {
    async fn call(&self, arguments: Map<String, Value>, _: &ToolContext) -> Result<ToolOutput, ToolError> {
        if let Some(times) = &self.0 {
            times.lock().unwrap_or_else(PoisonError::into_inner).push(cpu());
        }
        let number = |name: &str| arguments.get(name).and_then(Value::as_i64).unwrap_or_default();
        Ok(ToolOutput::Json((number("a") + number("b")).into()))
    }
}

fn schema() -> Value {
    json!({"type": "object", "additionalProperties": false, "required": ["a", "b"],
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}})
}

fn agent(turns: usize, add: Add) -> Result<Agent> {
    let profile: AgentProfile =
        serde_json::from_value(json!({"id": "a", "budgets": {"turns": 20_000, "tool_calls": 20_000}}))?;
    let definition = ToolDefinition::new("add".parse()?, "Adds two integers.", schema());
    let tool = Tool::new(definition, ToolKind::NATIVE, add);
    Ok(Agent::from_profile(profile, Arc::new(Instant::new(turns)), Snapshot::new([tool])?))
}

/// A tool of the peer.
#[derive(Clone)]
struct RigAdd;

impl RigTool for RigAdd {
    const NAME: &'static str = "add";
    type Args = Value;
    type Output = i64;
    type Error = std::convert::Infallible;

    fn description(&self) -> String {
        "Adds two integers.".to_owned()
    }

    fn parameters(&self) -> Value {
        schema()
    }

    async fn call(&self, _: &mut RigContext, arguments: Value) -> Result<i64, Self::Error> {
        let number = |name: &str| arguments.get(name).and_then(Value::as_i64).unwrap_or_default();
        Ok(number("a") + number("b"))
    }
}

fn rig_turns(turns: usize) -> Vec<MockTurn> {
    let call = |number: usize| MockTurn::tool_call(format!("c{number}"), "add", json!({"a": number, "b": 1}));
    (0..turns).map(call).chain([MockTurn::text("done")]).collect()
}

pub(crate) fn run() -> Result<()> {
    begin("An agent's turn: an instant model, one typed tool");
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let made = agent(TURNS, Add::default())?;
    let ours = || {
        let agent = agent(TURNS, Add::default()).ok()?;
        runtime.block_on(agent.run("Add.")).ok()
    };
    ensure!(ours().context("the run failed")?.text == "done");
    // A process has one store, and runs come and go.
    let store = Store::memory()?;
    let stored = || {
        let run = store.begin(NewRun::new(RunId::generate()), Arc::new(SystemClock)).ok()?;
        let agent = agent(TURNS, Add::default()).ok()?;
        let sink = Arc::clone(&run) as Arc<dyn EventSink>;
        let started = agent.start_in(AgentState::default(), "Add.", sink, None).ok()?;
        runtime.block_on(async {
            let outcome = started.outcome().await.0;
            run.close().await.ok().map(|()| outcome)
        })
    };
    ensure!(stored().context("the stored run failed")?.text == "done");
    let peer = || {
        let agent = AgentBuilder::new(MockCompletionModel::from_turns(rig_turns(TURNS))).tool(RigAdd).build();
        runtime.block_on(async { agent.prompt("Add.").max_turns(TURNS + 2).await }).ok()
    };
    ensure!(peer().is_some_and(|text| text.to_string() == "done"), "the peer's run failed");
    let start = || made.check().is_ok();
    let figures = medians(&mut [
        Work::repeated(ours),
        Work::repeated(stored),
        Work::repeated(peer),
        Work::repeated(start),
    ]);
    let each = count(TURNS);
    let rig = figures[2] / each;
    against(
        "a turn",
        Figure::Nanos(figures[0] / each),
        ("rig-agent", Figure::Nanos(rig)),
        Aim::CostAtMost(0.6),
    );
    row("a turn", Figure::Nanos(figures[0] / each), Aim::AtMost(Figure::Nanos(20_000.0)));
    row(
        "a turn, events kept in memory",
        Figure::Nanos(figures[1] / each),
        Aim::AtMost(Figure::Nanos(30_000.0)),
    );
    row("checking an agent before it runs", Figure::Nanos(figures[3]), Aim::None);
    for turns in [LONG, 10 * LONG] {
        let (first, last) = flatness(&runtime, turns)?;
        let what = format!("a turn among the last {PART} of {turns}");
        against(&what, last, (&format!("the first {PART}"), first), Aim::CostAtMost(1.3));
    }
    Ok(())
}

/// What a turn costs at the beginning and at the end of a long run.
fn flatness(runtime: &tokio::runtime::Runtime, turns: usize) -> Result<(Figure, Figure)> {
    let times = Times::default();
    let agent = agent(turns, Add(Some(Arc::clone(&times))))?;
    let outcome = runtime.block_on(agent.run("Add."))?;
    ensure!(outcome.text == "done", "the long run ended with {}", outcome.exit);
    let times = times.lock().unwrap_or_else(PoisonError::into_inner);
    let part = |from: usize| {
        let spent = times[from + PART - 1].saturating_sub(times[from]);
        Figure::Nanos(spent.as_secs_f64() * 1e9 / (count(PART) - 1.0))
    };
    Ok((part(0), part(turns - PART)))
}

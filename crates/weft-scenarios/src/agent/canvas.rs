//! A case, answered by the built-in loop and by a loop of nodes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use agent_nodes::LlmNodeConfig;
use agent_runtime::prompt::messages::rendered;
use agent_runtime::prompt::text::{Protocol, exchange_messages, frame_of};
use agent_runtime::{AgentProfile, ApprovalMode, Exchange};
use agent_types::{Budget, Clock, EventSink, ResumeLog, RunId};
use llm_provider::{LlmProvider, ModelSource, SingleModel};
use serde_json::{Map, Value, json};
use tool_registry::{Services, Snapshot, Tool, ToolInvoker};
use workflow_engine::{OnWaiting, Plan, RunOptions, RunOutcome};
use workflow_model::{NoWorkflows, Workflow};

use super::crash_injection::Life;
use super::fixtures::{Executed, World};
use crate::Fault;

/// The loop of nodes.
const LOOP: &str = include_str!("loop.json");

/// Events about the loop itself, which nodes do not know: they are emitted by the built-in loop alone.
const OF_THE_LOOP: [&str; 4] = ["agent.turn.started", "agent.turn.finished", "agent.budget", "agent.warning"];

/// Name of the frames around results in a trail: each run has its own.
const FRAME: &str = "FRAME";

/// Characters of a difference that are shown before it.
const CONTEXT: usize = 60;

/// Answers of a case, as far as both kinds of loops give the same.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Trail {
    /// Messages of each request.
    pub(crate) requests: Vec<Vec<String>>,
    pub(crate) executed: Vec<Executed>,
    /// Events of the agent with their calls by number.
    pub(crate) events: Vec<String>,
}

impl Trail {
    /// Puts the trail of these runs together. Executions of the `noted` tools count.
    pub(crate) fn new(world: &World, noted: &BTreeSet<String>, runs: &[RunId], events: &[Value]) -> Self {
        let mut calls = Vec::new();
        let own: Vec<&Value> = events.iter().filter(|event| is_shared(event)).collect();
        for event in &own {
            number(event, &event["call"], &mut calls);
        }
        let frames: Vec<String> = runs.iter().map(frame_of).collect();
        let unframed =
            |text: &str| frames.iter().fold(text.to_owned(), |text, frame| text.replace(frame, FRAME));
        let plain = |text: &str| plain(&unframed(text), &calls);
        let requests = world.asked();
        let requests = requests.iter().map(|request| request.iter().map(|text| plain(text)).collect());
        let executed = world.since((0, 0)).0;
        Self {
            requests: requests.collect(),
            executed: executed.into_iter().filter(|own| noted.contains(&own.tool)).collect(),
            events: own.into_iter().map(|event| plain(&line(event, &mut calls.clone()))).collect(),
        }
    }

    /// First difference to another trail, in words.
    pub(crate) fn difference(&self, other: &Self) -> Option<String> {
        let lists = [
            ("request", shown(&self.requests), shown(&other.requests)),
            ("execution", shown(&self.executed), shown(&other.executed)),
            ("event", self.events.clone(), other.events.clone()),
        ];
        lists.into_iter().find_map(|(what, own, other)| {
            let len = own.len().max(other.len());
            let at = (0..len).find(|at| own.get(*at) != other.get(*at))?;
            let of = |list: &[String]| list.get(at).cloned().unwrap_or_else(|| "nothing".to_owned());
            let (own, other) = (of(&own), of(&other));
            let same = own.chars().zip(other.chars()).take_while(|(own, other)| own == other).count();
            let end =
                |text: &str| text.chars().skip(same.saturating_sub(CONTEXT)).take(4 * CONTEXT).collect();
            let [own, other]: [String; 2] = [end(&own), end(&other)];
            Some(format!("{what} {at}: the loop has `{own}`, nodes have `{other}`"))
        })
    }
}

/// A call of a run; calls of two runs may have one id.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Called {
    run: String,
    call: String,
}

/// A text with the names of tasks by the numbers of their calls.
fn plain(text: &str, calls: &[Called]) -> String {
    let mut text = text.to_owned();
    let mut longest: Vec<(usize, &str)> = calls.iter().map(|own| own.call.as_str()).enumerate().collect();
    longest.sort_by_key(|(_, call)| std::cmp::Reverse(call.len()));
    for (at, call) in longest {
        text = text.replace(&format!("task-{call}"), &format!("task-{at}"));
    }
    text
}

fn shown<T: std::fmt::Debug>(items: &[T]) -> Vec<String> {
    items.iter().map(|item| format!("{item:?}")).collect()
}

/// Returns `true` for an event of the agent that nodes emit too.
fn is_shared(event: &Value) -> bool {
    let name = event["type"].as_str().unwrap_or_default();
    let is_answer = name == "agent.message" && event["data"]["final"] == true;
    name.starts_with("agent.") && !OF_THE_LOOP.contains(&name) && !is_answer
}

/// An event without what differs between runs.
fn line(event: &Value, calls: &mut Vec<Called>) -> String {
    let mut data = event["data"].clone();
    if let Some(data) = data.as_object_mut() {
        // It goes by the frame of the run.
        data.remove("digest");
        data.remove("ms");
        for call in data.get_mut("calls").and_then(Value::as_array_mut).into_iter().flatten() {
            call["call"] = number(event, &call["call"], calls).into();
        }
    }
    let call = number(event, &event["call"], calls);
    format!("{} {call:?} {data}", event["type"].as_str().unwrap_or_default())
}

/// A call of the run of an event by the number of its first appearance.
fn number(event: &Value, call: &Value, calls: &mut Vec<Called>) -> Option<usize> {
    let called = Called { run: event["run"].to_string(), call: call.as_str()?.to_owned() };
    Some(calls.iter().position(|own| *own == called).unwrap_or_else(|| {
        calls.push(called);
        calls.len() - 1
    }))
}

/// Parts of a case that a loop of nodes needs.
pub(crate) struct Parts<'c> {
    pub(crate) profile: &'c AgentProfile,
    pub(crate) tools: Snapshot,
    pub(crate) model: Arc<dyn LlmProvider>,
    pub(crate) services: Services,
    pub(crate) clock: Arc<dyn Clock>,
}

/// A conversation as messages of a loop of nodes.
pub(crate) fn conversation(history: &[Exchange]) -> Value {
    let mut messages = Vec::new();
    for exchange in history {
        exchange_messages(exchange, Protocol::Text, FRAME, &mut messages);
    }
    messages.iter().map(rendered::value).collect()
}

/// Runs the loop of nodes to its end, or until it waits.
pub(crate) async fn run(
    parts: Parts<'_>,
    inputs: Map<String, Value>,
    life: &Arc<Life>,
    log: Option<ResumeLog>,
) -> Result<RunOutcome, Fault> {
    let Parts { profile, tools, model, services, clock } = parts;
    let mut catalog = node_library::catalog();
    agent_nodes::register(&mut catalog);
    let workflow = workflow(profile, &tools)?;
    let plan = Plan::new(&workflow, &catalog, &NoWorkflows).map_err(|error| error.to_string())?;
    let config = LlmNodeConfig { services, values: Arc::default(), approval: ApprovalMode::Ask };
    let services = Services::new()
        .with::<dyn ModelSource>(Arc::new(SingleModel::new(model)))
        .with::<dyn ToolInvoker>(Arc::new(tools))
        .with(Arc::new(config));
    let sink = Arc::clone(life) as Arc<dyn EventSink>;
    let mut options = RunOptions::new().with_services(services).with_clock(clock).with_sink(sink);
    options.on_waiting = OnWaiting::End;
    options.budget = Some(Budget::new(profile.limits()));
    options.deadline = profile.limits().wall_ms.map(Duration::from_millis);
    options.cancel = Some(life.cancel.clone());
    options.resume = log.map(Box::new);
    Ok(plan.run(inputs, options).outcome().await)
}

/// The loop with the instructions and the tools of a profile.
fn workflow(profile: &AgentProfile, tools: &Snapshot) -> Result<Workflow, Fault> {
    let mut file: Value = serde_json::from_str(LOOP).map_err(|error| error.to_string())?;
    let ids: Vec<&str> = tools.tools().map(Tool::id).map(agent_types::ToolId::as_str).collect();
    file["availableTools"] = json!({"initial": ids});
    for node in file["nodes"].as_array_mut().into_iter().flatten() {
        match node["type"].as_str() {
            Some("agent:FormatPrompt") => {
                node["configValues"] = json!({"system": profile.system_prompt, "language": profile.language.unwrap_or_default()});
            }
            Some("core:LoopZone") => {
                node["configValues"]["maxIterations"] = profile.limits().turns.into();
            }
            _ => {}
        }
    }
    Workflow::from_value(file).map_err(|error| error.to_string())
}

//! `agent:ExecuteTool`: runs calls and reports their results.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use agent_runtime::driver::call_env::CallEnv;
use agent_runtime::driver::calls::Calls;
use agent_runtime::driver::trace::Trace;
use agent_runtime::machine::{AgentMachine, CallResult, Conversation, End, Rules};
use agent_runtime::resume::RunLog;
use agent_runtime::{AgentProfile, CallRecord, PendingCall, Turn};
use agent_types::{AskKind, Budget, ExitReason, NodeErrorKind, Observation, ToolStatus};
use async_trait::async_trait;
use futures::StreamExt;
use futures::channel::mpsc::{UnboundedReceiver, unbounded};
use serde_json::{Map, Value, json};
use tool_registry::{Tool, UsageMeter};
use workflow_engine::{Inputs, Node, NodeContext, NodeError, Outputs, Question};
use workflow_model::NodeDefinition;

use crate::agent_env::AgentEnv;
use crate::calls::Requested;
use crate::define::{any, list, text};
use crate::sink::NodeSink;

/// The output that has pieces of results as they come.
pub(crate) const STREAM: &str = "stream";

/// Runs calls: those that only read side by side, others in order.
pub(crate) struct ExecuteTool(NodeDefinition);

impl ExecuteTool {
    pub(crate) fn new() -> Self {
        let definition = NodeDefinition::new(
            "agent:ExecuteTool",
            "Runs the tools that a model calls and gives their results. A call that needs approval waits for it.",
        )
        .input(
            "tool_call_requests",
            any("calls {tool, arguments}, one or a list of them; nothing is run where there are none").required(),
        )
        .output("results", list("what came of each call: {call, tool, status, observation, value?}"))
        .output("observation", text("the same as the model's observations"))
        .output("status", text("`ok` if every call succeeded, `none` without calls, else the status of the first that did not succeed"))
        .output(STREAM, text("pieces of the results as they come").stream().with_category("StreamChunk"))
        .effect()
        .idempotent();
        Self(definition)
    }
}

#[async_trait]
impl Node for ExecuteTool {
    fn definition(&self) -> &NodeDefinition {
        &self.0
    }

    async fn run(&self, ctx: NodeContext, inputs: Inputs) -> Result<Outputs, NodeError> {
        let env = AgentEnv::new(&ctx);
        let requested = Requested::read(inputs.required("tool_call_requests")?, &env)?;
        let done = run_calls(&ctx, &env, requested, Keeps::Observations).await?;
        Ok(done.outputs())
    }
}

/// Parts of a result that are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keeps {
    /// Its observation, as a model reads it.
    Observations,
    /// The whole output too.
    Outputs,
}

/// Runs one call and gives its output; a call that did not succeed is a failure of the node.
pub(crate) async fn run_call(
    ctx: &NodeContext,
    env: &AgentEnv<'_>,
    tool: Tool,
    arguments: Map<String, Value>,
) -> Result<Value, NodeError> {
    let requested = Requested::single(tool, arguments, env)?;
    let done = run_calls(ctx, env, requested, Keeps::Outputs).await?;
    let result = done.finished.into_iter().next();
    let result = result.ok_or_else(|| NodeError::fatal("the call has no result"))?;
    if result.status == ToolStatus::Ok {
        return Ok(result.output.unwrap_or_default());
    }
    let text = result.observation.text;
    let message = text.strip_prefix("Error - ").unwrap_or(&text);
    let fault = result.fault.unwrap_or_default();
    let failed = if fault.retryable { NodeError::new(message) } else { NodeError::fatal(message) };
    Err(if fault.code.is_empty() { failed } else { failed.with_code(fault.code) })
}

/// Runs calls; their pieces go to the stream output.
async fn run_calls(
    ctx: &NodeContext,
    env: &AgentEnv<'_>,
    requested: Requested,
    keeps: Keeps,
) -> Result<Done, NodeError> {
    let (pieces, mut reader) = unbounded();
    let sink = NodeSink::new(ctx, env, ctx.has_stream(STREAM).then_some(pieces));
    let work = Work { ctx, env, sink, requested, keeps };
    let done = {
        let running = std::pin::pin!(work.run());
        let handing_on = std::pin::pin!(hand_on(ctx, &mut reader));
        match futures::future::select(running, handing_on).await {
            futures::future::Either::Left((done, _)) => done?,
            futures::future::Either::Right(((), running)) => running.await?,
        }
    };
    // Pieces that came with the last results.
    while let Ok(piece) = reader.try_recv() {
        ctx.chunk(STREAM, piece).await?;
    }
    Ok(done)
}

/// Writes pieces to the stream output. It does not end before the node does.
async fn hand_on(ctx: &NodeContext, pieces: &mut UnboundedReceiver<String>) {
    while let Some(piece) = pieces.next().await {
        // That there is such an output is in the definition.
        let _ = ctx.chunk(STREAM, piece).await;
    }
}

/// The calls of one start of the node.
struct Work<'n> {
    ctx: &'n NodeContext,
    env: &'n AgentEnv<'n>,
    sink: Arc<NodeSink>,
    requested: Requested,
    keeps: Keeps,
}

/// Remaining work after a round of calls.
enum Round {
    /// Nothing.
    Done(Done),
    /// The user must answer these first.
    Asked(Vec<PendingCall>),
}

impl Work<'_> {
    /// Runs allowed calls, asks for approvals, and continues with the answers.
    async fn run(&self) -> Result<Done, NodeError> {
        let mut answers: HashMap<String, Value> = HashMap::new();
        let mut waited = self.ctx.has_asked();
        let mut put: HashMap<String, usize> = HashMap::new();
        loop {
            let log = self.sink.log(waited, answers.clone());
            // A round counts what the ones before it have done again, as another process would.
            let (budget, meter) = (self.env.budget().part(), Arc::<UsageMeter>::default());
            match self.round(&log, &budget, &meter).await? {
                Round::Done(done) => {
                    if self.env.config.services.get::<UsageMeter>().is_none() {
                        self.ctx.add_usage(meter.total());
                    }
                    return Ok(done);
                }
                Round::Asked(asked) => {
                    // A question that is put again, since its answer does not fit, is another one.
                    let named = asked.into_iter().map(|call| {
                        let (id, question) = self.question(call);
                        let times = put.entry(id.clone()).or_default();
                        *times += 1;
                        let name = if *times == 1 { id.clone() } else { format!("{id}#{times}") };
                        (id, question.named(name))
                    });
                    let (ids, questions): (Vec<String>, Vec<Question>) = named.unzip();
                    let values = self.ctx.ask_all(questions).await?;
                    budget.take_back();
                    answers.extend(ids.into_iter().zip(values));
                    waited = true;
                }
            }
        }
    }

    async fn round(
        &self,
        log: &Arc<RunLog>,
        budget: &Budget,
        meter: &Arc<UsageMeter>,
    ) -> Result<Round, NodeError> {
        let trace = self.sink.trace(Arc::clone(log));
        let (turn, ready) = self.requested.check()?;
        let refuse = |position: usize| self.requested.refusal(position);
        let (mut machine, first) = AgentMachine::with_calls(self.rules(), turn, ready, refuse);
        let mut calls = Calls::new(self.call_env(trace, budget.clone(), Arc::clone(meter)));
        let (end, results) = calls.run(&mut machine, first).await;
        log.resume_with_news();
        match end {
            Some(end) if !end.pending.is_empty() => Ok(Round::Asked(end.pending)),
            Some(End { exit: ExitReason::ToolError, error, .. }) => {
                Err(NodeError::fatal(error.unwrap_or_default()).with_code("tool_error"))
            }
            Some(End { limit: Some(_), kind, error, .. }) => {
                let failed =
                    NodeError::fatal(error.unwrap_or_default()).with_kind(NodeErrorKind::BudgetExceeded);
                Err(failed.with_code(kind.unwrap_or_default()))
            }
            // The node gives what there is; what follows decides whether the agent continues.
            Some(_) | None => Ok(Round::Done(Done::new(machine.conversation(), results))),
        }
    }

    /// The rules of the machine: a limit is a failure of the node, and what follows from that is the workflow's.
    fn rules(&self) -> Rules {
        let profile = AgentProfile { on_limit: None, ..self.env.profile() };
        let (approval, frame) = (self.env.config.approval, self.env.frame());
        Rules { profile: Arc::new(profile), approval, frame, ..Rules::default() }
    }

    fn call_env(&self, trace: Trace, budget: Budget, meter: Arc<UsageMeter>) -> CallEnv {
        let config = &self.env.config;
        let mut services = config.services.clone().with(Arc::new(config.approval));
        if services.get::<UsageMeter>().is_none() {
            services = services.with(Arc::clone(&meter));
        }
        CallEnv {
            result_tokens: None,
            keeps_output: self.keeps == Keeps::Outputs,
            trace,
            tools: self.requested.tools.clone(),
            budget,
            meter,
            clock: Arc::clone(self.ctx.clock()),
            services,
            values: Arc::clone(&config.values),
            block: self.ctx.cancel_token().child_token(),
            level: self.env.level(),
        }
    }

    /// A call that waits as a question of the node, with its name.
    fn question(&self, call: PendingCall) -> (String, Question) {
        let PendingCall { ask, kind, tool, arguments, prompt, definition, .. } = call;
        let is_own = !self.requested.is_inside(&ask);
        let prompt = match (kind, prompt) {
            (AskKind::Outcome, _) if is_own => {
                format!("`{tool}` was running when the process ended: `retry`, `skip` or `done`?")
            }
            (_, None) if is_own => format!("`{tool}` must be approved"),
            (_, prompt) => prompt.unwrap_or_default(),
        };
        (ask, Question::new(prompt).about(kind, tool, arguments).defined(definition))
    }
}

/// Calls that are over.
struct Done {
    finished: Vec<CallResult>,
    turn: Turn,
}

impl Done {
    /// The calls of the last turn with their results; one without was refused.
    fn new(conversation: &Conversation, mut results: BTreeMap<usize, CallResult>) -> Self {
        let turn = conversation.last_turn().cloned().unwrap_or_default();
        let result = |(index, call): (usize, &CallRecord)| {
            let observation = call.observation.clone()?;
            Some(match results.remove(&index) {
                Some(result) => CallResult { observation, ..result },
                None => CallResult::new(index, observation, ToolStatus::Refused),
            })
        };
        let finished = turn.calls.iter().enumerate().filter_map(result).collect();
        Self { finished, turn }
    }

    fn outputs(self) -> Outputs {
        let mut results = Vec::with_capacity(self.finished.len());
        for CallResult { index, observation, status, value, attachments, fault, .. } in &self.finished {
            let mut result = json!({
                "call": observation.call, "tool": observation.tool, "status": status,
                "observation": observation.line(),
            });
            if let Some(fault) = fault {
                result["error"] = serde_json::to_value(fault).unwrap_or_default();
            }
            if let Some(value) = value {
                result["value"] = value.clone();
                result["ended"] = true.into();
            }
            if !attachments.is_empty() {
                result["attachments"] = serde_json::to_value(attachments).unwrap_or_default();
            }
            if let Some(native) = self.turn.calls.get(*index).and_then(|call| call.native) {
                result["native"] = native.into();
            }
            results.push(result);
        }
        let notes = self.turn.notes.iter();
        results.extend(notes.map(|note| json!({"status": "note", "observation": note.line()})));
        let lines: Vec<String> = self.turn.observations().map(Observation::line).collect();
        let other = self.finished.iter().map(|own| own.status).find(|status| *status != ToolStatus::Ok);
        let status = match (self.finished.is_empty(), other) {
            (true, _) => "none",
            (false, Some(status)) => status.as_str(),
            (false, None) => ToolStatus::Ok.as_str(),
        };
        Outputs::value(results).with("observation", lines.join("\n")).with("status", status)
    }
}

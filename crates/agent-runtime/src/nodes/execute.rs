//! `agent:ExecuteTool`: runs calls and reports their results.

use std::collections::HashMap;
use std::sync::Arc;

use agent_types::{ApprovalState, AskKind, AskSummary, EventBody, EventLocation, Observation, ToolStatus};
use async_trait::async_trait;
use futures::StreamExt;
use futures::channel::mpsc::{UnboundedReceiver, unbounded};
use serde_json::{Value, json};
use tool_registry::{ToolContext, UsageMeter};
use workflow_engine::{Inputs, Node, NodeContext, NodeError, Outputs, Question};
use workflow_model::NodeDefinition;

use super::agent_env::AgentEnv;
use super::calls::{Checked, Requested};
use super::define::{any, list, text};
use super::sink::NodeSink;
use crate::approve::{decide_approvals, split_waiting};
use crate::calls::emit_observation;
use crate::dispatch::{self, Finished, Tree};
use crate::end::End;
use crate::plan::{CallDisposition, PlannedCall, plan};
use crate::resume::RunLog;
use crate::trace::Trace;

/// The output that has pieces of results as they come.
const STREAM: &str = "stream";

/// Runs calls: those that only read side by side, others in order.
pub(super) struct ExecuteTool(NodeDefinition);

impl ExecuteTool {
    pub(super) fn new() -> Self {
        let definition = NodeDefinition::new(
            "agent:ExecuteTool",
            "Runs the tools that a model calls and gives what came of it. A call that needs a person's word waits for it.",
        )
        .input(
            "tool_call_requests",
            any("calls {tool, arguments}, one or a list of them; nothing is run where there are none").required(),
        )
        .output("results", list("what came of each call: {call, tool, status, observation, value?}"))
        .output("observation", text("the same as a model is told of it"))
        .output("status", text("`ok` where all went well, `none` where there was no call, else what the first other one came to"))
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
        let (pieces, mut reader) = unbounded();
        let sink = NodeSink::new(&ctx, &env, Some(pieces));
        let work = Work { ctx: &ctx, env: &env, sink, meter: Arc::default(), requested };
        let done = {
            let running = std::pin::pin!(work.run());
            let handing_on = std::pin::pin!(hand_on(&ctx, &mut reader));
            match futures::future::select(running, handing_on).await {
                futures::future::Either::Left((done, _)) => done?,
                futures::future::Either::Right(((), running)) => running.await?,
            }
        };
        // Pieces that came with the last results.
        while let Ok(piece) = reader.try_recv() {
            ctx.chunk(STREAM, piece).await?;
        }
        if env.config.services.get::<UsageMeter>().is_none() {
            ctx.add_usage(work.meter.total());
        }
        Ok(done.outputs())
    }
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
    meter: Arc<UsageMeter>,
    requested: Requested,
}

/// Remaining work after a round of calls.
enum Round {
    /// Nothing.
    Done(Done),
    /// People must answer these.
    PendingInner(Vec<(String, Question)>),
}

impl Work<'_> {
    /// Runs allowed calls, asks for approvals, and continues with the answers.
    async fn run(&self) -> Result<Done, NodeError> {
        let mut answers: HashMap<String, Value> = HashMap::new();
        let mut waited = self.ctx.has_asked();
        loop {
            let log = self.sink.log(waited, answers.clone());
            match self.round(&log).await? {
                Round::Done(done) => return Ok(done),
                Round::PendingInner(asked) => {
                    let (ids, questions): (Vec<String>, Vec<Question>) = asked.into_iter().unzip();
                    let values = self.ctx.ask_all(questions).await?;
                    answers.extend(ids.into_iter().zip(values));
                    waited = true;
                }
            }
        }
    }

    async fn round(&self, log: &Arc<RunLog>) -> Result<Round, NodeError> {
        let trace = self.sink.trace(Arc::clone(log));
        let Checked { ready, refused } = self.requested.check()?;
        let mode = self.env.config.approval;
        let refusals = self.requested.refusals();
        let refuse = |position: usize| refusals.get(&position).cloned();
        let mut planned = plan(ready, &self.requested.tools, &self.env.profile(), mode, refuse);
        let mut denied = std::collections::BTreeMap::new();
        decide_approvals(&mut planned, &mut denied, &trace, |call| log.answer(call.as_str()));
        let (planned, waiting) = split_waiting(planned, log);
        let budget = self.env.budget();
        let tree = Tree { budget: &budget, meter: &self.meter };
        let block = self.ctx.cancel_token().child_token();
        let context = |call: &PlannedCall, place: EventLocation| {
            let config = &self.env.config;
            let mut services = config.services.clone().with(Arc::new(config.approval));
            if services.get::<UsageMeter>().is_none() {
                services = services.with(Arc::clone(&self.meter));
            }
            let (id, tool) = (call.call.id.clone(), call.call.tool.clone());
            let clock = Arc::clone(self.ctx.clock());
            ToolContext::new(id, tool, clock, budget.clone(), trace.sink(), place)
                .with_cancel(block.clone())
                .with_services(services)
                .with_values(Arc::clone(&config.values))
                .with_resume(log.inside(&call.call.id, self.env.level()))
        };
        let mut finished = dispatch::run(planned, &trace, tree, "", &block, context).await;
        let asks = self.asks(&trace, &waiting, &mut finished);
        if !asks.is_empty() {
            log.resume_with_news();
            return Ok(Round::PendingInner(asks));
        }
        finished.extend(refused);
        finished.sort_by_key(|finished| finished.index);
        self.end(&trace, finished).map(Round::Done)
    }

    /// Questions of calls that wait, and of running calls with an inner question.
    fn asks(
        &self,
        trace: &Trace,
        waiting: &[PlannedCall],
        finished: &mut [Finished],
    ) -> Vec<(String, Question)> {
        let mut asks = Vec::new();
        for PlannedCall { call, verdict, why, .. } in waiting {
            let (ask, kind, prompt) = match verdict {
                CallDisposition::Run => continue,
                CallDisposition::Reconcile(ask) => {
                    let tool = &call.tool;
                    let prompt =
                        format!("`{tool}` was at work when the process ended: `retry`, `skip` or `done`?");
                    (ask.clone(), AskKind::Outcome, prompt)
                }
                _ => {
                    let prompt = why.clone().unwrap_or_else(|| format!("`{}` must be approved", call.tool));
                    (call.id.to_string(), AskKind::Approval, prompt)
                }
            };
            if !self.sink.has_asked_about(&call.id) {
                let place = EventLocation { call: Some(call.id.clone()), ..trace.place() };
                let (tool, state) = (call.tool.clone(), ApprovalState::Asked);
                trace.emit_at(place, EventBody::AgentToolApproval { tool, state, reason: why.clone() });
            }
            let question =
                Question::new(prompt).about(kind, call.tool.clone(), Arc::new(call.arguments.clone()));
            asks.push((ask, question));
        }
        for finished in finished.iter_mut() {
            let Some(call) = finished.observation.call.clone() else { continue };
            let inner = finished.waits.take().map(|waits| waits.asks);
            asks.extend(inner.into_iter().flatten().map(|ask| {
                let AskSummary { ask: inner, kind, tool, arguments, prompt, .. } = ask;
                let question = Question::new(prompt.unwrap_or_default());
                let question = match tool.zip(arguments) {
                    Some((tool, arguments)) => question.about(kind, tool, arguments),
                    None => question,
                };
                (format!("{call}/{inner}"), question)
            }));
        }
        asks
    }

    /// Emits the results, in the order of the calls.
    fn end(&self, trace: &Trace, finished: Vec<Finished>) -> Result<Done, NodeError> {
        let notes: Vec<Observation> = self.requested.notes().cloned().collect();
        for observation in finished.iter().map(|finished| &finished.observation).chain(&notes) {
            emit_observation(observation, trace);
        }
        trace.log().resume_with_news();
        let stop = finished.iter().find_map(|finished| finished.end.as_ref());
        match stop {
            Some(End { kind, error, exit, .. }) => {
                let message = error.clone().unwrap_or_else(|| exit.to_string());
                Err(match exit {
                    agent_types::ExitReason::ToolError => NodeError::fatal(message).with_code("tool_error"),
                    _ => NodeError::fatal(message)
                        .with_kind(agent_types::NodeErrorKind::BudgetExceeded)
                        .with_code(kind.clone().unwrap_or_default()),
                })
            }
            None => Ok(Done { finished, native: self.requested.natives(), notes }),
        }
    }
}

/// Calls that are over.
struct Done {
    finished: Vec<Finished>,
    /// Index of each call among the native ones.
    native: Vec<Option<usize>>,
    /// Observations that follow the results for the model.
    notes: Vec<Observation>,
}

impl Done {
    fn outputs(self) -> Outputs {
        let mut results = Vec::with_capacity(self.finished.len());
        for Finished { index, observation, status, value, attachments, .. } in &self.finished {
            let mut result = json!({
                "call": observation.call, "tool": observation.tool, "status": status,
                "observation": observation.line(),
            });
            if let Some(value) = value {
                result["value"] = value.clone();
                result["ended"] = true.into();
            }
            if !attachments.is_empty() {
                result["attachments"] = serde_json::to_value(attachments).unwrap_or_default();
            }
            if let Some(native) = self.native.get(*index).copied().flatten() {
                result["native"] = native.into();
            }
            results.push(result);
        }
        results.extend(self.notes.iter().map(|note| json!({"status": "note", "observation": note.line()})));
        let shown = self.finished.iter().map(|own| &own.observation).chain(&self.notes);
        let lines: Vec<String> = shown.map(Observation::line).collect();
        let other = self.finished.iter().map(|own| own.status).find(|status| *status != ToolStatus::Ok);
        let status = match (self.finished.is_empty(), other) {
            (true, _) => "none",
            (false, Some(status)) => status.as_str(),
            (false, None) => ToolStatus::Ok.as_str(),
        };
        Outputs::value(results).with("observation", lines.join("\n")).with("status", status)
    }
}

//! Workflows that deliberate in place of a model.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use agent_nodes::InTurn;
use agent_runtime::{Deliberation, DeliberationFault, Deliberator, ReplyStream};
use agent_types::{
    ContextValues, EventBody, EventPersister, EventSink, FormerInputs, RunId, RunStatus, ToolId,
    UnsequencedEvent,
};
use async_trait::async_trait;
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures::future::{Either, select};
use futures::{FutureExt, StreamExt};
use llm_provider::{Finish, LlmEvent, StandardResponse};
use serde_json::{Map, Value};
use workflow_engine::{OnWaiting, Plan, RunOptions, RunOutcome};
use workflow_model::{DataFlowType, Workflow};

use crate::error::ProjectError;
use crate::project::Project;

/// The output that has the reply, where there are several.
const FULL_TEXT: &str = "full_text";

/// Inputs that a workflow may take of a turn.
const INPUTS: [&str; 6] = ["message", "history", "observations", "private_state", "world_state", "tools"];

/// A workflow that writes the reply of each turn.
pub(crate) struct WorkflowDeliberator {
    id: String,
    name: String,
    plan: Plan,
    /// Inputs that the workflow takes.
    inputs: Vec<&'static str>,
    output: String,
    /// The nodes whose pieces are those of the reply, where it comes piece by piece.
    live: Arc<[(Arc<str>, Arc<str>)]>,
    project: Project,
}

impl fmt::Debug for WorkflowDeliberator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkflowDeliberator").field("id", &self.id).finish_non_exhaustive()
    }
}

impl WorkflowDeliberator {
    /// The workflow of an agent's `core_deliberation_workflow_id`.
    ///
    /// # Errors
    /// The id is unknown (the error holds a suggestion), the workflow has problems, requires an input that a turn does
    /// not provide, or has no output for the reply.
    pub(crate) fn new(project: &Project, id: &str) -> Result<Self, ProjectError> {
        let (_, workflow) = project.workflows().get(id)?;
        let bad = |message: String| ProjectError::Deliberation { workflow: id.to_owned(), message };
        let plan = Plan::new(&workflow, project.catalog(), &**project.workflows())
            .map_err(|error| bad(error.to_string()))?;
        let wanted = workflow.interface_inputs.iter();
        let strange = wanted.filter(|(name, slot)| {
            !INPUTS.contains(&name.as_str()) && slot.is_required() && slot.default_value().is_none()
        });
        if let Some((name, _)) = strange.into_iter().next() {
            let provided = INPUTS.join("`, `");
            return Err(bad(format!("it requires the input `{name}`; a turn provides `{provided}`")));
        }
        let output = output_of(&workflow).ok_or_else(|| {
            bad(format!("it needs an output `{FULL_TEXT}`, or a single one of type STRING"))
        })?;
        let is_stream = workflow.interface_outputs.get(&output).is_some_and(|slot| slot.is_stream);
        let live = if is_stream { plan.stream_sources(&output) } else { Vec::new() };
        let declared = |name: &&str| workflow.interface_inputs.contains_key(*name);
        Ok(Self {
            id: id.to_owned(),
            name: format!("workflow:{id}"),
            inputs: INPUTS.into_iter().filter(declared).collect(),
            plan,
            output,
            live: live.into(),
            project: project.clone(),
        })
    }

    /// The plan for a run in which absent inputs have the values that earlier versions gave them.
    fn former_plan(&self) -> Result<Plan, DeliberationFault> {
        let planned = self.project.workflows().get(&self.id);
        let planned =
            planned.and_then(|(_, workflow)| self.project.plan_with_former_defaults(&self.id, &workflow));
        planned.map_err(|error| DeliberationFault::Failed {
            kind: error.code().to_owned(),
            message: error.to_string(),
        })
    }

    /// Inputs of the workflow for a turn.
    async fn arguments(&self, turn: &Deliberation<'_>) -> Map<String, Value> {
        let mut arguments = Map::new();
        for name in &self.inputs {
            let value = match *name {
                "message" => turn.message().into(),
                "history" => turn.history().into(),
                "observations" => turn.observations().into(),
                "private_state" => turn.private_state().await,
                "world_state" => turn.world_state().await,
                _ => turn.tools().into(),
            };
            // What is absent outside is absent within.
            if !value.is_null() {
                arguments.insert((*name).to_owned(), value);
            }
        }
        arguments
    }
}

fn output_of(workflow: &Workflow) -> Option<String> {
    if workflow.interface_outputs.contains_key(FULL_TEXT) {
        return Some(FULL_TEXT.to_owned());
    }
    let is_text = |slot: &&workflow_model::Slot| slot.data_flow_type == DataFlowType::String;
    let mut texts = workflow.interface_outputs.iter().filter(|(_, slot)| is_text(slot));
    match (texts.next(), texts.next()) {
        (Some((name, _)), None) => Some(name.clone()),
        _ => None,
    }
}

#[async_trait]
impl Deliberator for WorkflowDeliberator {
    fn name(&self) -> &str {
        &self.name
    }

    fn asks_as(&self) -> Option<ToolId> {
        self.name.parse().ok()
    }

    fn has_effect(&self) -> bool {
        self.plan.has_effect()
    }

    fn winds_down(&self) -> bool {
        true
    }

    async fn deliberate(&self, turn: Deliberation<'_>) -> Result<ReplyStream, DeliberationFault> {
        let arguments = self.arguments(&turn).await;
        let (pieces, reader) = unbounded();
        let sink = LiveSink { inner: turn.sink(), live: Arc::clone(&self.live), pieces };
        let former = turn.services().get::<FormerInputs>().map(|_| self.former_plan()).transpose()?;
        let services = self.project.services().with(Arc::new(InTurn::new(&turn)));
        let mut options = RunOptions::new()
            .with_services(services.with(Arc::new(ContextValues(Arc::clone(turn.values())))))
            .with_clock(Arc::clone(turn.clock()))
            .with_sink(Arc::new(sink));
        options.nested = true;
        options.workflow = Some(self.id.clone());
        options.on_waiting = OnWaiting::End;
        options.budget = Some(turn.budget()?);
        options.cancel = Some(turn.cancel_token());
        options.resume = turn.resume().map(Box::new);
        let run = workflow_engine::run(former.as_ref().unwrap_or(&self.plan), arguments, options);
        let reply = Reply {
            outcome: run.outcome().boxed(),
            reader,
            output: self.output.clone(),
            written: String::new(),
            rest: VecDeque::new(),
            is_over: false,
        };
        Ok(Box::pin(futures::stream::unfold(reply, Reply::next)))
    }
}

/// Hands the pieces of the reply on.
#[derive(Debug)]
struct LiveSink {
    inner: Arc<dyn EventSink>,
    live: Arc<[(Arc<str>, Arc<str>)]>,
    pieces: UnboundedSender<Arc<str>>,
}

impl EventSink for LiveSink {
    fn record(&self, drafts: &mut Vec<UnsequencedEvent>) {
        for draft in drafts.iter() {
            if let (EventBody::NodeChunk { slot, text }, Some(path)) = (&draft.body, &draft.place.path)
                && draft.place.call.is_none()
                && self.live.iter().any(|(node, name)| node == path && name == slot)
            {
                // Without a reader the turn has ended.
                let _ = self.pieces.unbounded_send(Arc::clone(text));
            }
        }
        self.inner.record(drafts);
    }

    fn new_span(&self) -> u64 {
        self.inner.new_span()
    }

    fn run(&self) -> &RunId {
        self.inner.run()
    }

    fn persister(&self) -> Option<&dyn EventPersister> {
        self.inner.persister()
    }
}

/// A reply that is being written.
struct Reply {
    outcome: Pin<Box<dyn Future<Output = RunOutcome> + Send>>,
    reader: UnboundedReceiver<Arc<str>>,
    output: String,
    written: String,
    rest: VecDeque<Result<LlmEvent, DeliberationFault>>,
    is_over: bool,
}

impl Reply {
    async fn next(mut self) -> Option<(Result<LlmEvent, DeliberationFault>, Self)> {
        if self.is_over {
            return self.rest.pop_front().map(|event| (event, self));
        }
        let outcome = match select(self.outcome.as_mut(), self.reader.next()).await {
            Either::Right((Some(piece), _)) => {
                self.written.push_str(&piece);
                return Some((Ok(LlmEvent::Text(piece.to_string())), self));
            }
            Either::Right((None, outcome)) => outcome.await,
            Either::Left((outcome, _)) => outcome,
        };
        self.end(outcome);
        self.rest.pop_front().map(|event| (event, self))
    }

    /// Queues the remaining events once the workflow has ended.
    fn end(&mut self, outcome: RunOutcome) {
        self.is_over = true;
        while let Ok(piece) = self.reader.try_recv() {
            self.written.push_str(&piece);
            self.rest.push_back(Ok(LlmEvent::Text(piece.to_string())));
        }
        match outcome.status {
            RunStatus::Ok => {
                let text = match outcome.outputs.get(&self.output) {
                    Some(Value::String(text)) => text.clone(),
                    Some(Value::Null) | None => String::new(),
                    Some(other) => other.to_string(),
                };
                self.finish(text, outcome.usage);
            }
            RunStatus::Waiting => self.rest.push_back(Err(DeliberationFault::Waiting(outcome.asks))),
            RunStatus::Cancelled | RunStatus::Error => {
                let (kind, message) = match outcome.error {
                    Some(error) => {
                        (error.code.clone().unwrap_or_else(|| error.kind.clone()), error.to_string())
                    }
                    None => ("cancelled".to_owned(), "the deliberation was cancelled".to_owned()),
                };
                self.rest.push_back(Err(DeliberationFault::Failed { kind, message }));
            }
        }
    }

    fn finish(&mut self, text: String, usage: agent_types::Usage) {
        let Some(more) = text.strip_prefix(&self.written) else {
            let message = "the deliberation took back what it had written";
            let fault = DeliberationFault::Failed { kind: "retracted".into(), message: message.into() };
            return self.rest.push_back(Err(fault));
        };
        if !more.is_empty() {
            self.rest.push_back(Ok(LlmEvent::Text(more.to_owned())));
        }
        let response = StandardResponse { text, usage, finish: Finish::Stop, ..StandardResponse::default() };
        self.rest.push_back(Ok(LlmEvent::Finished(response)));
    }
}

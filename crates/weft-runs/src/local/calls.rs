//! Single calls of tools: each is a run that can be read and exported like any other.

use std::fmt;
use std::sync::Arc;

use agent_types::{
    Budget, BudgetLimits, CallId, EventBody, EventLocation, EventSink, ExitReason, RunId, RunStatus,
    ToolStatus, UnsequencedEvent,
};
use futures::FutureExt;
use futures::future::BoxFuture;
use run_store::NewRun;
use serde_json::{Map, Value};
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio_util::sync::CancellationToken;
use tool_registry::{CallEnd, CallOutcome, Services, Tool, ToolContext, ToolErrorKind};

use super::cancel::poll_cancel_requests;
use super::open::begin;
use super::{BEHIND, Live, LocalRuns, events};
use crate::error::RunsError;
use crate::handle::RunEvents;
use crate::plan::CallPlan;
use crate::sink::RunSink;

/// Characters of a result that its event shows.
const SUMMARY: usize = 200;

/// A single call of a tool.
#[derive(Debug)]
pub struct CallRequest {
    /// The tool.
    pub tool: Tool,
    /// Its arguments, typed.
    pub arguments: Map<String, Value>,
    /// Dependencies of the tool.
    pub services: Services,
    /// Values that tools may use and no model sees or sets.
    pub values: Map<String, Value>,
    /// Cancelled when the caller does not want the result any more.
    pub given_up: CancellationToken,
}

/// A single call that executes.
#[non_exhaustive]
pub struct CallHandle {
    /// Its run.
    pub id: RunId,
    /// Its events.
    pub events: RunEvents,
    /// Its outcome.
    pub outcome: BoxFuture<'static, Result<CallOutcome, RunsError>>,
}

impl fmt::Debug for CallHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallHandle").field("id", &self.id).finish_non_exhaustive()
    }
}

impl LocalRuns {
    /// Begins a single call of a tool, when there is a permit for it.
    ///
    /// # Errors
    /// As many runs wait as may, or the store cannot be used.
    pub async fn call(&self, request: CallRequest) -> Result<CallHandle, RunsError> {
        let permit = self.call_permit().await?;
        self.begin_call(permit, request).await
    }

    /// Begins a single call of a tool whose caller cannot wait for a permit.
    ///
    /// # Errors
    /// The limit of runs is reached, or the store cannot be used.
    pub async fn call_now(&self, request: CallRequest) -> Result<CallHandle, RunsError> {
        let permit = self.call_permit_now()?;
        self.begin_call(permit, request).await
    }

    async fn begin_call(
        &self,
        permit: OwnedSemaphorePermit,
        request: CallRequest,
    ) -> Result<CallHandle, RunsError> {
        poll_cancel_requests(self);
        let plan = CallPlan { tool: request.tool.id().to_string(), arguments: request.arguments.clone() };
        let sink = self
            .with_project(move |project| {
                let plan = serde_json::to_value(&plan).unwrap_or_default();
                begin(project, NewRun { plan, ..NewRun::new(RunId::generate()) })
            })
            .await?;
        let run = sink.sink().run().clone();
        let events = events::new(&run, &sink, sink.subscribe(BEHIND));
        let (cancel, over) = (self.0.options.closed.child_token(), CancellationToken::new());
        let (is_queued, thread) = (Arc::default(), None);
        let live = Live { sink: sink.clone(), cancel: cancel.clone(), thread, is_queued, over: over.clone() };
        self.live().insert(run.clone(), live);
        let (send, done) = oneshot::channel();
        let (runs, of) = (self.clone(), run.clone());
        self.spawn(async move {
            let given_up = request.given_up.clone();
            let outcome = {
                let mut work = std::pin::pin!(runs.execute_call(request, &sink, cancel.clone()));
                tokio::select! {
                    biased;
                    outcome = &mut work => outcome,
                    () = given_up.cancelled() => {
                        cancel.cancel();
                        work.await
                    }
                }
            };
            // A fault of the store does not change what the tool gave.
            let _ = sink.close().await;
            runs.live().remove(&of);
            drop((sink, permit));
            over.cancel();
            // The caller may have gone.
            let _ = send.send(outcome);
        });
        let left = RunsError::Left { run: run.to_string() };
        let outcome = async move { done.await.map_err(|_| left) }.boxed();
        Ok(CallHandle { id: run, events, outcome })
    }

    async fn execute_call(
        &self,
        request: CallRequest,
        sink: &RunSink,
        cancel: CancellationToken,
    ) -> CallOutcome {
        let CallRequest { tool, arguments, services, values, .. } = request;
        let sink = sink.sink();
        let whole = EventLocation::default();
        let inputs = Some(Arc::new(Value::Object(arguments.clone())));
        emit(
            &sink,
            whole.clone(),
            EventBody::RunStarted { agent: None, workflow: None, message: None, inputs },
        );
        let call = CallId::new("c1");
        let place = EventLocation { call: Some(call.clone()), ..EventLocation::default() };
        let budget = Budget::new(BudgetLimits::default());
        let clock = Arc::clone(&self.0.clock);
        let id = tool.id().clone();
        let cx = ToolContext::new(call, id.clone(), clock, budget, Arc::clone(&sink), place)
            .with_cancel(cancel)
            .with_services(services)
            .with_values(Arc::new(values));
        cx.emit(EventBody::AgentToolStarted { tool: id.clone() });
        let outcome = tool.invoke(arguments, cx.clone()).await;
        let status = status_of(&outcome.end);
        cx.emit(EventBody::AgentToolFinished {
            tool: id,
            status,
            summary: outcome.end.message().chars().take(SUMMARY).collect(),
            blob: None,
            ms: u64::try_from(outcome.took.as_millis()).unwrap_or(u64::MAX),
            error: outcome.end.fault(),
        });
        emit(&sink, whole, finished(&outcome.end, status));
        outcome
    }
}

fn emit(sink: &Arc<dyn EventSink>, place: EventLocation, body: EventBody) {
    sink.record(&mut vec![UnsequencedEvent::new(place, body)]);
}

fn finished(end: &CallEnd, status: ToolStatus) -> EventBody {
    let status = match status {
        ToolStatus::Ok => RunStatus::Ok,
        ToolStatus::Cancelled => RunStatus::Cancelled,
        _ => RunStatus::Error,
    };
    let message = (status == RunStatus::Error).then(|| end.message().into_owned());
    let kind = message.as_ref().map(|_| end.code().to_owned());
    let exit = (status == RunStatus::Cancelled).then_some(ExitReason::Cancelled);
    EventBody::RunFinished { status, exit, kind, partial: None, message }
}

fn status_of(end: &CallEnd) -> ToolStatus {
    match end {
        CallEnd::Ok(_) => ToolStatus::Ok,
        CallEnd::Failed(error) if error.kind == ToolErrorKind::Refused => ToolStatus::Refused,
        CallEnd::Failed(error) if error.kind == ToolErrorKind::Timeout => ToolStatus::Timeout,
        CallEnd::TimedOut { .. } => ToolStatus::Timeout,
        CallEnd::Panicked { .. } => ToolStatus::Panicked,
        CallEnd::Cancelled => ToolStatus::Cancelled,
        _ => ToolStatus::Failed,
    }
}

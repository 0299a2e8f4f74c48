//! Starting a run and holding on to it.

use std::fmt;
use std::sync::Arc;

use agent_types::{
    EventBody, EventLocation, EventPersister, EventSink, Recorder, RunId, RunStatus, Usage, nearest,
};
use serde_json::{Map, Value};
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::convert::convert;
use crate::error::RunError;
use crate::node::Node;
use crate::plan::Plan;
use crate::plan::data::PlanData;
use crate::run::options::RunOptions;
use crate::run::outcome::RunOutcome;
use crate::run::scheduler::drive;
use crate::run::shared::RunShared;
use crate::run::workers::mailbox::{Inbox, Message};

/// A running run, which needs no polling. Dropping the handle cancels it.
pub struct RunHandle {
    run: RunId,
    shared: Arc<RunShared>,
    task: JoinSet<RunOutcome>,
    abort: AbortHandle,
}

/// Controls a run while another task waits for its outcome. It keeps nothing alive.
#[derive(Clone)]
pub struct RunRemote {
    shared: Arc<RunShared>,
    abort: AbortHandle,
}

impl fmt::Debug for RunRemote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunRemote").field("run", self.shared.sink.run()).finish_non_exhaustive()
    }
}

impl fmt::Debug for RunHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunHandle").field("run", &self.run).finish_non_exhaustive()
    }
}

/// Starts a run on the tokio runtime of the caller.
///
/// `inputs` are the arguments by name. Absent ones take their default, and stay absent without one; a required one without
/// a default, a value of another type, or a name that the workflow does not declare, ends the run with the kind
/// `missing_input` before any node starts.
///
/// # Panics
/// Outside a tokio runtime.
#[must_use = "dropping the handle cancels the run"]
pub fn run(plan: &Plan, inputs: Map<String, Value>, options: RunOptions) -> RunHandle {
    let parent = options.cancel.clone().unwrap_or_default();
    let sink: Arc<dyn EventSink> = match &options.sink {
        Some(sink) => Arc::clone(sink),
        None => Recorder::new(RunId::generate(), Arc::clone(&options.clock)),
    };
    let shared = Arc::new(RunShared {
        plan: Arc::clone(plan.data()),
        sink,
        workflow: options.workflow.as_deref().map(Arc::from),
        clock: Arc::clone(&options.clock),
        services: options.services.clone(),
        budget: options.budget.clone(),
        cancel: parent.child_token(),
        inbox: Inbox::default(),
        over: CancellationToken::new(),
    });
    let run = shared.sink.run().clone();
    let nodes = Arc::clone(plan.nodes());
    let mut task = JoinSet::new();
    let handle_shared = Arc::clone(&shared);
    let abort = task.spawn(async move {
        let _over = shared.over.clone().drop_guard();
        start(shared, nodes, inputs, options).await
    });
    RunHandle { run, shared: handle_shared, task, abort }
}

impl Plan {
    /// Starts a run; see [`run`].
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[must_use = "dropping the handle cancels the run"]
    pub fn run(&self, inputs: Map<String, Value>, options: RunOptions) -> RunHandle {
        run(self, inputs, options)
    }
}

impl RunHandle {
    /// The run.
    #[must_use]
    pub fn run(&self) -> &RunId {
        &self.run
    }

    /// Asks the run to end; [`outcome`](Self::outcome) resolves when it has.
    pub fn cancel(&self) {
        self.shared.cancel.cancel();
    }

    /// Returns a token that cancels the run, for another task to hold.
    #[must_use]
    pub fn cancel_token(&self) -> CancellationToken {
        self.shared.cancel.clone()
    }

    /// Returns a control of the run, for use while another task waits for its outcome.
    #[must_use]
    pub fn remote(&self) -> RunRemote {
        RunRemote { shared: Arc::clone(&self.shared), abort: self.abort.clone() }
    }

    /// Answers an open question; see [`RunRemote::answer`].
    pub async fn answer(&self, ask: &str, value: Value) -> bool {
        self.remote().answer(ask, value).await
    }

    /// Waits for the end. The run continues as long as this future is polled or the handle lives.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the run.
    pub async fn outcome(mut self) -> RunOutcome {
        match self.task.join_next().await {
            Some(Ok(outcome)) => outcome,
            Some(Err(error)) if error.is_cancelled() => lost(&self.run, "aborted", "it was dropped"),
            Some(Err(error)) => lost(&self.run, "panic", &error.to_string()),
            None => lost(&self.run, "panic", "it has no task"),
        }
    }
}

impl RunRemote {
    /// Asks the run to end.
    pub fn cancel(&self) {
        self.shared.cancel.cancel();
    }

    /// Answers an open question by its id. Returns `false` if the id is unknown or the answer does not fit.
    /// Where the run is kept, the answer is safe when this returns.
    pub async fn answer(&self, ask: &str, value: Value) -> bool {
        let (known, answer) = oneshot::channel();
        self.shared.inbox.post(Message::Answer { ask: ask.into(), value, known });
        let known = tokio::select! {
            biased;
            known = answer => known.unwrap_or(false),
            () = self.shared.over.cancelled() => false,
        };
        if known && let Some(durable) = self.shared.sink.persister().map(EventPersister::durable) {
            // If it cannot be kept the run ends with that error.
            let _ = durable.await;
        }
        known
    }

    /// Lets the run end with the status `waiting` as soon as nothing is left but questions.
    pub fn end_when_waiting(&self) {
        self.shared.inbox.post(Message::EndWhenWaiting);
    }

    /// Aborts the run as a crash of the process would: no node continues and no event is emitted.
    /// A persisted run can be resumed later; its outcome here has the kind `aborted`.
    pub fn abort(&self) {
        self.abort.abort();
    }
}

impl Drop for RunHandle {
    fn drop(&mut self) {
        // The task writes the last events by itself; to abort it would leave starts without an end.
        self.shared.cancel.cancel();
        self.task.detach_all();
    }
}

fn lost(run: &RunId, kind: &str, why: &str) -> RunOutcome {
    let error = RunError::new(kind, format!("the run itself came to an end: {why}"));
    RunOutcome { error: Some(error), status: RunStatus::Error, ..empty(run) }
}

fn empty(run: &RunId) -> RunOutcome {
    RunOutcome {
        run: run.clone(),
        status: RunStatus::Ok,
        outputs: Map::new(),
        error: None,
        stopped: None,
        asks: Vec::new(),
        usage: Usage::default(),
        node_starts: 0,
    }
}

async fn start(
    shared: Arc<RunShared>,
    nodes: Arc<[Arc<dyn Node>]>,
    inputs: Map<String, Value>,
    mut options: RunOptions,
) -> RunOutcome {
    // A log without an event is that of a run that was about to begin.
    let resumes = options.resume.as_ref().is_some_and(|log| !log.events.is_empty() || log.snapshot.is_some());
    if !resumes {
        options.resume = None;
    }
    if !options.nested && !resumes {
        let body = EventBody::RunStarted {
            agent: None,
            workflow: options.workflow.clone(),
            message: None,
            inputs: (!inputs.is_empty()).then(|| Arc::new(Value::Object(inputs.clone()))),
        };
        emit(&*shared.sink, body);
    }
    match arguments(&shared.plan, inputs) {
        Ok(arguments) => drive(&shared, &nodes, arguments, options).await,
        Err(error) => {
            if !options.nested {
                let body = EventBody::RunFinished {
                    status: RunStatus::Error,
                    exit: None,
                    kind: Some(error.kind.clone()),
                    partial: None,
                    message: Some(error.message.clone()),
                };
                emit(&*shared.sink, body);
            }
            RunOutcome { status: RunStatus::Error, error: Some(*error), ..empty(shared.sink.run()) }
        }
    }
}

fn emit(sink: &dyn EventSink, body: EventBody) {
    sink.record(&mut vec![agent_types::UnsequencedEvent::new(EventLocation::default(), body)]);
}

/// The value of each declared argument, all faults together. What is absent takes its default, and stays absent without.
fn arguments(
    plan: &PlanData,
    mut inputs: Map<String, Value>,
) -> Result<Vec<Option<Arc<Value>>>, Box<RunError>> {
    let mut faults = Vec::new();
    let mut values = Vec::with_capacity(plan.arguments.len());
    for argument in &plan.arguments {
        let given = inputs.remove(&*argument.name).map(Arc::new).or_else(|| argument.default.clone());
        match given.map(|value| convert(&value, argument.data_flow_type)).transpose() {
            Ok(None) if argument.required => {
                faults.push(format!("the required input `{}` was not given", argument.name));
            }
            Ok(value) => values.push(value),
            Err(fault) => faults.push(format!("the input `{}` {fault}", argument.name)),
        }
    }
    for unknown in inputs.keys() {
        let names = plan.arguments.iter().map(|argument| &*argument.name);
        let near =
            nearest(unknown, names).map(|near| format!(", did you mean `{near}`?")).unwrap_or_default();
        faults.push(format!("unknown input `{unknown}`{near}"));
    }
    if faults.is_empty() {
        Ok(values)
    } else {
        Err(Box::new(RunError::new("missing_input", faults.join("; "))))
    }
}

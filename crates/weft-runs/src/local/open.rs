//! Opening runs in the store: new ones, known ones, forks.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use agent_runtime::{AgentState, Exchange};
use agent_types::{EventBody, ResumeLog, RunId, Timestamp};
use run_store::{NewRun, RunFilter, Store, StoreError};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use weft_project::{Project, replies};
use workflow_engine::Plan;
use workflow_model::Workflow;

use super::agent::OpenAgent;
use super::conversation::{history_before, note_before};
use super::threads::Threads;
use super::version::{plan_of, version};
use super::workflow::{OpenWorkflow, typed_text};
use crate::error::RunsError;
use crate::plan::{AgentPlan, WorkflowPlan};
use crate::request::{ForkRequest, NodeValue, ThreadName, Version};
use crate::sink::RunSink;

const DAY: Duration = Duration::from_hours(24);

/// The run that is opened: a new one, or one that has waited for its turn.
pub(super) struct Opening {
    pub(super) run: RunId,
    /// Sink of a run that is recorded.
    pub(super) sink: Option<RunSink>,
    pub(super) cancel: CancellationToken,
}

impl Opening {
    pub(super) fn new(run: RunId) -> Self {
        Self { run, sink: None, cancel: CancellationToken::new() }
    }
}

/// Begins a run: kept where the project keeps runs.
pub(super) fn begin(project: &Project, new: NewRun) -> Result<RunSink, RunsError> {
    let clock = Arc::clone(project.clock());
    match project.store()? {
        Some(store) => {
            prune(project, store)?;
            Ok(RunSink::Stored(store.begin(new, clock)?, store.clone()))
        }
        None => Ok(RunSink::memory(new.run, clock)),
    }
}

pub(super) fn begin_agent_run(
    project: &Project,
    threads: &Threads,
    plan: AgentPlan,
    thread: Option<String>,
    opening: Opening,
) -> Result<OpenAgent, RunsError> {
    let history = history_before(project, &plan, thread.as_deref(), None)?;
    let plan = AgentPlan { before: history.len(), ..plan };
    let sink = match opening.sink {
        Some(sink) => {
            note_before(project, &opening.run, plan.before)?;
            sink
        }
        None => begin(project, new_agent_run(opening.run, &plan, thread.clone()))?,
    };
    let name = thread.as_ref().map(|thread| ThreadName::new(&plan.agent, thread));
    let state = threads.state(name.as_ref(), history);
    Ok(OpenAgent { sink, log: None, state, plan, thread })
}

pub(super) fn new_agent_run(run: RunId, plan: &AgentPlan, thread: Option<String>) -> NewRun {
    NewRun {
        agent: Some(plan.agent.clone()),
        thread,
        plan: serde_json::to_value(plan).unwrap_or_default(),
        ..NewRun::new(run)
    }
}

pub(super) fn begin_workflow_run(
    project: &Project,
    id: &str,
    workflow: &Workflow,
    plan: Plan,
    inputs: Map<String, Value>,
    values: Map<String, Value>,
) -> Result<OpenWorkflow, RunsError> {
    let kept = WorkflowPlan {
        id: id.to_owned(),
        workflow: workflow.to_value(),
        inputs,
        values,
        retry_of: None,
        former_inputs: false,
    };
    let sink = begin(project, new_workflow_run(&kept))?;
    Ok(OpenWorkflow { sink, log: None, plan, kept })
}

pub(super) fn new_workflow_run(plan: &WorkflowPlan) -> NewRun {
    let kept = serde_json::to_value(plan).unwrap_or_default();
    NewRun { workflow: Some(plan.id.clone()), plan: kept, ..NewRun::new(RunId::generate()) }
}

/// A run of an agent that is resumed, without the conversation before it.
pub(super) struct StoredAgentRun {
    pub(super) sink: RunSink,
    run: RunId,
    log: ResumeLog,
    pub(super) plan: AgentPlan,
    thread: Option<String>,
}

impl StoredAgentRun {
    pub(super) fn open(project: &Project, run: &RunId) -> Result<Self, RunsError> {
        let store = project.required_store(run)?;
        let record = store.known(run)?;
        let plan = AgentPlan::from_record(&record)?;
        let (stored, log) = store.resume(run, Arc::clone(project.clock()))?;
        let sink = RunSink::Stored(stored, store.clone());
        Ok(Self { sink, run: run.clone(), log, plan, thread: record.new.thread })
    }

    /// The run with the conversation as it is now, when its turn has come.
    pub(super) fn with_history(self, project: &Project, threads: &Threads) -> Result<OpenAgent, RunsError> {
        let Self { sink, run, log, plan, thread } = self;
        let history = history_before(project, &plan, thread.as_deref(), Some(&run))?;
        let plan = AgentPlan { before: history.len(), ..plan };
        // A run that was interrupted before its turn has not begun.
        let has_begun = log.events.iter().any(|kept| !matches!(kept.event.body, EventBody::RunQueued { .. }));
        let log = Some(log).filter(|_| has_begun);
        if plan.queued && !has_begun {
            note_before(project, &run, plan.before)?;
        }
        let name = thread.as_ref().map(|thread| ThreadName::new(&plan.agent, thread));
        let state = threads.state(name.as_ref(), history);
        Ok(OpenAgent { sink, log, state, plan, thread })
    }
}

pub(super) fn resume_agent_run(
    project: &Project,
    threads: &Threads,
    run: &RunId,
) -> Result<OpenAgent, RunsError> {
    StoredAgentRun::open(project, run)?.with_history(project, threads)
}

pub(super) fn resume_workflow_run(
    project: &Project,
    run: &RunId,
    wanted: Version,
) -> Result<OpenWorkflow, RunsError> {
    let store = project.required_store(run)?;
    let mut kept = WorkflowPlan::from_record(&store.known(run)?)?;
    let workflow = version(project, store, &kept, (run, u64::MAX), wanted)?;
    let plan = plan_of(project, run, &mut kept, &workflow)?;
    let (stored, log) = store.resume_where(run, |state| plan.fits(state), Arc::clone(project.clock()))?;
    let sink = RunSink::Stored(stored, store.clone());
    Ok(OpenWorkflow { sink, log: Some(log), plan, kept })
}

/// Begins a workflow's run with what another one did, with other values for some of its nodes.
pub(super) fn fork_workflow_run(project: &Project, request: &ForkRequest) -> Result<OpenWorkflow, RunsError> {
    let ForkRequest { of, at, changes, version: wanted } = request;
    let store = project.required_store(of)?;
    let record = store.known(of)?;
    let mut kept = WorkflowPlan { retry_of: None, ..WorkflowPlan::from_record(&record)? };
    // Where they end is found before their types are known.
    let untyped = changes.keys().map(|path| (path.clone(), Value::Null)).collect();
    let upto = store.place_to_fork(of, *at, &untyped)?;
    let workflow = version(project, store, &kept, (of, upto), *wanted)?;
    let plan = plan_of(project, of, &mut kept, &workflow)?;
    let changes = &typed_changes(&plan, changes)?;
    let new = new_workflow_run(&kept);
    let clock = Arc::clone(project.clock());
    let (stored, log) = store.fork(of, new, upto, changes, |state| plan.fits(state), clock)?;
    let sink = RunSink::Stored(stored, store.clone());
    Ok(OpenWorkflow { sink, log: Some(log), plan, kept })
}

/// Values for nodes, texts typed by the main outputs of their nodes.
fn typed_changes(
    plan: &Plan,
    changes: &HashMap<String, NodeValue>,
) -> Result<HashMap<String, Value>, RunsError> {
    let typed = changes.iter().map(|(path, value)| {
        let Some(kind) = plan.output_type(path) else {
            return Err(RunsError::NotSettable { path: path.clone() });
        };
        match value {
            NodeValue::Json(value) => Ok((path.clone(), value.clone())),
            NodeValue::Text(text) => Ok((path.clone(), typed_text(path, text, kind)?)),
        }
    });
    typed.collect()
}

/// Begins an agent's run with what another one did. It belongs to no thread.
pub(super) fn fork_agent_run(project: &Project, of: &RunId, at: Option<u64>) -> Result<OpenAgent, RunsError> {
    let store = project.required_store(of)?;
    let record = store.known(of)?;
    let plan = AgentPlan { retry_of: None, ..AgentPlan::from_record(&record)? };
    if plan.before > plan.history.len() {
        let message = "it follows a conversation, which a fork would not have";
        return Err(RunsError::not_resumable(of, message));
    }
    if plan.in_session {
        let message = "it is a message of a session, and another session did not get it";
        return Err(RunsError::not_resumable(of, message));
    }
    let changes = HashMap::new();
    let upto = store.place_to_fork(of, at, &changes)?;
    let new = new_agent_run(RunId::generate(), &plan, None);
    let (stored, log) = store.fork(of, new, upto, &changes, |_| true, Arc::clone(project.clock()))?;
    let state = AgentState::from_history(plan.history.clone());
    let sink = RunSink::Stored(stored, store.clone());
    Ok(OpenAgent { sink, log: Some(log), state, plan, thread: None })
}

/// Lets scripts continue behind the replies that the conversation before a run has had.
pub(super) fn skip_conversation(project: &Project, open: &OpenAgent) {
    let history = open.state.history().iter();
    project.models().skip_replies(history.filter(|exchange| matches!(exchange, Exchange::Turn(_))).count());
}

/// Lets scripts continue behind the replies that a run has had in another process.
pub(super) fn skip_replies(project: &Project, log: Option<&ResumeLog>) {
    if let Some(log) = log {
        project.models().skip_replies(replies(&log.events));
    }
}

/// Deletes runs that the settings keep no longer.
fn prune(project: &Project, store: &Store) -> Result<(), RunsError> {
    let settings = &project.settings().store;
    if settings.keep_runs.is_none() && settings.keep_days.is_none() {
        return Ok(());
    }
    let now = project.clock().now();
    let oldest = settings.keep_days.map(|days| {
        let kept = i64::try_from((DAY * days).as_millis()).unwrap_or(i64::MAX);
        Timestamp::from_millis(now.as_millis().saturating_sub(kept))
    });
    let runs = store.runs(&RunFilter::default())?;
    for (at, record) in runs.iter().enumerate() {
        let many = settings.keep_runs.is_some_and(|keep| at >= keep);
        let old = oldest.is_some_and(|oldest| record.started < oldest);
        if record.state.phase.has_ended() && (many || old) {
            match store.remove(&record.new.run) {
                // It has just ended, or another process deleted it: the next run sees to it.
                Ok(()) | Err(StoreError::RunBusy { .. } | StoreError::UnknownRun { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(store.sweep_locks()?)
}

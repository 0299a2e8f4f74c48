//! Beginning runs.

use std::sync::Arc;

use agent_runtime::{Agent, SubscribedEvent};
use agent_triggers::TriggerRun;
use agent_types::{RunId, nearest};
use executors_flow_system::{Orchestrator, OrchestratorError};
use tokio_util::sync::CancellationToken;
use weft_project::{Project, ProjectError};

use super::agent::{OpenAgent, session_work};
use super::known::{claim, known_run, message_key, release};
use super::launch::Prepared;
use super::open::{begin_agent_run, begin_workflow_run, skip_conversation};
use super::queue::{begin_queued, join};
use super::threads::{Joined, MAX_QUEUE, ThreadHold, interrupted, waiting};
use super::workflow::{typed, workflow_work};
use super::{LocalRuns, Scripts};
use crate::error::RunsError;
use crate::handle::RunHandle;
use crate::plan::{AgentPlan, FlowCall, TriggerCause};
use crate::request::{AgentRequest, RunEnv, ThreadName, WorkflowRequest};
use crate::sink::RunSink;

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

impl LocalRuns {
    pub(super) async fn begin_agent(&self, request: AgentRequest) -> Result<RunHandle, RunsError> {
        let run = RunId::generate();
        let key = message_key(&request);
        if let Some(key) = &key
            && let Some(known) = claim(self, key, &run).await?
        {
            return known_run(self, known);
        }
        let begun = begin_message(self, request, run).await;
        if let Some(key) = key.filter(|_| begun.is_err()) {
            release(self, key).await;
        }
        begun
    }

    pub(super) fn prepare_agent(
        &self,
        project: &Arc<Project>,
        request: AgentRequest,
        hold: Option<ThreadHold>,
        opening: Opening,
    ) -> Result<Prepared, RunsError> {
        let AgentRequest { mut plan, thread, approval, surroundings, .. } = request;
        let project = self.for_one_run(project)?;
        if let Some(thread) = &thread
            && let Some(run) = waiting(&project, &ThreadName::new(&plan.agent, thread))?
        {
            return Err(RunsError::RunWaiting { run: run.to_string() });
        }
        check_interrupted(self, &project, &plan, thread.as_deref())?;
        let cancel = opening.cancel.clone();
        if is_session(&project, &plan, surroundings)? {
            plan.in_session = true;
            let orchestrator = self.orchestrator(&project, approval)?;
            check_target(&orchestrator, &plan)?;
            let open = begin_agent_run(&project, &self.0.threads, plan, thread, opening)?;
            self.skip_conversation(&project, &open);
            return Ok(session_work(orchestrator, open, hold, Arc::default(), cancel));
        }
        let agent = plan.prepared(self.agent(&project, &plan.agent)?).with_approval(approval);
        agent.check().map_err(ProjectError::from)?;
        check_event(&agent, &plan)?;
        let open = begin_agent_run(&project, &self.0.threads, plan, thread, opening)?;
        keep_firing(&project, &open)?;
        self.skip_conversation(&project, &open);
        self.agent_work(project, agent, open, hold, cancel)
    }

    /// Lets a script that is played to each conversation continue behind the replies that this one has had.
    pub(super) fn skip_conversation(&self, project: &Project, open: &OpenAgent) {
        if self.0.options.scripts == Scripts::OfRun {
            skip_conversation(project, open);
        }
    }

    pub(super) async fn begin_workflow(&self, request: WorkflowRequest) -> Result<RunHandle, RunsError> {
        let admission = self.admit()?;
        let runs = self.clone();
        let prepared = self
            .with_project(move |project| {
                let project = runs.for_one_run(project)?;
                let WorkflowRequest { id, workflow, inputs, values, approval } = request;
                let workflow = match workflow {
                    Some(workflow) => Arc::new(workflow),
                    None => project.workflows().get(&id)?.1,
                };
                let plan = project.plan(&id, &workflow)?;
                let inputs = typed(inputs, &workflow)?;
                let open = begin_workflow_run(&project, &id, &workflow, plan, inputs, values)?;
                kept(workflow_work(&project, open, approval, CancellationToken::new())?)
            })
            .await?;
        Ok(self.launch(admission, prepared))
    }
}

async fn begin_message(runs: &LocalRuns, request: AgentRequest, run: RunId) -> Result<RunHandle, RunsError> {
    let hold = match &request.thread {
        None => None,
        Some(thread) => {
            let name = ThreadName::new(&request.plan.agent, thread);
            match join(runs, &name, request.busy).await? {
                Joined::Taken(hold) => Some(hold),
                Joined::Queued(ticket) => return begin_queued(runs, request, ticket, run).await,
                Joined::Full => return Err(RunsError::ThreadFull { queued: MAX_QUEUE }),
            }
        }
    };
    let admission = runs.admit()?;
    let (own, opening) = (runs.clone(), Opening::new(run));
    let prepare =
        move |project: &Arc<Project>| own.prepare_agent(project, request, hold, opening).and_then(kept);
    let prepared = runs.with_project(prepare).await?;
    Ok(runs.launch(admission, prepared))
}

/// Finds what keeps a message from being queued, and completes its record.
pub(super) fn check_queued(
    runs: &LocalRuns,
    project: &Arc<Project>,
    request: &mut AgentRequest,
) -> Result<(), RunsError> {
    let AgentRequest { plan, thread, surroundings, .. } = request;
    plan.in_session = is_session(project, plan, *surroundings)?;
    plan.queued = true;
    check_interrupted(runs, project, plan, thread.as_deref())?;
    let agent = plan.prepared(runs.agent(project, &plan.agent)?);
    agent.check().map_err(ProjectError::from)?;
    check_event(&agent, plan)
}

fn check_interrupted(
    runs: &LocalRuns,
    project: &Project,
    plan: &AgentPlan,
    thread: Option<&str>,
) -> Result<(), RunsError> {
    let Some(thread) = thread else { return Ok(()) };
    match interrupted(runs, project, &ThreadName::new(&plan.agent, thread))? {
        Some(run) => Err(RunsError::RunInterrupted { run: run.to_string() }),
        None => Ok(()),
    }
}

/// Stores the record of a prepared run, so that a run whose id is known survives a crash.
pub(super) fn kept(prepared: Prepared) -> Result<Prepared, RunsError> {
    if let Some(store) = prepared.sink.store() {
        store.flush()?;
    }
    Ok(prepared)
}

/// Returns `true` when flows and system actions surround the agent. They take messages, not events.
fn is_session(project: &Project, plan: &AgentPlan, surroundings: RunEnv) -> Result<bool, RunsError> {
    if plan.target.is_some() {
        return Ok(true);
    }
    match surroundings {
        RunEnv::Session => Ok(true),
        RunEnv::AgentOnly => Ok(false),
        RunEnv::OfProject => Ok(plan.event.is_none()
            && project.flows_file()?.is_some()
            && project.flows_agent()? == plan.agent),
    }
}

/// Refuses a flow or system action that cannot be run by its id, before its run begins.
fn check_target(orchestrator: &Orchestrator, plan: &AgentPlan) -> Result<(), RunsError> {
    let Some(FlowCall { id, kind, parameters }) = &plan.target else { return Ok(()) };
    let checked = orchestrator.flows().check_call(*kind, id, parameters);
    Ok(checked.map_err(OrchestratorError::from)?)
}

/// Keeps the run in the record of the trigger that began it.
fn keep_firing(project: &Project, open: &OpenAgent) -> Result<(), RunsError> {
    let Some(TriggerCause { id, cause }) = &open.plan.trigger else { return Ok(()) };
    let run = TriggerRun::new(project.clock().now(), cause, Ok(open.sink.sink().run().clone()));
    Ok(project.trigger_store()?.update(id, |record| record.with_run(run))?)
}

/// Refuses an event that does not start the agent.
fn check_event(agent: &Agent, plan: &AgentPlan) -> Result<(), RunsError> {
    let Some(event) = &plan.event else { return Ok(()) };
    // A trigger names its agent itself.
    if plan.trigger.is_some() || agent.listens_to(&event.name, &event.payload) {
        return Ok(());
    }
    let subscribed = &agent.profile().subscribed_event_types;
    let names: Vec<&str> = subscribed.iter().map(SubscribedEvent::name).collect();
    Err(RunsError::NotSubscribed {
        agent: plan.agent.clone(),
        event: event.name.clone(),
        listed: names.contains(&event.name.as_str()),
        near: nearest(&event.name, names.iter().copied()).map(str::to_owned),
    })
}

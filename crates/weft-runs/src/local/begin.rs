//! Beginning runs.

use std::sync::Arc;

use agent_runtime::{Agent, SubscribedEvent};
use agent_types::{RunId, nearest};
use tokio_util::sync::CancellationToken;
use weft_project::{Project, ProjectError};

use super::agent::session_work;
use super::launch::Prepared;
use super::open::{begin_agent_run, begin_workflow_run, skip_conversation};
use super::threads::{ThreadHold, extend, interrupted, waiting};
use super::workflow::{typed, workflow_work};
use super::{LocalRuns, Scripts};
use crate::error::RunsError;
use crate::handle::RunHandle;
use crate::plan::AgentPlan;
use crate::request::{AgentRequest, RunEnv, ThreadName, WorkflowRequest};

impl LocalRuns {
    pub(super) async fn begin_agent(&self, request: AgentRequest) -> Result<RunHandle, RunsError> {
        let admission = self.admit()?;
        let hold = match &request.thread {
            Some(thread) => Some(self.take_thread(&ThreadName::new(&request.plan.agent, thread)).await?),
            None => None,
        };
        let runs = self.clone();
        let prepare = move |project: &Arc<Project>| runs.prepare_agent(project, request, hold).and_then(kept);
        let prepared = self.with_project(prepare).await?;
        Ok(self.launch(admission, prepared))
    }

    fn prepare_agent(
        &self,
        project: &Arc<Project>,
        request: AgentRequest,
        hold: Option<ThreadHold>,
    ) -> Result<Prepared, RunsError> {
        let AgentRequest { plan, thread, approval, surroundings } = request;
        let project = self.for_one_run(project)?;
        if let Some(thread) = &thread
            && let Some(run) = waiting(&project, &ThreadName::new(&plan.agent, thread))?
        {
            return Err(RunsError::RunWaiting { run: run.to_string() });
        }
        if is_session(&project, &plan, surroundings)? {
            let orchestrator = self.orchestrator(&project, approval)?;
            return self.prepare_session(&project, orchestrator, plan, thread, hold);
        }
        if let Some(thread) = &thread
            && let Some(run) = interrupted(&project, &ThreadName::new(&plan.agent, thread))?
        {
            return Err(RunsError::RunInterrupted { run: run.to_string() });
        }
        let agent = plan.prepared(self.agent(&project, &plan.agent)?).with_approval(approval);
        agent.check().map_err(ProjectError::from)?;
        check_event(&agent, &plan)?;
        let open = begin_agent_run(&project, &self.0.threads, plan, thread)?;
        self.skip_conversation(&project, &open);
        self.agent_work(project, agent, open, hold, CancellationToken::new())
    }

    fn prepare_session(
        &self,
        project: &Project,
        orchestrator: executors_flow_system::Orchestrator,
        mut plan: AgentPlan,
        mut thread: Option<String>,
        mut hold: Option<ThreadHold>,
    ) -> Result<Prepared, RunsError> {
        plan.in_session = true;
        // A conversation that the client keeps becomes a session of its own.
        if thread.is_none() {
            let name = ThreadName::new(&plan.agent, RunId::generate().to_string());
            extend(project, &name, &plan.history)?;
            plan.history.clear();
            // Its name is not known yet to anybody else.
            hold = self.0.threads.take(&name).ok();
            thread = Some(name.thread);
        }
        let open = begin_agent_run(project, &self.0.threads, plan, thread)?;
        self.skip_conversation(project, &open);
        Ok(session_work(orchestrator, open, hold, Arc::default(), CancellationToken::new()))
    }

    /// Lets a script that is played to each conversation continue behind the replies that this one has had.
    pub(super) fn skip_conversation(&self, project: &Project, open: &super::agent::OpenAgent) {
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

/// Stores the record of a prepared run, so that a run whose id is known survives a crash.
pub(super) fn kept(prepared: Prepared) -> Result<Prepared, RunsError> {
    if let Some(store) = prepared.sink.store() {
        store.flush()?;
    }
    Ok(prepared)
}

/// Returns `true` when flows and system actions surround the agent. They take messages, not events.
fn is_session(project: &Project, plan: &AgentPlan, surroundings: RunEnv) -> Result<bool, RunsError> {
    match surroundings {
        RunEnv::Session => Ok(true),
        RunEnv::AgentOnly => Ok(false),
        RunEnv::OfProject => Ok(plan.event.is_none()
            && project.flows_file()?.is_some()
            && project.flows_agent()? == plan.agent),
    }
}

/// Refuses an event that does not start the agent.
fn check_event(agent: &Agent, plan: &AgentPlan) -> Result<(), RunsError> {
    let Some(event) = &plan.event else { return Ok(()) };
    if agent.listens_to(&event.name, &event.payload) {
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

//! Beginning runs.

use std::sync::Arc;

use agent_triggers::TriggerRun;
use agent_types::RunId;
use tokio_util::sync::CancellationToken;
use weft_project::{Project, ProjectError};

use super::agent::{OpenAgent, session_work};
use super::answered::answer_flow;
use super::checks::{check_event, check_target, is_session};
use super::conversation::{Ahead, Entered};
use super::known::{claim, known_run, message_key, release, verified};
use super::launch::Prepared;
use super::open::{Opening, begin_agent_run, begin_workflow_run, skip_conversation};
use super::queue::{begin_queued, join};
use super::threads::{Joined, MAX_QUEUE, ThreadHold, Ticket};
use super::workflow::{typed, workflow_work};
use super::{LocalRuns, Scripts};
use crate::error::RunsError;
use crate::handle::RunHandle;
use crate::plan::TriggerCause;
use crate::request::{AgentRequest, ThreadName, WhenBusy, WorkflowRequest};

impl LocalRuns {
    pub(super) async fn begin_agent(&self, request: AgentRequest) -> Result<RunHandle, RunsError> {
        self.begin_agent_as(request, RunId::generate()).await
    }

    /// The same with the id of the run.
    pub(super) async fn begin_agent_as(
        &self,
        request: AgentRequest,
        run: RunId,
    ) -> Result<RunHandle, RunsError> {
        let key = message_key(&request);
        let _beginning = key.as_ref().map(|_| self.0.beginning.add(&run));
        if let Some(key) = &key
            && let Some(known) = claim(self, key, &run).await?
        {
            return known_run(self, known);
        }
        let answered = answer_flow(self, &request, &run).await;
        let begun = match answered {
            Ok(Some(answered)) => Ok(answered),
            Ok(None) => begin_message(self, request, run.clone()).await,
            Err(error) => Err(error),
        };
        match (begun, key) {
            (Ok(begun), Some(key)) => verified(self, &key, begun).await,
            (Err(error), Some(key)) => {
                release(self, key, run).await;
                Err(error)
            }
            (begun, None) => begun,
        }
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
    let (own, opening) = (runs.clone(), Opening::new(run.clone()));
    let Some(thread) = request.thread.clone() else {
        let admission = runs.admit()?;
        let prepare =
            move |project: &Arc<Project>| own.prepare_agent(project, request, None, opening).and_then(kept);
        return Ok(runs.launch(admission, runs.with_project(prepare).await?));
    };
    let name = ThreadName::new(&request.plan.agent, thread);
    let hold = match join(runs, &name, request.busy).await? {
        Joined::Taken(hold) => hold,
        Joined::Queued(ticket) => return begin_queued(runs, request, ticket, run).await,
        Joined::Full => return Err(RunsError::ThreadFull { queued: MAX_QUEUE }),
    };
    let admission = runs.admit()?;
    let begin = move |project: &Arc<Project>| begin_in_turn(&own, project, request, hold, opening);
    match runs.with_project(begin).await? {
        Begun::Now(prepared) => Ok(runs.launch(admission, *prepared)),
        Begun::Later(request, ticket) => {
            drop(admission);
            begin_queued(runs, *request, *ticket, run).await
        }
    }
}

/// A message that begins, or waits for a run of another process or for an answer.
enum Begun {
    Now(Box<Prepared>),
    Later(Box<AgentRequest>, Box<Ticket>),
}

fn begin_in_turn(
    runs: &LocalRuns,
    project: &Arc<Project>,
    request: AgentRequest,
    hold: ThreadHold,
    opening: Opening,
) -> Result<Begun, RunsError> {
    match hold.enter(runs, project, None) {
        Entered::Failed(_, error) => Err(error.into()),
        // Messages that wait look for their turn from time to time.
        Entered::Taken(hold) if request.busy == WhenBusy::Reject && hold.has_queue() => {
            Err(RunsError::ThreadBusy { run: None })
        }
        Entered::Taken(hold) => {
            let prepared = runs.prepare_agent(project, request, Some(hold), opening).and_then(kept)?;
            Ok(Begun::Now(Box::new(prepared)))
        }
        Entered::Blocked(_, ahead)
            if request.busy == WhenBusy::Reject
                || matches!(ahead, Ahead::Interrupted { resumes: false, .. }) =>
        {
            Err(ahead.into())
        }
        Entered::Blocked(hold, _) => Ok(Begun::Later(Box::new(request), Box::new(hold.park()))),
    }
}

/// Stores the record of a prepared run, so that a run whose id is known survives a crash.
pub(super) fn kept(prepared: Prepared) -> Result<Prepared, RunsError> {
    if let Some(store) = prepared.sink.store() {
        store.flush()?;
    }
    Ok(prepared)
}

/// Keeps the run in the record of the trigger that began it.
fn keep_firing(project: &Project, open: &OpenAgent) -> Result<(), RunsError> {
    let Some(TriggerCause { id, cause }) = &open.plan.trigger else { return Ok(()) };
    let run = TriggerRun::new(project.clock().now(), cause, Ok(open.sink.sink().run().clone()));
    Ok(project.trigger_store()?.update(id, |record| record.with_run(run))?)
}

//! Resuming and forking runs.

use std::sync::Arc;

use agent_runtime::ApprovalMode;
use agent_types::{FormerInputs, RunId};
use futures::future::BoxFuture;
use run_store::StoreError;
use tokio_util::sync::CancellationToken;
use weft_project::Project;

use super::admission::Admission;
use super::agent::{OpenAgent, of_session, session_work};
use super::begin::kept;
use super::launch::{Ended, Prepared};
use super::open::{fork_agent_run, fork_workflow_run, resume_agent_run, resume_workflow_run, skip_replies};
use super::restore::restore_tasks;
use super::threads::ThreadHold;
use super::version::{plan_of, version};
use super::workflow::{OpenWorkflow, workflow_work};
use super::{LocalRuns, Scripts};
use crate::error::RunsError;
use crate::handle::RunHandle;
use crate::outcome::RunOutcome;
use crate::plan::{AgentPlan, WorkflowPlan};
use crate::recording::ReplaySink;
use crate::request::{ForkRequest, ThreadName, Version};
use crate::sink::RunSink;

impl LocalRuns {
    pub(super) async fn resume_run(
        &self,
        run: RunId,
        version: Version,
        cancel: CancellationToken,
    ) -> Result<RunHandle, RunsError> {
        let admission = self.admit()?;
        let hold = take_thread_of(self, &run, &cancel).await?;
        self.resume_held((run, version), (admission, hold), cancel).await
    }

    /// Resumes a run whose permit and conversation are there.
    pub(super) async fn resume_held(
        &self,
        (run, version): (RunId, Version),
        (admission, hold): (Admission, Option<ThreadHold>),
        cancel: CancellationToken,
    ) -> Result<RunHandle, RunsError> {
        let is_new = self.0.options.scripts == Scripts::OfRun || self.0.tasks.is_first(&run);
        let runs = self.clone();
        let prepared = self
            .with_project(move |project| {
                let project = runs.for_one_run(project)?;
                if !is_agent_run(&project, &run)? {
                    let open = resume_workflow_run(&project, &run, version)?;
                    if is_new {
                        skip_replies(&project, open.log.as_ref());
                    }
                    return workflow_work(&project, open, ApprovalMode::default(), cancel);
                }
                let open = resume_agent_run(&project, &runs.0.threads, &run)?;
                if is_new {
                    skip_replies(&project, open.log.as_ref());
                }
                runs.skip_conversation(&project, &open);
                prepare_resumed(&runs, project, open, hold, cancel)
            })
            .await?;
        Ok(self.launch(admission, prepared))
    }

    pub(super) async fn fork_run(&self, request: ForkRequest) -> Result<RunHandle, RunsError> {
        let admission = self.admit()?;
        let runs = self.clone();
        let prepared = self
            .with_project(move |project| {
                let project = runs.for_one_run(project)?;
                let cancel = CancellationToken::new();
                if !is_agent_run(&project, &request.of)? {
                    let open = fork_workflow_run(&project, &request)?;
                    skip_replies(&project, open.log.as_ref());
                    return kept(workflow_work(&project, open, ApprovalMode::default(), cancel)?);
                }
                if !request.changes.is_empty() {
                    return Err(RunsError::NoNodes);
                }
                let open = fork_agent_run(&project, &request.of, request.at)?;
                skip_replies(&project, open.log.as_ref());
                prepare_resumed(&runs, project, open, None, cancel).and_then(kept)
            })
            .await?;
        Ok(self.launch(admission, prepared))
    }
}

/// A run that is ready to resume, with the tasks that it had started.
pub(super) fn prepare_resumed(
    runs: &LocalRuns,
    project: Arc<Project>,
    open: OpenAgent,
    hold: Option<ThreadHold>,
    cancel: CancellationToken,
) -> Result<Prepared, RunsError> {
    let board = runs.0.tasks.take(open.sink.sink().run());
    if open.plan.in_session {
        if project.flows_agent()? != open.plan.agent {
            project.agent_file(&open.plan.agent)?;
        }
        let mut orchestrator = runs.orchestrator(&project, ApprovalMode::Ask)?;
        if open.plan.former_inputs {
            let agent = orchestrator.agent().clone().with(Arc::new(FormerInputs));
            orchestrator = project.orchestrator(agent)?.sharing(&orchestrator);
        }
        restore_tasks(&project, open.sink.sink().run(), orchestrator.agent(), &board)?;
        return Ok(session_work(orchestrator, open, hold, board, cancel));
    }
    let agent = open.plan.prepared(runs.agent(&project, &open.plan.agent)?).with(Arc::clone(&board));
    restore_tasks(&project, open.sink.sink().run(), &agent, &board)?;
    runs.agent_work(project, agent, open, hold, cancel)
}

/// Holds the conversation of a run that is to be resumed. A run that is only ended needs no hold.
async fn take_thread_of(
    runs: &LocalRuns,
    run: &RunId,
    cancel: &CancellationToken,
) -> Result<Option<ThreadHold>, RunsError> {
    let of = run.clone();
    let new = runs.with_project(move |project| Ok(project.required_store(&of)?.known(&of)?.new)).await?;
    let (Some(agent), Some(thread)) = (new.agent, new.thread) else { return Ok(None) };
    let name = ThreadName::new(agent, thread);
    if cancel.is_cancelled() {
        return Ok(runs.0.threads.take(&name).ok());
    }
    // Its own work is not another run's.
    if runs.over(run).is_some() {
        return Err(StoreError::RunBusy { run: run.to_string() }.into());
    }
    runs.take_thread(&name).await.map(Some)
}

/// The work of a recorded run that a store has, whose events are compared with the recording. A timer's run needs its id.
pub(crate) fn replayed_work(
    runs: &LocalRuns,
    project: &Arc<Project>,
    run: &RunId,
    replay: &Arc<ReplaySink>,
    timer: Option<String>,
) -> Result<BoxFuture<'static, Ended>, RunsError> {
    let cancel = replay.cancel().clone();
    let sink = RunSink::Replayed(Arc::clone(replay));
    if !is_agent_run(project, run)? {
        let open = OpenWorkflow { sink, ..resume_workflow_run(project, run, Version::Current)? };
        return Ok(workflow_work(project, open, ApprovalMode::default(), cancel)?.work);
    }
    let open = OpenAgent { sink, ..resume_agent_run(project, &runs.0.threads, run)? };
    let Some(timer) = timer else {
        return Ok(prepare_resumed(runs, Arc::clone(project), open, None, cancel)?.work);
    };
    let orchestrator = runs.orchestrator(project, ApprovalMode::Ask)?;
    let (context, run) = (open.turn_context(&cancel), run.clone());
    let session = open.thread.unwrap_or_default();
    Ok(Box::pin(async move {
        match orchestrator.enter(&session).await?.resume_timer(&timer, context).await {
            Ok(Some(handled)) => of_session(Ok(handled)),
            Ok(None) => Ok(RunOutcome::Nothing(run)),
            Err(error) => of_session(Err(error)),
        }
    }))
}

/// Returns `true` for a run of an agent.
pub(super) fn is_agent_run(project: &Project, run: &RunId) -> Result<bool, RunsError> {
    Ok(project.required_store(run)?.known(run)?.new.agent.is_some())
}

/// Finds what keeps a run from being resumed, before anything is recorded: an agent, tool or workflow that is gone.
pub(super) fn check_resumable(project: &Project, run: &RunId, wanted: Version) -> Result<(), RunsError> {
    let store = project.required_store(run)?;
    let record = store.known(run)?;
    if record.new.agent.is_some() {
        let plan = AgentPlan::from_record(&record)?;
        return if plan.in_session { Ok(()) } else { Ok(project.agent(&plan.agent).map(drop)?) };
    }
    let mut kept = WorkflowPlan::from_record(&record)?;
    let workflow = version(project, store, &kept, (run, u64::MAX), wanted)?;
    plan_of(project, run, &mut kept, &workflow).map(drop)
}

//! Sessions: messages with flows and system actions around the agent, and timers.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use agent_runtime::ApprovalMode;
use agent_types::RunId;
use executors_flow_system::Orchestrator;
use parking_lot::Mutex;
use run_store::{RunFilter, RunPhase};
use tokio_util::sync::CancellationToken;
use weft_project::{Project, ProjectError};

use super::LocalRuns;
use super::agent::of_session;
use super::cancel::end_cancelled;
use super::launch::Prepared;
use super::open::{Opening, begin_agent_run};
use super::queue::resume_in_turn;
use super::threads::{Joined, QueueEnd};
use crate::error::RunsError;
use crate::handle::RunHandle;
use crate::outcome::RunOutcome;
use crate::plan::{AgentPlan, is_timer};
use crate::request::ThreadName;

/// Interval of checks for interrupted messages.
const SWEEP: Duration = Duration::from_secs(2);

/// Pause after the sessions of a project could not be read.
const PAUSE: Duration = Duration::from_secs(5);

/// The last orchestrator of the project's sessions. Those of one agent share who is in a session, and its timers.
#[derive(Debug, Default)]
pub(super) struct Sessions(Mutex<Option<Made>>);

#[derive(Debug)]
struct Made {
    of: Arc<Project>,
    approval: ApprovalMode,
    orchestrator: Orchestrator,
}

impl LocalRuns {
    /// The orchestrator of this project, which may be there for one run only.
    pub(super) fn orchestrator(
        &self,
        project: &Arc<Project>,
        approval: ApprovalMode,
    ) -> Result<Orchestrator, RunsError> {
        let mut last = self.0.sessions.0.lock();
        if let Some(made) = &*last
            && made.approval == approval
            && Arc::ptr_eq(&made.of, project)
        {
            return Ok(made.orchestrator.clone());
        }
        let agent = self.agent(project, project.flows_agent()?)?.with_approval(approval);
        let mut orchestrator = project.orchestrator(agent)?;
        if let Some(made) = &*last
            && made.orchestrator.agent().profile().id == orchestrator.agent().profile().id
        {
            orchestrator = orchestrator.sharing(&made.orchestrator);
        }
        *last = Some(Made { of: Arc::clone(project), approval, orchestrator: orchestrator.clone() });
        Ok(orchestrator)
    }

    /// Fires timers of all sessions when they are due, until the service shuts down.
    pub async fn fire_timers(&self) {
        loop {
            let next = tokio::select! {
                next = self.next_timer(None) => next,
                () = self.0.options.closing.cancelled() => return,
            };
            let pause = match next {
                Ok(_) => Duration::ZERO,
                Err(error) => {
                    log::warn!("timers of sessions do not go off: {error}");
                    PAUSE
                }
            };
            tokio::select! {
                () = self.0.options.closing.cancelled() => return,
                () = self.0.clock.sleep(pause) => {}
            }
        }
    }

    /// Resumes messages of sessions that were interrupted, also by the end of another process, until the service shuts
    /// down. The messages of a session keep their order.
    pub async fn resume_sessions(&self) {
        let mut failed = HashSet::new();
        loop {
            if let Err(error) = resume_interrupted(self, &mut failed).await {
                log::warn!("interrupted messages of sessions are not resumed: {error}");
            }
            tokio::select! {
                () = self.0.options.closing.cancelled() => return,
                () = self.0.clock.sleep(SWEEP) => {}
            }
        }
    }

    pub(super) async fn next_timer(&self, session: Option<&str>) -> Result<Option<RunHandle>, RunsError> {
        let mut changes = self.0.files.changes();
        if self.0.files.project().flows().ok().flatten().is_none() {
            // The files hold the other end.
            let _ = changes.changed().await;
            return Ok(None);
        }
        let (project, orchestrator) = orchestration(self).await?;
        let name_of = |session: &str| ThreadName::new(orchestrator.agent().profile().id.clone(), session);
        let due = async {
            match session {
                Some(session) => orchestrator.until_due(session).await.map(|()| session.to_owned()),
                None => orchestrator.next_due(|session| self.0.threads.is_free(&name_of(session))).await,
            }
        };
        let due = tokio::select! {
            due = due => due?,
            _ = changes.changed() => return Ok(None),
        };
        let name = name_of(&due);
        // First the conversation, then the permit: a message that has the one may wait for the other.
        let hold = match (session, self.0.threads.join(&name, QueueEnd::Back, 0)) {
            (_, Joined::Taken(hold)) => Some(hold),
            (Some(_), _) => Some(self.0.threads.wait(&name).await),
            // Timers of the other sessions do not wait for this one.
            (None, _) => return Ok(None),
        };
        let admission = self.admit()?;
        let entered = orchestrator.enter(&name.thread).await?;
        if !entered.is_due() {
            return Ok(None);
        }
        let runs = self.clone();
        let open = Self::blocking(move || {
            let opening = Opening::new(RunId::generate());
            let plan = AgentPlan { agent: name.agent, in_session: true, ..AgentPlan::default() };
            let open = begin_agent_run(&project, &runs.0.threads, plan, Some(name.thread), opening)?;
            runs.skip_conversation(&project, &open);
            Ok(open)
        })
        .await?;
        let cancel = CancellationToken::new();
        let context = open.turn_context(&cancel);
        let (sink, board) = (open.sink, Some(Arc::clone(&context.tasks)));
        let run = sink.sink().run().clone();
        let work = async move {
            match Box::pin(entered.fire(context)).await {
                Ok(Some(handled)) => of_session(Ok(handled)),
                Ok(None) => Ok(RunOutcome::Nothing(run)),
                Err(error) => of_session(Err(error)),
            }
        };
        let after = Box::new(|_: &Result<RunOutcome, RunsError>| ());
        let prepared = Prepared { sink, cancel, hold, work: Box::pin(work), after, board };
        Ok(Some(self.launch(admission, prepared)))
    }
}

/// The project for one run, with its orchestrator.
pub(super) async fn orchestration(runs: &LocalRuns) -> Result<(Arc<Project>, Orchestrator), RunsError> {
    let own = runs.clone();
    runs.with_project(move |project| {
        let project = own.for_one_run(project)?;
        let orchestrator = own.orchestrator(&project, ApprovalMode::Ask)?;
        Ok((project, orchestrator))
    })
    .await
}

async fn resume_interrupted(runs: &LocalRuns, failed: &mut HashSet<RunId>) -> Result<(), RunsError> {
    let own = runs.clone();
    let mut found = runs.with_project(move |project| interrupted_messages(&own, project)).await?;
    found.retain(|(_, run)| !failed.contains(run));
    let mut later = HashSet::new();
    for (name, run) in found {
        if later.contains(&name) {
            continue;
        }
        let Err(error) = resume_in_turn(runs, &name, run.clone()).await else { continue };
        // Its later messages must not overtake it.
        later.insert(name);
        if !is_transient(&error) {
            log::warn!("{run} is not resumed: {error}");
            failed.insert(run);
        }
    }
    Ok(())
}

/// Returns `true` for an error after which the next check tries again.
const fn is_transient(error: &RunsError) -> bool {
    matches!(
        error,
        RunsError::Project(ProjectError::Store(_)) | RunsError::QueueFull { .. } | RunsError::ShuttingDown
    )
}

/// Interrupted messages of sessions, the oldest first; none of a session in which another process executes an earlier
/// one.
fn interrupted_messages(runs: &LocalRuns, project: &Project) -> Result<Vec<(ThreadName, RunId)>, RunsError> {
    let Some(store) = project.store()? else { return Ok(Vec::new()) };
    let filter = RunFilter { phase: Some(RunPhase::Running), ..RunFilter::default() };
    let (mut found, mut elsewhere) = (Vec::new(), HashSet::new());
    for record in store.runs(&filter)?.into_iter().rev() {
        let (Some(agent), Some(thread)) = (record.new.agent, record.new.thread) else { continue };
        let (name, run, plan) = (ThreadName::new(agent, thread), record.new.run, record.new.plan);
        if plan.get("in_session") != Some(&true.into()) || runs.over(&run).is_some() {
            continue;
        }
        match (is_timer(&plan), store.is_at_work(&run)) {
            (true, true) => {}
            // It has gone off, and does not do so again.
            (true, false) => {
                if let Err(error) = end_cancelled(project, &run) {
                    log::warn!("the interrupted timer of {run} is not ended: {error}");
                }
            }
            (false, true) => {
                elsewhere.insert(name);
            }
            (false, false) if elsewhere.contains(&name) => {}
            (false, false) if !store.is_interrupted(&run)? => {
                // Another server may have taken it just now; those behind it wait.
                if store.is_at_work(&run) {
                    elsewhere.insert(name);
                }
            }
            (false, false) => found.push((name, run)),
        }
    }
    Ok(found)
}

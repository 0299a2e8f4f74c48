//! Sessions: messages with flows and system actions around the agent, and timers.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use agent_runtime::ApprovalMode;
use agent_types::RunId;
use executors_flow_system::Orchestrator;
use parking_lot::Mutex;
use run_store::{RunFilter, RunPhase, Store};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use weft_project::Project;

use super::LocalRuns;
use super::agent::of_session;
use super::answered::{Questions, questions_of};
use super::cancel::{end_cancelled, end_failed};
use super::conversation::{Ahead, Entered, resumes_by_itself};
use super::launch::Prepared;
use super::open::{Opening, begin_agent_run};
use super::queue::resume_in_turn;
use crate::error::RunsError;
use crate::handle::RunHandle;
use crate::outcome::RunOutcome;
use crate::plan::{AgentPlan, is_timer};
use crate::request::ThreadName;

/// Interval of checks for interrupted messages.
const SWEEP: Duration = Duration::from_secs(2);

/// Pause before a check that a message waits for.
const SOON: Duration = Duration::from_millis(50);

/// Timers whose runs begin at once.
const TIMERS: usize = 8;

/// Interval at which timers that other processes have set are read.
const REREAD: Duration = Duration::from_secs(5);

/// Pause before a timer is looked at again whose session is in another process.
const ELSEWHERE: Duration = Duration::from_millis(500);

/// Pause after the sessions of a project could not be read.
const PAUSE: Duration = Duration::from_secs(5);

/// The last orchestrator of the project's sessions. Those of one agent share who is in a session, and its timers.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    made: Mutex<Option<Made>>,
    /// Interrupted messages that could neither be resumed nor ended.
    failed: Mutex<HashSet<RunId>>,
    /// Notified when an interrupted message is found.
    pub(super) sweep: Notify,
}

#[derive(Debug)]
struct Made {
    of: Arc<Project>,
    approval: ApprovalMode,
    orchestrator: Orchestrator,
}

impl Sessions {
    /// Gives an interrupted message up: it is not resumed by itself any more.
    pub(super) fn give_up(&self, run: &RunId, error: &RunsError) {
        if self.failed.lock().insert(run.clone()) {
            log::warn!("{run} is not resumed: {error}");
        }
    }

    /// Returns `true` for an interrupted message that was given up.
    pub(super) fn has_given_up(&self, run: &RunId) -> bool {
        self.failed.lock().contains(run)
    }
}

impl LocalRuns {
    /// The orchestrator of this project, which may be there for one run only.
    pub(super) fn orchestrator(
        &self,
        project: &Arc<Project>,
        approval: ApprovalMode,
    ) -> Result<Orchestrator, RunsError> {
        let mut last = self.0.sessions.made.lock();
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

    /// Fires timers of all sessions when they are due, also those of a process that has ended, until the service shuts down.
    pub async fn fire_timers(&self) {
        let at_once = (0..TIMERS).map(|_| fire_due_timers(self));
        futures::future::join(futures::future::join_all(at_once), reread_timers(self)).await;
    }

    /// Resumes messages of sessions that were interrupted, and of other conversations that had not begun, also by the end
    /// of another process, until the service shuts down. The messages of a conversation keep their order.
    pub async fn resume_sessions(&self) {
        loop {
            if let Err(error) = resume_interrupted(self).await {
                log::warn!("interrupted messages of sessions are not resumed: {error}");
            }
            tokio::select! {
                () = self.0.options.closing.cancelled() => return,
                () = self.0.clock.sleep(SWEEP) => {}
                () = self.0.sessions.sweep.notified() => self.0.clock.sleep(SOON).await,
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
                None => {
                    orchestrator
                        .next_due(|session| self.0.threads.is_free(&name_of(session), self.0.clock.now()))
                        .await
                }
            }
        };
        let due = tokio::select! {
            due = due => due?,
            _ = changes.changed() => return Ok(None),
        };
        let name = name_of(&due);
        // First the conversation, then the permit: a message that has the one may wait for the other.
        let hold = match (session, self.0.threads.take(&name)) {
            (_, Ok(hold)) => hold,
            (Some(_), Err(_)) => self.0.threads.wait(&name).await,
            // Timers of the other sessions do not wait for this one.
            (None, Err(_)) => return Ok(None),
        };
        let own = self.clone();
        let hold = match self.with_project(move |project| Ok(hold.enter(&own, project, None))).await? {
            Entered::Taken(hold) => Some(hold),
            Entered::Blocked(mut hold, Ahead::Waiting(_)) => {
                let lock = move |project: &Arc<Project>| Ok(hold.lock(project)?.then_some(hold));
                self.with_project(lock).await?
            }
            Entered::Blocked(..) => None,
            Entered::Failed(_, error) => return Err(error.into()),
        };
        if hold.is_none() {
            if session.is_some() {
                self.0.clock.sleep(ELSEWHERE).await;
            }
            // It is looked at again; timers of the other sessions do not wait for it.
            self.0.threads.note_elsewhere(&name, self.0.clock.now().plus(ELSEWHERE));
            return Ok(None);
        }
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

async fn reread_timers(runs: &LocalRuns) {
    loop {
        tokio::select! {
            () = runs.0.options.closing.cancelled() => return,
            () = runs.0.clock.sleep(REREAD) => {}
        }
        if runs.0.files.project().flows().ok().flatten().is_none() {
            continue;
        }
        let read = match orchestration(runs).await {
            Ok((_, orchestrator)) => orchestrator.reread_timers().await.map_err(RunsError::from),
            Err(error) => Err(error),
        };
        if let Err(error) = read {
            log::warn!("timers that other processes have set are not read: {error}");
        }
    }
}

async fn fire_due_timers(runs: &LocalRuns) {
    loop {
        let next = tokio::select! {
            next = runs.next_timer(None) => next,
            () = runs.0.options.closing.cancelled() => return,
        };
        let pause = match next {
            Ok(_) => Duration::ZERO,
            Err(error) => {
                log::warn!("timers of sessions do not go off: {error}");
                PAUSE
            }
        };
        tokio::select! {
            () = runs.0.options.closing.cancelled() => return,
            () = runs.0.clock.sleep(pause) => {}
        }
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

async fn resume_interrupted(runs: &LocalRuns) -> Result<(), RunsError> {
    let own = runs.clone();
    let found = runs.with_project(move |project| interrupted_messages(&own, project)).await?;
    for (name, run) in found {
        let Err(error) = resume_in_turn(runs, &name, run.clone()).await else { continue };
        // Of two processes that find a message, one has it.
        if !error.is_transient() && !error.is_lost_race() {
            end_unresumable(runs, run, error).await;
        }
    }
    Ok(())
}

/// Ends an interrupted message that cannot be resumed, so that its conversation continues.
async fn end_unresumable(runs: &LocalRuns, run: RunId, error: RunsError) {
    let (of, failure) = (run.clone(), (error.code().to_owned(), error.to_string()));
    match runs.with_project(move |project| end_failed(project, &of, failure)).await {
        Ok(()) => log::warn!("{run} is ended, as it cannot be resumed: {error}"),
        Err(_) => runs.0.sessions.give_up(&run, &error),
    }
}

/// Interrupted messages that are resumed, the oldest first.
fn interrupted_messages(runs: &LocalRuns, project: &Project) -> Result<Vec<(ThreadName, RunId)>, RunsError> {
    let Some(store) = project.store()? else { return Ok(Vec::new()) };
    let filter = RunFilter { phase: Some(RunPhase::Running), ..RunFilter::default() };
    let mut found = answered_messages(runs, store)?;
    for record in store.runs(&filter)?.into_iter().rev() {
        let (Some(agent), Some(thread)) = (&record.new.agent, &record.new.thread) else { continue };
        let (name, run) = (ThreadName::new(agent, thread), record.new.run.clone());
        let is_left = !resumes_by_itself(&record) || runs.0.sessions.has_given_up(&run);
        if is_left || runs.over(&run).is_some() || !store.is_interrupted(&run)? {
            continue;
        }
        if !is_timer(&record.new.plan) {
            found.push((name, run));
            continue;
        }
        // It has gone off, and does not do so again.
        if let Err(error) = end_cancelled(project, &run) {
            log::warn!("the interrupted timer of {run} is not ended: {error}");
        }
    }
    Ok(found)
}

/// Messages whose flows have all answers and were not resumed with them.
fn answered_messages(runs: &LocalRuns, store: &Store) -> Result<Vec<(ThreadName, RunId)>, RunsError> {
    let filter = RunFilter { phase: Some(RunPhase::Waiting), ..RunFilter::default() };
    let mut found = Vec::new();
    for record in store.runs(&filter)?.into_iter().rev() {
        let (Some(agent), Some(thread)) = (&record.new.agent, &record.new.thread) else { continue };
        let run = &record.new.run;
        let is_left = !resumes_by_itself(&record) || runs.0.sessions.has_given_up(run);
        if is_left || runs.over(run).is_some() || store.is_at_work(run) {
            continue;
        }
        if matches!(questions_of(store, run)?, Questions::Answered) {
            found.push((ThreadName::new(agent, thread), run.clone()));
        }
    }
    Ok(found)
}

//! Sessions: messages with flows and system actions around the agent, and timers.

use std::sync::Arc;
use std::time::Duration;

use agent_runtime::ApprovalMode;
use executors_flow_system::{Orchestrator, Phase};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use weft_project::Project;

use super::LocalRuns;
use super::agent::of_session;
use super::launch::Prepared;
use super::open::begin_agent_run;
use crate::error::RunsError;
use crate::handle::RunHandle;
use crate::outcome::RunOutcome;
use crate::plan::AgentPlan;
use crate::request::{SessionAction, SessionInfo, SessionPhase, ThreadName};

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

    /// The project for one run, with its orchestrator.
    async fn orchestration(&self) -> Result<(Arc<Project>, Orchestrator), RunsError> {
        let runs = self.clone();
        self.with_project(move |project| {
            let project = runs.for_one_run(project)?;
            let orchestrator = runs.orchestrator(&project, ApprovalMode::Ask)?;
            Ok((project, orchestrator))
        })
        .await
    }

    pub(super) async fn session_info(
        &self,
        session: &str,
        action: SessionAction,
    ) -> Result<SessionInfo, RunsError> {
        let (_, orchestrator) = self.orchestration().await?;
        let changed = match action {
            SessionAction::Read => false,
            SessionAction::GiveBack => orchestrator.give_back(session).await?,
            SessionAction::Reopen => orchestrator.reopen(session).await?,
        };
        let entered = orchestrator.enter(session).await?;
        let state = &entered.session().state;
        let phase = match state.phase() {
            Phase::HandedOver { since, action } => {
                SessionPhase::HandedOff { since: since.to_string(), action: action.clone() }
            }
            Phase::Closed { since, action } => {
                SessionPhase::Closed { since: since.to_string(), action: action.clone() }
            }
            _ => SessionPhase::Agent,
        };
        let agent = orchestrator.agent().profile().id.clone();
        Ok(SessionInfo { agent, phase, profile: state.profile().clone(), changed })
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

    pub(super) async fn next_timer(&self, session: Option<&str>) -> Result<Option<RunHandle>, RunsError> {
        let mut changes = self.0.files.changes();
        if self.0.files.project().flows().ok().flatten().is_none() {
            // The files hold the other end.
            let _ = changes.changed().await;
            return Ok(None);
        }
        let (project, orchestrator) = self.orchestration().await?;
        let due = async {
            match session {
                Some(session) => orchestrator.until_due(session).await.map(|()| session.to_owned()),
                None => orchestrator.next_due().await,
            }
        };
        let session = tokio::select! {
            session = due => session?,
            _ = changes.changed() => return Ok(None),
        };
        let name = ThreadName::new(orchestrator.agent().profile().id.clone(), session);
        // First the conversation, then the permit: a message that has the one may wait for the other.
        let hold = Some(self.0.threads.wait(&name).await);
        let admission = self.admit()?;
        let entered = orchestrator.enter(&name.thread).await?;
        if !entered.is_due() {
            return Ok(None);
        }
        let runs = self.clone();
        let open = Self::blocking(move || {
            let plan = AgentPlan { agent: name.agent, in_session: true, ..AgentPlan::default() };
            let open = begin_agent_run(&project, &runs.0.threads, plan, Some(name.thread))?;
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

//! Sessions: messages with flows and system actions around the agent, and timers.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agent_runtime::ApprovalMode;
use executors_flow_system::Orchestrator;
use tokio_util::sync::CancellationToken;
use weft_project::{AgentPlan, Project};

use super::begin::of_session;
use super::{Prepared, admit, launch};
use crate::app::App;
use crate::problem::Problem;

/// How long a project whose sessions cannot be read is left alone.
const PAUSE: Duration = Duration::from_secs(5);

/// The last orchestrator of the project's sessions. Those of one agent share who is in a session, and its timers.
#[derive(Debug, Default)]
pub(crate) struct Sessions(Mutex<Option<Made>>);

#[derive(Debug)]
struct Made {
    of: Arc<Project>,
    approval: ApprovalMode,
    orchestrator: Orchestrator,
}

impl Sessions {
    /// The one of this project, which may be there for one run only.
    pub(crate) fn of(&self, project: &Arc<Project>, approval: ApprovalMode) -> Result<Orchestrator, Problem> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(made) = &*last
            && made.approval == approval
            && Arc::ptr_eq(&made.of, project)
        {
            return Ok(made.orchestrator.clone());
        }
        let mut orchestrator = project.orchestrator(approval)?;
        if let Some(made) = &*last
            && made.orchestrator.agent().profile().id == orchestrator.agent().profile().id
        {
            orchestrator = orchestrator.sharing(&made.orchestrator);
        }
        *last = Some(Made { of: Arc::clone(project), approval, orchestrator: orchestrator.clone() });
        Ok(orchestrator)
    }
}

/// Lets timers of sessions go off when they are due.
pub(crate) async fn fire_timers(app: Arc<App>) {
    loop {
        let next = tokio::select! {
            next = next_timer(&app) => next,
            () = app.closing.cancelled() => return,
        };
        let pause = match next {
            Ok(()) => Duration::ZERO,
            Err(problem) => {
                log::warn!("timers of sessions do not go off: {}", problem.detail);
                PAUSE
            }
        };
        tokio::select! {
            () = app.closing.cancelled() => return,
            () = app.clock.sleep(pause) => {}
        }
    }
}

/// Waits for the next timer and lets it go off. Ends early when the project's files change.
///
/// # Cancel safety
/// A timer that has not begun stays due.
async fn next_timer(app: &Arc<App>) -> Result<(), Problem> {
    let mut changes = app.changes();
    let project = app.project();
    let has_timers = project.flows().ok().flatten().is_some();
    if !has_timers {
        // The application holds the other end.
        let _ = changes.changed().await;
        return Ok(());
    }
    let owner = Arc::clone(app);
    let (project, orchestrator) = app
        .blocking(move || {
            let project = project.for_one_run()?;
            let orchestrator = owner.sessions.of(&project, ApprovalMode::Ask)?;
            Ok((project, orchestrator))
        })
        .await?;
    let failed = |error: executors_flow_system::OrchestratorError| Problem::internal(&error.to_string());
    let session = tokio::select! {
        session = orchestrator.next_due() => session.map_err(failed)?,
        _ = changes.changed() => return Ok(()),
    };
    let agent = orchestrator.agent().profile().id.clone();
    // First the conversation, then room: a message that has the one may wait for the other.
    let hold = Some(app.runs.threads.wait(&agent, &session).await);
    let admission = admit(app)?;
    let entered = orchestrator.enter(&session).await.map_err(failed)?;
    if !entered.is_due() {
        return Ok(());
    }
    let start = app
        .blocking(move || {
            let plan = AgentPlan { agent, in_session: true, ..AgentPlan::default() };
            let start = project.begin_agent(plan, Some(&session))?;
            project.skip_conversation(&start);
            Ok(start)
        })
        .await?;
    let cancel = CancellationToken::new();
    let desk = start.desk_of_session().with_cancel(cancel.clone());
    let board = Some(Arc::clone(&desk.tasks));
    let work = async move {
        match Box::pin(entered.fire(desk)).await {
            Ok(Some(handled)) => of_session(Ok(handled)),
            Ok(None) => super::Ended::Workflow,
            Err(error) => of_session(Err(error)),
        }
    };
    let after = Box::new(|_: &super::Ended| ());
    let prepared = Prepared { desk: start.desk, cancel, hold, work: Box::pin(work), after, board };
    launch(app, admission, prepared);
    Ok(())
}

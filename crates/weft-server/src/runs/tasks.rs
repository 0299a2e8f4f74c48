//! Runs that wait for work which their calls began, and go on when it ends.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agent_types::{ExitReason, RunId};
use http::StatusCode;
use tokio_util::sync::{CancellationToken, DropGuard};
use tool_registry::TaskBoard;
use weft_project::Version;

use super::{AgentEnd, resume};
use crate::app::App;

/// When a run is tried again for which there was no room.
const PAUSE: Duration = Duration::from_secs(1);

/// The work of each run that waits. A run that goes on takes its own along.
#[derive(Debug, Default)]
pub(super) struct Waiting(Mutex<HashMap<RunId, Entry>>);

#[derive(Debug)]
struct Entry {
    board: Arc<TaskBoard>,
    /// Tells whoever waits for the work that the run has gone on without.
    _gone_on: DropGuard,
}

impl Waiting {
    fn entries(&self) -> MutexGuard<'_, HashMap<RunId, Entry>> {
        // Nothing that can panic runs under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The work that a run has begun which goes on; none where it has begun none here.
    pub(super) fn of(&self, run: &RunId) -> Arc<TaskBoard> {
        self.entries().remove(run).map(|entry| entry.board).unwrap_or_default()
    }
}

/// Lets a run go on when the work ends that it waits for. Ends with the server: the run then waits for whoever takes it up.
/// `over` is cancelled when nobody works on the run any more.
pub(super) fn wait(
    app: &Arc<App>,
    run: &RunId,
    end: &AgentEnd,
    board: Arc<TaskBoard>,
    over: CancellationToken,
) {
    let tasks: Vec<String> = end.pending.iter().map(|pending| pending.task().to_owned()).collect();
    let is_here = tasks.iter().all(|task| board.status(task).is_some());
    if end.exit != ExitReason::AwaitingResult || tasks.is_empty() || !is_here {
        return;
    }
    let gone_on = CancellationToken::new();
    let entry = Entry { board: Arc::clone(&board), _gone_on: gone_on.clone().drop_guard() };
    app.runs.tasks.entries().insert(run.clone(), entry);
    let (app, run) = (Arc::clone(app), run.clone());
    let owner = Arc::clone(&app);
    owner.tasks.spawn(async move {
        over.cancelled().await;
        tokio::select! {
            () = board.any_end(tasks.iter().map(String::as_str)) => {}
            () = gone_on.cancelled() => return,
            () = app.closing.cancelled() => return,
        }
        drop(board);
        while let Err(problem) = resume(&app, run.clone(), Version::AsItWas).await {
            if problem.status != StatusCode::TOO_MANY_REQUESTS {
                log::warn!("{run} does not go on though its work has ended: {}", problem.detail);
                app.runs.tasks.entries().remove(&run);
                return;
            }
            tokio::select! {
                () = app.clock.sleep(PAUSE) => {}
                () = gone_on.cancelled() => return,
                () = app.closing.cancelled() => return,
            }
        }
    });
}

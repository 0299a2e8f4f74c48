//! Runs that wait for work which their calls began, and continue when it ends.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use agent_types::{ExitReason, RunId};
use parking_lot::{Mutex, MutexGuard};
use tokio_util::sync::{CancellationToken, DropGuard};
use tool_registry::TaskBoard;

use super::LocalRuns;
use crate::error::RunsError;
use crate::handle::RunHandle;
use crate::outcome::RunOutcome;
use crate::request::Version;

/// Pause before a run is retried whose conversation or permit was not free.
const PAUSE: Duration = Duration::from_secs(1);

/// The work of each run that waits. A run that is resumed takes its own along.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    entries: Mutex<HashMap<RunId, Entry>>,
    /// Runs that this process has executed.
    known: Mutex<HashSet<RunId>>,
}

#[derive(Debug, Clone)]
struct Entry {
    board: Arc<TaskBoard>,
    tasks: Vec<String>,
    /// Cancelled when the process executes the run no more.
    over: CancellationToken,
    /// Cancelled when the run has been resumed otherwise.
    resumed: CancellationToken,
    _guard: Arc<DropGuard>,
}

impl Waiting {
    fn entries(&self) -> MutexGuard<'_, HashMap<RunId, Entry>> {
        // Nothing that can panic runs under this lock.
        self.entries.lock()
    }

    /// Tasks of a run that still execute; an empty board where it has started none here.
    pub(super) fn take(&self, run: &RunId) -> Arc<TaskBoard> {
        self.entries()
            .remove(run)
            .map(|entry| {
                entry.resumed.cancel();
                entry.board
            })
            .unwrap_or_default()
    }

    /// Lets a run that is to end not continue with the end of its work.
    pub(super) fn hold(&self, run: &RunId) {
        if let Some(entry) = self.entries().get(run) {
            entry.resumed.cancel();
        }
    }

    /// Notes that this process executes a run.
    pub(super) fn note(&self, run: &RunId) {
        self.known.lock().insert(run.clone());
    }

    /// Returns `true` until this process has executed the run.
    pub(super) fn is_first(&self, run: &RunId) -> bool {
        !self.known.lock().contains(run)
    }
}

impl LocalRuns {
    /// Remembers the work that a run waits for, and lets the run continue where that is wanted.
    pub(super) fn await_tasks(
        &self,
        run: &RunId,
        outcome: &RunOutcome,
        board: Arc<TaskBoard>,
        over: CancellationToken,
    ) {
        let tasks: Vec<String> = outcome.pending().iter().map(|pending| pending.task().to_owned()).collect();
        let is_here = tasks.iter().all(|task| board.status(task).is_some());
        if outcome.exit() != Some(ExitReason::AwaitingResult) || tasks.is_empty() || !is_here {
            return;
        }
        let resumed = CancellationToken::new();
        let guard = Arc::new(resumed.clone().drop_guard());
        self.0.tasks.entries().insert(run.clone(), Entry { board, tasks, over, resumed, _guard: guard });
        if self.0.options.continues {
            let (runs, run) = (self.clone(), run.clone());
            self.0.tracker.spawn(async move {
                if let Err(error) = runs.continue_run(&run).await {
                    log::warn!("{run} is not resumed though its work has ended: {error}");
                    runs.0.tasks.entries().remove(&run);
                }
            });
        }
    }

    /// Resumes a run when the work ends that it waits for.
    pub(super) async fn continue_run(&self, run: &RunId) -> Result<Option<RunHandle>, RunsError> {
        let entry = self.0.tasks.entries().get(run).cloned();
        let Some(Entry { board, tasks, over, resumed, .. }) = entry else { return Ok(None) };
        over.cancelled().await;
        tokio::select! {
            () = board.any_end(tasks.iter().map(String::as_str)) => {}
            () = resumed.cancelled() => return Ok(None),
            () = self.0.options.closing.cancelled() => return Ok(None),
        }
        if resumed.is_cancelled() {
            return Ok(None);
        }
        drop(board);
        loop {
            match self.resume_run(run.clone(), Version::AsItWas, CancellationToken::new()).await {
                Err(error) if error.is_transient() => {}
                resumed => return resumed.map(Some),
            }
            tokio::select! {
                () = self.0.clock.sleep(PAUSE) => {}
                () = resumed.cancelled() => return Ok(None),
                () = self.0.options.closing.cancelled() => return Ok(None),
            }
        }
    }
}

//! Executing a prepared run beside its caller.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use futures::future::{BoxFuture, Either, select};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tool_registry::TaskBoard;

use super::admission::{Admission, permit};
use super::cancel::poll_cancel_requests;
use super::threads::ThreadHold;
use super::{BEHIND, Live, LocalRuns, Scripts, events};
use crate::error::RunsError;
use crate::handle::{Outcome, RunHandle};
use crate::outcome::RunOutcome;
use crate::request::ThreadName;
use crate::sink::RunSink;

/// Time limit for work that is about to end.
const NEARLY_OVER: Duration = Duration::from_secs(2);

pub(super) type Ended = Result<RunOutcome, RunsError>;

/// A run that is ready to execute.
pub(super) struct Prepared {
    pub(super) sink: RunSink,
    pub(super) cancel: CancellationToken,
    /// The conversation that it belongs to, held until it is over.
    pub(super) hold: Option<ThreadHold>,
    /// Nothing happens before it is polled.
    pub(super) work: BoxFuture<'static, Ended>,
    /// Stores further data of the run after its end.
    pub(super) after: Box<dyn FnOnce(&Ended) + Send>,
    /// Board of the tasks that outlive their calls.
    pub(super) board: Option<Arc<TaskBoard>>,
}

/// A run that was executed.
pub(super) struct Executed {
    pub(super) ended: Ended,
    hold: Option<ThreadHold>,
    board: Option<Arc<TaskBoard>>,
}

impl Executed {
    /// A run that ended before it executed.
    pub(super) const fn without_work(ended: Ended) -> Self {
        Self { ended, hold: None, board: None }
    }
}

/// A run as others see it while it executes or waits.
pub(super) struct Launched {
    pub(super) sink: RunSink,
    pub(super) cancel: CancellationToken,
    pub(super) thread: Option<ThreadName>,
    pub(super) is_queued: Arc<AtomicBool>,
}

impl LocalRuns {
    /// Executes a run beside its caller.
    pub(super) fn launch(&self, admission: Admission, prepared: Prepared) -> RunHandle {
        let launched = Launched {
            sink: prepared.sink.clone(),
            cancel: prepared.cancel.clone(),
            thread: prepared.hold.as_ref().map(|hold| hold.name.clone()),
            is_queued: Arc::default(),
        };
        let runs = self.clone();
        track(self, launched, async move { execute(&runs, admission, prepared).await })
    }

    /// Waits a little for a run that is about to be over. Gives whether it is.
    pub(super) async fn nearly_over(&self, over: &CancellationToken) -> bool {
        let over = std::pin::pin!(over.cancelled());
        matches!(select(over, self.0.clock.sleep(NEARLY_OVER)).await, Either::Left(_))
    }
}

/// Executes a prepared run to its end.
pub(super) async fn execute(runs: &LocalRuns, admission: Admission, prepared: Prepared) -> Executed {
    let Prepared { sink, cancel, hold, work, after, board } = prepared;
    let _permit = permit(runs, admission, &sink, &cancel).await;
    let ended = work.await;
    // What belongs to the run is kept with its end, so that the end of the process does not part them.
    after(&ended);
    // A fault of the store is in the outcome already.
    let _ = sink.close().await;
    if let Some(store) = sink.store().cloned() {
        // A fault here shows with the next read.
        let _ = LocalRuns::blocking(move || Ok(store.flush()?)).await;
    }
    Executed { ended, hold, board }
}

/// Lets others see and cancel a run while it executes.
pub(super) fn track(
    runs: &LocalRuns,
    launched: Launched,
    executing: impl Future<Output = Executed> + Send + 'static,
) -> RunHandle {
    let Launched { sink, cancel, thread, is_queued } = launched;
    poll_cancel_requests(runs);
    let run = sink.sink().run().clone();
    if runs.0.options.scripts == Scripts::OfProcess {
        runs.0.tasks.note(&run);
    }
    let (send, done) = oneshot::channel();
    let left = CancellationToken::new();
    let events = events::new(&run, &sink, sink.subscribe(BEHIND)).until(left.clone());
    let over = CancellationToken::new();
    let of = thread.clone();
    let live = Live { sink: sink.clone(), cancel, thread, is_queued, over: over.clone() };
    runs.live().insert(run.clone(), live);
    let error = RunsError::Left { run: run.to_string() };
    let outcome = Outcome::new(async move { done.await.unwrap_or(Err(error)) });
    let handle = RunHandle::new(run.clone(), events, outcome);
    let own = runs.clone();
    runs.spawn(async move {
        let executed = match select(Box::pin(executing), Box::pin(own.0.options.closed.cancelled())).await {
            Either::Left((executed, _)) => Some(executed),
            // It is dropped as it stands, and can be resumed: what it emitted is kept.
            Either::Right(((), executing)) => {
                sink.leave();
                drop(executing);
                left.cancel();
                None
            }
        };
        let (ended, hold, board) = match executed {
            Some(Executed { ended, hold, board }) => (Some(ended), hold, board),
            None => (None, None, None),
        };
        if let (Some(Ok(outcome)), Some(board)) = (&ended, board) {
            own.await_tasks(&run, outcome, board, over.clone());
        }
        own.live().remove(&run);
        // Whoever waits for the end may resume the run, so the right to execute it goes first.
        drop(sink);
        drop(hold);
        over.cancel();
        if let Some(name) = of {
            own.0.threads.notify_readers(&name);
        }
        if let Some(ended) = ended {
            // The caller may have gone.
            let _ = send.send(ended);
        }
    });
    handle
}

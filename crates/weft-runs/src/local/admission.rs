//! Permits to execute: how many runs and calls at once, and how many wait.

use std::sync::Arc;

use agent_types::{EventBody, EventLocation, UnsequencedEvent};
use futures::future::{Either, select};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::LocalRuns;
use crate::error::RunsError;
use crate::sink::RunSink;

/// Permits to execute and to wait.
#[derive(Debug)]
pub(super) struct Admissions {
    running: Arc<Semaphore>,
    queue: Arc<Semaphore>,
    max_runs: usize,
    max_queue: usize,
}

/// A permit to execute, now or later.
pub(super) enum Admission {
    Now(OwnedSemaphorePermit),
    /// A place in the queue.
    Queued(OwnedSemaphorePermit),
    /// None of these: the run is in the queue of its conversation, and has emitted so.
    InConversation,
}

impl Admissions {
    pub(super) fn new(max_runs: usize, max_queue: usize) -> Self {
        let max_runs = max_runs.clamp(1, Semaphore::MAX_PERMITS);
        let max_queue = max_queue.min(Semaphore::MAX_PERMITS);
        Self {
            running: Arc::new(Semaphore::new(max_runs)),
            queue: Arc::new(Semaphore::new(max_queue)),
            max_runs,
            max_queue,
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.running.available_permits() == self.max_runs && self.queue.available_permits() == self.max_queue
    }
}

/// Emits that a run waits, with the messages before it in its conversation.
pub(super) fn note_queued(sink: &RunSink, place: Option<u64>) {
    let queued = UnsequencedEvent::new(EventLocation::default(), EventBody::RunQueued { place });
    sink.sink().record(&mut vec![queued]);
}

impl LocalRuns {
    /// A permit to begin a run, or why there is none.
    pub(super) fn admit(&self) -> Result<Admission, RunsError> {
        if self.0.options.closing.is_cancelled() {
            return Err(RunsError::ShuttingDown);
        }
        if let Ok(permit) = Arc::clone(&self.0.admission.running).try_acquire_owned() {
            return Ok(Admission::Now(permit));
        }
        place(self).map(Admission::Queued)
    }

    /// A permit for a single call, waiting in the queue where it must.
    pub(super) async fn call_permit(&self) -> Result<OwnedSemaphorePermit, RunsError> {
        let admission = self.admit()?;
        match admission {
            Admission::Now(permit) => Ok(permit),
            Admission::Queued(_) | Admission::InConversation => {
                let permit = Arc::clone(&self.0.admission.running).acquire_owned().await;
                permit.map_err(|_| RunsError::ShuttingDown)
            }
        }
    }

    /// A permit for a single call whose caller cannot wait.
    pub(super) fn call_permit_now(&self) -> Result<OwnedSemaphorePermit, RunsError> {
        match self.admit()? {
            Admission::Now(permit) => Ok(permit),
            Admission::Queued(_) | Admission::InConversation => Err(RunsError::QueueFull {
                running: self.0.admission.max_runs,
                queued: self.0.admission.max_queue,
            }),
        }
    }
}

/// A place among the runs that wait.
pub(super) fn place(runs: &LocalRuns) -> Result<OwnedSemaphorePermit, RunsError> {
    if runs.0.options.closing.is_cancelled() {
        return Err(RunsError::ShuttingDown);
    }
    let permits = &runs.0.admission;
    let full = RunsError::QueueFull { running: permits.max_runs, queued: permits.max_queue };
    Arc::clone(&permits.queue).try_acquire_owned().map_err(|_| full)
}

/// Waits for the permit. A run that is cancelled meanwhile needs none: it only emits its end.
pub(super) async fn permit(
    runs: &LocalRuns,
    admission: Admission,
    sink: &RunSink,
    cancel: &CancellationToken,
) -> Option<OwnedSemaphorePermit> {
    let place = match admission {
        Admission::Now(permit) => return Some(permit),
        Admission::Queued(place) => Some(place),
        Admission::InConversation => None,
    };
    let running = Arc::clone(&runs.0.admission.running);
    if let Ok(permit) = Arc::clone(&running).try_acquire_owned() {
        return Some(permit);
    }
    // A message that has waited for its turn has emitted it: one that has two events has begun.
    if place.is_some() {
        note_queued(sink, None);
    }
    let waiting = std::pin::pin!(running.acquire_owned());
    match select(waiting, std::pin::pin!(cancel.cancelled())).await {
        Either::Left((permit, _)) => permit.ok(),
        Either::Right(((), _)) => None,
    }
}

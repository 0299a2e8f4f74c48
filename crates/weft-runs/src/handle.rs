//! A run that has begun or was resumed.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use agent_types::{RunId, TraceEvent};
use futures::future::BoxFuture;
use futures::stream::{BoxStream, Stream, StreamExt};
use tokio_util::sync::CancellationToken;

use crate::error::RunsError;
use crate::outcome::RunOutcome;

/// A run that has begun or was resumed, wherever it executes.
#[derive(Debug)]
#[non_exhaustive]
pub struct RunHandle {
    /// Its id.
    pub id: RunId,
    /// Its events from here on, none missing.
    pub events: RunEvents,
    /// Its outcome.
    pub outcome: Outcome,
    /// Messages before it in its conversation, where it waits for its turn.
    pub place: Option<usize>,
    /// `true` for the run of a message that had come before with the same id.
    pub repeated: bool,
}

impl RunHandle {
    /// A run that executes.
    pub(crate) const fn new(id: RunId, events: RunEvents, outcome: Outcome) -> Self {
        Self { id, events, outcome, place: None, repeated: false }
    }
}

/// The outcome of a run that executes. Fails with [`RunsError::Left`] where the process that executed it left it.
pub struct Outcome(BoxFuture<'static, Result<RunOutcome, RunsError>>);

impl Outcome {
    /// The outcome that a future gives.
    #[must_use]
    pub fn new(outcome: impl Future<Output = Result<RunOutcome, RunsError>> + Send + 'static) -> Self {
        Self(Box::pin(outcome))
    }
}

impl Future for Outcome {
    type Output = Result<RunOutcome, RunsError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(cx)
    }
}

impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outcome").finish_non_exhaustive()
    }
}

/// A subscription to a run's events: the backlog, then what happens, none missing.
pub struct RunEvents(BoxStream<'static, Result<Vec<TraceEvent>, RunsError>>);

impl RunEvents {
    /// The events that a stream gives, in groups.
    #[must_use]
    pub fn new(events: impl Stream<Item = Result<Vec<TraceEvent>, RunsError>> + Send + 'static) -> Self {
        Self(events.boxed())
    }

    /// The same events until the run is left.
    pub(crate) fn until(self, left: CancellationToken) -> Self {
        Self(self.0.take_until(left.cancelled_owned()).boxed())
    }

    /// The same events as a stream that ends where the store cannot be read.
    pub(crate) fn readable(self) -> BoxStream<'static, Vec<TraceEvent>> {
        self.0.scan((), |(), group| std::future::ready(group.ok())).boxed()
    }

    /// The next events; none when the run has ended or is suspended.
    ///
    /// # Errors
    /// The store cannot be read.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Result<Option<Vec<TraceEvent>>, RunsError> {
        self.0.next().await.transpose()
    }
}

impl fmt::Debug for RunEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunEvents").finish_non_exhaustive()
    }
}

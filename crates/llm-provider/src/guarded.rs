//! Model behind limits: timeouts, attempts, concurrent requests.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use agent_types::Clock;
use async_trait::async_trait;
use futures::future::{Either, select};
use futures::{StreamExt, stream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::policy::spread;
use crate::{
    CallPolicy, LlmError, LlmEvent, LlmProvider, LlmRequest, LlmStream, ModelInfo, StandardResponse, Wait,
};

/// Model whose requests respect the timeouts, attempts and concurrency of its policy.
///
/// A request is retried only while no part of the answer has arrived; the stream emits each retry as
/// [`LlmEvent::Retrying`]. All waits are those of the clock, so a scripted model behind it needs no real time.
/// Everything happens in the stream: [`stream`](LlmProvider::stream) itself gives no error.
///
/// # Cancel safety
/// Dropping the stream ends the wait or drops the connection, and lets the next request go.
#[derive(Clone)]
pub struct GuardedModel {
    model: Arc<dyn LlmProvider>,
    policy: CallPolicy,
    clock: Arc<dyn Clock>,
    permits: Option<Arc<Semaphore>>,
}

impl fmt::Debug for GuardedModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuardedModel")
            .field("model", &self.model)
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}

impl GuardedModel {
    /// Puts `model` behind a policy.
    #[must_use]
    pub fn new(model: Arc<dyn LlmProvider>, policy: CallPolicy, clock: Arc<dyn Clock>) -> Self {
        let permits = policy
            .max_parallel
            .map(|permits| Arc::new(Semaphore::new(permits.clamp(1, Semaphore::MAX_PERMITS))));
        Self { model, policy, clock, permits }
    }

    /// Returns the limits of requests.
    #[must_use]
    pub const fn policy(&self) -> &CallPolicy {
        &self.policy
    }
}

#[async_trait]
impl LlmProvider for GuardedModel {
    fn info(&self) -> &ModelInfo {
        self.model.info()
    }

    async fn stream(&self, request: LlmRequest) -> Result<LlmStream, LlmError> {
        let asking = Asking {
            guarded: self.clone(),
            request,
            attempt: 0,
            state: State::Queued,
            permit: None,
            failed: None,
        };
        Ok(stream::unfold(asking, Asking::next).boxed())
    }
}

/// A request on its way.
struct Asking {
    guarded: GuardedModel,
    request: LlmRequest,
    /// Number of the attempt, from 1.
    attempt: u32,
    state: State,
    /// Held from the first attempt to the end of the last.
    permit: Option<OwnedSemaphorePermit>,
    /// Error of the previous attempt.
    failed: Option<LlmError>,
}

enum State {
    Queued,
    /// Backoff before the next attempt.
    Resting(Duration),
    Reading(Reading),
    Done,
}

struct Reading {
    stream: LlmStream,
    /// Start of the attempt, by the clock.
    began: Duration,
    /// Arrival of the last token.
    last: Option<Duration>,
}

impl Asking {
    async fn next(mut self) -> Option<(Result<LlmEvent, LlmError>, Self)> {
        loop {
            let event = match std::mem::replace(&mut self.state, State::Done) {
                State::Done => return None,
                State::Queued => {
                    if let Some(permits) = &self.guarded.permits {
                        // The semaphore is never closed; without a permit the request would be sent all the same.
                        self.permit = Arc::clone(permits).acquire_owned().await.ok();
                    }
                    self.begin().await
                }
                State::Resting(delay) => {
                    self.guarded.clock.sleep(delay).await;
                    self.begin().await
                }
                State::Reading(reading) => self.read(reading).await,
            };
            match event {
                Ok(None) => {}
                Ok(Some(event)) => return Some(self.emit(Ok(event))),
                Err((error, begun)) => {
                    let event = self.failed(error, begun);
                    return Some(self.emit(event));
                }
            }
        }
    }

    /// Lets the next request go when this one is over.
    fn emit(mut self, event: Result<LlmEvent, LlmError>) -> (Result<LlmEvent, LlmError>, Self) {
        if matches!(self.state, State::Done) {
            self.permit = None;
        }
        (event, self)
    }

    /// Puts the request.
    async fn begin(&mut self) -> Result<Option<LlmEvent>, Fault> {
        self.attempt += 1;
        let Self { guarded: GuardedModel { model, policy, clock, .. }, request, .. } = self;
        let began = clock.elapsed();
        let (wait, limit) = shorter((Wait::First, policy.first_token), (Wait::Whole, policy.whole));
        match within(&**clock, limit, model.stream(request.clone())).await {
            Some(Ok(stream)) => {
                self.state = State::Reading(Reading { stream, began, last: None });
                Ok(None)
            }
            Some(Err(error)) => Err((error, Begun::No)),
            None => Err((LlmError::Timeout { wait, limit }, Begun::No)),
        }
    }

    /// The next event of the answer.
    async fn read(&mut self, mut reading: Reading) -> Result<Option<LlmEvent>, Fault> {
        let GuardedModel { policy, clock, .. } = &self.guarded;
        let now = clock.elapsed();
        let token = match reading.last {
            None => (Wait::First, policy.first_token, reading.began),
            Some(last) => (Wait::Next, policy.between_tokens, last),
        };
        let left = |(wait, limit, since): (Wait, Duration, Duration)| {
            ((since + limit).saturating_sub(now), (wait, limit))
        };
        let (token, whole) = (left(token), left((Wait::Whole, policy.whole, reading.began)));
        let (left, (wait, limit)) = if token.0 <= whole.0 { token } else { whole };
        let begun = if reading.last.is_some() { Begun::Yes } else { Begun::No };
        match within(&**clock, left, reading.stream.next()).await {
            // A server that sends signs of life without end is not waited for without end.
            Some(Some(Ok(event))) if left.is_zero() && !event.is_answer() => {
                Err((LlmError::Timeout { wait, limit }, begun))
            }
            Some(Some(Ok(event))) => {
                let is_answer = event.is_answer();
                // A heartbeat of the server begins nothing, but keeps alive an answer that has begun.
                if is_answer || reading.last.is_some() {
                    reading.last = Some(clock.elapsed());
                }
                Ok(Some(match event {
                    LlmEvent::Finished(answer) => LlmEvent::Finished(self.priced(answer)),
                    event => {
                        self.state = State::Reading(reading);
                        event
                    }
                }))
            }
            Some(Some(Err(error))) => Err((error, begun)),
            Some(None) => Err((LlmError::Stream { message: "it ended before its last event".into() }, begun)),
            None => Err((LlmError::Timeout { wait, limit }, begun)),
        }
    }

    /// An answer with its cost, where the prices of the model are known.
    fn priced(&self, mut answer: StandardResponse) -> StandardResponse {
        answer.usage.cost_micros = self.guarded.info().cost_micros(answer.usage);
        answer
    }

    /// Handles a fault: another attempt, or the end.
    fn failed(&mut self, error: LlmError, begun: Begun) -> Result<LlmEvent, LlmError> {
        // A script that ends with an error means that error.
        let error = match (error, self.failed.take()) {
            (LlmError::NoReply { .. }, Some(before)) => return Err(before),
            (error, _) => error,
        };
        let delay = match begun {
            Begun::No => self.guarded.policy.delay(self.attempt, &error, spread()),
            Begun::Yes => None,
        };
        let Some(delay) = delay else { return Err(error) };
        self.state = State::Resting(delay);
        self.failed = Some(error.clone());
        Ok(LlmEvent::Retrying { attempt: self.attempt, delay, error })
    }
}

/// Progress of the answer.
#[derive(Clone, Copy)]
enum Begun {
    Yes,
    No,
}

type Fault = (LlmError, Begun);

fn shorter(one: (Wait, Duration), other: (Wait, Duration)) -> (Wait, Duration) {
    if one.1 <= other.1 { one } else { other }
}

/// Runs a future with a time limit.
async fn within<F: Future>(clock: &dyn Clock, limit: Duration, future: F) -> Option<F::Output> {
    match select(std::pin::pin!(future), clock.sleep(limit)).await {
        Either::Left((output, _)) => Some(output),
        Either::Right(((), _)) => None,
    }
}

//! The only place where a node's code is called: panics, limits and further attempts are handled here.

use std::any::Any;
use std::future::{Future, pending};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use agent_types::{Clock, EventLocation, NodeErrorKind};
use futures::FutureExt;
use tokio_util::sync::CancellationToken;

use super::failure::{Ended, Failure, jittered};
use super::mailbox::Message;
use super::permits::Claim;
use crate::context::{Activity, NodeContext, millis};
use crate::error::NodeError;
use crate::inputs::Inputs;
use crate::node::Node;
use crate::outputs::Outputs;
use crate::plan::policy::Policy;
use crate::run::shared::RunShared;

/// A start of a node as one future.
pub(crate) type Work = Pin<Box<dyn Future<Output = Ended> + Send>>;

/// One attempt without any limit.
pub(crate) fn plain(node: Arc<dyn Node>, ctx: NodeContext, inputs: Inputs) -> Work {
    Box::pin(async move {
        let attempt = ctx.attempt();
        let result = guarded(&*node, ctx, inputs).await;
        Ended { result, attempt }
    })
}

/// One attempt of a node that never waits; `None` of any other.
pub(crate) fn computed(node: &dyn Node, ctx: &NodeContext, inputs: &Inputs) -> Option<Ended> {
    let attempt = ctx.attempt();
    let called = catch_unwind(AssertUnwindSafe(|| node.compute(ctx, inputs)));
    let result = match called {
        Ok(None) => return None,
        Ok(Some(given)) => outcome(Ok(given), attempt),
        Err(panic) => outcome(Err(panic), attempt),
    };
    Some(Ended { result, attempt })
}

/// The permit that a blocking node takes. It is free when the node and all its threads are done with it.
#[derive(Debug)]
pub(crate) struct Permit {
    shared: Arc<RunShared>,
    claim: Claim,
}

impl Permit {
    pub(crate) fn new(shared: &Arc<RunShared>, claim: Claim) -> Arc<Self> {
        Arc::new(Self { shared: Arc::clone(shared), claim })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.shared.inbox.post(Message::Freed(self.claim));
    }
}

/// Attempts until one succeeds or none is left, within the limits. With a permit the node blocks its thread.
/// `interrupted` attempts before this one count against no limit.
pub(crate) fn watched(
    node: Arc<dyn Node>,
    ctx: NodeContext,
    inputs: Inputs,
    permit: Option<Arc<Permit>>,
    interrupted: u32,
) -> Work {
    Box::pin(async move {
        let shared = Arc::clone(ctx.shared());
        let none = Policy::default();
        let policy = shared.plan.policy_at(ctx.details_index()).unwrap_or(&none);
        let attempt = AtomicU32::new(ctx.attempt().saturating_sub(1));
        let give_up = CancelOnDrop(CancellationToken::new());
        let blocking = permit.is_some();
        let token = give_up.0.clone();
        let attempts = Attempts { node, policy, permit, attempt: &attempt, interrupted, token };
        let result = tokio::select! {
            biased;
            result = attempts.run(ctx, inputs) => result,
            limit = after(&*shared.clock, policy.total) => {
                let mut failure = Failure::limit(NodeErrorKind::Timeout, limit, attempt.load(Ordering::Relaxed));
                failure.detached = blocking;
                Err(failure)
            }
        };
        Ended { result, attempt: attempt.into_inner() }
    })
}

/// Cancels a thread whose result is not wanted any more.
struct CancelOnDrop(CancellationToken);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Ends after the limit, with it; never without one.
async fn after(clock: &dyn Clock, limit: Option<Duration>) -> Duration {
    match limit {
        Some(limit) => {
            clock.sleep(limit).await;
            limit
        }
        None => pending().await,
    }
}

/// Ends when the node was idle for too long.
async fn idle(clock: &dyn Clock, activity: &Activity, limit: Option<Duration>) -> Duration {
    let Some(limit) = limit else { return pending().await };
    loop {
        let silent = millis(clock.elapsed()).saturating_sub(activity.last_ms());
        match millis(limit).checked_sub(silent) {
            None | Some(0) => return limit,
            Some(left) => clock.sleep(Duration::from_millis(left)).await,
        }
    }
}

struct Attempts<'a> {
    node: Arc<dyn Node>,
    policy: &'a Policy,
    permit: Option<Arc<Permit>>,
    attempt: &'a AtomicU32,
    /// Attempts interrupted by the end of a process: they do not count as failures.
    interrupted: u32,
    token: CancellationToken,
}

impl Attempts<'_> {
    async fn run(&self, ctx: NodeContext, inputs: Inputs) -> Result<Outputs, Failure> {
        let more = self.policy.retry.as_ref().map_or(0, |retry| retry.max);
        loop {
            let attempt = self.attempt.fetch_add(1, Ordering::Relaxed) + 1;
            let failure = match self.run_attempt(&ctx, attempt, inputs.clone()).await {
                Ok(outputs) => return Ok(outputs),
                Err(failure) => failure,
            };
            if !failure.retryable || attempt.saturating_sub(self.interrupted) > more {
                return Err(failure);
            }
            self.note(&ctx, &failure).await;
        }
    }

    /// Reports to the run, so that chunks of the failed attempt are taken back before the next one begins, and waits.
    async fn note(&self, ctx: &NodeContext, failure: &Failure) {
        let attempt = failure.attempt;
        let delay = jittered(self.policy.backoff(attempt), ctx.run_id().as_str(), ctx.path(), attempt);
        let (noted, done) = tokio::sync::oneshot::channel();
        ctx.shared().inbox.post(Message::Retrying {
            key: ctx.key(),
            place: EventLocation { attempt: Some(attempt), ..ctx.place() },
            kind: failure.kind,
            message: failure.message.clone(),
            delay,
            noted,
        });
        // Without an answer the run has ended, and this future is about to be dropped.
        let _ = done.await;
        if !delay.is_zero() {
            ctx.sleep(delay).await;
        }
    }

    async fn run_attempt(&self, ctx: &NodeContext, attempt: u32, inputs: Inputs) -> Result<Outputs, Failure> {
        let clock = Arc::clone(ctx.clock());
        let activity = Arc::new(Activity::default());
        activity.note(&*clock);
        let token = self.token.child_token();
        let guard = CancelOnDrop(token.clone());
        let ctx = ctx.for_attempt(attempt, Arc::clone(&activity), token);
        let limit = |kind, limit| {
            let mut failure = Failure::limit(kind, limit, attempt);
            failure.detached = self.permit.is_some();
            Err(failure)
        };
        let result = tokio::select! {
            biased;
            result = self.call(ctx, inputs) => result,
            reached = after(&*clock, self.policy.timeout) => limit(NodeErrorKind::Timeout, reached),
            reached = idle(&*clock, &activity, self.policy.idle) => limit(NodeErrorKind::Idle, reached),
        };
        drop(guard);
        result
    }

    async fn call(&self, ctx: NodeContext, inputs: Inputs) -> Result<Outputs, Failure> {
        let Some(permit) = self.permit.clone() else { return guarded(&*self.node, ctx, inputs).await };
        let attempt = ctx.attempt();
        let node = Arc::clone(&self.node);
        let work = tokio::task::spawn_blocking(move || {
            let result = futures::executor::block_on(guarded(&*node, ctx, inputs));
            drop(permit);
            result
        });
        let lost = |error: tokio::task::JoinError| Failure {
            attempt,
            ..Failure::new(NodeErrorKind::Panic, error.to_string())
        };
        work.await.unwrap_or_else(|error| Err(lost(error)))
    }
}

/// The code of a node, with a panic as an error of that node. Context and inputs are handed straight on, so that they
/// are not copied from future to future.
fn guarded(
    node: &dyn Node,
    ctx: NodeContext,
    inputs: Inputs,
) -> impl Future<Output = Result<Outputs, Failure>> + Send + '_ {
    let attempt = ctx.attempt();
    // A node that panicked is not called again in this attempt, and what it shares with others guards itself.
    let called = catch_unwind(AssertUnwindSafe(|| node.run(ctx, inputs)));
    async move {
        let ended = match called {
            Ok(work) => AssertUnwindSafe(work).catch_unwind().await,
            Err(panic) => Err(panic),
        };
        outcome(ended, attempt)
    }
}

/// Result of the code of a node, with a panic as an error of that node.
fn outcome(
    ended: Result<Result<Outputs, NodeError>, Box<dyn Any + Send>>,
    attempt: u32,
) -> Result<Outputs, Failure> {
    match ended {
        Ok(Ok(outputs)) => Ok(outputs),
        Ok(Err(error)) => Err(Failure::from_error(error, attempt)),
        Err(panic) => {
            let failure = Failure::new(NodeErrorKind::Panic, panic_message(&*panic));
            Err(Failure { attempt, retryable: true, ..failure })
        }
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "panic".to_owned())
}

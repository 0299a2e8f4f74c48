//! The only place where a node's code is called: panics, limits and further attempts are handled here.

use std::any::Any;
use std::future::{Future, pending};
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use agent_types::{Clock, NodeErrorKind};
use futures::FutureExt;
use tokio_util::sync::CancellationToken;

use crate::context::{Activity, NodeContext, millis};
use crate::error::NodeError;
use crate::inputs::Inputs;
use crate::node::Node;
use crate::outputs::Outputs;
use crate::plan::Policy;
use crate::run::workers::message::Message;
use crate::run::workers::permits::Claim;

/// Reason of a node's final failure.
#[derive(Debug, Clone)]
pub(in crate::run) struct Failure {
    pub(in crate::run) kind: NodeErrorKind,
    pub(in crate::run) message: String,
    pub(in crate::run) code: Option<String>,
    pub(in crate::run) limit_ms: Option<u64>,
    /// The attempt that failed last.
    pub(in crate::run) attempt: u32,
    /// Its thread is still running and its result will be discarded.
    pub(in crate::run) detached: bool,
    pub(in crate::run) retryable: bool,
}

impl Failure {
    pub(in crate::run) fn new(kind: NodeErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            code: None,
            limit_ms: None,
            attempt: 1,
            detached: false,
            retryable: false,
        }
    }

    fn from_error(error: NodeError, attempt: u32) -> Self {
        let NodeError { message, code, kind, retryable } = error;
        Self { code, attempt, retryable, ..Self::new(kind, message) }
    }

    fn limit(kind: NodeErrorKind, limit: Duration, attempt: u32) -> Self {
        let limit_ms = millis(limit);
        let message = match kind {
            NodeErrorKind::Idle => format!("no sign of life within {limit_ms} ms"),
            _ => format!("not done within {limit_ms} ms"),
        };
        Self { limit_ms: Some(limit_ms), attempt, retryable: true, ..Self::new(kind, message) }
    }
}

/// End of a node's start, with the number of its last attempt.
#[derive(Debug)]
pub(in crate::run) struct Ended {
    pub(in crate::run) result: Result<Outputs, Failure>,
    pub(in crate::run) attempt: u32,
}

/// A start of a node as one future.
pub(in crate::run) type Work = Pin<Box<dyn Future<Output = Ended> + Send>>;

/// One attempt without any limit.
pub(in crate::run) fn plain(node: Arc<dyn Node>, ctx: NodeContext, inputs: Inputs) -> Work {
    Box::pin(async move {
        let attempt = ctx.attempt;
        let result = guarded(&*node, ctx, inputs).await;
        Ended { result, attempt }
    })
}

/// The room that a blocking node takes. It is free when the node and all its threads are done with it.
#[derive(Debug)]
pub(in crate::run) struct Permit {
    shared: Arc<crate::run::RunShared>,
    claim: Claim,
}

impl Permit {
    pub(in crate::run) fn new(shared: &Arc<crate::run::RunShared>, claim: Claim) -> Arc<Self> {
        Arc::new(Self { shared: Arc::clone(shared), claim })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.shared.inbox.post(Message::Freed(self.claim));
    }
}

/// Attempts until one succeeds or none is left, within the limits. With a room the node blocks its thread.
/// `interrupted` attempts before this one count against no limit.
pub(in crate::run) fn watched(
    node: Arc<dyn Node>,
    ctx: NodeContext,
    inputs: Inputs,
    room: Option<Arc<Permit>>,
    interrupted: u32,
) -> Work {
    Box::pin(async move {
        let shared = Arc::clone(&ctx.shared);
        let no_rules = Policy::default();
        let details = shared.plan.details.get(ctx.details as usize);
        let policy = details.map_or(&no_rules, |details| &details.policy);
        let attempt = AtomicU32::new(ctx.attempt.saturating_sub(1));
        let give_up = CancelOnDrop(CancellationToken::new());
        let blocking = room.is_some();
        let token = give_up.0.clone();
        let attempts = Attempts { node, policy, room, attempt: &attempt, interrupted, token };
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

/// Tells a thread that its result is not wanted any more.
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
    room: Option<Arc<Permit>>,
    attempt: &'a AtomicU32,
    /// Attempts interrupted by the end of a process: they do not count as failures.
    interrupted: u32,
    token: CancellationToken,
}

impl Attempts<'_> {
    async fn run(&self, mut ctx: NodeContext, inputs: Inputs) -> Result<Outputs, Failure> {
        let more = self.policy.retry.as_ref().map_or(0, |retry| retry.max);
        loop {
            let attempt = self.attempt.fetch_add(1, Ordering::Relaxed) + 1;
            ctx.attempt = attempt;
            let failure = match self.run_attempt(ctx.clone(), inputs.clone()).await {
                Ok(outputs) => return Ok(outputs),
                Err(failure) => failure,
            };
            if !failure.retryable || attempt.saturating_sub(self.interrupted) > more {
                return Err(failure);
            }
            self.note(&ctx, &failure).await;
        }
    }

    /// Tells the run, so that chunks of the failed attempt are taken back before the next one begins, and waits.
    async fn note(&self, ctx: &NodeContext, failure: &Failure) {
        let delay =
            jittered(self.policy.backoff(failure.attempt), ctx.run_id().as_str(), &ctx.path, ctx.attempt);
        let (noted, done) = tokio::sync::oneshot::channel();
        ctx.shared.inbox.post(Message::Retrying {
            key: ctx.key,
            place: ctx.place(),
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

    async fn run_attempt(&self, mut ctx: NodeContext, inputs: Inputs) -> Result<Outputs, Failure> {
        let attempt = ctx.attempt;
        let clock = Arc::clone(&ctx.shared.clock);
        let activity = Arc::new(Activity::default());
        activity.note(&*clock);
        ctx.activity = Some(Arc::clone(&activity));
        let token = self.token.child_token();
        let guard = CancelOnDrop(token.clone());
        ctx.cancel = Some(token);
        let limit = |kind, limit| {
            let mut failure = Failure::limit(kind, limit, attempt);
            failure.detached = self.room.is_some();
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
        let Some(room) = self.room.clone() else { return guarded(&*self.node, ctx, inputs).await };
        let attempt = ctx.attempt;
        let node = Arc::clone(&self.node);
        let work = tokio::task::spawn_blocking(move || {
            let result = futures::executor::block_on(guarded(&*node, ctx, inputs));
            drop(room);
            result
        });
        let lost = |error: tokio::task::JoinError| Failure {
            attempt,
            ..Failure::new(NodeErrorKind::Panic, error.to_string())
        };
        work.await.unwrap_or_else(|error| Err(lost(error)))
    }
}

/// The code of a node, with a panic as an error of that node.
async fn guarded(node: &dyn Node, ctx: NodeContext, inputs: Inputs) -> Result<Outputs, Failure> {
    let attempt = ctx.attempt;
    // A node that panicked is not called again in this attempt, and what it shares with others guards itself.
    match AssertUnwindSafe(async { node.run(ctx, inputs).await }).catch_unwind().await {
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

/// Up to a tenth longer, different for each node, so that many that failed together do not come back together.
pub(in crate::run) fn jittered(delay: Duration, run: &str, path: &str, attempt: u32) -> Duration {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in run.bytes().chain(path.bytes()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    let part = u32::try_from((hash.wrapping_add(u64::from(attempt))) % 100).unwrap_or(0);
    delay + delay / 1000 * part
}

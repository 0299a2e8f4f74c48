//! Zones and groups that run as one node: their limits of time and further attempts.

use std::sync::Arc;
use std::time::Duration;

use agent_types::{EventBody, EventLocation, LoopEnd, NodeErrorKind};
use tokio::task::AbortHandle;

use crate::context::millis;
use crate::error::RunError;
use crate::inputs::Given;
use crate::plan::{Kind, PlanInner};
use crate::run::graph_state::frame::Key;
use crate::run::scheduler::{Report, Scheduler, Timer};
use crate::run::workers::attempt::{Failure, jittered};
use crate::run::workers::permits::Claim;
use crate::run::workers::start::policy;

/// A container that has been entered.
pub(in crate::run) struct Container {
    pub(in crate::run) span: u64,
    pub(in crate::run) attempt: u32,
    pub(in crate::run) claim: Claim,
    pub(in crate::run) given: Vec<Given>,
    timers: Vec<AbortHandle>,
}

impl Drop for Container {
    fn drop(&mut self) {
        self.timers.iter().for_each(AbortHandle::abort);
    }
}

impl Scheduler {
    /// Enters a zone or a group that has its room.
    pub(in crate::run) fn enter_container(
        &mut self,
        plan: &PlanInner,
        key: Key,
        span: u64,
        given: Vec<Given>,
        claim: Claim,
    ) {
        let total = self.container_policy(plan, key).and_then(|policy| policy.total);
        let timers = total.map(|limit| self.timer(key, Timer::Total, limit)).into_iter().collect();
        self.containers.insert(key, Container { span, attempt: 1, claim, given, timers });
        self.begin_attempt(plan, key);
    }

    /// A container as a snapshot has it; its limits of time begin anew.
    pub(in crate::run) fn restore_container(
        &mut self,
        plan: &PlanInner,
        key: Key,
        (span, attempt): (u64, u32),
        given: Vec<Given>,
        claim: Claim,
    ) {
        let policy = self.container_policy(plan, key);
        let limits = policy.map(|policy| (policy.total, policy.timeout)).unwrap_or_default();
        let total = limits.0.map(|limit| self.timer(key, Timer::Total, limit));
        let own = limits.1.map(|limit| self.timer(key, Timer::Attempt(attempt), limit));
        let timers = total.into_iter().chain(own).collect();
        self.containers.insert(key, Container { span, attempt, claim, given, timers });
    }

    fn begin_attempt(&mut self, plan: &PlanInner, key: Key) {
        let Some(container) = self.containers.get(&key) else { return };
        let (attempt, given) = (container.attempt, container.given.clone());
        if let Some(limit) = self.container_policy(plan, key).and_then(|policy| policy.timeout) {
            let timer = self.timer(key, Timer::Attempt(attempt), limit);
            if let Some(container) = self.containers.get_mut(&key) {
                container.timers.push(timer);
            }
        }
        let Some(frame) = self.frame(key) else { return };
        match plan.scopes[frame.scope as usize].nodes[key.node as usize].kind {
            Kind::Zone(zone) => self.enter_zone(plan, key, zone, given),
            Kind::Call(body) => self.enter_call(plan, key, body, &given),
            Kind::Run(_) | Kind::Muted | Kind::Bypass(_) => {}
        }
    }

    fn container_policy<'p>(&self, plan: &'p PlanInner, key: Key) -> Option<&'p crate::plan::Policy> {
        let frame = self.frame(key)?;
        policy(plan, &plan.scopes[frame.scope as usize].nodes[key.node as usize])
    }

    fn timer(&mut self, key: Key, timer: Timer, limit: Duration) -> AbortHandle {
        let sleep = self.shared.clock.sleep(limit);
        self.tasks.spawn(async move {
            sleep.await;
            Report::Timer(key, timer)
        })
    }

    /// The span of a container that runs.
    pub(in crate::run) fn span_of(&self, key: Key) -> u64 {
        self.containers.get(&key).map_or(0, |container| container.span)
    }

    /// The container has its end; its room is free.
    pub(in crate::run) fn leave_container(&mut self, key: Key) -> u64 {
        let Some(container) = self.containers.remove(&key) else { return 0 };
        self.limits.leave(container.claim);
        container.span
    }

    /// A limit of time has passed, or a wait between attempts.
    pub(in crate::run) fn timer_fired(&mut self, plan: &PlanInner, key: Key, timer: Timer) {
        let Some(container) = self.containers.get_mut(&key) else { return };
        if timer == Timer::Retry {
            container.attempt += 1;
            return self.begin_attempt(plan, key);
        }
        if matches!(timer, Timer::Attempt(attempt) if attempt != container.attempt) {
            return;
        }
        let Some(policy) = self.container_policy(plan, key) else { return };
        let limit = if timer == Timer::Total { policy.total } else { policy.timeout };
        let limit = millis(limit.unwrap_or_default());
        let path = self.path(plan, key);
        self.close_inside(plan, key, &path);
        let mut error = RunError {
            path: Some(path),
            iteration: self.frame(key).and_then(|frame| frame.iteration),
            limit: Some(limit),
            ..RunError::new(NodeErrorKind::Timeout.as_str(), format!("not done within {limit} ms"))
        };
        if timer == Timer::Total {
            // No attempt is left when the time for all of them is over.
            error.details.insert("total".to_owned(), true.into());
        }
        self.container_failed(plan, key, error);
    }

    /// Cancels what runs inside a container.
    fn close_inside(&mut self, plan: &PlanInner, key: Key, cause: &Arc<str>) {
        self.close_zone(plan, key, cause, LoopEnd::Error);
        if let Some(inner) = self.calls.remove(&key) {
            self.close_frame(plan, inner, cause);
        }
    }

    /// A container fails with the failure of something inside it; it may be tried again.
    pub(in crate::run) fn container_failed(&mut self, plan: &PlanInner, key: Key, mut error: RunError) {
        let Some(container) = self.containers.get(&key) else { return };
        let (attempt, span) = (container.attempt, container.span);
        let kind = kind_of(&error.kind);
        let last = error.details.remove("total").is_some() || kind == NodeErrorKind::BudgetExceeded;
        let policy = self.container_policy(plan, key);
        let more = policy.and_then(|policy| policy.retry.as_ref()).map_or(0, |retry| retry.max);
        if self.replay.is_some() && policy.is_some() && !last && attempt <= more {
            let place =
                EventLocation { attempt: Some(attempt), ..self.place(plan, key, span, Some(attempt)) };
            self.emit(place, EventBody::NodeRetrying { kind, message: error.message, delay_ms: 0 });
            // The wait is over, or is not waited for again.
            return self.timer_fired(plan, key, Timer::Retry);
        }
        if let Some(policy) = policy.filter(|_| !last && attempt <= more) {
            let path = self.path(plan, key);
            let delay = jittered(policy.backoff(attempt), self.shared.sink.run().as_str(), &path, attempt);
            let place =
                EventLocation { attempt: Some(attempt), ..self.place(plan, key, span, Some(attempt)) };
            let delay_ms = millis(delay);
            self.emit(place, EventBody::NodeRetrying { kind, message: error.message, delay_ms });
            let timer = self.timer(key, Timer::Retry, delay);
            if let Some(container) = self.containers.get_mut(&key) {
                container.timers.push(timer);
            }
            return;
        }
        self.leave_container(key);
        let mut failure = Failure::new(kind, error.message.clone());
        failure.attempt = attempt;
        failure.limit_ms =
            error.limit.filter(|_| matches!(kind, NodeErrorKind::Timeout | NodeErrorKind::Idle));
        self.failed_with(plan, key, span, &failure, error);
    }
}

/// The kind that a word of an error stands for.
fn kind_of(word: &str) -> NodeErrorKind {
    use NodeErrorKind::{Condition, Idle, MaxPasses, MissingInput, Panic, Stalled, Timeout};
    let known = [Timeout, Idle, Panic, Condition, MaxPasses, Stalled, MissingInput];
    let other = if word == agent_types::BudgetKey::NodeStarts.as_str() {
        NodeErrorKind::BudgetExceeded
    } else {
        NodeErrorKind::Failed
    };
    known.into_iter().find(|kind| kind.as_str() == word).unwrap_or(other)
}

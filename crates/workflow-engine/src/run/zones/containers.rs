//! Containers: their limits of time and further attempts.

use std::sync::Arc;
use std::time::Duration;

use agent_types::{EventBody, LoopEnd, NodeErrorKind};
use tokio::task::AbortHandle;

use super::ContainerEnd;
use super::passes::{enter_zone, pass_complete};
use super::state::{Container, SavedZones};
use crate::context::millis;
use crate::error::RunError;
use crate::inputs::Given;
use crate::plan::data::Kind;
use crate::run::graph_state::frame::{Key, Standing};
use crate::run::graph_state::opening::Opening;
use crate::run::lifecycle::{close_frame, close_inside, follow_up, leave_container};
use crate::run::state::{Ending, RunState};
use crate::run::workers::Timer;
use crate::run::workers::failure::{Failure, jittered};
use crate::run::workers::permits::Claim;

/// Enters a zone or a group that has its permit.
pub(in crate::run) fn enter_container(
    run: &mut RunState<'_>,
    key: Key,
    span: u64,
    given: Vec<Given>,
    claim: Claim,
) -> Option<ContainerEnd> {
    run.zones.enter(key, Container::new(span, given, claim));
    let total = run.policy(key).and_then(|policy| policy.total);
    set_timer(run, key, Timer::Total, total);
    begin_attempt(run, key)
}

/// Takes the containers of a checkpoint; their limits of time begin anew.
pub(in crate::run) fn restore_containers(run: &mut RunState<'_>, saved: SavedZones) {
    let graph = &run.graph;
    let stream = |key| {
        let scope = graph.scope(key)?;
        let out = scope.outs(graph.node(key)?).iter().find(|out| out.stream)?;
        Some(Arc::clone(&graph.frames().open_stream(key, out.slot)?.stream))
    };
    for key in run.zones.restore(saved, stream) {
        let Some(container) = run.zones.container(key) else { continue };
        let attempt = container.attempt;
        run.workers.permits().take(container.claim);
        let limits = run.policy(key).map(|policy| (policy.total, policy.timeout)).unwrap_or_default();
        set_timer(run, key, Timer::Total, limits.0);
        set_timer(run, key, Timer::Attempt(attempt), limits.1);
    }
}

fn begin_attempt(run: &mut RunState<'_>, key: Key) -> Option<ContainerEnd> {
    let container = run.zones.container(key)?;
    let (attempt, given) = (container.attempt, container.given.clone());
    let limit = run.policy(key).and_then(|policy| policy.timeout);
    set_timer(run, key, Timer::Attempt(attempt), limit);
    match run.graph.node(key)?.kind {
        Kind::Zone(zone) => enter_zone(run, key, zone, given),
        Kind::Call(body) => {
            enter_call(run, key, body, &given);
            None
        }
        Kind::Run(_) | Kind::Muted | Kind::Bypass(_) => None,
    }
}

/// Opens the body of a group that runs as one node.
fn enter_call(run: &mut RunState<'_>, key: Key, body: u32, given: &[Given]) {
    let standing = Standing {
        scope: body,
        container: Some(key),
        prefix: format!("{}/", run.graph.frames().path(key)).into(),
        iteration: run.graph.frames().iteration(key),
        span: run.zones.span_of(key),
    };
    let frame = run.graph.add_frame(standing, None);
    run.zones.insert_call(key, frame.frame);
    run.graph.open_frame(frame, &Opening::from_inputs(given));
    follow_up(run);
}

/// All nodes of a frame are settled.
pub(in crate::run) fn frame_complete(run: &mut RunState<'_>, key: Key) -> Option<ContainerEnd> {
    let frame = run.graph.frame(key).filter(|frame| frame.is_complete())?;
    let Some(container) = frame.standing().container else {
        run.end.set(Ending::Complete);
        return None;
    };
    if run.zones.is_zone(container) {
        return pass_complete(run, container, key.frame);
    }
    let outputs = match run.graph.frames().results(key.frame) {
        Ok(outputs) => outputs,
        Err(message) => {
            let path = Some(run.graph.frames().path(container));
            let error = RunError { path, ..RunError::new(NodeErrorKind::Failed.as_str(), message) };
            return call_failed(run, container, key.frame, error);
        }
    };
    run.zones.take_call(container);
    run.graph.frames_mut().retire(key.frame);
    let attempt = run.zones.attempt_of(container);
    let span = leave_container(run, container);
    Some(ContainerEnd::Finished { key: container, span, outputs, attempt })
}

/// A node in the body of a group has failed and nothing in the body handles it.
pub(in crate::run) fn call_failed(
    run: &mut RunState<'_>,
    container: Key,
    frame: u32,
    error: RunError,
) -> Option<ContainerEnd> {
    let cause = error.path.clone().unwrap_or_else(|| Arc::from(""));
    close_frame(run, frame, &cause);
    run.zones.take_call(container);
    container_failed(run, container, error)
}

fn set_timer(run: &mut RunState<'_>, key: Key, timer: Timer, limit: Option<Duration>) {
    let Some(limit) = limit else { return };
    let sleep = run.shared.clock.sleep(limit);
    let handle: AbortHandle = run.workers.spawn_timer(key, timer, sleep);
    if let Some(container) = run.zones.container_mut(key) {
        container.add_timer(handle);
    }
}

/// A limit of time has passed, or a wait between attempts.
pub(in crate::run) fn timer_fired(run: &mut RunState<'_>, key: Key, timer: Timer) -> Option<ContainerEnd> {
    let container = run.zones.container_mut(key)?;
    if timer == Timer::Retry {
        container.attempt += 1;
        return begin_attempt(run, key);
    }
    if matches!(timer, Timer::Attempt(attempt) if attempt != container.attempt) {
        return None;
    }
    let policy = run.policy(key)?;
    let limit = if timer == Timer::Total { policy.total } else { policy.timeout };
    let limit = millis(limit.unwrap_or_default());
    let path = run.graph.frames().path(key);
    close_inside(run, key, &path, LoopEnd::Error);
    let error = RunError {
        path: Some(path),
        iteration: run.graph.frames().iteration(key),
        limit: Some(limit),
        ..RunError::new(NodeErrorKind::Timeout.as_str(), format!("not done within {limit} ms"))
    };
    // No attempt is left when the time for all of them is over.
    if timer == Timer::Total { give_up(run, key, error) } else { container_failed(run, key, error) }
}

/// A container fails with the failure of something inside it; it may be tried again.
pub(super) fn container_failed(run: &mut RunState<'_>, key: Key, error: RunError) -> Option<ContainerEnd> {
    let container = run.zones.container(key)?;
    let (attempt, span) = (container.attempt, container.span);
    let kind = kind_of(&error.kind);
    let Some(policy) = run.policy(key) else { return give_up(run, key, error) };
    let more = policy.retry.as_ref().map_or(0, |retry| retry.max);
    if kind == NodeErrorKind::BudgetExceeded || attempt > more {
        return give_up(run, key, error);
    }
    let place = run.graph.frames().location(key, span, Some(attempt));
    if run.events.replay().is_some() {
        run.events.emit(place, EventBody::NodeRetrying { kind, message: error.message, delay_ms: 0 });
        // The wait is over, or is not waited for again.
        return timer_fired(run, key, Timer::Retry);
    }
    let path = place.path.as_deref().unwrap_or_default();
    let delay = jittered(policy.backoff(attempt), run.shared.sink.run().as_str(), path, attempt);
    let delay_ms = millis(delay);
    run.events.emit(place, EventBody::NodeRetrying { kind, message: error.message, delay_ms });
    set_timer(run, key, Timer::Retry, Some(delay));
    None
}

/// No attempt of a container is left.
fn give_up(run: &mut RunState<'_>, key: Key, error: RunError) -> Option<ContainerEnd> {
    let attempt = run.zones.attempt_of(key)?;
    let span = leave_container(run, key);
    let kind = kind_of(&error.kind);
    let mut failure = Failure::new(kind, error.message.clone());
    failure.attempt = attempt;
    failure.limit_ms = error.limit.filter(|_| matches!(kind, NodeErrorKind::Timeout | NodeErrorKind::Idle));
    Some(ContainerEnd::Failed { key, span, failure: Box::new(failure), error: Box::new(error) })
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

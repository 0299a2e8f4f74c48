//! The beginning of a run, and what is cancelled before its end: nodes, passes and containers.

use std::sync::Arc;

use agent_types::{EventBody, EventLocation, LoopEnd, PassDecision};

use super::graph_state::FollowUp;
use super::graph_state::frame::{Key, NodeState, Standing};
use super::graph_state::opening::Opening;
use super::state::RunState;
use super::zones::zone_run::{Pass, PassEnd};
use crate::plan::data::NONE;

/// Emits the first events and opens the root frame.
pub(super) fn begin(run: &mut RunState<'_>) {
    let plan = run.plan;
    let needed = run.options.want.as_ref().map(|want| plan.scopes[0].needed_for(want));
    let root = run.graph.add_frame(Standing::root(), needed.as_deref());
    for path in &plan.input_nodes {
        let place = EventLocation {
            path: Some(Arc::clone(path)),
            attempt: Some(1),
            span: run.events.new_span(),
            parent: Some(0),
            ..EventLocation::default()
        };
        let node_type = Some(Arc::from("core:GroupInput"));
        run.events.emit(place.clone(), EventBody::NodeStarted { node_type });
        run.events.emit(place, EventBody::node_finished(None));
    }
    run.graph.open_frame(root, &Opening::from_inputs(&[]));
    follow_up(run);
}

/// Does outside of the graph what follows from the last propagation.
pub(super) fn follow_up(run: &mut RunState<'_>) {
    for follow_up in run.graph.take_follow_ups() {
        match follow_up {
            FollowUp::CancelRest(key) => cancel_rest(run, key),
            FollowUp::Pulled(key) => run.workers.resume(key),
        }
    }
}

/// The first taken edge decided: what only leads to the others is not needed.
fn cancel_rest(run: &mut RunState<'_>, key: Key) {
    let Some(scope) = run.graph.scope(key) else { return };
    if !run.policy(key).is_some_and(|policy| policy.cancel_rest) {
        return;
    }
    let cause: Arc<str> = Arc::from("first");
    for node in scope.only_for(key.node) {
        let other = Key { node, ..key };
        if abandon(run, other, &cause, LoopEnd::Cancelled) {
            run.graph.drop_outputs(other);
            follow_up(run);
        }
    }
}

/// Cancels a node and what runs inside it; its outputs are skipped. False if it was settled.
pub(super) fn cancel_node(run: &mut RunState<'_>, key: Key, cause: &Arc<str>) -> bool {
    if !abandon(run, key, cause, LoopEnd::Cancelled) {
        return false;
    }
    end_readers(run, key);
    run.graph.drop_outputs(key);
    follow_up(run);
    run.graph.check_complete(key);
    true
}

/// A node cancels another one of its scope by id.
pub(super) fn cancel_by_id(run: &mut RunState<'_>, key: Key, id: &str) -> bool {
    let Some((scope, own)) = run.graph.scope(key).zip(run.graph.node(key)) else { return false };
    let prefix = own.path.rsplit_once('/').map_or("", |(groups, _)| groups);
    let wanted = if prefix.is_empty() { id.to_owned() } else { format!("{prefix}/{id}") };
    let Some(node) = scope.nodes.iter().position(|node| *node.path == *wanted) else { return false };
    let cause = run.graph.frames().path(key);
    cancel_node(run, Key { node: u32::try_from(node).unwrap_or(NONE), ..key }, &cause)
}

/// Cancels the nodes that have begun to read a stream whose writer failed or was cancelled.
pub(super) fn end_readers(run: &mut RunState<'_>, key: Key) {
    let open = run.graph.frames().open_streams(key);
    let Some(scope) = run.graph.scope(key).filter(|_| !open.is_empty()) else { return };
    let path = run.graph.frames().path(key);
    for (slot, _) in open {
        for reader in scope.stream_readers.row(slot) {
            cancel_node(run, Key { node: *reader, ..key }, &path);
        }
    }
}

/// Stops a node and emits its terminal event; its outputs are dropped.
pub(super) fn abandon(run: &mut RunState<'_>, key: Key, cause: &Arc<str>, why: LoopEnd) -> bool {
    let state = run.graph.state(key);
    if matches!(state, NodeState::Settled | NodeState::Dormant) {
        return false;
    }
    let container_span = run.zones.span_of(key);
    let span = run.workers.stop(key).unwrap_or(container_span);
    run.workers.flights().give_up(key);
    run.asks.close(key);
    close_inside(run, key, cause, why);
    leave_container(run, key);
    run.events.forget_inner(key, cause);
    let attempt = (state == NodeState::Running).then_some(1);
    let place = run.graph.frames().location(key, span, attempt);
    run.events.emit(place, EventBody::NodeCancelled { cause: Arc::clone(cause) });
    run.graph.settle_alone(key);
    true
}

/// Cancels what runs inside a container.
pub(super) fn close_inside(run: &mut RunState<'_>, key: Key, cause: &Arc<str>, why: LoopEnd) {
    if run.zones.is_zone(key) {
        let passes = close_passes(run, key, cause);
        emit_exited(run, key, passes, why);
    }
    if let Some(frame) = run.zones.take_call(key) {
        close_frame(run, frame, cause);
    }
}

/// Cancels the passes that are on; says how many were done. The zone is gone afterwards.
pub(super) fn close_passes(run: &mut RunState<'_>, key: Key, cause: &Arc<str>) -> u64 {
    let Some(mut zone) = run.zones.take_zone(key) else { return 0 };
    for pass in zone.take_running() {
        close_frame(run, pass.frame, cause);
        emit_pass_finished(run, key, pass, PassEnd::given_up(PassDecision::Cancelled));
    }
    zone.finished()
}

/// Cancels everything in a frame that is not settled, and the frame with it.
pub(super) fn close_frame(run: &mut RunState<'_>, frame: u32, cause: &Arc<str>) {
    for key in run.graph.frames().unsettled(frame) {
        abandon(run, key, cause, LoopEnd::Cancelled);
    }
    run.graph.frames_mut().retire(frame);
}

/// The container has its end and returns its permit; gives its span.
pub(super) fn leave_container(run: &mut RunState<'_>, key: Key) -> u64 {
    let Some(container) = run.zones.leave(key) else { return 0 };
    run.workers.permits().leave(container.claim);
    container.span
}

pub(super) fn emit_pass_finished(run: &mut RunState<'_>, key: Key, pass: Pass, end: PassEnd) {
    let place = pass_location(run.graph.frames().path(key), pass.number, pass.span, run.zones.span_of(key));
    let PassEnd { changed, values, decision } = end;
    run.events.emit(place, EventBody::LoopIterFinished { changed, values, decision });
    run.events.consider_checkpoint();
}

pub(super) fn emit_exited(run: &mut RunState<'_>, key: Key, passes: u64, why: LoopEnd) {
    let place = run.graph.frames().location(key, run.zones.span_of(key), None);
    run.events.emit(place, EventBody::LoopExited { passes, why });
}

/// The location of the events of a pass.
pub(super) fn pass_location(path: Arc<str>, pass: u64, span: u64, parent: u64) -> EventLocation {
    EventLocation {
        path: Some(path),
        iteration: Some(pass),
        span,
        parent: Some(parent),
        ..EventLocation::default()
    }
}

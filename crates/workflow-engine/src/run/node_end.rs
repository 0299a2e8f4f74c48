//! Ends of nodes: their terminal events, what a failure does, and what follows.
//!
//! The end of a node may end the container around it, which is a node of the frame around that, and so on: ends are
//! settled one after the other, from the inside to the outside.

use std::sync::Arc;

use agent_types::{EventBody, EventLocation, NodeErrorKind, ReplayData};
use serde_json::json;
use workflow_model::OnError;
use workflow_model::structural::ERROR_SLOT;

use super::graph_state::frame::Key;
use super::lifecycle::{end_readers, follow_up};
use super::options::OnFail;
use super::state::{Ending, RunState};
use super::workers::Start;
use super::workers::failure::{Ended, Failure};
use super::workers::mailbox::OpenStream;
use super::zones::ContainerEnd;
use super::zones::containers::{call_failed, frame_complete};
use super::zones::passes::{pass_failed, stop_loop};
use crate::error::RunError;
use crate::outputs::{Outputs, StopScope};
use crate::stream::StreamItem;

/// Data of a finished node's event besides its value.
#[derive(Debug, Clone, Default)]
pub(super) struct Note {
    pub(super) handled: Option<&'static str>,
    pub(super) attempt: Option<u32>,
    /// The location of the start's events, where it is known already.
    pub(super) place: Option<EventLocation>,
}

impl Note {
    pub(super) fn handled(how: &'static str, attempt: u32) -> Self {
        Self { handled: Some(how), attempt: Some(attempt), place: None }
    }
}

/// Settles the end of a container and every end that follows from it.
pub(super) fn end_containers(run: &mut RunState<'_>, mut end: Option<ContainerEnd>) {
    while let Some(next) = end {
        end = match next {
            ContainerEnd::Finished { key, span, outputs, attempt } => {
                finish(run, key, span, &outputs, Note { attempt, ..Note::default() })
            }
            ContainerEnd::Failed { key, span, failure, error } => fail(run, key, span, &failure, *error),
        };
    }
}

/// A node's code has come to an end.
pub(super) fn ended(run: &mut RunState<'_>, key: Key, start: Start, ended: Ended) {
    if !run.graph.is_running(key) {
        return;
    }
    for open in start.streams.as_deref().unwrap_or_default() {
        see_chunks(run, open);
    }
    if let Some(path) = &start.place.path {
        run.events.forget_inner(key, path);
    }
    let span = start.place.span;
    match ended.result {
        Ok(outputs) => match run.large.take(&outputs) {
            Ok(()) => {
                let note = Note { attempt: Some(ended.attempt), place: Some(start.place), handled: None };
                finished(run, key, span, &outputs, note);
            }
            Err(message) => {
                let failure = Failure::new(NodeErrorKind::Failed, message);
                failed(run, key, span, &Failure { attempt: ended.attempt, ..failure });
            }
        },
        Err(failure) => failed(run, key, span, &failure),
    }
}

/// New chunks become events; from then on nodes may read them.
pub(super) fn see_chunks(run: &mut RunState<'_>, open: &OpenStream) {
    if !run.graph.is_running(open.key) {
        return;
    }
    let mut seen = Vec::new();
    open.stream.see(&mut seen);
    for (attempt, item) in seen {
        let StreamItem::Chunk(text) = item else { continue };
        let mut place = open.place.clone();
        place.attempt = Some(attempt);
        run.events.emit(place, EventBody::NodeChunk { slot: Arc::clone(&open.name), text });
    }
}

/// A node has given its outputs.
pub(super) fn finished(run: &mut RunState<'_>, key: Key, span: u64, outputs: &Outputs, note: Note) {
    let end = finish(run, key, span, outputs, note);
    end_containers(run, end);
}

fn finish(
    run: &mut RunState<'_>,
    key: Key,
    span: u64,
    outputs: &Outputs,
    note: Note,
) -> Option<ContainerEnd> {
    let main = run.plan.main_output(run.graph.node(key)?);
    let mut place = note.place.unwrap_or_else(|| run.graph.frames().location(key, span, None));
    place.attempt = Some(note.attempt.unwrap_or(1));
    let record = replay_data(run, outputs);
    let record = run.tally.with_usage(key, record);
    let unkeyable = run.workers.flights().take_unkeyable(key);
    let body = EventBody::NodeFinished {
        value: outputs.main(main).cloned(),
        outputs: outputs.others(main),
        handled: note.handled.map(Arc::from),
        cache: unkeyable.then(|| Arc::from("unkeyable")),
    };
    run.events.emit_with(place, body, record);
    if note.handled.is_none() && outputs.stop.is_none() {
        run.workers.flights().bring(key, outputs);
    } else {
        run.workers.flights().give_up(key);
    }
    hand_on(run, key, outputs, note.handled.is_some());
    after_end(run, key, outputs)
}

/// Replay data of outputs, beyond the values in the event.
fn replay_data(run: &RunState<'_>, outputs: &Outputs) -> Option<Box<ReplayData>> {
    let how = match outputs.stop.filter(|_| run.events.persists())? {
        StopScope::Run => "stop_run",
        StopScope::Loop => "stop_loop",
    };
    Some(Box::new(ReplayData { how: Some(Arc::from(how)), ..ReplayData::default() }))
}

/// Settles a node without an event, and hands its values on.
pub(super) fn hand_on(run: &mut RunState<'_>, key: Key, outputs: &Outputs, handled: bool) {
    run.graph.propagate(key, outputs, handled);
    follow_up(run);
}

/// Settles a node without an event; its outputs are skipped.
pub(super) fn settle_without_outputs(run: &mut RunState<'_>, key: Key) {
    run.graph.settle_without_outputs(key);
    follow_up(run);
}

/// Ends the loop or the run if the outputs say so.
fn after_end(run: &mut RunState<'_>, key: Key, outputs: &Outputs) -> Option<ContainerEnd> {
    match outputs.stop? {
        StopScope::Run => {
            let value = outputs.all("").next().map(|(_, value)| Arc::clone(value));
            run.end.set(Ending::Stopped(value.unwrap_or_default()));
            None
        }
        StopScope::Loop => stop_loop(run, key),
    }
}

/// The recorded outputs of a node are handed on, and end the loop or the run if they say so.
pub(super) fn replay_outputs(run: &mut RunState<'_>, key: Key, outputs: &Outputs, handled: bool) {
    hand_on(run, key, outputs, handled);
    let end = after_end(run, key, outputs);
    end_containers(run, end);
}

/// A node's outputs are known without running it.
pub(super) fn cached(run: &mut RunState<'_>, key: Key, outputs: &Outputs, from: Option<Arc<str>>) {
    let Some(node) = run.graph.node(key) else { return };
    let main = run.plan.main_output(node);
    let place = run.graph.frames().location(key, 0, None);
    let body =
        EventBody::NodeCached { value: outputs.main(main).cloned(), outputs: outputs.others(main), from };
    let record = replay_data(run, outputs);
    run.events.emit_with(place, body, record);
    hand_on(run, key, outputs, false);
}

/// A node that no taken edge leads to.
pub(super) fn skip_queued(run: &mut RunState<'_>, key: Key) {
    let cause = run.graph.cause_of(key);
    skip(run, key, cause);
}

/// A node is skipped, and so is what hangs on it alone.
pub(super) fn skip(run: &mut RunState<'_>, key: Key, cause: Arc<str>) {
    if run.graph.skip(key, &cause) {
        let place = run.graph.frames().location(key, 0, None);
        run.events.emit(place, EventBody::NodeSkipped { cause });
        follow_up(run);
    }
}

/// All nodes of a frame are settled.
pub(super) fn complete(run: &mut RunState<'_>, key: Key) {
    let end = frame_complete(run, key);
    end_containers(run, end);
}

/// A node has failed for good.
pub(super) fn failed(run: &mut RunState<'_>, key: Key, span: u64, failure: &Failure) {
    let error = run_error(run, key, failure);
    let end = fail(run, key, span, failure, error);
    end_containers(run, end);
}

/// Does what the node's rules say about a failure; `error` is that of the run if nothing handles it.
fn fail(
    run: &mut RunState<'_>,
    key: Key,
    span: u64,
    failure: &Failure,
    error: RunError,
) -> Option<ContainerEnd> {
    run.workers.flights().give_up(key);
    let node = run.graph.node(key)?;
    // An exceeded budget stays exceeded: no strategy of a node can fix it.
    let policy = run.plan.policy(node).filter(|_| failure.kind != NodeErrorKind::BudgetExceeded);
    match policy.map_or(&OnError::Fail, |policy| &policy.on_error) {
        OnError::Fail => fail_unhandled(run, key, span, failure, error),
        OnError::Branch => {
            end_readers(run, key);
            let value = json!({
                "message": failure.message,
                "code": failure.code.clone().unwrap_or_else(|| failure.kind.as_str().to_owned()),
                "node": run.graph.frames().path(key),
                "attempt": failure.attempt,
            });
            let outputs = Outputs::named(ERROR_SLOT, value);
            finish(run, key, span, &outputs, Note::handled("branch", failure.attempt))
        }
        OnError::Skip => {
            end_readers(run, key);
            let place = run.graph.frames().location(key, span, Some(failure.attempt));
            let handled = Some(Arc::from("skip"));
            let record = run.tally.with_usage(key, None);
            let body = EventBody::NodeFinished { value: None, outputs: None, handled, cache: None };
            run.events.emit_with(place, body, record);
            settle_without_outputs(run, key);
            None
        }
        OnError::Default(value) => {
            retract_streams(run, key);
            let main = run.plan.main_output(node);
            let outputs = Outputs::none().with(main.to_string(), value.clone());
            finish(run, key, span, &outputs, Note::handled("default", failure.attempt))
        }
    }
}

/// Retracts the chunks that the attempt before wrote.
pub(super) fn retract_streams(run: &RunState<'_>, key: Key) {
    for (_, open) in run.graph.frames().open_streams(key) {
        open.stream.retract();
    }
}

/// A failure that nothing at the node handles.
fn fail_unhandled(
    run: &mut RunState<'_>,
    key: Key,
    span: u64,
    failure: &Failure,
    error: RunError,
) -> Option<ContainerEnd> {
    let place = run.graph.frames().location(key, span, Some(failure.attempt));
    let body = EventBody::NodeFailed {
        kind: failure.kind,
        message: failure.message.clone(),
        limit_ms: failure.limit_ms,
        attempts: Some(failure.attempt),
        detached: failure.detached.then_some(true),
    };
    let how = failure.code.as_deref().filter(|_| run.events.persists()).map(Arc::from);
    let record = how.map(|how| Box::new(ReplayData { how: Some(how), ..ReplayData::default() }));
    let record = run.tally.with_usage(key, record);
    run.events.emit_with(place, body, record);
    escalate(run, key, error)
}

/// A failure that its node does not handle: its pass, its container and at last the run may.
fn escalate(run: &mut RunState<'_>, key: Key, error: RunError) -> Option<ContainerEnd> {
    let Some(container) = run.graph.frame(key)?.standing().container else {
        if run.options.on_fail == OnFail::FinishOthers && error.kind != "node_starts" {
            run.end.note_error(error);
            end_readers(run, key);
            settle_without_outputs(run, key);
        } else {
            run.graph.settle_alone(key);
            run.end.set(Ending::Failed(error));
        }
        return None;
    };
    run.graph.settle_alone(key);
    if run.zones.is_zone(container) {
        pass_failed(run, container, key.frame, error)
    } else {
        call_failed(run, container, key.frame, error)
    }
}

fn run_error(run: &RunState<'_>, key: Key, failure: &Failure) -> RunError {
    let kind = match (failure.kind, &failure.code) {
        // The kind of a run that spent a budget is the budget's key.
        (NodeErrorKind::BudgetExceeded, Some(budget)) => budget.clone(),
        (kind, _) => kind.as_str().to_owned(),
    };
    RunError {
        path: Some(run.graph.frames().path(key)),
        iteration: run.graph.frames().iteration(key),
        limit: failure.limit_ms,
        code: failure.code.clone(),
        ..RunError::new(kind, failure.message.clone())
    }
}

//! Replay of a log, to resume a run: recorded events are applied without executing nodes and without emitting again.
//!
//! Only what came from outside is taken from the log: that a node started, what it gave or how it failed, what was
//! answered. What follows from that (skipped nodes, passes, ends of zones) is worked out anew by the same code as
//! ever; an event of it that the log has is not emitted twice, one that the log lacks is emitted when the run resumes.

use std::sync::Arc;

use agent_types::{
    AskSummary, EventBody, EventLocation, LoopEnd, NodeErrorKind, OtherOutputs, ReplayData, ResumeLog,
    StoredEvent,
};
use run_journal::calls_around;
use serde_json::Value;

use super::checkpoint::restore;
use super::inner::is_inner;
use super::replay_index::AtWork;
use super::restart::resume_node;
use crate::error::RunError;
use crate::outputs::{Outputs, StopScope};
use crate::plan::data::Kind;
use crate::run::asks::{AskedCall, OpenAsk, call_of};
use crate::run::graph_state::frame::{Key, NodeState};
use crate::run::graph_state::inputs::collect_inputs;
use crate::run::lifecycle::{abandon, begin, cancel_node, end_readers};
use crate::run::node_end::{
    complete, end_containers, failed, hand_on, replay_outputs, retract_streams, settle_without_outputs, skip,
    skip_queued,
};
use crate::run::start::{enter, open_streams};
use crate::run::state::{Ending, RunState};
use crate::run::workers::Timer;
use crate::run::workers::failure::Failure;
use crate::run::workers::permits::Claim;
use crate::run::zones::containers::timer_fired;

/// The cause of nodes that were running when the process ended.
const INTERRUPTED: &str = "interrupted";

/// Replays the log, emits that the run resumes, and queues the nodes that were running.
pub(in crate::run) fn replay_log(run: &mut RunState<'_>, log: ResumeLog) -> Result<(), Box<RunError>> {
    run.asks.add_answers(log.answers);
    run.events.begin_replay(&log.events);
    run.graph.frames_mut().index_paths();
    match &log.snapshot {
        Some((_, state)) => {
            if let Err(error) = restore(run, state) {
                // The end of the run is emitted, not matched.
                run.events.end_replay();
                return Err(error);
            }
        }
        None => begin(run),
    }
    for kept in &log.events {
        drain(run);
        redo(run, kept);
    }
    drain(run);
    run.graph.frames_mut().forget_paths();
    let Some(mut replay) = run.events.end_replay() else { return Ok(()) };
    let mut at_work: Vec<(Key, AtWork)> = std::mem::take(&mut replay.at_work).into_iter().collect();
    at_work.retain(|(key, _)| run.graph.is_running(*key));
    at_work.sort_by_key(|(_, work)| work.span);
    let over = run.is_over();
    for (key, work) in &at_work {
        if over {
            run.graph.settle_alone(*key);
        }
        if work.closed || !over && (!work.called || run.asks.has_asked(*key)) {
            continue;
        }
        let place = run.graph.frames().location(*key, work.span, Some(work.attempt));
        run.events.emit(place, EventBody::NodeCancelled { cause: Arc::from(INTERRUPTED) });
    }
    let was_waiting = run.asks.set_waiting(false);
    if !run.options.nested {
        let cause = if was_waiting { "waiting" } else { INTERRUPTED };
        run.events.emit(EventLocation::default(), EventBody::RunResumed { cause: Some(cause.to_owned()) });
    }
    run.events.emit_missing(replay.journal, over);
    for (key, work) in at_work.into_iter().rev().filter(|_| !over) {
        resume_node(run, key, work);
    }
    Ok(())
}

/// Propagates known ends until nothing follows any more, without starting nodes.
fn drain(run: &mut RunState<'_>) {
    while !run.is_over() {
        if let Some(key) = run.graph.queues().next_skip() {
            skip_queued(run, key);
        } else if let Some(key) = run.graph.queues().next_complete() {
            complete(run, key);
        } else {
            return;
        }
    }
}

/// Takes a recorded event that is applied, so that it is not matched again.
fn take(run: &mut RunState<'_>, kept: &StoredEvent) {
    if let Some(replay) = run.events.replay_mut() {
        replay.journal.take(&kept.event.place, &kept.event.body);
    }
}

fn work_of<'r>(run: &'r mut RunState<'_>, key: Key) -> Option<&'r mut AtWork> {
    run.events.replay_mut()?.at_work.get_mut(&key)
}

/// Applies an event that came from outside and is not known yet.
fn redo(run: &mut RunState<'_>, kept: &StoredEvent) {
    match &kept.event.body {
        EventBody::RunWaiting { .. } => _ = run.asks.set_waiting(true),
        EventBody::RunResumed { .. } => _ = run.asks.set_waiting(false),
        _ => {}
    }
    if is_inner(kept) {
        return redo_inner(run, kept);
    }
    let Some(path) = kept.event.place.path.clone() else { return };
    let Some(key) = run.graph.frames_mut().find(&path) else { return };
    if run.graph.state(key) == NodeState::Dormant && needs_node(&kept.event.body) {
        // Another node asked for it.
        run.graph.waken(key);
        drain(run);
    }
    if run.graph.state(key) == NodeState::Settled {
        return;
    }
    let Some(node) = run.graph.node(key) else { return };
    match node.kind {
        Kind::Run(_) | Kind::Bypass(_) | Kind::Muted => redo_node(run, key, kept),
        Kind::Call(_) | Kind::Zone(_) => redo_container(run, key, kept),
    }
}

fn redo_node(run: &mut RunState<'_>, key: Key, kept: &StoredEvent) {
    let (place, record) = (&kept.event.place, kept.record.as_ref());
    match &kept.event.body {
        EventBody::NodeStarted { node_type } => {
            take(run, kept);
            redo_start(run, key, place, node_type.is_some());
        }
        EventBody::NodeChunk { slot, text } => {
            take(run, kept);
            redo_chunk(run, key, slot, text);
        }
        EventBody::NodeRetrying { .. } => {
            take(run, kept);
            retract_streams(run, key);
            run.asks.begin_attempt(&run.graph.frames().path(key));
            if let Some(work) = work_of(run, key) {
                work.attempt = place.attempt.unwrap_or(work.attempt) + 1;
            }
        }
        EventBody::NodeFinished { value, outputs, handled, .. } => {
            take(run, kept);
            forget(run, key);
            count_again(run, record);
            if matches!(handled.as_deref(), Some("skip" | "branch")) {
                end_readers(run, key);
            }
            if handled.as_deref() == Some("skip") {
                return settle_without_outputs(run, key);
            }
            let outputs = outputs_of(value.as_ref(), outputs.as_ref(), record);
            replay_outputs(run, key, &outputs, handled.is_some());
        }
        EventBody::NodeCached { value, outputs, .. } => {
            take(run, kept);
            let outputs = outputs_of(value.as_ref(), outputs.as_ref(), record);
            hand_on(run, key, &outputs, false);
        }
        EventBody::NodeFailed { kind, message, limit_ms, attempts, detached } => {
            forget(run, key);
            count_again(run, record);
            let failure = Failure {
                limit_ms: *limit_ms,
                attempt: attempts.unwrap_or(1),
                detached: detached.unwrap_or(false),
                code: record.and_then(|record| record.how.as_deref()).map(str::to_owned),
                ..Failure::new(*kind, message.clone())
            };
            failed(run, key, place.span, &failure);
        }
        EventBody::NodeSkipped { cause } => skip(run, key, Arc::clone(cause)),
        EventBody::NodeCancelled { cause } => redo_cancel(run, key, kept, cause),
        EventBody::NodeWaiting { ask, prompt, unknown_effect } => {
            take(run, kept);
            let Some(path) = &place.path else { return };
            if *unknown_effect == Some(true) {
                // It is asked again when the run resumes.
                return run.asks.note_outcome(path, ask);
            }
            run.asks.note(path, record, (ask, prompt.as_deref()));
            redo_ask(run, key, place, (ask, prompt.as_deref(), call_of(record)));
        }
        _ => {}
    }
}

fn count_again(run: &mut RunState<'_>, record: Option<&ReplayData>) {
    if let Some(usage) = record.and_then(|record| record.usage) {
        run.tally.count(usage);
    }
}

fn redo_start(run: &mut RunState<'_>, key: Key, place: &EventLocation, called: bool) {
    let Some(node) = run.graph.node(key) else { return };
    run.graph.set_running(key);
    if let Kind::Run(node_type) = node.kind
        && called
    {
        open_streams(run, key, &run.plan.types[node_type as usize].streams, place);
    }
    run.tally.count_recorded_start();
    let Some(replay) = run.events.replay_mut() else { return };
    let attempt = place.attempt.unwrap_or(1);
    let before = replay.at_work.get(&key);
    let interrupted = before.map_or(0, |work| work.interrupted + 1);
    let work = AtWork { span: place.span, attempt, interrupted, closed: false, called };
    let is_new = replay.at_work.insert(key, work).is_none();
    if let Some(path) = place.path.as_deref().filter(|_| is_new) {
        run.asks.begin_attempt(path);
    }
}

/// Readers that have not ended read what was written once more.
fn redo_chunk(run: &RunState<'_>, key: Key, slot: &str, text: &Arc<str>) {
    let Some((scope, node)) = run.graph.scope(key).zip(run.graph.node(key)) else { return };
    let mut outs = scope.outs(node).iter();
    let out = outs.find(|out| *run.plan.names[out.name as usize] == *slot);
    if let Some(open) = out.and_then(|out| run.graph.frames().open_stream(key, out.slot)) {
        open.stream.push_now(Arc::clone(text));
        open.stream.see(&mut Vec::new());
    }
}

fn redo_cancel(run: &mut RunState<'_>, key: Key, kept: &StoredEvent, cause: &Arc<str>) {
    match &**cause {
        INTERRUPTED => {
            take(run, kept);
            if let Some(work) = work_of(run, key) {
                work.closed = true;
            }
            return;
        }
        "cancelled" => run.end.set(Ending::Cancelled),
        "deadline" => run.end.set(Ending::Deadline),
        _ => {}
    }
    if run.is_over() {
        forget(run, key);
        abandon(run, key, cause, LoopEnd::Cancelled);
        return;
    }
    let inside = kept.event.place.path.as_deref().and_then(|path| path.strip_prefix(&**cause));
    if inside.is_some_and(|rest| rest.starts_with(['[', '/']))
        && let Some(container) = run.graph.frames_mut().find(cause)
    {
        return time_out(run, container);
    }
    cancel_node(run, key, cause);
}

/// A container was ended by a limit of time; what the log says of it shows which.
fn time_out(run: &mut RunState<'_>, key: Key) {
    let place = run.graph.frames().location(key, 0, Some(1));
    let kind = NodeErrorKind::Timeout;
    let next = |body: EventBody| run.events.replay().and_then(|replay| replay.journal.peek(&place, &body));
    let retrying = next(EventBody::NodeRetrying { kind, message: String::new(), delay_ms: 0 });
    let failed = next(EventBody::NodeFailed {
        kind,
        message: String::new(),
        limit_ms: None,
        attempts: None,
        detached: None,
    });
    let handled = next(EventBody::node_finished(None));
    let last = [failed, handled].into_iter().flatten().min();
    let retries = retrying.is_some_and(|retrying| last.is_none_or(|last| retrying < last));
    let attempt = run.zones.attempt_of(key).unwrap_or(1);
    let end = timer_fired(run, key, if retries { Timer::Attempt(attempt) } else { Timer::Total });
    end_containers(run, end);
}

/// A recorded question: its id, what it asks, and the call that it is about.
type Asked<'e> = (&'e Arc<str>, Option<&'e str>, Option<AskedCall>);

fn redo_ask(run: &mut RunState<'_>, key: Key, place: &EventLocation, asked: Asked<'_>) {
    let (ask, prompt, call) = asked;
    if run.asks.find(ask).is_some() {
        return;
    }
    let AskedCall { kind, tool, arguments, definition } = call.unwrap_or_default();
    let summary = AskSummary {
        ask: Arc::clone(ask),
        kind,
        tool,
        arguments,
        path: place.path.clone(),
        prompt: prompt.map(str::to_owned),
        definition,
    };
    let (span, attempt) = (place.span, place.attempt.unwrap_or(1));
    run.asks.push(OpenAsk { key, summary, reply: None, unknown_effect: false, span, attempt });
}

/// Ends a node and closes its open questions.
fn forget(run: &mut RunState<'_>, key: Key) {
    run.asks.close(key);
    if let Some(replay) = run.events.replay_mut() {
        replay.at_work.remove(&key);
        replay.inner.remove(&key);
    }
}

fn redo_container(run: &mut RunState<'_>, key: Key, kept: &StoredEvent) {
    match &kept.event.body {
        EventBody::NodeStarted { node_type: None } => redo_node(run, key, kept),
        EventBody::NodeStarted { .. } if run.graph.state(key) == NodeState::Queued => {
            enter_recorded(run, key);
        }
        EventBody::NodeSkipped { cause } => skip(run, key, Arc::clone(cause)),
        EventBody::NodeCancelled { cause } => redo_cancel(run, key, kept, cause),
        // It was refused before it was entered.
        EventBody::NodeFailed { .. } | EventBody::NodeFinished { .. }
            if run.zones.container(key).is_none() =>
        {
            redo_node(run, key, kept);
        }
        // What follows from its body is known by now; this came from a limit of its own.
        EventBody::NodeRetrying { .. } | EventBody::NodeFailed { .. } | EventBody::NodeFinished { .. }
            if run.events.replay().is_some_and(|replay| replay.journal.holds(kept)) =>
        {
            time_out(run, key);
        }
        _ => {}
    }
}

/// Enters a container that had its start.
fn enter_recorded(run: &mut RunState<'_>, key: Key) {
    let Some((frame, node)) = run.graph.frame(key).zip(run.graph.node(key)) else { return };
    // Its inputs were collected before it started, so they can be again.
    let Ok(given) = collect_inputs(run.plan, frame, key.node) else { return };
    let claim = Claim::of_container(run.plan.policy(node).and_then(|policy| policy.group));
    run.workers.permits().take(claim);
    enter(run, key, given, claim);
}

/// Keeps the events from inside a node, for when the node resumes.
fn redo_inner(run: &mut RunState<'_>, kept: &StoredEvent) {
    let Some(key) = emitter(run, kept).filter(|key| run.graph.is_running(*key)) else { return };
    if let Some(replay) = run.events.replay_mut() {
        replay.inner.entry(key).or_default().push(kept.clone());
    }
}

/// Returns the node that an event belongs to: the one that made the call in which it happened, else the one of its path.
fn emitter(run: &mut RunState<'_>, kept: &StoredEvent) -> Option<Key> {
    let (place, body) = (&kept.event.place, &kept.event.body);
    let makes_call = matches!(body, EventBody::AgentToolChosen { .. } | EventBody::AgentToolApproval { .. });
    let written = matches!(body, EventBody::AgentCallReady { .. } | EventBody::AgentCallDelta { .. });
    if let Some(call) = &place.call {
        let callers = &run.events.replay()?.callers;
        let known = calls_around(call).find_map(|call| callers.get(&call)).copied();
        let own = || callers.get(call).copied().filter(|_| !written);
        if let Some(key) = known.or_else(own) {
            return Some(key);
        }
    }
    let key = run.graph.frames_mut().find(place.path.as_deref()?)?;
    if makes_call && let (Some(call), Some(replay)) = (&place.call, run.events.replay_mut()) {
        replay.callers.insert(call.clone(), key);
    }
    Some(key)
}

/// Returns `true` if an event shows that its node is needed.
fn needs_node(body: &EventBody) -> bool {
    matches!(
        body,
        EventBody::NodeStarted { .. } | EventBody::NodeSkipped { .. } | EventBody::NodeCached { .. }
    )
}

/// Restores the outputs of a node from its event and the replay data.
fn outputs_of(
    value: Option<&Arc<Value>>,
    others: Option<&OtherOutputs>,
    record: Option<&ReplayData>,
) -> Outputs {
    let mut outputs = value.map_or_else(Outputs::none, |value| Outputs::shared(Arc::clone(value)));
    for (name, value) in others.iter().flat_map(|others| others.iter()) {
        outputs = outputs.with_shared(name.to_string(), Arc::clone(value));
    }
    outputs.stop = match record.and_then(|record| record.how.as_deref()) {
        Some("stop_run") => Some(StopScope::Run),
        Some("stop_loop") => Some(StopScope::Loop),
        Some(_) | None => None,
    };
    outputs
}

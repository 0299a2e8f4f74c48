//! Loop zones: passes, carried values, and when it is enough.

use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};

use agent_types::{EventBody, LoopEnd, NodeErrorKind, PassDecision};
use serde_json::Value;
use workflow_model::{OnMax, TestAt, ZoneMode};

use super::ContainerEnd;
use super::condition::{PassResults, is_over};
use super::containers::container_failed;
use super::values::{Digits, chunk_of, state_map};
use super::zone_run::{Pass, PassEnd, ZoneRun};
use crate::convert::convert;
use crate::error::RunError;
use crate::inputs::Given;
use crate::outputs::Outputs;
use crate::plan::data::{NONE, Origin};
use crate::plan::zone::ZonePlan;
use crate::run::graph_state::frame::{Key, Slot, Standing};
use crate::run::graph_state::opening::Opening;
use crate::run::lifecycle::{
    close_frame, close_passes, emit_exited, emit_pass_finished, follow_up, leave_container, pass_location,
};
use crate::run::shared::RunShared;
use crate::run::state::RunState;
use crate::run::workers::mailbox::Message;
use crate::stream::Stream;

/// Next step of a zone.
enum Step {
    Start,
    Exit(LoopEnd),
    Fail(Box<RunError>),
}

/// Posts that the stream of a zone has room.
struct StreamWaker {
    run: Weak<RunShared>,
    key: Key,
}

impl Wake for StreamWaker {
    fn wake(self: Arc<Self>) {
        if let Some(run) = self.run.upgrade() {
            run.inbox.post(Message::StreamReady(self.key));
        }
    }
}

/// Takes the first values and begins.
pub(super) fn enter_zone(
    run: &mut RunState<'_>,
    key: Key,
    number: u32,
    given: Vec<Given>,
) -> Option<ContainerEnd> {
    let zone = &run.plan.zones[number as usize];
    let place = run.graph.frames().location(key, run.zones.span_of(key), None);
    let begun = ZoneRun::new(number, zone, given);
    let state = begun.as_ref().ok().and_then(|begun| begun.named_state(zone));
    run.events.emit(place, EventBody::LoopEntered { mode: Arc::from(zone.spec.mode.as_str()), state });
    let begun = match begun {
        Ok(begun) => begun,
        Err(message) => {
            let error = zone_error(run, key, NodeErrorKind::Failed, message);
            return exit_failed(run, key, 0, LoopEnd::Error, error);
        }
    };
    let stream = open_stream(run, key);
    run.zones.insert_zone(key, begun.with_stream(stream));
    advance_zone(run, key)
}

fn open_stream(run: &mut RunState<'_>, key: Key) -> Option<Arc<Stream>> {
    let scope = run.graph.scope(key)?;
    let out = scope.outs(run.graph.node(key)?).iter().find(|out| out.stream)?;
    if let Some(open) = run.graph.frames().open_stream(key, out.slot) {
        // Another attempt: readers forget what the one before wrote.
        open.stream.retract();
        return Some(Arc::clone(&open.stream));
    }
    let readers = u32::try_from(scope.stream_readers.row(out.slot).len()).unwrap_or(NONE);
    let stream = Stream::new(readers, run.events.persists() || out.joined);
    run.graph.open_slot(key, out.slot, Slot::from_stream(Arc::clone(&stream)));
    follow_up(run);
    Some(stream)
}

/// Starts the passes that may start, or ends the zone.
pub(in crate::run) fn advance_zone(run: &mut RunState<'_>, key: Key) -> Option<ContainerEnd> {
    loop {
        let zone = run.zones.zone(key)?;
        match next_step(run, key, zone) {
            Step::Start if zone.has_place(zone.plan(run.plan)) && has_room(run, key, zone) => {
                start_pass(run, key);
            }
            Step::Exit(why) if zone.is_between_passes() => return exit_zone(run, key, why),
            Step::Start | Step::Exit(_) => return None,
            Step::Fail(error) => return fail_zone(run, key, *error),
        }
    }
}

/// Returns `true` if the readers of the zone's stream are close enough for another pass. If not, the run
/// is notified later.
fn has_room(run: &RunState<'_>, key: Key, zone: &ZoneRun) -> bool {
    // Recorded passes have happened.
    let Some(stream) = zone.stream().filter(|_| run.events.replay().is_none()) else { return true };
    stream.has_room(|| Waker::from(Arc::new(StreamWaker { run: Arc::downgrade(run.shared), key })))
}

fn next_step(run: &RunState<'_>, key: Key, zone: &ZoneRun) -> Step {
    let plan = zone.plan(run.plan);
    if let Some(why) = zone.reason_to_end(plan) {
        return Step::Exit(why);
    }
    if plan.spec.test == TestAt::Before && plan.condition.is_some() {
        return match test(run, key, zone, zone.started(), None) {
            Ok(true) => Step::Exit(LoopEnd::Condition),
            Ok(false) => Step::Start,
            Err(error) => Step::Fail(error),
        };
    }
    Step::Start
}

/// Evaluates the condition at a pass, on its `own` results if it is not the last that is done; `true` ends the zone.
fn test(
    run: &RunState<'_>,
    key: Key,
    zone: &ZoneRun,
    pass: u64,
    own: Option<&Outputs>,
) -> Result<bool, Box<RunError>> {
    let inputs = || {
        let Some(node) = run.graph.node(key) else { return Value::Null };
        run.inputs(key, node, zone.given().to_vec()).for_expressions()
    };
    let results = PassResults { out: own.or(zone.last()), last: zone.before() };
    is_over(run.plan, zone, pass, &results, inputs).map_err(|message| {
        let error = zone_error(run, key, NodeErrorKind::Condition, message);
        Box::new(RunError { iteration: Some(pass), ..error })
    })
}

fn start_pass(run: &mut RunState<'_>, key: Key) {
    let path = run.graph.frames().path(key);
    let zone_span = run.zones.span_of(key);
    let Some(zone) = run.zones.zone_mut(key) else { return };
    let plan = zone.plan(run.plan);
    let number = zone.started();
    let remaining = zone.count_start(plan);
    let item = zone.item(number);
    let mut place = pass_location(Arc::clone(&path), number, 0, zone_span);
    let span = run.events.span_for(&place, &EventBody::LoopIterStarted { item: None });
    let prefix = run.graph.frames().text(&[&path, "[", Digits::from_number(number).as_str(), "]/"]);
    let standing =
        Standing { scope: plan.scope, container: Some(key), prefix, iteration: Some(number), span };
    let frame = run.graph.add_frame(standing, None);
    if let Some(zone) = run.zones.zone_mut(key) {
        zone.add(Pass { number, frame: frame.frame, span });
    }
    place.span = span;
    run.events.emit(place, EventBody::LoopIterStarted { item: item.clone() });
    // What the zone was given stands in its own frame; the body reads it from there or by its entries.
    let state = run.zones.zone(key).map_or(&[][..], ZoneRun::state);
    let opening = Opening { inputs: &[], state, index: number, item, remaining };
    run.graph.open_frame(frame, &opening);
    follow_up(run);
}

/// All nodes of a pass are settled.
pub(super) fn pass_complete(run: &mut RunState<'_>, key: Key, frame: u32) -> Option<ContainerEnd> {
    let zone = run.zones.zone(key)?;
    let (plan, pass) = (zone.plan(run.plan), zone.pass_in(frame)?);
    let results = run.graph.frames().results(frame);
    let next = next_state(run, frame, zone, plan);
    let (results, next) = match results.and_then(|results| Ok((results, next?))) {
        Ok(both) => both,
        Err(message) => {
            let error = zone_error(run, key, NodeErrorKind::Failed, message);
            return pass_failed(run, key, frame, RunError { iteration: Some(pass.number), ..error });
        }
    };
    let flag = |origins: &[Origin]| {
        let value = origins.iter().find_map(|origin| run.graph.frames().value(frame, origin));
        value.is_some_and(|value| *value == Value::Bool(true))
    };
    let (breaks, continues) = (flag(&plan.break_if), flag(&plan.continue_if));
    let zone = run.zones.zone_mut(key)?;
    let stream = zone.stream().cloned();
    let chunk = stream.and_then(|stream| Some((stream, chunk_of(&results)?)));
    // Beside others a pass may end before one that began earlier.
    let own = (plan.spec.parallel > 1).then(|| results.clone());
    let end = zone.finish_pass(plan, pass, next, results, continues);
    run.graph.frames_mut().retire(frame);
    let tested = if breaks { Ok(None) } else { test_after(run, key, pass.number, own.as_ref()) };
    let decision = match &tested {
        Err(_) => Some(PassDecision::Error),
        Ok(Some(true)) => Some(PassDecision::Condition),
        Ok(_) if breaks => Some(PassDecision::Break),
        Ok(_) if continues => Some(PassDecision::Continue),
        Ok(tested) => tested.map(|_| PassDecision::Next),
    };
    emit_pass_finished(run, key, pass, PassEnd { decision, ..end });
    if let Some((stream, text)) = chunk {
        write_chunk(run, key, &stream, text);
    }
    match (tested, breaks) {
        (Err(error), _) => return fail_zone(run, key, *error),
        (Ok(_), true) => end_with(run, key, pass.number, LoopEnd::Break, own),
        (Ok(Some(true)), false) => end_with(run, key, pass.number, LoopEnd::Condition, own),
        (Ok(Some(false) | None), false) => {}
    }
    advance_zone(run, key)
}

/// Ends the zone with a pass; those beyond it are cancelled.
fn end_with(run: &mut RunState<'_>, key: Key, pass: u64, why: LoopEnd, results: Option<Outputs>) {
    let cause = run.graph.frames().path(key);
    let Some(zone) = run.zones.zone_mut(key) else { return };
    for beyond in zone.end_with(pass, why, results) {
        close_frame(run, beyond.frame, &cause);
        emit_pass_finished(run, key, beyond, PassEnd::given_up(PassDecision::Cancelled));
    }
}

/// Reads the condition after a pass, on the new state; `None` where nothing is left to decide.
fn test_after(
    run: &RunState<'_>,
    key: Key,
    pass: u64,
    own: Option<&Outputs>,
) -> Result<Option<bool>, Box<RunError>> {
    let Some(zone) = run.zones.zone(key) else { return Ok(None) };
    let plan = zone.plan(run.plan);
    // Of several passes that would end the zone the first one does.
    let is_sequential_end = zone.has_ended() && plan.spec.parallel == 1;
    if is_sequential_end || plan.condition.is_none() || plan.spec.test != TestAt::After {
        return Ok(None);
    }
    test(run, key, zone, pass, own).map(Some)
}

/// A node of a pass has failed and nothing in the pass handles it.
pub(in crate::run) fn pass_failed(
    run: &mut RunState<'_>,
    key: Key,
    frame: u32,
    mut error: RunError,
) -> Option<ContainerEnd> {
    let pass = run.zones.zone(key)?.pass_in(frame)?;
    let cause = error.path.clone().unwrap_or_else(|| Arc::from("error"));
    close_frame(run, frame, &cause);
    let zone = run.zones.zone_mut(key)?;
    let continues = zone.lose_pass(zone.plan(run.plan), pass);
    if let Some(item) = zone.item(pass.number) {
        error.details.entry("item").or_insert_with(|| (*item).clone());
    }
    emit_pass_finished(run, key, pass, PassEnd::given_up(PassDecision::Error));
    // A spent budget ends the run whatever a pass may lose.
    if continues && error.kind != "node_starts" { advance_zone(run, key) } else { fail_zone(run, key, error) }
}

fn write_chunk(run: &mut RunState<'_>, key: Key, stream: &Stream, text: Arc<str>) {
    stream.push_now(Arc::clone(&text));
    stream.see(&mut Vec::new());
    let place = run.graph.frames().location(key, run.zones.span_of(key), Some(1));
    run.events.emit(place, EventBody::NodeChunk { slot: Arc::from("stream"), text });
}

/// The carried values of the next pass; a key that nothing fills keeps its value.
fn next_state(
    run: &RunState<'_>,
    frame: u32,
    zone: &ZoneRun,
    plan: &ZonePlan,
) -> Result<Vec<Arc<Value>>, String> {
    let filled = plan.next.iter().zip(zone.state()).zip(&plan.spec.state);
    let next = filled.map(|((next, old), state)| {
        match next.iter().find_map(|origin| run.graph.frames().value(frame, origin)) {
            Some(value) => convert(&value, state.data_flow_type)
                .map_err(|fault| format!("the carried value `{}` {fault}", state.key)),
            None => Ok(Arc::clone(old)),
        }
    });
    next.collect()
}

fn zone_error(run: &RunState<'_>, key: Key, kind: NodeErrorKind, message: String) -> RunError {
    RunError {
        path: Some(run.graph.frames().path(key)),
        iteration: run.graph.frames().iteration(key),
        ..RunError::new(kind.as_str(), message)
    }
}

/// The zone has had its last pass.
fn exit_zone(run: &mut RunState<'_>, key: Key, why: LoopEnd) -> Option<ContainerEnd> {
    let zone = run.zones.take_zone(key)?;
    let plan = zone.plan(run.plan);
    let passes = zone.finished();
    if why == LoopEnd::Max && plan.spec.on_max == OnMax::Fail {
        let limit = plan.spec.max_iterations.unwrap_or(passes);
        let message = not_done_within(plan.spec.mode, plan.condition.is_some(), limit);
        let mut error = zone_error(run, key, NodeErrorKind::MaxPasses, message);
        error.limit = Some(limit);
        error.details.insert("state".to_owned(), Value::Object(state_map(plan, zone.state())));
        return exit_failed(run, key, passes, why, error);
    }
    emit_exited(run, key, passes, why);
    let attempt = run.zones.attempt_of(key);
    let span = leave_container(run, key);
    Some(ContainerEnd::Finished { key, span, outputs: zone.into_outputs(plan), attempt })
}

/// The message of a loop that reached `maxIterations` first.
fn not_done_within(mode: ZoneMode, is_tested: bool, limit: u64) -> String {
    let why = match mode {
        ZoneMode::Until if is_tested => "the condition did not hold",
        ZoneMode::While if is_tested => "the condition still held",
        ZoneMode::Until | ZoneMode::While => "no pass asked for the end",
        ZoneMode::Times => "`times` asks for more",
        ZoneMode::Each => "`items` has more",
    };
    let passes = if limit == 1 { "pass" } else { "passes" };
    format!("{why} after {limit} {passes}, the limit of `maxIterations`")
}

/// The zone fails; its other passes are cancelled.
fn fail_zone(run: &mut RunState<'_>, key: Key, error: RunError) -> Option<ContainerEnd> {
    let cause = error.path.clone().unwrap_or_else(|| Arc::from("error"));
    let passes = close_passes(run, key, &cause);
    exit_failed(run, key, passes, LoopEnd::Error, error)
}

fn exit_failed(
    run: &mut RunState<'_>,
    key: Key,
    passes: u64,
    why: LoopEnd,
    error: RunError,
) -> Option<ContainerEnd> {
    emit_exited(run, key, passes, why);
    container_failed(run, key, error)
}

/// A node inside ends the innermost zone around it.
pub(in crate::run) fn stop_loop(run: &mut RunState<'_>, key: Key) -> Option<ContainerEnd> {
    let mut zone_key = run.graph.frames().container(key)?;
    while !run.zones.is_zone(zone_key) {
        zone_key = run.graph.frames().container(zone_key)?;
    }
    let cause: Arc<str> = Arc::from("stop");
    for pass in run.zones.zone_mut(zone_key)?.stop_running() {
        close_frame(run, pass.frame, &cause);
        emit_pass_finished(run, zone_key, pass, PassEnd::given_up(PassDecision::Break));
    }
    exit_zone(run, zone_key, LoopEnd::Break)
}

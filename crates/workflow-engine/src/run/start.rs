//! A node's turn has come: what is decided before it takes a permit, and how its code gets going.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use agent_types::{EventBody, EventLocation, NodeErrorKind};
use serde_json::{Map, Value};
use workflow_model::Cache as CacheRule;
use workflow_model::graph::NameIx;
use workflow_model::structural::{LOOP_ZONE, NODE_GROUP};

use super::graph_state::frame::{Key, Slot};
use super::graph_state::inputs::collect_inputs;
use super::lifecycle::follow_up;
use super::messages::read_messages;
use super::node_end::{Note, cached, end_containers, ended, failed, finished, skip};
use super::options::Before;
use super::state::RunState;
use super::workers::attempt::{Permit, Work, computed, plain, watched};
use super::workers::failure::{Ended, Failure};
use super::workers::mailbox::OpenStream;
use super::workers::permits::{Claim, Parked};
use super::workers::{Restart, Start};
use super::zones::containers::enter_container;
use crate::cache::{Lookup, key_of};
use crate::context::NodeContext;
use crate::inputs::{Given, Inputs};
use crate::node::Node;
use crate::outputs::Outputs;
use crate::plan::data::{Kind, NONE, NodePlan, PlanData};
use crate::plan::policy::Policy;
use crate::stream::Stream;

/// Decides on a node before it takes a permit: hook, switch, condition, cache.
pub(super) fn consider(run: &mut RunState<'_>, key: Key) {
    if let Some(before) = &run.options.before {
        let before = Arc::clone(before);
        if before(&run.graph.frames().path(key)) == Before::Skip {
            return skip(run, key, Arc::from("hook"));
        }
    }
    let Some((frame, node)) = run.graph.frame(key).zip(run.graph.node(key)) else { return };
    if node.kind == Kind::Muted {
        let path = run.graph.frames().path(key);
        return skip(run, key, path);
    }
    let given = match collect_inputs(run.plan, frame, key.node) {
        Ok(given) => given,
        Err(message) => return refuse(run, key, &Failure::new(NodeErrorKind::Failed, message)),
    };
    if let Kind::Bypass(outputs) = node.kind {
        return bypass(run, key, outputs, &given);
    }
    if let Some(policy) = run.plan.policy(node)
        && !run.workers.was_called(key)
        && decide(run, key, node, policy, &given)
    {
        return;
    }
    let claim = claim_of(run.plan, node, &given);
    if run.workers.permits().enter(claim) {
        enter(run, key, given, claim);
    } else {
        run.workers.permits().park(claim, Parked { key, inputs: given });
    }
}

/// The permits that a node needs.
fn claim_of(plan: &PlanData, node: &NodePlan, given: &[Given]) -> Claim {
    let group = plan.policy(node).and_then(|policy| policy.group);
    // A node that reads an open stream shares the permit of its writer, or passes of a zone would wait for one for ever.
    let reads = given.iter().any(|given| matches!(given, Given::Stream(stream) if stream.is_open()));
    if matches!(node.kind, Kind::Run(_)) && !reads {
        Claim::of_node(group)
    } else {
        Claim::of_container(group)
    }
}

/// Applies the node's condition and its cache; true if it does not start now. A decision made before a recorded start
/// stands, and is not made again.
fn decide(run: &mut RunState<'_>, key: Key, node: &NodePlan, policy: &Policy, given: &[Given]) -> bool {
    match wants_skip(run, key, node, policy, given) {
        Ok(false) => {}
        Ok(true) => {
            let path = run.graph.frames().path(key);
            skip(run, key, path);
            return true;
        }
        Err(failure) => {
            refuse(run, key, &failure);
            return true;
        }
    }
    // What is known already needs no permit.
    look_up(run, key, node, policy, given)
}

/// Evaluates the condition under which a node is skipped.
fn wants_skip(
    run: &RunState<'_>,
    key: Key,
    node: &NodePlan,
    policy: &Policy,
    given: &[Given],
) -> Result<bool, Failure> {
    let Some(condition) = &policy.skip_if else { return Ok(false) };
    let inputs = run.inputs(key, node, given.to_vec());
    let decided = condition.evaluate_bool(|name| match name {
        "inputs" => Some(inputs.for_expressions()),
        "vars" => Some((*run.plan.variables).clone()),
        "state" => Some(first_state(run.plan, node, &inputs)),
        _ => None,
    });
    decided.map_err(|error| Failure::new(NodeErrorKind::Condition, error.to_string()))
}

/// The carried values with which a zone would begin.
fn first_state(plan: &PlanData, node: &NodePlan, inputs: &Inputs) -> Value {
    let Kind::Zone(zone) = node.kind else { return Value::Null };
    let zone = &plan.zones[zone as usize];
    let state = zone.spec.state.iter().zip(&zone.initial_inputs).map(|(state, input)| {
        let given = (*input != NONE).then(|| inputs.at(*input as usize)).flatten();
        let value = given.map(|value| (**value).clone()).or_else(|| state.initial.clone());
        (state.key.clone(), value.unwrap_or_default())
    });
    Value::Object(state.collect::<Map<_, _>>())
}

/// Looks for a kept result; true if the node need not start, or not yet.
fn look_up(run: &mut RunState<'_>, key: Key, node: &NodePlan, policy: &Policy, given: &[Given]) -> bool {
    let (Some(rule), Kind::Run(node_type)) = (&policy.cache, node.kind) else { return false };
    if run.workers.flights().leads(key) {
        return false;
    }
    let node_type = &run.plan.types[node_type as usize];
    let only = match rule {
        CacheRule::ByKey(slots) => Some(slots.as_slice()),
        CacheRule::ByInputs | CacheRule::Off => None,
    };
    let config = run.plan.details.get(node.details as usize).map(|details| &details.config);
    let inputs = run.inputs(key, node, given.to_vec());
    let Some(hash) = key_of((&*node_type.name, &*node_type.version), config, &inputs, only) else {
        run.workers.flights().note_unkeyable(key);
        return false;
    };
    let path = run.graph.frames().path(key);
    match run.workers.flights().look(hash, &path) {
        Lookup::Hit(outputs) => cached(run, key, &outputs, None),
        Lookup::Lead(lead) => {
            run.workers.flights().lead(key, lead);
            return false;
        }
        Lookup::Wait(from, landing) => {
            run.graph.set_running(key);
            run.workers.spawn_flight(key, from, landing);
        }
    }
    true
}

/// Equal work elsewhere has ended.
pub(super) fn landed(run: &mut RunState<'_>, key: Key, landed: Option<(Arc<Outputs>, Arc<str>)>) {
    if run.workers.finish(key).is_none() {
        return;
    }
    match landed {
        Some((outputs, from)) => cached(run, key, &outputs, Some(from)),
        // It failed there: now it is this node's turn.
        None => run.graph.requeue(key),
    }
}

/// Starts a node that has its permits.
pub(super) fn enter(run: &mut RunState<'_>, key: Key, given: Vec<Given>, claim: Claim) {
    if let Err(failure) = run.tally.count_start() {
        run.workers.permits().leave(claim);
        return refuse(run, key, &failure);
    }
    let Some(node) = run.graph.node(key) else { return };
    run.graph.set_running(key);
    let restart = run.workers.take_restart(key);
    if restart.is_none() && !run.asks.is_unused() {
        run.asks.begin_attempt(&run.graph.frames().path(key));
    }
    let place = emit_start(run, key, node, restart);
    match node.kind {
        Kind::Run(node_type) => call(run, key, given, Call { node, node_type, place, claim, restart }),
        Kind::Zone(_) | Kind::Call(_) => {
            let end = enter_container(run, key, place.span, given, claim);
            end_containers(run, end);
        }
        Kind::Muted | Kind::Bypass(_) => {}
    }
}

/// Emits the start of a node unless it has had it; gives the location of its events.
fn emit_start(run: &mut RunState<'_>, key: Key, node: &NodePlan, restart: Option<Restart>) -> EventLocation {
    let attempt = restart.map_or(1, |restart| restart.attempt);
    let mut place = run.graph.frames().location(key, 0, Some(attempt));
    if let Some(span) = restart.and_then(|restart| restart.span) {
        place.span = span;
        return place;
    }
    let node_type = match node.kind {
        Kind::Run(node_type) => Arc::clone(&run.plan.types[node_type as usize].name),
        Kind::Zone(_) => Arc::from(LOOP_ZONE),
        Kind::Call(_) | Kind::Muted | Kind::Bypass(_) => Arc::from(NODE_GROUP),
    };
    let started = EventBody::NodeStarted { node_type: Some(node_type) };
    place.span = run.events.span_for(&place, &started);
    run.events.emit(place.clone(), started);
    place
}

/// A node whose code is about to be called.
struct Call<'p> {
    node: &'p NodePlan,
    node_type: u32,
    place: EventLocation,
    claim: Claim,
    restart: Option<Restart>,
}

/// Calls the code of a node.
fn call(run: &mut RunState<'_>, key: Key, given: Vec<Given>, call: Call<'_>) {
    let Call { node, node_type, place, claim, restart } = call;
    let code = run.workers.code(node_type);
    let node_type = &run.plan.types[node_type as usize];
    let streams = open_streams(run, key, &node_type.streams, &place);
    let asked = restart.is_some_and(|restart| restart.span.is_some() && restart.called);
    let ctx = NodeContext::new(run.shared, key, node.details, &place).with(
        streams.clone(),
        run.events.past_of(key),
        asked,
    );
    let start = Start {
        place,
        claim,
        blocking: node_type.blocking,
        streams,
        attempt: ctx.attempt(),
        interrupted: restart.map_or(0, |restart| restart.interrupted),
    };
    let inputs = run.inputs(key, node, given);
    let policy = run.plan.policy(node);
    if !start.blocking && !policy.is_some_and(|policy| policy.effect || policy.supervises_attempts()) {
        match computed(&**code, &ctx, &inputs) {
            Some(end) => ended_at_once(run, key, start, end),
            None => poll_or_spawn(run, key, start, plain(Arc::clone(code), ctx, inputs)),
        }
        return;
    }
    let work = supervised(run, code, (ctx, inputs), &start, policy);
    poll_or_spawn(run, key, start, work);
}

/// The work of a node that blocks its thread, has rules for its attempts, or has an effect.
fn supervised(
    run: &mut RunState<'_>,
    code: &Arc<dyn Node>,
    (ctx, inputs): (NodeContext, Inputs),
    start: &Start,
    policy: Option<&Policy>,
) -> Work {
    let code = Arc::clone(code);
    let work = if start.blocking || policy.is_some_and(Policy::supervises_attempts) {
        let permit = start.blocking.then(|| Permit::new(run.shared, start.claim));
        watched(code, ctx, inputs, permit, start.interrupted)
    } else {
        plain(code, ctx, inputs)
    };
    if policy.is_some_and(|policy| policy.effect) { after_commit(run, work, start.attempt) } else { work }
}

/// A node has ended while its start was under way.
fn ended_at_once(run: &mut RunState<'_>, key: Key, start: Start, end: Ended) {
    if !start.blocking {
        run.workers.permits().leave(start.claim);
    }
    read_messages(run);
    ended(run, key, start, end);
}

/// Most nodes end here, without a task of their own.
fn poll_or_spawn(run: &mut RunState<'_>, key: Key, start: Start, mut work: Work) {
    // The task polls again with its own waker, so nothing that happens in between is missed.
    match work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(end) => {
            drop(work);
            ended_at_once(run, key, start, end);
        }
        Poll::Pending => {
            run.workers.spawn(key, start, work);
            read_messages(run);
        }
    }
}

/// No effect begins before all that led to it is safe.
fn after_commit(run: &mut RunState<'_>, work: Work, attempt: u32) -> Work {
    run.events.flush();
    let Some(durable) = run.events.durable() else { return work };
    Box::pin(async move {
        match durable.await {
            Ok(()) => work.await,
            Err(fault) => {
                let failure = Failure::new(NodeErrorKind::Failed, fault.message);
                let failure = Failure { code: Some(fault.code.to_owned()), attempt, ..failure };
                Ended { result: Err(failure), attempt }
            }
        }
    })
}

/// Opens the stream outputs of a node; those who read them may start.
pub(super) fn open_streams(
    run: &mut RunState<'_>,
    key: Key,
    names: &[Arc<str>],
    place: &EventLocation,
) -> Option<Arc<[OpenStream]>> {
    if names.is_empty() {
        return None;
    }
    let (scope, node) = run.graph.scope(key).zip(run.graph.node(key))?;
    let mut open = Vec::with_capacity(names.len());
    for name in names {
        let out = scope.outs(node).iter().find(|out| *run.plan.names[out.name as usize] == **name);
        let readers = out.map_or(0, |out| scope.stream_readers.row(out.slot).len());
        // A resumed reader reads from the beginning.
        let joined = run.events.persists() || out.is_some_and(|out| out.joined);
        let known = out.and_then(|out| run.graph.frames().open_stream(key, out.slot));
        let stream = match &known {
            // The attempt before it ended with the process; those who read it begin anew as well.
            Some(known) => Arc::clone(&known.stream),
            None => Stream::new(u32::try_from(readers).unwrap_or(NONE), joined),
        };
        if let Some(out) = out.filter(|_| known.is_none()) {
            run.graph.open_slot(key, out.slot, Slot::from_stream(Arc::clone(&stream)));
            follow_up(run);
        }
        open.push(OpenStream { stream, name: Arc::clone(name), key, place: place.clone() });
    }
    Some(open.into())
}

/// The start of a node whose code is not called; gives its span.
fn begin_uncalled(run: &mut RunState<'_>, key: Key) -> Option<u64> {
    run.graph.node(key)?;
    run.graph.set_running(key);
    if let Some(span) = run.workers.take_restart(key).and_then(|restart| restart.span) {
        return Some(span);
    }
    let span = run.events.new_span();
    let place = run.graph.frames().location(key, span, Some(1));
    run.events.emit(place, EventBody::NodeStarted { node_type: None });
    Some(span)
}

/// A node that fails before its code is called.
fn refuse(run: &mut RunState<'_>, key: Key, failure: &Failure) {
    if let Some(span) = begin_uncalled(run, key) {
        failed(run, key, span, failure);
    }
}

/// Hands the inputs of a bypassed node on as its outputs.
fn bypass(run: &mut RunState<'_>, key: Key, outputs: u32, given: &[Given]) {
    let Some(span) = begin_uncalled(run, key) else { return };
    let Some((scope, node)) = run.graph.scope(key).zip(run.graph.node(key)) else { return };
    let given_to = |name: NameIx| {
        let place = scope.inputs(node).iter().position(|input| input.slot == name)?;
        match &given[place] {
            Given::One(value) => Some(Arc::clone(value)),
            Given::Many(values) => Some(Arc::new(values.iter().map(|value| (**value).clone()).collect())),
            Given::Nothing | Given::Stream(_) | Given::Lazy => None,
        }
    };
    let mut handed = Outputs::none();
    for output in &run.plan.bypasses[outputs as usize] {
        let name = run.plan.names[output.output as usize].to_string();
        let value = output.input.and_then(given_to).unwrap_or_else(|| Arc::clone(&output.value));
        handed = handed.with_shared(name, value);
    }
    finished(run, key, span, &handed, Note::handled("bypass", 1));
}

//! A node's turn has come: what is done before, and how its code gets going.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use agent_types::{BudgetKey, EventBody, EventLocation, EventPersister, NodeErrorKind};
use serde_json::{Map, Value};
use workflow_model::Cache as CacheRule;
use workflow_model::graph::NameIx;
use workflow_model::structural::{LOOP_ZONE, NODE_GROUP};

use crate::cache::{Lookup, key_of};
use crate::context::NodeContext;
use crate::inputs::{Given, Inputs};
use crate::outputs::Outputs;
use crate::plan::{Kind, NONE, NodePlan, PlanInner, Policy};
use crate::run::graph_state::frame::{Key, NodeState, Slot, StreamSlot};
use crate::run::graph_state::inputs::collect_inputs;
use crate::run::graph_state::propagate::Note;
use crate::run::options::Before;
use crate::run::scheduler::{Active, Report, Scheduler};
use crate::run::workers::attempt::{Ended, Failure, Permit, Work, plain, watched};
use crate::run::workers::message::OpenStream;
use crate::run::workers::permits::{Claim, Parked};
use crate::stream::Stream;

impl Scheduler {
    /// Decides on a node before it takes a permit: hook, switch, condition.
    pub(in crate::run) fn consider(&mut self, plan: &PlanInner, key: Key) {
        if let Some(before) = &self.options.before {
            let before = Arc::clone(before);
            if before(&self.path(plan, key)) == Before::Skip {
                return self.skip(plan, key, Arc::from("hook"));
            }
        }
        let Some(frame) = self.frame(key) else { return };
        let scope = &plan.scopes[frame.scope as usize];
        let node = &scope.nodes[key.node as usize];
        if node.kind == Kind::Muted {
            let path = self.path(plan, key);
            return self.skip(plan, key, path);
        }
        let given = match collect_inputs(plan, frame, scope.inputs(node)) {
            Ok(given) => given,
            Err(message) => return self.refuse(plan, key, &Failure::new(NodeErrorKind::Failed, message)),
        };
        if let Kind::Bypass(outputs) = node.kind {
            return self.bypass(plan, key, outputs, &given);
        }
        // A decision made before a recorded start stands.
        let called = self.restarts.get(&key).is_some_and(|restart| restart.called);
        let skipped = if called { Ok(false) } else { self.wants_skip(plan, key, &given) };
        match skipped {
            Ok(false) => {}
            Ok(true) => {
                let path = self.path(plan, key);
                return self.skip(plan, key, path);
            }
            Err(failure) => return self.refuse(plan, key, &failure),
        }
        // What is known already needs no room.
        if !called && self.look_up(plan, key, &given) {
            return;
        }
        let group = policy(plan, node).and_then(|policy| policy.group);
        // Whoever reads what is being written shares the place of its writer, or passes of a zone would wait for one for ever.
        let reads = given.iter().any(|given| matches!(given, Given::Stream(stream) if stream.is_open()));
        let claim = Claim { run: matches!(node.kind, Kind::Run(_)) && !reads, group };
        if self.limits.enter(claim) {
            self.enter(plan, key, given, claim);
        } else {
            self.limits.park(claim, Parked { key, inputs: given });
        }
    }

    /// Looks for a kept result; true if the node need not start, or not yet.
    fn look_up(&mut self, plan: &PlanInner, key: Key, given: &[Given]) -> bool {
        let Some(frame) = self.frame(key).filter(|_| !self.leads.contains_key(&key)) else { return false };
        let node = &plan.scopes[frame.scope as usize].nodes[key.node as usize];
        let (Some(rule), Kind::Run(node_type)) =
            (policy(plan, node).and_then(|policy| policy.cache.as_ref()), node.kind)
        else {
            return false;
        };
        let node_type = &plan.types[node_type as usize];
        let only = match rule {
            CacheRule::ByKey(slots) => Some(slots.as_slice()),
            CacheRule::ByInputs | CacheRule::Off => None,
        };
        let config = plan.details.get(node.details as usize).map(|details| &details.config);
        let inputs = self.inputs(frame.scope, node, given.to_vec());
        let name = (&*node_type.name, node_type.node.definition().version.as_str());
        let Some(hash) = key_of(name, config, &inputs, only) else {
            self.unkeyable.insert(key);
            return false;
        };
        let path = self.path(plan, key);
        match self.cache.look(hash, &path) {
            Lookup::Hit(outputs) => self.cached(plan, key, &outputs, None),
            Lookup::Lead(lead) => {
                self.leads.insert(key, lead);
                return false;
            }
            Lookup::Wait(from, landing) => self.wait_for(key, from, landing),
        }
        true
    }

    /// Somebody does the same work already.
    fn wait_for(
        &mut self,
        key: Key,
        from: Arc<str>,
        landing: tokio::sync::oneshot::Receiver<Option<Arc<Outputs>>>,
    ) {
        let Some(frame) = self.frame_mut(key) else { return };
        frame.state[key.node as usize] = NodeState::Running;
        let abort = self.tasks.spawn(async move {
            let outputs = landing.await.ok().flatten();
            Report::Flight(key, outputs.map(|outputs| (outputs, from)))
        });
        let claim = Claim { run: false, group: None };
        self.active.insert(
            key,
            Active {
                abort,
                path: Arc::from(""),
                span: 0,
                claim,
                blocking: false,
                streams: None,
                paused: false,
                attempt: 1,
                interrupted: 0,
            },
        );
    }

    /// The condition under which a node is skipped, read once.
    fn wants_skip(&self, plan: &PlanInner, key: Key, given: &[Given]) -> Result<bool, Failure> {
        let Some(frame) = self.frame(key) else { return Ok(false) };
        let node = &plan.scopes[frame.scope as usize].nodes[key.node as usize];
        let Some(condition) = policy(plan, node).and_then(|policy| policy.skip_if.as_ref()) else {
            return Ok(false);
        };
        let inputs = self.inputs(frame.scope, node, given.to_vec());
        let decided = condition.evaluate_bool(|name| match name {
            "inputs" => Some(inputs.for_expressions()),
            "vars" => Some((*plan.variables).clone()),
            "state" => Some(first_state(plan, node, &inputs)),
            _ => None,
        });
        decided.map_err(|error| Failure::new(NodeErrorKind::Condition, error.to_string()))
    }

    /// Starts a node that has its room.
    pub(in crate::run) fn enter(&mut self, plan: &PlanInner, key: Key, given: Vec<Given>, claim: Claim) {
        if let Err(failure) = self.count_start() {
            self.limits.leave(claim);
            return self.refuse(plan, key, &failure);
        }
        let Some(frame) = self.frame_mut(key) else { return };
        frame.state[key.node as usize] = NodeState::Running;
        let (scope, iteration, parent_span) = (frame.scope, frame.iteration, frame.span);
        let node = &plan.scopes[scope as usize].nodes[key.node as usize];
        let path = self.path(plan, key);
        let restart = if self.restarts.is_empty() { None } else { self.restarts.remove(&key) };
        let attempt = restart.map_or(1, |restart| restart.attempt);
        let mut place = EventLocation {
            path: Some(Arc::clone(&path)),
            iteration,
            attempt: Some(attempt),
            span: 0,
            parent: Some(parent_span),
            ..EventLocation::default()
        };
        let node_type = match node.kind {
            Kind::Run(node_type) => Arc::clone(&plan.types[node_type as usize].name),
            Kind::Zone(_) => Arc::from(LOOP_ZONE),
            Kind::Call(_) | Kind::Muted | Kind::Bypass(_) => Arc::from(NODE_GROUP),
        };
        let started = EventBody::NodeStarted { node_type: Some(node_type) };
        let resumed_span = restart.and_then(|restart| restart.span);
        let span = resumed_span.unwrap_or_else(|| self.span_for(&place, &started));
        place.span = span;
        if resumed_span.is_none() {
            self.emit(place.clone(), started);
        }
        match node.kind {
            Kind::Run(node_type) => {
                let node_type = &plan.types[node_type as usize];
                let streams = self.open_streams(plan, key, &node_type.streams, &place);
                let ctx = NodeContext {
                    shared: Arc::clone(&self.shared),
                    key,
                    details: node.details,
                    path: Arc::clone(&path),
                    iteration,
                    attempt,
                    span,
                    parent_span,
                    streams: streams.clone(),
                    activity: None,
                    cancel: None,
                    past: self.past_of(key),
                    asked: resumed_span.is_some() && restart.is_some_and(|restart| restart.called),
                };
                let interrupted = restart.map_or(0, |restart| restart.interrupted);
                let inputs = self.inputs(scope, node, given);
                let room = node_type.blocking.then(|| Permit::new(&self.shared, claim));
                let blocking = room.is_some();
                let work = if blocking || policy(plan, node).is_some_and(Policy::supervises_attempts) {
                    watched(Arc::clone(&node_type.node), ctx, inputs, room, interrupted)
                } else {
                    plain(Arc::clone(&node_type.node), ctx, inputs)
                };
                let work = if policy(plan, node).is_some_and(|policy| policy.effect) {
                    self.after_commit(work, attempt)
                } else {
                    work
                };
                let going = Going { path, span, claim, blocking, streams, attempt, interrupted };
                self.poll_or_spawn(plan, key, going, work);
            }
            Kind::Zone(_) | Kind::Call(_) => self.enter_container(plan, key, span, given, claim),
            Kind::Muted | Kind::Bypass(_) => {}
        }
    }

    /// Most nodes end here, without a task of their own.
    fn poll_or_spawn(&mut self, plan: &PlanInner, key: Key, going: Going, mut work: Work) {
        let Going { path, span, claim, blocking, streams, attempt, interrupted } = going;
        // The task polls again with its own waker, so nothing that happens in between is missed.
        match work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(ended) => {
                if !blocking {
                    self.limits.leave(claim);
                }
                drop(work);
                self.read_messages(plan);
                self.ended(plan, key, (path, span), streams.as_deref(), ended);
            }
            Poll::Pending => {
                let abort = self.tasks.spawn(async move { Report::Node(key, work.await) });
                let active = Active {
                    abort,
                    path,
                    span,
                    claim,
                    blocking,
                    streams,
                    paused: false,
                    attempt,
                    interrupted,
                };
                self.active.insert(key, active);
                self.read_messages(plan);
            }
        }
    }

    /// No effect begins before all that led to it is safe.
    fn after_commit(&mut self, work: Work, attempt: u32) -> Work {
        self.flush();
        let Some(durable) = self.shared.sink.keeper().map(EventPersister::durable) else { return work };
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
    pub(in crate::run) fn open_streams(
        &mut self,
        plan: &PlanInner,
        key: Key,
        names: &[Arc<str>],
        place: &EventLocation,
    ) -> Option<Arc<[OpenStream]>> {
        if names.is_empty() {
            return None;
        }
        let scope = &plan.scopes[self.frame(key)?.scope as usize];
        let node = &scope.nodes[key.node as usize];
        let mut open = Vec::with_capacity(names.len());
        for name in names {
            let out = scope.outs(node).iter().find(|out| *plan.names[out.name as usize] == **name);
            let readers = out.map_or(0, |out| scope.stream_readers.row(out.slot).len());
            // A resumed reader reads from the beginning.
            let joined = self.keeps || out.is_some_and(|out| out.joined);
            let known = out.and_then(|out| self.open_stream(key, out.slot));
            let stream = match &known {
                // The attempt before it ended with the process; those who read it begin anew as well.
                Some(known) => Arc::clone(&known.stream),
                None => Stream::new(u32::try_from(readers).unwrap_or(NONE), joined),
            };
            if let Some(out) = out.filter(|_| known.is_none()) {
                let slot = StreamSlot { stream: Arc::clone(&stream), value: std::sync::OnceLock::new() };
                self.open_slot(plan, key, out.slot, Slot::Stream(Arc::new(slot)));
            }
            open.push(OpenStream { stream, name: Arc::clone(name), key, place: place.clone() });
        }
        Some(open.into())
    }

    /// Counts a start against the limits of the run and of what started it.
    fn count_start(&mut self) -> Result<(), Failure> {
        self.starts += 1;
        if let Some(limit) = self.options.max_starts.filter(|limit| self.starts > *limit) {
            let message = format!("limit of {limit} {} reached", BudgetKey::NodeStarts.as_str());
            let failure = Failure::new(NodeErrorKind::BudgetExceeded, message);
            return Err(Failure {
                limit_ms: None,
                code: Some(BudgetKey::NodeStarts.as_str().to_owned()),
                ..failure
            });
        }
        let Some(budget) = &self.options.budget else { return Ok(()) };
        budget.take(BudgetKey::NodeStarts).map_err(|spent| {
            let failure = Failure::new(NodeErrorKind::BudgetExceeded, spent.to_string());
            Failure { code: Some(spent.key.as_str().to_owned()), ..failure }
        })
    }

    /// The start of a node whose code is not called; gives its span.
    fn begin_uncalled(&mut self, plan: &PlanInner, key: Key) -> Option<u64> {
        let frame = self.frame_mut(key)?;
        frame.state[key.node as usize] = NodeState::Running;
        let (iteration, parent) = (frame.iteration, frame.span);
        let recorded = self.restarts.remove(&key).and_then(|restart| restart.span);
        if recorded.is_some() {
            return recorded;
        }
        let (path, span) = (self.path(plan, key), self.shared.sink.new_span());
        let place = EventLocation {
            path: Some(path),
            iteration,
            attempt: Some(1),
            span,
            parent: Some(parent),
            ..EventLocation::default()
        };
        self.emit(place, EventBody::NodeStarted { node_type: None });
        Some(span)
    }

    /// A node that fails before its code is called.
    fn refuse(&mut self, plan: &PlanInner, key: Key, failure: &Failure) {
        let Some(span) = self.begin_uncalled(plan, key) else { return };
        self.failed(plan, key, span, failure);
    }

    fn bypass(&mut self, plan: &PlanInner, key: Key, outputs: u32, given: &[Given]) {
        let Some(span) = self.begin_uncalled(plan, key) else { return };
        let Some(frame) = self.frame(key) else { return };
        let scope = &plan.scopes[frame.scope as usize];
        let node = &scope.nodes[key.node as usize];
        let given_to = |name: NameIx| {
            let place = scope.inputs(node).iter().position(|input| input.slot == name)?;
            match &given[place] {
                Given::One(value) => Some(Arc::clone(value)),
                Given::Many(values) => Some(Arc::new(values.iter().map(|value| (**value).clone()).collect())),
                Given::Nothing | Given::Stream(_) | Given::Lazy => None,
            }
        };
        let mut handed = Outputs::none();
        for output in &plan.bypasses[outputs as usize] {
            let name = plan.names[output.output as usize].to_string();
            let value = output.input.and_then(given_to).unwrap_or_else(|| Arc::clone(&output.value));
            handed = handed.with_shared(name, value);
        }
        self.finished(plan, key, span, &handed, &Note::handled("bypass"));
    }

    pub(in crate::run) fn inputs(&self, scope: u32, node: &NodePlan, values: Vec<Given>) -> Inputs {
        let streams = values.iter().filter(|given| matches!(given, Given::Stream(_))).count();
        let reading = (streams > 1).then(Arc::default);
        Inputs { plan: Arc::clone(&self.shared.plan), scope, range: node.inputs, values, reading }
    }
}

/// A start that is about to be polled.
struct Going {
    path: Arc<str>,
    span: u64,
    claim: Claim,
    blocking: bool,
    streams: Option<Arc<[OpenStream]>>,
    attempt: u32,
    interrupted: u32,
}

/// The rules of a node, where it has any.
pub(in crate::run) fn policy<'p>(plan: &'p PlanInner, node: &NodePlan) -> Option<&'p Policy> {
    (node.details != NONE).then(|| &plan.details[node.details as usize].policy)
}

/// The carried values with which a zone would begin.
fn first_state(plan: &PlanInner, node: &NodePlan, inputs: &Inputs) -> Value {
    let Kind::Zone(zone) = node.kind else { return Value::Null };
    let zone = &plan.zones[zone as usize];
    let state = zone.spec.state.iter().zip(&zone.initial_inputs).map(|(state, input)| {
        let given = (*input != NONE).then(|| inputs.at(*input as usize)).flatten();
        let value = given.map(|value| (**value).clone()).or_else(|| state.initial.clone());
        (state.key.clone(), value.unwrap_or_default())
    });
    Value::Object(state.collect::<Map<_, _>>())
}

//! Beginnings and ends: of the run, of passes, of what is cancelled.

use std::sync::Arc;

use agent_types::{EventBody, EventLocation, LoopEnd};
use serde_json::Value;

use crate::error::RunError;
use crate::inputs::Given;
use crate::outputs::Outputs;
use crate::plan::{Entry, NONE, PlanInner, ResultPlan};
use crate::run::graph_state::frame::{Key, NodeState, Slot, Standing};
use crate::run::graph_state::inputs::origin_value;
use crate::run::graph_state::propagate::Note;
use crate::run::options::OnFail;
use crate::run::scheduler::Scheduler;

/// Reason of a run's end.
#[derive(Debug)]
pub(super) enum Ending {
    /// Every node is settled.
    Complete,
    /// A node failed and the others are cancelled.
    Failed(RunError),
    /// A node stopped the run, with this value.
    Stopped(Arc<Value>),
    Cancelled,
    Deadline,
    /// Nothing runs and something is not settled.
    Stalled,
    /// Only questions are left.
    Waiting,
}

/// Initial slot values of a frame.
pub(super) struct Opening<'a> {
    pub(super) inputs: &'a [Given],
    pub(super) state: &'a [Arc<Value>],
    pub(super) index: u64,
    pub(super) item: Option<Arc<Value>>,
    pub(super) remaining: Option<u64>,
}

impl Opening<'_> {
    /// An opening without a pass.
    pub(super) fn of_inputs(inputs: &[Given]) -> Opening<'_> {
        Opening { inputs, state: &[], index: 0, item: None, remaining: None }
    }
}

impl Scheduler {
    /// The first events and the root frame.
    pub(super) fn begin(&mut self, plan: &PlanInner) {
        let root = &plan.scopes[0];
        let needed = self.options.want.as_ref().map(|want| root.needed_for(want));
        let standing = Standing {
            scope: 0,
            container: None,
            prefix: Arc::from(""),
            pass: None,
            iteration: None,
            span: 0,
        };
        let at = self.add_frame(plan, standing, needed.as_deref().unwrap_or(&root.needed));
        for path in &plan.input_nodes {
            let span = self.shared.sink.new_span();
            let place = EventLocation {
                path: Some(Arc::clone(path)),
                attempt: Some(1),
                span,
                parent: Some(0),
                ..EventLocation::default()
            };
            self.emit(
                place.clone(),
                EventBody::NodeStarted { node_type: Some(Arc::from("core:GroupInput")) },
            );
            self.emit(place, EventBody::node_finished(None));
        }
        self.open_frame(plan, at, &Opening::of_inputs(&[]));
    }

    /// Fills the slots that a frame begins with and queues the nodes that wait for nothing.
    pub(super) fn open_frame(&mut self, plan: &PlanInner, at: u32, opening: &Opening<'_>) {
        let Some(frame) = self.frames[at as usize].as_deref() else { return };
        let (generation, container) = (frame.generation, frame.container);
        let scope = &plan.scopes[frame.scope as usize];
        let key = |node| Key { frame: at, generation, node };
        for node in 0..u32::try_from(scope.nodes.len()).unwrap_or(NONE) {
            let Some(frame) = self.frames[at as usize].as_deref_mut() else { return };
            if frame.in_degree(node) == 0 && frame.state[node as usize] == NodeState::Waiting {
                frame.state[node as usize] = NodeState::Queued;
                self.ready.push_back(key(node));
            }
        }
        for (slot, entry) in &scope.entries {
            let value = self.entry_value(*entry, container, opening);
            self.set_slot(plan, key(0), *slot, value);
        }
        if self.frames[at as usize].as_deref().is_some_and(|frame| frame.remaining == 0) {
            self.complete.push_back(key(NONE));
        }
    }

    fn entry_value(&mut self, entry: Entry, container: Option<Key>, opening: &Opening<'_>) -> Slot {
        let value = match entry {
            Entry::Argument(at) => Some(Arc::clone(&self.arguments[at as usize])),
            Entry::Outer(slot) => {
                let Some(frame) = container.and_then(|container| self.frame(container)) else {
                    return Slot::Skipped(NONE);
                };
                match &frame.slots[slot as usize] {
                    Slot::Skipped(cause) => return Slot::Skipped(*cause),
                    value => value.value().cloned(),
                }
            }
            Entry::Input(at) => match opening.inputs.get(at as usize) {
                Some(Given::One(value)) => Some(Arc::clone(value)),
                Some(Given::Many(values)) => {
                    Some(Arc::new(values.iter().map(|value| (**value).clone()).collect()))
                }
                Some(Given::Nothing | Given::Stream(_) | Given::Lazy) | None => None,
            },
            Entry::State(at) => opening.state.get(at as usize).cloned(),
            Entry::Index => Some(Arc::new(opening.index.into())),
            Entry::Item => Some(opening.item.clone().unwrap_or_default()),
            Entry::Remaining => Some(Arc::new(opening.remaining.map_or(Value::Null, Value::from))),
        };
        if let Some(value) = value {
            Slot::Value(value)
        } else {
            let path = container.map(|container| self.path(&Arc::clone(&self.shared.plan), container));
            Slot::Skipped(self.cause(path.unwrap_or_else(|| Arc::from(""))))
        }
    }

    /// The body of a group that runs as one node.
    pub(super) fn enter_call(&mut self, plan: &PlanInner, key: Key, body: u32, given: &[Given]) {
        let Some(frame) = self.frame(key) else { return };
        let (iteration, prefix) = (frame.iteration, format!("{}/", self.path(plan, key)));
        let span = self.span_of(key);
        let standing = Standing {
            scope: body,
            container: Some(key),
            prefix: prefix.into(),
            pass: None,
            iteration,
            span,
        };
        let at = self.add_frame(plan, standing, &plan.scopes[body as usize].needed);
        self.calls.insert(key, at);
        self.open_frame(plan, at, &Opening::of_inputs(given));
    }

    /// All nodes of a frame are settled.
    pub(super) fn frame_complete(&mut self, plan: &PlanInner, key: Key) {
        let Some(frame) = self.frame(key).filter(|frame| frame.remaining == 0) else { return };
        let Some(container) = frame.container else {
            self.ending = Some(Ending::Complete);
            return;
        };
        if self.zones.contains_key(&container) {
            return self.pass_complete(plan, key.frame);
        }
        let outputs = self.results(plan, key.frame);
        self.calls.remove(&container);
        self.drop_frame(key.frame);
        let note = self.container_note(container);
        let span = self.leave_container(container);
        self.finished(plan, container, span, &outputs, &note);
    }

    /// Returns the results of a frame, by name. Results of a branch that was not taken are left out.
    pub(super) fn results(&self, plan: &PlanInner, at: u32) -> Outputs {
        let Some(frame) = self.frames[at as usize].as_deref() else { return Outputs::none() };
        let mut outputs = Outputs::none();
        for result in &plan.scopes[frame.scope as usize].results {
            if let Some(value) = self.result(at, result) {
                outputs = outputs.with_shared(result.name.to_string(), value);
            }
        }
        outputs
    }

    pub(super) fn result(&self, at: u32, result: &ResultPlan) -> Option<Arc<Value>> {
        let frame = self.frames.get(at as usize)?.as_deref()?;
        let mut values = result.origins.iter().filter_map(|origin| origin_value(frame, origin));
        if !result.multi {
            return values.next();
        }
        let all: Vec<Value> = values.map(|value| (*value).clone()).collect();
        (!all.is_empty()).then(|| Arc::new(Value::Array(all)))
    }

    /// A failure that its node does not handle: its pass, its container and at last the run may.
    pub(super) fn escalate(&mut self, plan: &PlanInner, key: Key, error: RunError) {
        let Some(container) = self.frame(key).map(|frame| frame.container) else { return };
        match container {
            None if self.options.on_fail == OnFail::FinishOthers && error.kind != "node_starts" => {
                self.first_error.get_or_insert(error);
                self.end_readers(plan, key);
                self.settle_without_outputs(plan, key);
            }
            None => {
                if let Some(frame) = self.frame_mut(key) {
                    frame.finish_node(key.node);
                }
                self.ending = Some(Ending::Failed(error));
            }
            Some(container) => {
                if let Some(frame) = self.frame_mut(key) {
                    frame.finish_node(key.node);
                }
                if self.zones.contains_key(&container) {
                    return self.pass_failed(plan, key.frame, error);
                }
                let cause = error.path.clone().unwrap_or_else(|| Arc::from(""));
                self.close_frame(plan, key.frame, &cause);
                self.calls.remove(&container);
                self.container_failed(plan, container, error);
            }
        }
    }

    /// The attempt in which a container ends.
    pub(super) fn container_note(&self, key: Key) -> Note {
        Note { attempt: self.containers.get(&key).map(|container| container.attempt), ..Note::default() }
    }

    /// Cancels a node and what runs inside it; its outputs are skipped. False if it was settled.
    pub(super) fn cancel_node(&mut self, plan: &PlanInner, key: Key, cause: &Arc<str>) -> bool {
        if !self.abandon(plan, key, cause, LoopEnd::Cancelled) {
            return false;
        }
        let number = self.own_cause(plan, key);
        self.drop_outputs(plan, key, number);
        if self.frame(key).is_some_and(|frame| frame.remaining == 0) {
            self.complete.push_back(key);
        }
        true
    }

    /// Stops a node and emits its terminal event; its outputs are dropped.
    pub(super) fn abandon(&mut self, plan: &PlanInner, key: Key, cause: &Arc<str>, why: LoopEnd) -> bool {
        let Some(frame) = self.frame(key) else { return false };
        let state = frame.state[key.node as usize];
        if matches!(state, NodeState::Settled | NodeState::Dormant) {
            return false;
        }
        let mut span = self.span_of(key);
        if let Some(active) = self.active.remove(&key) {
            active.abort.abort();
            span = active.span;
            if !active.paused && !active.blocking {
                self.limits.leave(active.claim);
            }
        }
        self.leads.remove(&key);
        self.asks.retain(|ask| ask.key != key);
        self.close_zone(plan, key, cause, why);
        if let Some(inner) = self.calls.remove(&key) {
            self.close_frame(plan, inner, cause);
        }
        self.leave_container(key);
        self.forget_inner(key, cause);
        let place = self.place(plan, key, span, None);
        let place =
            if state == NodeState::Running { place } else { EventLocation { attempt: None, ..place } };
        self.emit(place, EventBody::NodeCancelled { cause: Arc::clone(cause) });
        if let Some(frame) = self.frame_mut(key) {
            frame.finish_node(key.node);
        }
        true
    }

    /// Cancels everything in a frame that is not settled, and the frame with it.
    pub(super) fn close_frame(&mut self, plan: &PlanInner, at: u32, cause: &Arc<str>) {
        self.close_frame_why(plan, at, cause, LoopEnd::Cancelled);
    }

    pub(super) fn close_frame_why(&mut self, plan: &PlanInner, at: u32, cause: &Arc<str>, why: LoopEnd) {
        let Some(frame) = self.frames[at as usize].as_deref() else { return };
        let generation = frame.generation;
        let open: Vec<u32> = frame.unsettled().collect();
        for node in open {
            self.abandon(plan, Key { frame: at, generation, node }, cause, why);
        }
        self.drop_frame(at);
    }

    /// A node cancels another one of its scope by id.
    pub(super) fn cancel_by_id(&mut self, plan: &PlanInner, key: Key, id: &str) -> bool {
        let Some(frame) = self.frame(key) else { return false };
        let own = &plan.scopes[frame.scope as usize].nodes;
        let prefix = own[key.node as usize].path.rsplit_once('/').map_or("", |(groups, _)| groups);
        let wanted = if prefix.is_empty() { id.to_owned() } else { format!("{prefix}/{id}") };
        let Some(node) = own.iter().position(|node| *node.path == *wanted) else { return false };
        let cause = self.path(plan, key);
        self.cancel_node(plan, Key { node: u32::try_from(node).unwrap_or(NONE), ..key }, &cause)
    }

    /// The first taken edge decided: what only leads to the others is not needed.
    pub(super) fn cancel_rest(&mut self, plan: &PlanInner, key: Key) {
        let Some(frame) = self.frame(key) else { return };
        let scope = &plan.scopes[frame.scope as usize];
        let rest = crate::run::workers::start::policy(plan, &scope.nodes[key.node as usize])
            .is_some_and(|policy| policy.cancel_rest);
        if !rest {
            return;
        }
        let cause: Arc<str> = Arc::from("first");
        for node in scope.only_for(key.node) {
            let other = Key { node, ..key };
            if self.abandon(plan, other, &cause, LoopEnd::Cancelled) {
                let number = self.own_cause(plan, other);
                self.drop_outputs(plan, other, number);
            }
        }
    }
}

//! Propagation of a node's end to the nodes that depend on it.

use std::sync::Arc;

use agent_types::{EventBody, EventLocation, NodeErrorKind, ReplayData};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use workflow_model::OnError;
use workflow_model::structural::ERROR_SLOT;

use crate::error::RunError;
use crate::outputs::{MAX_DEPTH, Outputs, StopScope};
use crate::plan::{Kind, NodePlan, PlanInner, SlotIx};
use crate::run::graph_state::frame::{Arrival, InEdge, Key, NodeState, Slot, StreamSlot, Turn};
use crate::run::lifecycle::Ending;
use crate::run::resume::replay::record_of;
use crate::run::scheduler::{Puller, Scheduler};
use crate::run::workers::attempt::{Ended, Failure};
use crate::run::workers::message::OpenStream;
use crate::run::workers::start::policy;

/// Data of a finished node's event besides its value.
#[derive(Debug, Clone, Default)]
pub(in crate::run) struct Note {
    pub(in crate::run) handled: Option<&'static str>,
    pub(in crate::run) attempt: Option<u32>,
    /// The path of the node, where it is known already.
    pub(in crate::run) path: Option<Arc<str>>,
}

impl Note {
    pub(in crate::run) fn handled(how: &'static str) -> Self {
        Self { handled: Some(how), ..Self::default() }
    }

    fn attempt(attempt: u32, path: Arc<str>) -> Self {
        Self { attempt: Some(attempt), path: Some(path), ..Self::default() }
    }
}

impl Scheduler {
    /// A node's code has come to an end.
    pub(in crate::run) fn ended(
        &mut self,
        plan: &PlanInner,
        key: Key,
        (path, span): (Arc<str>, u64),
        streams: Option<&[OpenStream]>,
        ended: Ended,
    ) {
        if !self.is_running(key) {
            return;
        }
        for open in streams.unwrap_or_default() {
            self.see_chunks(open);
        }
        self.forget_inner(key, &path);
        match ended.result {
            Ok(outputs) if outputs.is_too_deep() => {
                let message = format!("what it gave is nested deeper than {MAX_DEPTH} levels");
                let failure =
                    Failure { attempt: ended.attempt, ..Failure::new(NodeErrorKind::Failed, message) };
                self.failed(plan, key, span, &failure);
            }
            Ok(outputs) => self.finished(plan, key, span, &outputs, &Note::attempt(ended.attempt, path)),
            Err(failure) => self.failed(plan, key, span, &failure),
        }
    }

    /// A node has given its outputs.
    pub(in crate::run) fn finished(
        &mut self,
        plan: &PlanInner,
        key: Key,
        span: u64,
        outputs: &Outputs,
        note: &Note,
    ) {
        let Some(frame) = self.frame(key) else { return };
        let scope = frame.scope as usize;
        let node = &plan.scopes[scope].nodes[key.node as usize];
        let main = main_output(plan, node);
        let place = match &note.path {
            Some(path) => self.place_of(key, Arc::clone(path), span, note.attempt),
            None => self.place(plan, key, span, note.attempt),
        };
        let record = self.keeps.then(|| record_of(outputs)).flatten();
        let record = self.with_usage(key, record);
        let body = EventBody::NodeFinished {
            value: outputs.main(main).cloned(),
            outputs: outputs.others(main),
            handled: note.handled.map(Arc::from),
            cache: (!self.unkeyable.is_empty() && self.unkeyable.remove(&key))
                .then(|| Arc::from("unkeyable")),
        };
        self.emit_with(place, body, record);
        self.keep(key, outputs, note);
        self.fill(plan, key, outputs, note.handled);
        self.after_end(plan, key, outputs);
    }

    /// Ends the loop or the run if the outputs say so.
    pub(in crate::run) fn after_end(&mut self, plan: &PlanInner, key: Key, outputs: &Outputs) {
        match outputs.stop {
            None => {}
            Some(StopScope::Run) => {
                let value = outputs.all("").next().map(|(_, value)| Arc::clone(value));
                self.ending = Some(Ending::Stopped(value.unwrap_or_default()));
            }
            Some(StopScope::Loop) => self.stop_loop(plan, key),
        }
    }

    /// A result that may be kept is kept, and handed to those who wait for it.
    fn keep(&mut self, key: Key, outputs: &Outputs, note: &Note) {
        if self.leads.is_empty() {
            return;
        }
        if let Some(lead) = self.leads.remove(&key)
            && note.handled.is_none()
            && outputs.stop.is_none()
        {
            lead.bring(&Arc::new(outputs.clone()));
        }
    }

    /// Equal work elsewhere has ended.
    pub(in crate::run) fn landed(
        &mut self,
        plan: &PlanInner,
        key: Key,
        landed: Option<(Arc<Outputs>, Arc<str>)>,
    ) {
        if self.active.remove(&key).is_none() {
            return;
        }
        match landed {
            Some((outputs, from)) => self.cached(plan, key, &outputs, Some(from)),
            None => {
                // It failed there: now it is this node's turn.
                if let Some(frame) = self.frame_mut(key) {
                    frame.state[key.node as usize] = NodeState::Queued;
                    self.ready.push_back(key);
                }
            }
        }
    }

    /// A node's outputs are known without running it.
    pub(in crate::run) fn cached(
        &mut self,
        plan: &PlanInner,
        key: Key,
        outputs: &Outputs,
        from: Option<Arc<str>>,
    ) {
        let Some(frame) = self.frame(key) else { return };
        let node = &plan.scopes[frame.scope as usize].nodes[key.node as usize];
        let main = main_output(plan, node);
        let place = EventLocation { attempt: None, ..self.place(plan, key, 0, None) };
        let body =
            EventBody::NodeCached { value: outputs.main(main).cloned(), outputs: outputs.others(main), from };
        let record = self.keeps.then(|| record_of(outputs)).flatten();
        self.emit_with(place, body, record);
        self.fill(plan, key, outputs, None);
    }

    /// Hands the values of a settled node on.
    pub(in crate::run) fn fill(
        &mut self,
        plan: &PlanInner,
        key: Key,
        outputs: &Outputs,
        handled: Option<&str>,
    ) {
        let Some(frame) = self.frame_mut(key) else { return };
        if !frame.finish_node(key.node) {
            return;
        }
        let done = frame.remaining == 0;
        let scope = &plan.scopes[frame.scope as usize];
        let node = &scope.nodes[key.node as usize];
        let main = main_output(plan, node);
        for out in scope.outs(node) {
            let name = &plan.names[out.name as usize];
            let given = if **name == **main { outputs.main(main) } else { outputs.get(name) };
            if let Some(open) = self.open_stream(key, out.slot) {
                let text =
                    || open.stream.text().filter(|_| handled.is_none()).map(|text| Arc::new(text.into()));
                let value = given.cloned().or_else(text);
                open.stream.end();
                let arrival = match value {
                    // It is set once: a node ends once.
                    Some(value) => open.value.set(value).map_or(Arrival::Taken, |()| Arrival::Taken),
                    None if handled.is_none() => Arrival::Taken,
                    None => Arrival::Skipped(self.own_cause(plan, key)),
                };
                self.arrive_all(plan, key, out.slot, arrival);
                continue;
            }
            let slot = match given {
                Some(value) => Slot::Value(Arc::clone(value)),
                None => Slot::Skipped(self.own_cause(plan, key)),
            };
            self.set_slot(plan, key, out.slot, slot);
        }
        self.follow(plan, key, Arrival::Taken);
        if done {
            self.complete.push_back(key);
        }
    }

    /// The node itself as a cause.
    pub(in crate::run) fn own_cause(&mut self, plan: &PlanInner, key: Key) -> u32 {
        let path = self.path(plan, key);
        self.cause(path)
    }

    /// The stream that was opened for a slot.
    pub(in crate::run) fn open_stream(&self, key: Key, slot: SlotIx) -> Option<Arc<StreamSlot>> {
        match &self.frame(key)?.slots[slot as usize] {
            Slot::Stream(open) => Some(Arc::clone(open)),
            Slot::Unknown | Slot::Skipped(_) | Slot::Value(_) => None,
        }
    }

    /// The streams that a node has opened.
    pub(in crate::run) fn open_slots(&self, plan: &PlanInner, key: Key) -> Vec<(SlotIx, Arc<StreamSlot>)> {
        let Some(frame) = self.frame(key) else { return Vec::new() };
        let scope = &plan.scopes[frame.scope as usize];
        let outs = scope.outs(&scope.nodes[key.node as usize]);
        outs.iter().filter_map(|out| Some((out.slot, self.open_stream(key, out.slot)?))).collect()
    }

    /// A stream has begun: those who read it piece by piece may start.
    pub(in crate::run) fn open_slot(&mut self, plan: &PlanInner, key: Key, slot: SlotIx, value: Slot) {
        let Some(frame) = self.frame_mut(key) else { return };
        frame.slots[slot as usize] = value;
        let scope = &plan.scopes[frame.scope as usize];
        for reader in scope.stream_readers.row(slot) {
            self.arrive(plan, Key { node: *reader, ..key }, InEdge { arrival: Arrival::Taken, rank: slot });
        }
    }

    /// The value of an output that is not an open stream is known.
    pub(in crate::run) fn set_slot(&mut self, plan: &PlanInner, key: Key, slot: SlotIx, value: Slot) {
        let Some(frame) = self.frame_mut(key) else { return };
        let arrival = match &value {
            Slot::Skipped(cause) => Arrival::Skipped(*cause),
            Slot::Unknown | Slot::Value(_) | Slot::Stream(_) => Arrival::Taken,
        };
        frame.slots[slot as usize] = value;
        let scope = &plan.scopes[frame.scope as usize];
        for reader in scope.stream_readers.row(slot) {
            self.arrive(plan, Key { node: *reader, ..key }, InEdge { arrival, rank: slot });
        }
        self.arrive_all(plan, key, slot, arrival);
    }

    fn arrive_all(&mut self, plan: &PlanInner, key: Key, slot: SlotIx, arrival: Arrival) {
        let Some(frame) = self.frame(key) else { return };
        let scope = &plan.scopes[frame.scope as usize];
        for reader in scope.readers.row(slot) {
            self.arrive(plan, Key { node: *reader, ..key }, InEdge { arrival, rank: slot });
        }
        if !self.pullers.is_empty() {
            self.answer_pullers(key.frame, slot);
        }
    }

    /// Those that wait for the node without taking a value.
    fn follow(&mut self, plan: &PlanInner, key: Key, arrival: Arrival) {
        let Some(frame) = self.frame(key) else { return };
        let scope = &plan.scopes[frame.scope as usize];
        let rank = scope.n_slots.saturating_add(key.node);
        for follower in scope.followers.row(key.node) {
            self.arrive(plan, Key { node: *follower, ..key }, InEdge { arrival, rank });
        }
    }

    fn arrive(&mut self, plan: &PlanInner, key: Key, edge: InEdge) {
        let Some(frame) = self.frames[key.frame as usize].as_deref_mut() else { return };
        let node = &plan.scopes[frame.scope as usize].nodes[key.node as usize];
        let first = policy(plan, node).is_some_and(|policy| policy.first);
        match frame.arrive(key.node, edge, first) {
            Turn::NotYet => {}
            Turn::Ready => {
                self.ready.push_back(key);
                if first {
                    self.cancel_rest(plan, key);
                }
            }
            Turn::Skip => self.skips.push_back(key),
        }
    }

    /// A node that no taken edge leads to.
    pub(in crate::run) fn skip_queued(&mut self, plan: &PlanInner, key: Key) {
        let Some(frame) = self.frame(key) else { return };
        let cause = frame.cause_of(key.node);
        let cause = self.causes.get(cause as usize).cloned().unwrap_or_else(|| Arc::from(""));
        self.skip(plan, key, cause);
    }

    /// A node is skipped, and so is what hangs on it alone.
    pub(in crate::run) fn skip(&mut self, plan: &PlanInner, key: Key, cause: Arc<str>) {
        let Some(frame) = self.frame_mut(key) else { return };
        if !frame.finish_node(key.node) {
            return;
        }
        let done = frame.remaining == 0;
        let place = EventLocation { attempt: None, ..self.place(plan, key, 0, None) };
        let number = self.cause(Arc::clone(&cause));
        self.emit(place, EventBody::NodeSkipped { cause });
        self.drop_outputs(plan, key, number);
        if done {
            self.complete.push_back(key);
        }
    }

    /// All outputs of a node are skipped.
    pub(in crate::run) fn drop_outputs(&mut self, plan: &PlanInner, key: Key, cause: u32) {
        let Some(frame) = self.frame(key) else { return };
        let scope = &plan.scopes[frame.scope as usize];
        for out in scope.outs(&scope.nodes[key.node as usize]) {
            let open = self
                .frame(key)
                .is_some_and(|frame| matches!(frame.slots[out.slot as usize], Slot::Stream(_)));
            if open {
                // Those who read it have started; only those who wait for all of it are left.
                self.arrive_all(plan, key, out.slot, Arrival::Skipped(cause));
            } else {
                self.set_slot(plan, key, out.slot, Slot::Skipped(cause));
            }
        }
        self.follow(plan, key, Arrival::Skipped(cause));
    }

    /// A node has failed for good.
    pub(in crate::run) fn failed(&mut self, plan: &PlanInner, key: Key, span: u64, failure: &Failure) {
        let error = self.run_error(plan, key, failure);
        self.failed_with(plan, key, span, failure, error);
    }

    /// As [`failed`](Self::failed), with the error that the run has if nothing handles it.
    pub(in crate::run) fn failed_with(
        &mut self,
        plan: &PlanInner,
        key: Key,
        span: u64,
        failure: &Failure,
        error: RunError,
    ) {
        // Those who wait for its result must try themselves.
        self.leads.remove(&key);
        let Some(frame) = self.frame(key) else { return };
        let node = &plan.scopes[frame.scope as usize].nodes[key.node as usize];
        let strategy = policy(plan, node).map_or(&OnError::Fail, |policy| &policy.on_error);
        // An exceeded budget stays exceeded: no strategy of a node can fix it.
        if failure.kind == NodeErrorKind::BudgetExceeded {
            return self.fail(plan, key, span, failure, error);
        }
        let note = |handled| Note { attempt: Some(failure.attempt), ..Note::handled(handled) };
        match strategy {
            OnError::Fail => self.fail(plan, key, span, failure, error),
            OnError::Branch => {
                self.end_readers(plan, key);
                let value = json!({
                    "message": failure.message,
                    "code": failure.code.clone().unwrap_or_else(|| failure.kind.as_str().to_owned()),
                    "node": self.path(plan, key),
                    "attempt": failure.attempt,
                });
                self.finished(plan, key, span, &Outputs::named(ERROR_SLOT, value), &note("branch"));
            }
            OnError::Skip => {
                self.end_readers(plan, key);
                let place = self.place(plan, key, span, Some(failure.attempt));
                let handled = Some(Arc::from("skip"));
                let record = self.with_usage(key, None);
                let body = EventBody::NodeFinished { value: None, outputs: None, handled, cache: None };
                self.emit_with(place, body, record);
                self.settle_without_outputs(plan, key);
            }
            OnError::Default(value) => {
                for (_, open) in self.open_slots(plan, key) {
                    open.stream.retract();
                }
                let main = main_output(plan, node);
                let outputs = Outputs::none().with(main.to_string(), value.clone());
                self.finished(plan, key, span, &outputs, &note("default"));
            }
        }
    }

    /// A failure that nothing at the node handles.
    fn fail(&mut self, plan: &PlanInner, key: Key, span: u64, failure: &Failure, error: RunError) {
        let place = self.place(plan, key, span, Some(failure.attempt));
        let body = EventBody::NodeFailed {
            kind: failure.kind,
            message: failure.message.clone(),
            limit_ms: failure.limit_ms,
            attempts: Some(failure.attempt),
            detached: failure.detached.then_some(true),
        };
        let how = failure.code.as_deref().filter(|_| self.keeps).map(Arc::from);
        let record = how.map(|how| Box::new(ReplayData { how: Some(how), ..ReplayData::default() }));
        let record = self.with_usage(key, record);
        self.emit_with(place, body, record);
        self.escalate(plan, key, error);
    }

    /// A settled node whose outputs and followers are all skipped.
    pub(in crate::run) fn settle_without_outputs(&mut self, plan: &PlanInner, key: Key) {
        let Some(frame) = self.frame_mut(key) else { return };
        if !frame.finish_node(key.node) {
            return;
        }
        let done = frame.remaining == 0;
        let cause = self.own_cause(plan, key);
        self.drop_outputs(plan, key, cause);
        if done {
            self.complete.push_back(key);
        }
    }

    /// Fails the nodes that have begun to read a stream whose writer failed.
    pub(in crate::run) fn end_readers(&mut self, plan: &PlanInner, key: Key) {
        let open = self.open_slots(plan, key);
        let Some(frame) = self.frame(key).filter(|_| !open.is_empty()) else { return };
        let (scope, path) = (&plan.scopes[frame.scope as usize], self.path(plan, key));
        for (slot, _) in open {
            for reader in scope.stream_readers.row(slot) {
                self.cancel_node(plan, Key { node: *reader, ..key }, &path);
            }
        }
    }

    pub(in crate::run) fn place(
        &self,
        plan: &PlanInner,
        key: Key,
        span: u64,
        attempt: Option<u32>,
    ) -> EventLocation {
        self.place_of(key, self.path(plan, key), span, attempt)
    }

    fn place_of(&self, key: Key, path: Arc<str>, span: u64, attempt: Option<u32>) -> EventLocation {
        let frame = self.frames[key.frame as usize].as_deref();
        EventLocation {
            path: Some(path),
            iteration: frame.and_then(|frame| frame.iteration),
            attempt: Some(attempt.unwrap_or(1)),
            span,
            parent: frame.map(|frame| frame.span),
            ..EventLocation::default()
        }
    }

    fn run_error(&self, plan: &PlanInner, key: Key, failure: &Failure) -> RunError {
        let kind = match (failure.kind, &failure.code) {
            // The kind of a run that spent a budget is the budget's key.
            (NodeErrorKind::BudgetExceeded, Some(budget)) => budget.clone(),
            (kind, _) => kind.as_str().to_owned(),
        };
        RunError {
            path: Some(self.path(plan, key)),
            iteration: self.frame(key).and_then(|frame| frame.iteration),
            limit: failure.limit_ms,
            code: failure.code.clone(),
            ..RunError::new(kind, failure.message.clone())
        }
    }

    /// A lazy input is asked for: its source and what that needs are scheduled now.
    pub(in crate::run) fn pull(
        &mut self,
        plan: &PlanInner,
        key: Key,
        slot: &str,
        reply: oneshot::Sender<Option<Arc<Value>>>,
    ) {
        let Some(frame) = self.frame(key) else { return };
        let scope = &plan.scopes[frame.scope as usize];
        let inputs = scope.inputs(&scope.nodes[key.node as usize]);
        let Some(input) = inputs.iter().find(|input| &*plan.names[input.slot as usize] == slot) else {
            return;
        };
        let from = crate::plan::slots(input.from.origins()).next();
        let Some(from) = from.filter(|from| matches!(frame.slots[*from as usize], Slot::Unknown)) else {
            let origin = input
                .from
                .origins()
                .iter()
                .find_map(|origin| crate::run::graph_state::inputs::origin_value(frame, origin));
            let _ = reply.send(origin.or_else(|| input.fallback.clone()));
            return;
        };
        self.pullers.entry((key.frame, from)).or_default().push(Puller { key, reply });
        self.pause(key);
        let owner = scope.owners[from as usize];
        self.waken(plan, Key { node: owner, ..key });
    }

    /// Schedules a node that nothing needed so far, and what it needs.
    pub(in crate::run) fn waken(&mut self, plan: &PlanInner, key: Key) {
        let mut stack = vec![key.node];
        while let Some(node) = stack.pop() {
            let Some(frame) = self.frame_mut(key) else { return };
            if frame.state[node as usize] != NodeState::Dormant {
                continue;
            }
            frame.state[node as usize] = NodeState::Waiting;
            frame.remaining += 1;
            let scope = &plan.scopes[frame.scope as usize];
            stack.extend(scope.sources.row(node));
            let first = policy(plan, &scope.nodes[node as usize]).is_some_and(|policy| policy.first);
            match frame.turn(node, first) {
                Turn::NotYet => {}
                Turn::Ready => self.ready.push_back(Key { node, ..key }),
                Turn::Skip => self.skips.push_back(Key { node, ..key }),
            }
        }
    }

    fn answer_pullers(&mut self, frame: u32, slot: SlotIx) {
        for puller in self.pullers.remove(&(frame, slot)).unwrap_or_default() {
            let value = self.frame(puller.key).and_then(|frame| frame.value(slot).cloned());
            self.resume(puller.key);
            // Without a receiver the node has been dropped.
            let _ = puller.reply.send(value);
        }
    }
}

/// The output that unnamed values of a node belong to.
pub(in crate::run) fn main_output<'p>(plan: &'p PlanInner, node: &NodePlan) -> &'p Arc<str> {
    static NONE: std::sync::LazyLock<Arc<str>> = std::sync::LazyLock::new(|| Arc::from(""));
    let first_result = |scope: u32| plan.scopes[scope as usize].results.first().map(|result| &result.name);
    match node.kind {
        Kind::Run(node_type) => &plan.types[node_type as usize].main,
        Kind::Zone(zone) => {
            let zone = &plan.zones[zone as usize];
            first_result(zone.scope).or(zone.keys.first()).unwrap_or(&NONE)
        }
        Kind::Call(scope) => first_result(scope).unwrap_or(&NONE),
        Kind::Muted | Kind::Bypass(_) => &NONE,
    }
}

//! Propagation of a node's end to the nodes that depend on it.

use std::sync::Arc;

use super::frame::{Arrival, Frame, InEdge, Key, Slot, StreamSlot, Turn};
use super::{FollowUp, GraphState};
use crate::outputs::Outputs;
use crate::plan::data::SlotIx;

/// A skipped slot's own arrival; a slot with a value is taken.
fn arrival_of(slot: &Slot) -> Arrival {
    match slot {
        Slot::Skipped(cause) => Arrival::Skipped(*cause),
        Slot::Unknown | Slot::Value(_) | Slot::Stream(_) => Arrival::Taken,
    }
}

impl GraphState<'_> {
    /// Settles a node and hands its values on; `handled` outputs stand for those of a node that failed.
    pub(crate) fn propagate(&mut self, key: Key, outputs: &Outputs, handled: bool) {
        if !self.settle_alone(key) {
            return;
        }
        let Some((scope, node)) = self.scope(key).zip(self.node(key)) else { return };
        let main = self.plan.main_output(node);
        for out in scope.outs(node) {
            let name = &self.plan.names[out.name as usize];
            let given = if **name == **main { outputs.main(main) } else { outputs.get(name) };
            if out.stream
                && let Some(open) = self.frames.open_stream(key, out.slot)
            {
                let arrival = self.end_stream(key, &open, given.cloned(), handled);
                self.arrive_all(key, out.slot, arrival);
                continue;
            }
            let slot = match given {
                Some(value) => Slot::Value(Arc::clone(value)),
                None => Slot::Skipped(self.own_cause(key)),
            };
            self.set_slot(key, out.slot, slot);
        }
        self.follow(key, Arrival::Taken);
        self.check_complete(key);
    }

    /// Settles a node whose outputs and followers are all skipped, with the node itself as the cause.
    pub(crate) fn settle_without_outputs(&mut self, key: Key) {
        if !self.settle_alone(key) {
            return;
        }
        self.drop_outputs(key);
        self.check_complete(key);
    }

    /// Skips a node, and with it what hangs on it alone; `false` if it was settled.
    pub(crate) fn skip(&mut self, key: Key, cause: &Arc<str>) -> bool {
        if !self.settle_alone(key) {
            return false;
        }
        let number = self.causes.number(Arc::clone(cause));
        self.drop_outputs_for(key, number);
        self.check_complete(key);
        true
    }

    /// Settles a node and propagates nothing yet; `false` if it was settled.
    pub(crate) fn settle_alone(&mut self, key: Key) -> bool {
        self.frames.get_mut(key).is_some_and(|frame| frame.finish(key.node))
    }

    /// Skips all outputs of a settled node, with the node itself as the cause.
    pub(crate) fn drop_outputs(&mut self, key: Key) {
        let cause = self.own_cause(key);
        self.drop_outputs_for(key, cause);
    }

    /// Queues the frame of a node if it is complete.
    pub(crate) fn check_complete(&mut self, key: Key) {
        if self.frame(key).is_some_and(Frame::is_complete) {
            self.queues.push_complete(key);
        }
    }

    /// Ends a stream with its value, or with its text where the node gave none.
    fn end_stream(
        &mut self,
        key: Key,
        open: &StreamSlot,
        given: Option<Arc<serde_json::Value>>,
        handled: bool,
    ) -> Arrival {
        let text = || open.stream.text().filter(|_| !handled).map(|text| Arc::new(text.into()));
        let value = given.or_else(text);
        open.stream.end();
        match value {
            // It is set once: a node ends once.
            Some(value) => open.value.set(value).map_or(Arrival::Taken, |()| Arrival::Taken),
            None if !handled => Arrival::Taken,
            None => Arrival::Skipped(self.own_cause(key)),
        }
    }

    /// The cause that a skipped node names.
    pub(crate) fn cause_of(&self, key: Key) -> Arc<str> {
        let number = self.frame(key).map(|frame| frame.cause_of(key.node));
        let cause = number.and_then(|number| self.causes.get(number));
        cause.cloned().unwrap_or_else(|| Arc::from(""))
    }

    /// The node itself as a cause.
    fn own_cause(&mut self, key: Key) -> u32 {
        let path = self.frames.path(key);
        self.causes.number(path)
    }

    /// A stream has begun: those who read it piece by piece may start.
    pub(crate) fn open_slot(&mut self, key: Key, slot: SlotIx, value: Slot) {
        let (Some(scope), Some(frame)) = (self.scope(key), self.frames.get_mut(key)) else { return };
        let arrival = arrival_of(&value);
        frame.set_slot(slot, value);
        for reader in scope.stream_readers.row(slot) {
            self.arrive(Key { node: *reader, ..key }, InEdge { arrival, rank: slot, order: false });
        }
    }

    /// The value of an output that is not an open stream is known.
    pub(super) fn set_slot(&mut self, key: Key, slot: SlotIx, value: Slot) {
        let arrival = arrival_of(&value);
        self.open_slot(key, slot, value);
        self.arrive_all(key, slot, arrival);
    }

    fn arrive_all(&mut self, key: Key, slot: SlotIx, arrival: Arrival) {
        let Some(scope) = self.scope(key) else { return };
        for reader in scope.readers.row(slot) {
            self.arrive(Key { node: *reader, ..key }, InEdge { arrival, rank: slot, order: false });
        }
        self.answer_pullers(key, slot);
    }

    /// Those that wait for the node without taking a value.
    fn follow(&mut self, key: Key, arrival: Arrival) {
        let Some(scope) = self.scope(key) else { return };
        let rank = scope.n_slots.saturating_add(key.node);
        for follower in scope.followers.row(key.node) {
            self.arrive(Key { node: *follower, ..key }, InEdge { arrival, rank, order: true });
        }
    }

    fn arrive(&mut self, key: Key, edge: InEdge) {
        let (Some(scope), Some(frame)) = (self.scope(key), self.frames.get_mut(key)) else { return };
        let needs = self.plan.needs(scope, &scope.nodes[key.node as usize]);
        let turn = frame.arrive(key.node, edge, needs);
        self.queues.take_turn(key, turn);
        if needs.first && turn == Turn::Ready {
            self.follow_ups.push(FollowUp::CancelRest(key));
        }
    }

    fn drop_outputs_for(&mut self, key: Key, cause: u32) {
        let Some((scope, node)) = self.scope(key).zip(self.node(key)) else { return };
        for out in scope.outs(node) {
            if out.stream && self.frames.open_stream(key, out.slot).is_some() {
                // Those who read it have started; only those who wait for all of it are left.
                self.arrive_all(key, out.slot, Arrival::Skipped(cause));
            } else {
                self.set_slot(key, out.slot, Slot::Skipped(cause));
            }
        }
        self.follow(key, Arrival::Skipped(cause));
    }
}

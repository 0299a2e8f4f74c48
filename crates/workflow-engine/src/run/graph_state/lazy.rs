//! Lazy inputs: values whose source runs only when a node asks for them.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::oneshot;
use workflow_model::graph::NameIx;

use super::frame::{Key, NodeState, Slot};
use super::inputs::{origin_value, typed};
use super::{FollowUp, GraphState};
use crate::hash::NumberMap;
use crate::plan::data::{InputPlan, SlotIx, slots};

/// The value of a lazy input, if it has one, or the fault of it.
pub(crate) type Pulled = Result<Option<Arc<Value>>, String>;

/// A node that waits for a lazy input.
struct Puller {
    key: Key,
    reply: oneshot::Sender<Pulled>,
    slot: NameIx,
    /// Sources that may still give the value.
    sources: Vec<SlotIx>,
}

/// Nodes that wait for lazy inputs, by frame and slot.
#[derive(Default)]
pub(super) struct Pullers(NumberMap<(u32, SlotIx), Vec<Puller>>);

impl GraphState<'_> {
    /// A lazy input is asked for: its source and what that needs are scheduled now. True if the node has to wait.
    pub(crate) fn pull(&mut self, key: Key, slot: &str, reply: oneshot::Sender<Pulled>) -> bool {
        let (Some(scope), Some(node)) = (self.scope(key), self.node(key)) else { return false };
        let mut inputs = scope.inputs(node).iter();
        let Some(input) = inputs.find(|input| &*self.plan.names[input.slot as usize] == slot) else {
            return false;
        };
        let Some(frame) = self.frame(key) else { return false };
        let origins = scope.origins(input);
        let given = origins.iter().find_map(|origin| origin_value(frame, origin));
        let unknown: Vec<SlotIx> =
            slots(origins).filter(|slot| matches!(frame.slot(*slot), Slot::Unknown)).collect();
        let (None, Some(first)) = (&given, unknown.first()) else {
            // Without a receiver the node has been dropped.
            let _ = reply.send(pulled(input, given));
            return false;
        };
        // Edges of branches that exclude each other may end in one slot: one after the other is waited for.
        let puller = Puller { key, reply, slot: input.slot, sources: unknown.clone() };
        self.pullers.0.entry((key.frame, *first)).or_default().push(puller);
        for slot in unknown {
            self.waken(Key { node: scope.owners[slot as usize], ..key });
        }
        true
    }

    /// An input of a node by its slot.
    fn input(&self, key: Key, slot: NameIx) -> Option<&InputPlan> {
        let scope = self.scope(key)?;
        scope.inputs(self.node(key)?).iter().find(|input| input.slot == slot)
    }

    /// Schedules a node that nothing needed so far, and what it needs.
    pub(crate) fn waken(&mut self, key: Key) {
        let Some(scope) = self.scope(key) else { return };
        let mut stack = vec![key.node];
        while let Some(node) = stack.pop() {
            let Some(frame) = self.frames.get_mut(key) else { return };
            if frame.state(node) != NodeState::Dormant {
                continue;
            }
            stack.extend(scope.sources.row(node));
            let turn = frame.waken(node, self.plan.needs(scope, &scope.nodes[node as usize]));
            self.queues.take_turn(Key { node, ..key }, turn);
        }
    }

    /// Returns `true` if a node waits for a lazy input.
    pub(crate) fn has_pullers(&self) -> bool {
        // Pullers of a pass that was closed stay behind.
        self.pullers.0.values().flatten().any(|puller| self.is_running(puller.key))
    }

    pub(super) fn answer_pullers(&mut self, key: Key, slot: SlotIx) {
        if self.pullers.0.is_empty() {
            return;
        }
        for puller in self.pullers.0.remove(&(key.frame, slot)).unwrap_or_default() {
            let Some(frame) = self.frame(puller.key) else { continue };
            let given = puller.sources.iter().find_map(|slot| frame.slot(*slot).value().cloned());
            let open = puller.sources.iter().find(|slot| matches!(frame.slot(**slot), Slot::Unknown));
            if let (None, Some(next)) = (&given, open.copied()) {
                self.pullers.0.entry((key.frame, next)).or_default().push(puller);
                continue;
            }
            let Some(input) = self.input(puller.key, puller.slot) else { continue };
            let value = pulled(input, given);
            self.follow_ups.push(FollowUp::Pulled(puller.key));
            // Without a receiver the node has been dropped.
            let _ = puller.reply.send(value);
        }
    }
}

/// The value that a lazy input takes, of the types that it passes.
fn pulled(input: &InputPlan, given: Option<Arc<Value>>) -> Pulled {
    given.or_else(|| input.fallback.clone()).map(|value| typed(input, value)).transpose()
}

//! The state of the graph: frames, the values of their slots, and whose turn it is.
//!
//! It decides what follows from the end of a node and emits nothing. What must happen outside of it, because a first
//! edge decided or a lazy input arrived, it hands out by [`GraphState::take_follow_ups`].

mod causes;
pub(crate) mod checkpoint;
pub(crate) mod frame;
pub(crate) mod frames;
pub(crate) mod inputs;
mod lazy;
pub(crate) mod opening;
mod propagate;
mod queues;

use std::sync::Arc;

use serde_json::Value;

use self::causes::Causes;
use self::frame::{Frame, Key, NodeState};
use self::frames::Frames;
pub(crate) use self::lazy::Pulled;
use self::lazy::Pullers;
use self::queues::Queues;
use crate::plan::data::{NodePlan, PlanData, ScopePlan};

/// Consequence of a propagation outside of the graph.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FollowUp {
    /// The first taken edge to this node decided: what only leads to its other edges is not needed.
    CancelRest(Key),
    /// The lazy input that this node waits for has arrived.
    Pulled(Key),
}

/// Frames, slots and queues of one run.
pub(crate) struct GraphState<'p> {
    plan: &'p PlanData,
    /// Arguments, none where one is absent.
    arguments: Vec<Option<Arc<Value>>>,
    frames: Frames<'p>,
    queues: Queues,
    causes: Causes,
    pullers: Pullers,
    follow_ups: Vec<FollowUp>,
}

impl<'p> GraphState<'p> {
    pub(crate) fn new(plan: &'p PlanData, arguments: Vec<Option<Arc<Value>>>) -> Self {
        Self {
            plan,
            arguments,
            frames: Frames::new(plan),
            queues: Queues::default(),
            causes: Causes::default(),
            pullers: Pullers::default(),
            follow_ups: Vec::new(),
        }
    }

    /// The frame of a key, if it is still the same pass.
    pub(crate) fn frame(&self, key: Key) -> Option<&Frame> {
        self.frames.get(key)
    }

    pub(crate) fn scope(&self, key: Key) -> Option<&'p ScopePlan> {
        self.frames.scope(key)
    }

    pub(crate) fn node(&self, key: Key) -> Option<&'p NodePlan> {
        self.frames.node(key)
    }

    /// State of a node; a node whose pass is over is settled.
    pub(crate) fn state(&self, key: Key) -> NodeState {
        self.frames.state(key)
    }

    pub(crate) fn is_running(&self, key: Key) -> bool {
        self.state(key) == NodeState::Running
    }

    pub(crate) fn set_running(&mut self, key: Key) {
        if let Some(frame) = self.frames.get_mut(key) {
            frame.set_state(key.node, NodeState::Running);
        }
    }

    /// A running node has its turn again, after all that are ready.
    pub(crate) fn requeue(&mut self, key: Key) {
        if let Some(frame) = self.frames.get_mut(key) {
            frame.set_state(key.node, NodeState::Queued);
            self.queues.push_ready(key);
        }
    }

    /// The same before all that are ready; `false` if its pass is over.
    pub(crate) fn requeue_first(&mut self, key: Key) -> bool {
        let Some(frame) = self.frames.get_mut(key) else { return false };
        frame.set_state(key.node, NodeState::Queued);
        self.queues.push_first(key);
        true
    }

    /// Frames and their nodes.
    pub(crate) fn frames(&self) -> &Frames<'p> {
        &self.frames
    }

    pub(crate) fn frames_mut(&mut self) -> &mut Frames<'p> {
        &mut self.frames
    }

    /// The causes that skipped nodes name.
    pub(crate) fn causes(&self) -> &Causes {
        &self.causes
    }

    pub(crate) fn queues(&mut self) -> &mut Queues {
        &mut self.queues
    }

    /// Consequences of what was propagated since the last call, in order.
    pub(crate) fn take_follow_ups(&mut self) -> Vec<FollowUp> {
        std::mem::take(&mut self.follow_ups)
    }
}

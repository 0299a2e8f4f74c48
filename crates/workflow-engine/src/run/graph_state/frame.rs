//! The state of one pass through a scope.

use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::plan::data::{LocalIx, NONE, ScopePlan, SlotIx};
use crate::stream::Stream;

/// A start of a node: which frame, which use of that frame, which node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Key {
    pub(crate) frame: u32,
    pub(crate) generation: u32,
    pub(crate) node: LocalIx,
}

/// State of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum NodeState {
    /// Nothing needs it.
    Dormant,
    /// Something it needs is not settled.
    Waiting,
    /// Its turn has come.
    Queued,
    /// An attempt is on, or its body.
    Running,
    /// It has had its terminal event.
    Settled,
}

/// The value of an output, as far as it is known.
#[derive(Debug, Clone)]
pub(crate) enum Slot {
    Unknown,
    /// Not taken; the number of the cause.
    Skipped(u32),
    Value(Arc<Value>),
    /// Open, or ended with its value.
    Stream(Arc<StreamSlot>),
}

/// A stream and, when it has ended, its value.
#[derive(Debug)]
pub(crate) struct StreamSlot {
    pub(crate) stream: Arc<Stream>,
    pub(crate) value: OnceLock<Arc<Value>>,
}

impl Slot {
    /// A stream that has not ended.
    pub(crate) fn from_stream(stream: Arc<Stream>) -> Self {
        Self::Stream(Arc::new(StreamSlot { stream, value: OnceLock::new() }))
    }

    /// The value, where there is one.
    pub(crate) fn value(&self) -> Option<&Arc<Value>> {
        match self {
            Self::Value(value) => Some(value),
            Self::Stream(slot) => slot.value.get(),
            Self::Unknown | Self::Skipped(_) => None,
        }
    }
}

/// Arrival of an edge: taken or skipped.
#[derive(Debug, Clone, Copy)]
pub(super) enum Arrival {
    Taken,
    /// With the number of the cause.
    Skipped(u32),
}

/// An edge as its reader sees it.
#[derive(Debug, Clone, Copy)]
pub(super) struct InEdge {
    pub(super) arrival: Arrival,
    /// Its place among the edges of the scope: the first skipped one names the cause, whichever came first in time.
    pub(super) rank: u32,
}

/// Effect of the last arrival on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// It continues to wait, or is past it.
    NotYet,
    Ready,
    Skip,
}

/// Position of a frame in the run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Standing {
    pub(crate) scope: u32,
    /// The node whose body this is.
    pub(crate) container: Option<Key>,
    /// Prefix of the paths of its nodes.
    pub(crate) prefix: Arc<str>,
    /// The innermost pass around its nodes.
    pub(crate) iteration: Option<u64>,
    /// The span around its nodes.
    pub(crate) span: u64,
}

impl Standing {
    /// The position of the root frame.
    pub(crate) fn root() -> Self {
        Self { scope: 0, container: None, prefix: Arc::from(""), iteration: None, span: 0 }
    }
}

/// One pass through a scope: counts, states and values. A checkpoint has it with slots of another form.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Frame<S = Slot> {
    #[serde(flatten)]
    standing: Standing,
    generation: u32,
    unknown: Vec<u32>,
    taken: Vec<bool>,
    /// Rank and number of the cause.
    cause: Vec<(u32, u32)>,
    state: Vec<NodeState>,
    slots: Vec<S>,
    /// Scheduled nodes without a terminal event.
    remaining: u32,
}

impl<S> Frame<S> {
    pub(crate) fn standing(&self) -> &Standing {
        &self.standing
    }

    /// The frame with every slot in another form.
    pub(super) fn map_slots<T>(self, form: impl FnMut((SlotIx, S)) -> T) -> Frame<T> {
        Frame {
            standing: self.standing,
            generation: self.generation,
            unknown: self.unknown,
            taken: self.taken,
            cause: self.cause,
            state: self.state,
            slots: (0..).zip(self.slots).map(form).collect(),
            remaining: self.remaining,
        }
    }
}

impl Frame {
    pub(super) fn new(standing: Standing, plan: &ScopePlan, needed: &[bool]) -> Self {
        let mut frame = Self {
            standing: Standing::root(),
            generation: 0,
            unknown: Vec::new(),
            taken: Vec::new(),
            cause: Vec::new(),
            state: Vec::new(),
            slots: Vec::new(),
            remaining: 0,
        };
        frame.reset(standing, plan, needed);
        frame
    }

    /// Makes the frame that of another pass; what it holds of memory stays.
    fn reset(&mut self, standing: Standing, plan: &ScopePlan, needed: &[bool]) {
        let n_nodes = plan.nodes.len();
        self.standing = standing;
        self.unknown.clear();
        self.unknown.extend_from_slice(&plan.counts);
        self.taken.clear();
        self.taken.resize(n_nodes, false);
        self.cause.clear();
        self.cause.resize(n_nodes, (NONE, NONE));
        self.state.clear();
        let state = |needed: &bool| if *needed { NodeState::Waiting } else { NodeState::Dormant };
        self.state.extend(needed.iter().map(state));
        self.slots.clear();
        self.slots.resize(plan.n_slots as usize, Slot::Unknown);
        self.remaining = u32::try_from(needed.iter().filter(|needed| **needed).count()).unwrap_or(NONE);
    }

    /// Uses the frame for another pass.
    pub(super) fn reuse(&mut self, standing: Standing, plan: &ScopePlan, needed: &[bool]) {
        self.generation = self.generation.wrapping_add(1);
        self.reset(standing, plan, needed);
    }

    /// Makes every key of the frame stale and drops its values.
    pub(super) fn retire(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        self.slots.clear();
    }

    pub(super) fn generation(&self) -> u32 {
        self.generation
    }

    pub(super) fn state(&self, node: LocalIx) -> NodeState {
        self.state[node as usize]
    }

    pub(super) fn set_state(&mut self, node: LocalIx, state: NodeState) {
        self.state[node as usize] = state;
    }

    pub(crate) fn slot(&self, slot: SlotIx) -> &Slot {
        &self.slots[slot as usize]
    }

    pub(super) fn set_slot(&mut self, slot: SlotIx, value: Slot) {
        self.slots[slot as usize] = value;
    }

    /// Counts one in-edge of a node. `first` nodes do not wait for the others.
    pub(super) fn arrive(&mut self, node: LocalIx, edge: InEdge, first: bool) -> Turn {
        let at = node as usize;
        self.unknown[at] -= 1;
        match edge.arrival {
            Arrival::Taken => self.taken[at] = true,
            Arrival::Skipped(cause) => self.cause[at] = self.cause[at].min((edge.rank, cause)),
        }
        self.turn(node, first)
    }

    /// Checks a waiting node, and queues it when it is ready.
    fn turn(&mut self, node: LocalIx, first: bool) -> Turn {
        let at = node as usize;
        if self.state[at] != NodeState::Waiting {
            return Turn::NotYet;
        }
        let turn = match (self.unknown[at], self.taken[at]) {
            (0, true) => Turn::Ready,
            (_, true) if first => Turn::Ready,
            // Nothing leads here: it does not wait.
            (0, false) if self.cause[at].1 == NONE => Turn::Ready,
            (0, false) => Turn::Skip,
            _ => Turn::NotYet,
        };
        if turn != Turn::NotYet {
            self.state[at] = NodeState::Queued;
        }
        turn
    }

    /// Schedules a node that nothing needed so far.
    pub(super) fn waken(&mut self, node: LocalIx, first: bool) -> Turn {
        self.state[node as usize] = NodeState::Waiting;
        self.remaining += 1;
        self.turn(node, first)
    }

    pub(super) fn cause_of(&self, node: LocalIx) -> u32 {
        self.cause[node as usize].1
    }

    /// Queues the nodes that wait for nothing.
    pub(super) fn queue_free(&mut self) -> impl Iterator<Item = LocalIx> + '_ {
        let counts = self.unknown.iter();
        (0..).zip(counts.zip(&mut self.state)).filter_map(|(node, (unknown, state))| {
            let is_free = *unknown == 0 && *state == NodeState::Waiting;
            is_free.then(|| *state = NodeState::Queued).map(|()| node)
        })
    }

    /// A scheduled node gets its terminal event; false if it had one.
    pub(super) fn finish(&mut self, node: LocalIx) -> bool {
        let state = &mut self.state[node as usize];
        if matches!(state, NodeState::Settled | NodeState::Dormant) {
            return false;
        }
        *state = NodeState::Settled;
        self.remaining -= 1;
        true
    }

    /// Returns `true` if every scheduled node has its terminal event.
    pub(crate) fn is_complete(&self) -> bool {
        self.remaining == 0
    }

    /// Scheduled nodes without a terminal event.
    pub(super) fn unsettled(&self) -> impl Iterator<Item = LocalIx> + '_ {
        let open = |state: &NodeState| !matches!(state, NodeState::Settled | NodeState::Dormant);
        (0..).zip(&self.state).filter(move |(_, state)| open(state)).map(|(node, _)| node)
    }
}

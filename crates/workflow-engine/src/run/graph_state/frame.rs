//! The state of one pass through a scope.

use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::plan::{LocalIx, NONE, ScopePlan, SlotIx};
use crate::run::resume::checkpoint::SavedSlot;
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
pub(in crate::run) enum NodeState {
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
pub(in crate::run) enum Slot {
    Unknown,
    /// Not taken; the number of the cause.
    Skipped(u32),
    Value(Arc<Value>),
    /// Open, or ended with its value.
    Stream(Arc<StreamSlot>),
}

/// A stream and, when it has ended, its value.
#[derive(Debug)]
pub(in crate::run) struct StreamSlot {
    pub(in crate::run) stream: Arc<Stream>,
    pub(in crate::run) value: OnceLock<Arc<Value>>,
}

impl Slot {
    /// The value, where there is one.
    pub(in crate::run) fn value(&self) -> Option<&Arc<Value>> {
        match self {
            Self::Value(value) => Some(value),
            Self::Stream(slot) => slot.value.get(),
            Self::Unknown | Self::Skipped(_) => None,
        }
    }
}

/// Arrival of an edge: taken or skipped.
#[derive(Debug, Clone, Copy)]
pub(in crate::run) enum Arrival {
    Taken,
    /// With the number of the cause.
    Skipped(u32),
}

/// An edge as its reader sees it.
#[derive(Debug, Clone, Copy)]
pub(in crate::run) struct InEdge {
    pub(in crate::run) arrival: Arrival,
    /// Its place among the edges of the scope: the first skipped one names the cause, whichever came first in time.
    pub(in crate::run) rank: u32,
}

/// Effect of the last arrival on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::run) enum Turn {
    /// It continues to wait, or is past it.
    NotYet,
    Ready,
    Skip,
}

/// One pass through a scope: counts, states and values.
#[derive(Debug)]
pub(in crate::run) struct Frame {
    pub(in crate::run) scope: u32,
    pub(in crate::run) generation: u32,
    /// The node whose body this is.
    pub(in crate::run) container: Option<Key>,
    /// Prefix of the paths of its nodes.
    pub(in crate::run) prefix: Arc<str>,
    /// The pass, for the body of a zone.
    pub(in crate::run) pass: Option<u64>,
    /// The innermost pass around its nodes.
    pub(in crate::run) iteration: Option<u64>,
    /// The span around its nodes.
    pub(in crate::run) span: u64,
    unknown: Vec<u32>,
    taken: Vec<bool>,
    /// Rank and number of the cause.
    cause: Vec<(u32, u32)>,
    pub(in crate::run) state: Vec<NodeState>,
    pub(in crate::run) slots: Vec<Slot>,
    /// Scheduled nodes without a terminal event.
    pub(in crate::run) remaining: u32,
}

/// Position of a frame in the run.
#[derive(Debug, Clone)]
pub(in crate::run) struct Standing {
    pub(in crate::run) scope: u32,
    pub(in crate::run) container: Option<Key>,
    pub(in crate::run) prefix: Arc<str>,
    pub(in crate::run) pass: Option<u64>,
    pub(in crate::run) iteration: Option<u64>,
    pub(in crate::run) span: u64,
}

impl Frame {
    pub(in crate::run) fn new(standing: Standing, plan: &ScopePlan, needed: &[bool]) -> Self {
        let mut frame = Self {
            scope: standing.scope,
            generation: 0,
            container: None,
            prefix: Arc::from(""),
            pass: None,
            iteration: None,
            span: 0,
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
    pub(in crate::run) fn reset(&mut self, standing: Standing, plan: &ScopePlan, needed: &[bool]) {
        let n_nodes = plan.nodes.len();
        self.scope = standing.scope;
        self.container = standing.container;
        self.prefix = standing.prefix;
        self.pass = standing.pass;
        self.iteration = standing.iteration;
        self.span = standing.span;
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

    /// Counts one in-edge of a node. `first` nodes do not wait for the others.
    pub(in crate::run) fn arrive(&mut self, node: LocalIx, edge: InEdge, first: bool) -> Turn {
        let at = node as usize;
        self.unknown[at] -= 1;
        match edge.arrival {
            Arrival::Taken => self.taken[at] = true,
            Arrival::Skipped(cause) => self.cause[at] = self.cause[at].min((edge.rank, cause)),
        }
        self.turn(node, first)
    }

    /// Checks a waiting node, and queues it when it is ready.
    pub(in crate::run) fn turn(&mut self, node: LocalIx, first: bool) -> Turn {
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

    pub(in crate::run) fn cause_of(&self, node: LocalIx) -> u32 {
        self.cause[node as usize].1
    }

    pub(in crate::run) fn in_degree(&self, node: LocalIx) -> u32 {
        self.unknown[node as usize]
    }

    /// A scheduled node gets its terminal event; false if it had one.
    pub(in crate::run) fn finish_node(&mut self, node: LocalIx) -> bool {
        let state = &mut self.state[node as usize];
        if matches!(state, NodeState::Settled | NodeState::Dormant) {
            return false;
        }
        *state = NodeState::Settled;
        self.remaining -= 1;
        true
    }

    pub(in crate::run) fn value(&self, slot: SlotIx) -> Option<&Arc<Value>> {
        self.slots[slot as usize].value()
    }

    /// Scheduled nodes without a terminal event.
    pub(in crate::run) fn unsettled(&self) -> impl Iterator<Item = LocalIx> + '_ {
        let open = |state: &NodeState| !matches!(state, NodeState::Settled | NodeState::Dormant);
        (0..).zip(&self.state).filter(move |(_, state)| open(state)).map(|(node, _)| node)
    }
}

/// A frame as a snapshot has it.
#[derive(Serialize, Deserialize)]
pub(in crate::run) struct SavedFrame {
    pub(in crate::run) scope: u32,
    generation: u32,
    container: Option<Key>,
    prefix: Arc<str>,
    pass: Option<u64>,
    iteration: Option<u64>,
    span: u64,
    unknown: Vec<u32>,
    taken: Vec<bool>,
    cause: Vec<(u32, u32)>,
    state: Vec<NodeState>,
    slots: Vec<SavedSlot>,
    remaining: u32,
}

impl Frame {
    pub(in crate::run) fn to_saved(&self) -> SavedFrame {
        SavedFrame {
            scope: self.scope,
            generation: self.generation,
            container: self.container,
            prefix: Arc::clone(&self.prefix),
            pass: self.pass,
            iteration: self.iteration,
            span: self.span,
            unknown: self.unknown.clone(),
            taken: self.taken.clone(),
            cause: self.cause.clone(),
            state: self.state.clone(),
            slots: self.slots.iter().map(SavedSlot::from_slot).collect(),
            remaining: self.remaining,
        }
    }
}

impl SavedFrame {
    /// Restores a frame of the given scope. A frame that is not in use has no slots.
    pub(in crate::run) fn restored(self, scope: &ScopePlan) -> Frame {
        let readers = |slot: u32| u32::try_from(scope.stream_readers.row(slot).len()).unwrap_or(NONE);
        let slots = (0..).zip(self.slots).map(|(at, slot)| slot.restored(readers(at)));
        Frame {
            scope: self.scope,
            generation: self.generation,
            container: self.container,
            prefix: self.prefix,
            pass: self.pass,
            iteration: self.iteration,
            span: self.span,
            unknown: self.unknown,
            taken: self.taken,
            cause: self.cause,
            state: self.state,
            slots: slots.collect(),
            remaining: self.remaining,
        }
    }
}

//! The state of one pass through a scope.

use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::plan::data::{InputPlan, LocalIx, NONE, Needs, Origin, ScopePlan, SlotIx, slots};
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
    /// It carries no value.
    pub(super) order: bool,
}

/// An edge was taken.
const TAKEN: u8 = 1;
/// An edge of order alone was taken.
const ORDER_TAKEN: u8 = 2;
/// An edge of order alone was skipped.
const ORDER_SKIPPED: u8 = 4;

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
    /// Kinds of edges that have arrived, as bits.
    #[serde(rename = "taken", deserialize_with = "arrived_edges")]
    arrived: Vec<u8>,
    /// Rank and number of the cause; of a node that ran with the first edge taken, the rank of that edge.
    cause: Vec<(u32, u32)>,
    state: Vec<NodeState>,
    slots: Vec<S>,
    /// Scheduled nodes without a terminal event.
    remaining: u32,
}

/// Earlier checkpoints say of a node only that some edge was taken.
fn arrived_edges<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Arrived {
        Bits(u8),
        Taken(bool),
    }
    let bits = |arrived| match arrived {
        Arrived::Bits(bits) => bits,
        Arrived::Taken(true) => TAKEN | ORDER_TAKEN,
        Arrived::Taken(false) => 0,
    };
    Ok(Vec::<Arrived>::deserialize(from)?.into_iter().map(bits).collect())
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
            arrived: self.arrived,
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
            arrived: Vec::new(),
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
        self.arrived.clear();
        self.arrived.resize(n_nodes, 0);
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

    /// Counts one in-edge of a node.
    pub(super) fn arrive(&mut self, node: LocalIx, edge: InEdge, needs: Needs<'_>) -> Turn {
        let at = node as usize;
        self.unknown[at] -= 1;
        match edge.arrival {
            Arrival::Taken => {
                if needs.first && self.arrived[at] & TAKEN == 0 {
                    self.cause[at] = (edge.rank, NONE);
                }
                self.arrived[at] |= if edge.order { TAKEN | ORDER_TAKEN } else { TAKEN };
            }
            Arrival::Skipped(cause) => {
                self.arrived[at] |= if edge.order { ORDER_SKIPPED } else { 0 };
                if !needs.first || self.arrived[at] & TAKEN == 0 {
                    self.cause[at] = self.cause[at].min((edge.rank, cause));
                }
            }
        }
        self.turn(node, needs)
    }

    /// Checks a waiting node, and queues it when it is ready.
    fn turn(&mut self, node: LocalIx, needs: Needs<'_>) -> Turn {
        let at = node as usize;
        if self.state[at] != NodeState::Waiting {
            return Turn::NotYet;
        }
        let taken = self.arrived[at] & TAKEN != 0;
        let turn = if needs.first && taken {
            Turn::Ready
        } else if self.unknown[at] > 0 {
            Turn::NotYet
        } else if self.cause[at].1 == NONE {
            // Nothing that leads here was skipped.
            Turn::Ready
        } else {
            self.turn_with_skips(at, needs)
        };
        if turn != Turn::NotYet {
            self.state[at] = NodeState::Queued;
        }
        turn
    }

    /// Decides on a node some of whose edges were skipped: each of its slots must have a value, unless the node makes
    /// sense without; edges of order alone count as one more slot.
    fn turn_with_skips(&mut self, at: usize, needs: Needs<'_>) -> Turn {
        let strict = needs.inputs.iter().filter(|input| input.strict);
        let empty = strict.map(|input| self.skipped(needs.scope.origins(input)));
        let closed = needs.gates.iter().map(|gate| self.all_skipped(gate.iter().copied()));
        if let Some(cause) = empty.chain(closed).find_map(|cause| cause) {
            self.cause[at] = (0, cause);
            return Turn::Skip;
        }
        let arrived = self.arrived[at];
        let out_of_order = arrived & ORDER_SKIPPED != 0 && arrived & ORDER_TAKEN == 0;
        // A container that only its body leads to.
        let is_wired = |input: &InputPlan| !input.lazy && input.is_wired();
        let unreached = arrived & TAKEN == 0 && !needs.inputs.iter().any(is_wired);
        if out_of_order || unreached { Turn::Skip } else { Turn::Ready }
    }

    /// The cause why none of these gives a value; `None` if one does.
    fn skipped(&self, origins: &[Origin]) -> Option<u32> {
        self.all_skipped(slots(origins)).filter(|_| slots(origins).count() == origins.len())
    }

    fn all_skipped(&self, slots: impl IntoIterator<Item = SlotIx>) -> Option<u32> {
        let mut cause = None;
        for slot in slots {
            let Slot::Skipped(own) = self.slots[slot as usize] else { return None };
            cause.get_or_insert(own);
        }
        cause
    }

    /// The slot by which a node runs that waits for the first edge only.
    pub(super) fn deciding(&self, node: LocalIx) -> Option<SlotIx> {
        let (rank, cause) = self.cause[node as usize];
        (cause == NONE && (rank as usize) < self.slots.len()).then_some(rank)
    }

    /// Schedules a node that nothing needed so far.
    pub(super) fn waken(&mut self, node: LocalIx, needs: Needs<'_>) -> Turn {
        self.state[node as usize] = NodeState::Waiting;
        self.remaining += 1;
        self.turn(node, needs)
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

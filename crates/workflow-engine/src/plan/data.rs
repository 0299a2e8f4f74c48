//! The compiled form of a workflow: dense ids, flat arrays, nothing left to look up by name.

use std::sync::{Arc, LazyLock};

use serde_json::{Map, Value};
use workflow_model::graph::NameIx;
use workflow_model::{AvailableTools, DataFlowType, Problem};

use super::csr::Csr;
use super::policy::Policy;
use super::prepared::Prepared;
use super::zone::ZonePlan;

/// Index of a value within a frame.
pub(crate) type SlotIx = u32;
/// Index of a node within its scope.
pub(crate) type LocalIx = u32;
/// No index.
pub(crate) const NONE: u32 = u32::MAX;

/// A compiled workflow without the code of its nodes.
pub(crate) struct PlanData {
    pub(crate) names: Vec<Arc<str>>,
    pub(crate) types: Vec<TypePlan>,
    pub(crate) details: Vec<Details>,
    pub(crate) scopes: Vec<ScopePlan>,
    pub(crate) bypasses: Vec<Vec<BypassPlan>>,
    pub(crate) zones: Vec<ZonePlan>,
    pub(crate) groups: Vec<Arc<str>>,
    pub(crate) arguments: Vec<Argument>,
    pub(crate) variables: Arc<Value>,
    pub(crate) available_tools: Option<AvailableTools>,
    /// Paths of the nodes that stand for arguments and results, where they are to be seen in events.
    pub(crate) input_nodes: Vec<Arc<str>>,
    pub(crate) output_nodes: Vec<Arc<str>>,
    pub(crate) warnings: Vec<Problem>,
    pub(crate) has_effect: bool,
}

/// A type of node that occurs.
pub(crate) struct TypePlan {
    pub(crate) name: Arc<str>,
    pub(crate) version: Arc<str>,
    /// The output that unnamed values belong to.
    pub(crate) main: Arc<str>,
    /// The type of that output.
    pub(crate) output_type: DataFlowType,
    pub(crate) blocking: bool,
    /// It may be run again when its outcome is unknown.
    pub(crate) idempotent: bool,
    /// Outputs that are written piece by piece.
    pub(crate) streams: Vec<Arc<str>>,
}

/// Rare parts of a node, kept apart from the common ones.
pub(crate) struct Details {
    pub(crate) config: Map<String, Value>,
    pub(crate) prepared: Prepared,
    pub(crate) policy: Policy,
    /// Slots of which each list must give a value, or the node is skipped as the group around it would be.
    pub(crate) gates: Vec<Vec<SlotIx>>,
}

/// An argument of the workflow.
pub(crate) struct Argument {
    pub(crate) name: Arc<str>,
    pub(crate) data_flow_type: DataFlowType,
    pub(crate) required: bool,
    pub(crate) default: Option<Arc<Value>>,
}

/// Nodes that run in one frame.
#[derive(Default)]
pub(crate) struct ScopePlan {
    pub(crate) nodes: Vec<NodePlan>,
    pub(crate) inputs: Vec<InputPlan>,
    /// Sources of all inputs, one input behind the other.
    pub(crate) origins: Vec<Origin>,
    pub(crate) outs: Vec<OutPlan>,
    /// In-edges of each node.
    pub(crate) counts: Vec<u32>,
    /// Initial values of a frame's first slots.
    pub(crate) entries: Vec<(SlotIx, Entry)>,
    pub(crate) n_slots: u32,
    /// The node that fills each slot; [`NONE`] for an entry.
    pub(crate) owners: Vec<LocalIx>,
    /// Nodes that wait for each slot.
    pub(crate) readers: Csr,
    /// Nodes that wait for each slot to open, because they read it as a stream.
    pub(crate) stream_readers: Csr,
    /// Nodes that wait for each node without taking a value.
    pub(crate) followers: Csr,
    /// Nodes that each node waits for, lazy inputs left out.
    pub(crate) sources: Csr,
    /// All nodes, each behind those that it waits for.
    pub(crate) order: Vec<LocalIx>,
    /// Nodes that some result or effect needs.
    pub(crate) needed: Vec<bool>,
    pub(crate) n_needed: u32,
    pub(crate) results: Vec<ResultPlan>,
    /// Nodes that run whatever is wanted.
    pub(crate) always: Vec<LocalIx>,
    /// The container that holds the scope.
    pub(crate) owner: Option<(u32, LocalIx)>,
}

/// One node.
pub(crate) struct NodePlan {
    pub(crate) path: Arc<str>,
    pub(crate) kind: Kind,
    /// Index into the details, or [`NONE`].
    pub(crate) details: u32,
    pub(crate) inputs: (u32, u32),
    pub(crate) outs: (u32, u32),
}

/// Action of a node when it is scheduled.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// The code of this type.
    Run(u32),
    Muted,
    /// Values of its outputs.
    Bypass(u32),
    /// The body in this scope, once.
    Call(u32),
    /// The body of this zone, pass by pass.
    Zone(u32),
}

/// An input slot.
#[expect(clippy::struct_excessive_bools, reason = "each is a promise or property of its own")]
pub(crate) struct InputPlan {
    pub(crate) slot: NameIx,
    pub(crate) data_flow_type: DataFlowType,
    pub(crate) typed: bool,
    /// Types of groups that each value passes before that.
    pub(crate) through: Box<[DataFlowType]>,
    pub(crate) multi: bool,
    pub(crate) stream: bool,
    pub(crate) lazy: bool,
    /// Without a value the node is skipped.
    pub(crate) strict: bool,
    /// Range of its sources among those of the scope.
    pub(crate) from: (u32, u32),
    pub(crate) fallback: Option<Arc<Value>>,
}

impl InputPlan {
    /// Returns `true` if an edge or a constant leads to it.
    pub(crate) fn is_wired(&self) -> bool {
        self.from.0 < self.from.1
    }
}

/// A slot of the frame or a constant.
#[derive(Clone)]
pub(crate) enum Origin {
    Slot(SlotIx),
    Value(Arc<Value>),
}

/// Conditions under which a node runs once all that leads to it is known.
#[derive(Clone, Copy)]
pub(crate) struct Needs<'p> {
    pub(crate) scope: &'p ScopePlan,
    pub(crate) inputs: &'p [InputPlan],
    pub(crate) gates: &'p [Vec<SlotIx>],
    /// It runs with the first edge that is taken.
    pub(crate) first: bool,
}

/// An output that another node takes.
pub(crate) struct OutPlan {
    pub(crate) name: NameIx,
    pub(crate) slot: SlotIx,
    /// It is written piece by piece.
    pub(crate) stream: bool,
    /// It is taken as one value.
    pub(crate) joined: bool,
}

/// Value of one output of a bypassed node.
pub(crate) struct BypassPlan {
    pub(crate) output: NameIx,
    pub(crate) input: Option<NameIx>,
    pub(crate) value: Arc<Value>,
}

/// Initial value of a slot of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Entry {
    /// An argument.
    Argument(u32),
    /// A slot of the frame around.
    Outer(SlotIx),
    /// An input of the container, by its place among the container's inputs.
    Input(u32),
    /// A carried value.
    State(u32),
    /// The number of the pass.
    Index,
    /// The item of the pass.
    Item,
    /// Number of remaining passes.
    Remaining,
    /// An input of that name that nothing gives.
    Absent(NameIx),
}

/// A result of a scope.
pub(crate) struct ResultPlan {
    pub(crate) name: Arc<str>,
    pub(crate) data_flow_type: DataFlowType,
    /// Types of groups that each value passes before that.
    pub(crate) through: Box<[DataFlowType]>,
    pub(crate) multi: bool,
    pub(crate) origins: Vec<Origin>,
}

impl PlanData {
    /// Conditions under which a node runs once all that leads to it is known.
    pub(crate) fn needs<'p>(&'p self, scope: &'p ScopePlan, node: &NodePlan) -> Needs<'p> {
        let details = self.details.get(node.details as usize);
        Needs {
            scope,
            inputs: scope.inputs(node),
            gates: details.map_or(&[], |details| &details.gates),
            first: details.is_some_and(|details| details.policy.first),
        }
    }

    /// The rules of a node, where it has any.
    pub(crate) fn policy(&self, node: &NodePlan) -> Option<&Policy> {
        self.policy_at(node.details)
    }

    /// The rules in the details of that index.
    pub(crate) fn policy_at(&self, details: u32) -> Option<&Policy> {
        (details != NONE).then(|| &self.details[details as usize].policy)
    }

    /// The output that unnamed values of a node belong to.
    pub(crate) fn main_output(&self, node: &NodePlan) -> &Arc<str> {
        static NO_OUTPUT: LazyLock<Arc<str>> = LazyLock::new(|| Arc::from(""));
        let first_result =
            |scope: u32| self.scopes[scope as usize].results.first().map(|result| &result.name);
        match node.kind {
            Kind::Run(node_type) => &self.types[node_type as usize].main,
            Kind::Zone(zone) => {
                let zone = &self.zones[zone as usize];
                first_result(zone.scope).or(zone.keys.first()).unwrap_or(&NO_OUTPUT)
            }
            Kind::Call(scope) => first_result(scope).unwrap_or(&NO_OUTPUT),
            Kind::Muted | Kind::Bypass(_) => &NO_OUTPUT,
        }
    }

    pub(super) fn stream_source(&self, root: &ScopePlan, origin: &Origin) -> Option<(Arc<str>, Arc<str>)> {
        let Origin::Slot(slot) = origin else { return None };
        let node = root.nodes.get(*root.owners.get(*slot as usize)? as usize)?;
        let out = root.outs(node).iter().find(|out| out.slot == *slot && out.stream)?;
        Some((Arc::clone(&node.path), Arc::clone(&self.names[out.name as usize])))
    }
}

impl ScopePlan {
    pub(crate) fn outs(&self, node: &NodePlan) -> &[OutPlan] {
        &self.outs[node.outs.0 as usize..node.outs.1 as usize]
    }

    pub(crate) fn inputs(&self, node: &NodePlan) -> &[InputPlan] {
        &self.inputs[node.inputs.0 as usize..node.inputs.1 as usize]
    }

    /// Sources of an input's value, in order.
    pub(crate) fn origins(&self, input: &InputPlan) -> &[Origin] {
        &self.origins[input.from.0 as usize..input.from.1 as usize]
    }
}

/// The slots among these origins.
pub(crate) fn slots(origins: &[Origin]) -> impl Iterator<Item = SlotIx> + '_ {
    origins.iter().filter_map(|origin| match origin {
        Origin::Slot(slot) => Some(*slot),
        Origin::Value(_) => None,
    })
}

//! The compiled form of a workflow: dense ids, flat arrays, nothing left to look up by name.

mod compile;
mod layout;
mod policy;
mod reach;
mod zone;

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};
use workflow_model::graph::NameIx;
use workflow_model::{AvailableTools, DataFlowType, Problem, Workflow, WorkflowSource, World, analyze};

use crate::error::PlanError;
use crate::node::{Node, NodeCatalog, Prepared};

pub(crate) use policy::Policy;
pub(crate) use reach::slots;
pub(crate) use zone::{Condition, KeyRef, ZonePlan};

/// Index of a value within a frame.
pub(crate) type SlotIx = u32;
/// Index of a node within its scope.
pub(crate) type LocalIx = u32;
/// No index.
pub(crate) const NONE: u32 = u32::MAX;

/// A workflow ready to run, any number of times and side by side.
#[derive(Clone)]
pub struct Plan(pub(crate) Arc<PlanInner>);

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes: usize = self.0.scopes.iter().map(|scope| scope.nodes.len()).sum();
        f.debug_struct("Plan")
            .field("scopes", &self.0.scopes.len())
            .field("nodes", &nodes)
            .finish_non_exhaustive()
    }
}

pub(crate) struct PlanInner {
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
    pub(crate) node: Arc<dyn Node>,
    pub(crate) name: Arc<str>,
    /// The output that unnamed values belong to.
    pub(crate) main: Arc<str>,
    pub(crate) blocking: bool,
    /// Outputs that are written piece by piece.
    pub(crate) streams: Vec<Arc<str>>,
}

/// Rare parts of a node, kept apart from the common ones.
pub(crate) struct Details {
    pub(crate) config: Map<String, Value>,
    pub(crate) prepared: Prepared,
    pub(crate) policy: Policy,
}

/// An argument of the workflow.
pub(crate) struct Argument {
    pub(crate) name: Arc<str>,
    pub(crate) data_flow_type: DataFlowType,
    pub(crate) required: bool,
    pub(crate) default: Arc<Value>,
}

/// Nodes that run in one frame.
#[derive(Default)]
pub(crate) struct ScopePlan {
    pub(crate) nodes: Vec<NodePlan>,
    pub(crate) inputs: Vec<InputPlan>,
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
    pub(crate) multi: bool,
    pub(crate) stream: bool,
    pub(crate) lazy: bool,
    pub(crate) from: From,
    pub(crate) fallback: Option<Arc<Value>>,
}

/// Source of an input's value.
pub(crate) enum From {
    Nothing,
    One(Origin),
    Many(Box<[Origin]>),
}

impl From {
    pub(crate) fn origins(&self) -> &[Origin] {
        match self {
            Self::Nothing => &[],
            Self::One(origin) => std::slice::from_ref(origin),
            Self::Many(origins) => origins,
        }
    }
}

/// A slot of the frame or a constant.
#[derive(Clone)]
pub(crate) enum Origin {
    Slot(SlotIx),
    Value(Arc<Value>),
}

/// An output that another node takes.
pub(crate) struct OutPlan {
    pub(crate) name: NameIx,
    pub(crate) slot: SlotIx,
    /// It is written piece by piece.
    pub(crate) stream: bool,
    /// Somebody takes it as one value.
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
}

/// A result of a scope.
pub(crate) struct ResultPlan {
    pub(crate) name: Arc<str>,
    pub(crate) multi: bool,
    pub(crate) origins: Vec<Origin>,
}

/// Lists of numbers, one behind the other.
#[derive(Default)]
pub(crate) struct Csr {
    offsets: Vec<u32>,
    items: Vec<u32>,
}

impl Csr {
    /// Sorts pairs by their first number, keeping their order otherwise.
    pub(crate) fn new(n_rows: usize, pairs: &[(u32, u32)]) -> Self {
        if pairs.is_empty() {
            return Self::default();
        }
        let mut offsets = vec![0_u32; n_rows + 1];
        for (row, _) in pairs {
            offsets[*row as usize + 1] += 1;
        }
        for row in 0..n_rows {
            offsets[row + 1] += offsets[row];
        }
        let mut next = offsets.clone();
        let mut items = vec![0; pairs.len()];
        for (row, item) in pairs {
            let at = &mut next[*row as usize];
            items[*at as usize] = *item;
            *at += 1;
        }
        Self { offsets, items }
    }

    pub(crate) fn row(&self, row: u32) -> &[u32] {
        match self.offsets.get(row as usize..row as usize + 2) {
            Some([start, end]) => &self.items[*start as usize..*end as usize],
            Some(_) | None => &[],
        }
    }
}

impl Plan {
    /// Checks and compiles a workflow.
    ///
    /// # Errors
    /// Every problem at once, warnings included, where one of them is an error.
    pub fn new(
        workflow: &Workflow,
        catalog: &NodeCatalog,
        workflows: &dyn WorkflowSource,
    ) -> Result<Self, PlanError> {
        Self::in_world(workflow, catalog, &World::new(catalog, workflows))
    }

    /// Checks and compiles a workflow in a world that knows more: its own id, the tools that exist.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn in_world(
        workflow: &Workflow,
        catalog: &NodeCatalog,
        world: &World<'_>,
    ) -> Result<Self, PlanError> {
        let analysis = analyze(workflow, world);
        compile::compile(analysis, catalog).map(|inner| Self(Arc::new(inner)))
    }

    /// Everything that is wrong with a workflow, settings of nodes and expressions included.
    #[must_use]
    pub fn check(workflow: &Workflow, catalog: &NodeCatalog, world: &World<'_>) -> Vec<Problem> {
        match Self::in_world(workflow, catalog, world) {
            Ok(plan) => plan.0.warnings.clone(),
            Err(error) => error.problems,
        }
    }

    /// Returns the warnings, which do not keep the workflow from running.
    #[must_use]
    pub fn warnings(&self) -> &[Problem] {
        &self.0.warnings
    }

    /// Returns `true` if a node of the plan has an effect outside of the run.
    #[must_use]
    pub fn has_effect(&self) -> bool {
        self.0.has_effect
    }

    /// The nodes whose chunks are those of a streamed result: path and slot of each.
    #[must_use]
    pub fn stream_sources(&self, result: &str) -> Vec<(Arc<str>, Arc<str>)> {
        let Some(root) = self.0.scopes.first() else { return Vec::new() };
        let result = root.results.iter().find(|own| &*own.name == result);
        let origins = result.map_or(&[][..], |result| &result.origins);
        origins.iter().filter_map(|origin| self.0.stream_source(root, origin)).collect()
    }
}

impl PlanInner {
    fn stream_source(&self, root: &ScopePlan, origin: &Origin) -> Option<(Arc<str>, Arc<str>)> {
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
}

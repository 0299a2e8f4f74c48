//! A workflow with its groups expanded, its zones found and every wire resolved.
//!
//! Building it is checking it: [`analyze`] gives the graph together with everything that is wrong. A graph whose
//! analysis holds no error is what an engine compiles.

mod branches;
mod build;
mod bypass;
mod condition;
mod cycles;
mod drafts;
mod expose;
mod finish;
mod levels;
mod outline;
mod settings;
mod slots;
mod sources;
mod wires;

pub use outline::OutlineStep;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use agent_types::Problem;
use indexmap::IndexMap;
use serde_json::Value;
use smallvec::SmallVec;

use crate::definition::{Definitions, NodeDefinition, SlotDefinition, WorkflowSource};
use crate::node::Node;
use crate::slot::Slot;
use crate::workflow::Workflow;
use crate::zone::ZoneSpec;

/// Groups and zones inside each other; deeper ones are a problem, so that nothing grows without end.
pub const MAX_DEPTH: usize = 64;
/// Nodes after expansion; a workflow that embeds others twice at each of many levels would have more.
pub const MAX_NODES: usize = 1_000_000;
/// Uses of groups and bodies in one workflow.
pub const MAX_LEVELS: usize = 10_000;

/// Context of a check: node types, embedded workflows, tools.
#[derive(Clone, Copy)]
pub struct World<'a> {
    /// Types of nodes.
    pub definitions: &'a dyn Definitions,
    /// Workflows that groups embed.
    pub workflows: &'a dyn WorkflowSource,
    /// The id under which this workflow is known, so that embedding itself is seen at once.
    pub own_id: Option<&'a str>,
    /// All tool ids, where they are known; `availableTools` is checked against them.
    pub tools: Option<&'a [String]>,
    /// Names of all models, where they are known; `profileId` of nodes is checked against them.
    pub models: Option<&'a [String]>,
    /// Ids of all agents, where they are known; `agentId` of nodes is checked against them.
    pub agents: Option<&'a [String]>,
    /// Names of all knowledge bases, where they are known; `base` of nodes is checked against them.
    pub bases: Option<&'a [String]>,
    /// Parameters of the tools that are nodes, as JSON Schemas by the ids of the file, as far as they are known.
    pub parameters: Option<&'a BTreeMap<String, Value>>,
}

impl std::fmt::Debug for World<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World")
            .field("own_id", &self.own_id)
            .field("tools", &self.tools)
            .field("models", &self.models)
            .finish_non_exhaustive()
    }
}

impl<'a> World<'a> {
    /// Types and other workflows.
    #[must_use]
    pub fn new(definitions: &'a dyn Definitions, workflows: &'a dyn WorkflowSource) -> Self {
        Self {
            definitions,
            workflows,
            own_id: None,
            tools: None,
            models: None,
            agents: None,
            bases: None,
            parameters: None,
        }
    }

    /// The same world for the workflow of this id.
    #[must_use]
    pub fn with_own_id(mut self, id: Option<&'a str>) -> Self {
        self.own_id = id;
        self
    }

    /// The same world with all tool ids.
    #[must_use]
    pub fn with_tools(mut self, tools: &'a [String]) -> Self {
        self.tools = Some(tools);
        self
    }

    /// The same world with the ids of all agents.
    #[must_use]
    pub fn with_agents(mut self, agents: Option<&'a [String]>) -> Self {
        self.agents = agents;
        self
    }

    /// The same world with the names of all knowledge bases.
    #[must_use]
    pub fn with_bases(mut self, bases: Option<&'a [String]>) -> Self {
        self.bases = bases;
        self
    }

    /// The same world with the parameters of tools that are nodes.
    #[must_use]
    pub fn with_parameters(mut self, parameters: &'a BTreeMap<String, Value>) -> Self {
        self.parameters = Some(parameters);
        self
    }

    /// The same world with the names of all models.
    #[must_use]
    pub fn with_models(mut self, models: Option<&'a [String]>) -> Self {
        self.models = models;
        self
    }
}

/// Index of a node in [`Graph::nodes`].
pub type NodeIx = u32;
/// Index of a scope in [`Graph::scopes`].
pub type ScopeIx = u32;
/// Index of a slot name; see [`Graph::name`].
pub type NameIx = u32;

/// A workflow that was kept, borrowed or shared.
#[derive(Debug, Clone)]
enum WorkflowRef<'a> {
    Borrowed(&'a Workflow),
    Shared(Arc<Workflow>),
}

impl Deref for WorkflowRef<'_> {
    type Target = Workflow;

    fn deref(&self) -> &Workflow {
        match self {
            Self::Borrowed(workflow) => workflow,
            Self::Shared(workflow) => workflow,
        }
    }
}

/// The expanded workflow.
#[derive(Debug)]
pub struct Graph<'a> {
    /// All nodes that run or hold others, of all scopes.
    pub nodes: Vec<GraphNode>,
    /// The root first.
    pub scopes: Vec<Scope>,
    names: Names,
    workflows: Vec<WorkflowRef<'a>>,
}

/// One node.
#[derive(Debug)]
pub struct GraphNode {
    /// Its path within its scope: its id, with the groups around it in front.
    pub path: Arc<str>,
    /// The scope it runs in.
    pub scope: ScopeIx,
    /// Action of the node when it is scheduled.
    pub kind: NodeKind,
    /// Slots that an edge or a value leads to.
    pub inputs: Vec<Input>,
    /// Nodes that must be settled first, without giving a value.
    pub after: Vec<NodeIx>,
    /// Inputs of the groups around it that are wired straight through: where one has no value, the node is skipped as
    /// the group would be. Only those whose sources may be skipped are listed.
    pub gates: Vec<Vec<Source>>,
    workflow: u32,
    index: u32,
}

/// Action of a node when it is scheduled.
#[derive(Debug)]
pub enum NodeKind {
    /// Its type's code runs.
    Plain,
    /// It is skipped.
    Muted,
    /// Its inputs are handed to its outputs.
    Bypass(Vec<BypassOutput>),
    /// Its body runs pass by pass.
    Zone {
        /// The scope of the body.
        scope: ScopeIx,
        /// The settings.
        spec: Box<ZoneSpec>,
    },
    /// Its body runs once, because the group itself has limits, retries or the like.
    Call {
        /// The scope of the body.
        scope: ScopeIx,
    },
}

/// Value of one output of a bypassed node.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct BypassOutput {
    /// The output slot.
    pub output: NameIx,
    /// Source of its value.
    pub from: BypassSource,
}

/// Source of a value of a bypassed node.
#[derive(Debug, Clone, PartialEq)]
pub enum BypassSource {
    /// An input slot, and the value that counts when the slot has none.
    Input(NameIx, Arc<Value>),
    /// A value.
    Value(Arc<Value>),
}

/// An input slot that an edge or a value leads to.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a promise or property of its own")]
#[non_exhaustive]
pub struct Input {
    /// Its name.
    pub slot: NameIx,
    /// Its type.
    pub data_flow_type: crate::slot::DataFlowType,
    /// Values are checked against that type and converted; not where an edge fits by category only.
    pub typed: bool,
    /// Types of groups that are wired straight through, which each value passes before that, in order.
    pub through: Vec<crate::slot::DataFlowType>,
    /// The node gets a list of all its sources.
    pub multi: bool,
    /// The node reads it piece by piece.
    pub stream: bool,
    /// Its sources run only when the node asks.
    pub lazy: bool,
    /// Without a value the node is skipped: it has sources, and neither a value of its own nor a node that makes sense
    /// without it.
    pub strict: bool,
    /// Sources of its values, in order. Empty for a value that only the file gives.
    pub sources: Sources,
    /// The value that counts when no source gives one.
    pub fallback: Option<Arc<Value>>,
}

/// Source of a value.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// An output of a node of this scope or of one around it.
    Node(NodeIx, NameIx),
    /// Something that the scope itself gives: an argument, or a value of the pass.
    Entry(ScopeIx, NameIx),
    /// A constant.
    Value(Arc<Value>),
    /// A constant that counts where no other source of the slot gives a value.
    Fallback(Arc<Value>),
    /// An input of a group that nothing gives: what takes it is skipped.
    Absent(NameIx),
}

/// Sources of one value; nearly always there is one.
pub type Sources = SmallVec<[Source; 1]>;

/// Nodes that run in one frame: the workflow, a called group, or the body of a zone.
#[derive(Debug)]
pub struct Scope {
    /// The node that holds it; none for the root.
    pub owner: Option<NodeIx>,
    /// Kind of the scope.
    pub kind: ScopeKind,
    /// Its results by name, in declared order.
    pub outputs: IndexMap<NameIx, Output>,
    /// For a zone: what fills the next pass, and `break` and `continue`.
    pub next: IndexMap<NameIx, Vec<Source>>,
    /// Arguments it declares; empty for a zone.
    pub inputs: IndexMap<String, Slot>,
    /// Paths of the nodes that stand for its arguments.
    pub input_nodes: Vec<Arc<str>>,
    /// Paths of the nodes that stand for its results.
    pub output_nodes: Vec<Arc<str>>,
}

/// Kinds of scopes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScopeKind {
    /// The workflow.
    Root,
    /// A group that runs as one node.
    Call,
    /// The body of a loop zone.
    Zone,
}

/// A result of a scope.
#[derive(Debug)]
pub struct Output {
    /// Its declaration.
    pub slot: SlotDefinition,
    /// Types of groups that are wired straight through, which each value passes before that, in order.
    pub through: Vec<crate::slot::DataFlowType>,
    /// Sources of its value.
    pub sources: Vec<Source>,
}

/// A graph and what is wrong with it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Analysis<'a> {
    /// Graph of the workflow; complete if `problems` holds no error.
    pub graph: Graph<'a>,
    /// Everything found, errors and warnings, in file order as far as possible.
    pub problems: Vec<Problem>,
}

impl Analysis<'_> {
    /// Returns `true` if the workflow can run.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        Problem::are_warnings(&self.problems)
    }
}

/// Expands and checks a workflow. All problems are reported together.
#[must_use]
pub fn analyze<'a>(workflow: &'a Workflow, world: &World<'_>) -> Analysis<'a> {
    build::Builder::new(*world).build(workflow)
}

impl Graph<'_> {
    /// The text of a slot name.
    #[must_use]
    pub fn name(&self, index: NameIx) -> &Arc<str> {
        &self.names.texts[index as usize]
    }

    /// All slot names, by their indexes.
    #[must_use]
    pub fn names(&self) -> &[Arc<str>] {
        &self.names.texts
    }

    /// The index of a slot name that occurs in the graph.
    #[must_use]
    pub fn find_name(&self, name: &str) -> Option<NameIx> {
        self.names.indexes.get(name).copied()
    }

    /// Returns the definition of a node in the file.
    #[must_use]
    pub fn spec(&self, node: &GraphNode) -> &Node {
        &self.workflows[node.workflow as usize].nodes[node.index as usize]
    }

    /// The path of a node from the root, without passes.
    #[must_use]
    pub fn full_path(&self, node: NodeIx) -> String {
        let node = &self.nodes[node as usize];
        format!("{}{}", self.scope_prefix(node.scope), node.path)
    }

    /// Prefix of the paths of a scope's nodes.
    fn scope_prefix(&self, scope: ScopeIx) -> String {
        let mut parts = Vec::new();
        let mut scope = scope;
        while let Some(owner) = self.scopes[scope as usize].owner {
            let owner = &self.nodes[owner as usize];
            parts.push(Arc::clone(&owner.path));
            scope = owner.scope;
        }
        parts.iter().rev().flat_map(|part| [&**part, "/"]).collect()
    }

    /// The node that holds `node` in `scope`, or the node itself; none if it is not inside that scope.
    #[must_use]
    pub fn holder_in(&self, node: NodeIx, scope: ScopeIx) -> Option<NodeIx> {
        let mut at = node;
        loop {
            let own = self.nodes[at as usize].scope;
            if own == scope {
                return Some(at);
            }
            at = self.scopes[own as usize].owner?;
        }
    }

    /// The variables of the workflow.
    #[must_use]
    pub fn root(&self) -> &Workflow {
        &self.workflows[0]
    }

    /// The type of a plain or switched-off node.
    pub fn definition<'d>(
        &self,
        node: &GraphNode,
        definitions: &'d dyn Definitions,
    ) -> Option<&'d NodeDefinition> {
        definitions.definition(&self.spec(node).node_type)
    }
}

/// Slot names, each held once.
#[derive(Debug, Default)]
struct Names {
    texts: Vec<Arc<str>>,
    indexes: foldhash::HashMap<Arc<str>, NameIx>,
}

impl Names {
    fn intern(&mut self, name: &str) -> NameIx {
        if let Some(index) = self.indexes.get(name) {
            return *index;
        }
        let index = NameIx::try_from(self.texts.len()).unwrap_or(NameIx::MAX);
        let text: Arc<str> = name.into();
        self.texts.push(Arc::clone(&text));
        self.indexes.insert(text, index);
        index
    }
}

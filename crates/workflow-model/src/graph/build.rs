//! The order of the work: levels, wires, inputs, cycles.

use std::collections::{HashMap, HashSet};

use agent_types::Problem;

use super::drafts::{Doubled, Face};
use super::levels::Level;
use super::wires::WireIn;
use super::{Analysis, Graph, Names, NodeIx, ScopeIx, WorkflowRef, World};
use crate::definition::NodeDefinition;
use crate::problem::ProblemCode;
use crate::workflow::Workflow;

/// Names compared for suggestions in one check; beyond that, problems come without one.
const MAX_COMPARISONS: usize = 100_000;

/// Everything that is known while a graph is built.
pub(super) struct Builder<'a, 'w> {
    pub(super) world: World<'w>,
    pub(super) graph: Graph<'a>,
    pub(super) levels: Vec<Level>,
    /// Wires into nodes, until their inputs are made of them.
    pub(super) wires: Vec<WireIn>,
    /// The type of each node, where there is one.
    pub(super) definitions: Vec<Option<&'w NodeDefinition>>,
    /// Slots of groups and zones that are bypassed, and so have no body that would say them.
    pub(super) faces: HashMap<NodeIx, Face>,
    /// Edges between nodes of one scope, for finding cycles.
    pub(super) links: Vec<(NodeIx, NodeIx)>,
    pub(super) problems: Vec<Problem>,
    /// Slots for one value into which several edges lead.
    pub(super) doubled: Vec<Doubled>,
    comparisons: usize,
}

impl<'a, 'w> Builder<'a, 'w> {
    pub(super) fn new(world: World<'w>) -> Self {
        let graph =
            Graph { nodes: Vec::new(), scopes: Vec::new(), names: Names::default(), workflows: Vec::new() };
        Self {
            world,
            graph,
            levels: Vec::new(),
            wires: Vec::new(),
            definitions: Vec::new(),
            faces: HashMap::new(),
            links: Vec::new(),
            problems: Vec::new(),
            doubled: Vec::new(),
            comparisons: 0,
        }
    }

    pub(super) fn build(mut self, workflow: &'a Workflow) -> Analysis<'a> {
        self.add_levels(WorkflowRef::Borrowed(workflow));
        self.expose_outputs();
        self.add_wires();
        self.finish_nodes();
        self.check_scopes();
        let acyclic = self.find_cycles();
        self.check_branches(acyclic);
        self.check_settings(workflow);
        let mut seen = HashSet::new();
        self.problems.retain(|problem| {
            seen.insert((
                problem.code,
                problem.place.node.clone(),
                problem.place.slot.clone(),
                problem.message.clone(),
            ))
        });
        Analysis { graph: self.graph, problems: self.problems }
    }

    pub(super) fn problem(&mut self, problem: Problem) {
        self.problems.push(problem);
    }

    /// The candidate that was probably meant, as long as looking for it stays cheap.
    pub(super) fn nearest<'n>(
        &mut self,
        name: &str,
        candidates: impl IntoIterator<Item = &'n str>,
    ) -> Option<String> {
        let left = MAX_COMPARISONS.saturating_sub(self.comparisons);
        let mut compared = 0;
        let candidates = candidates.into_iter().take(left).inspect(|_| compared += 1);
        let nearest = agent_types::nearest(name, candidates).map(str::to_owned);
        self.comparisons += compared;
        nearest
    }

    /// The path of a node in messages.
    pub(super) fn path_of(&self, node: NodeIx) -> String {
        self.graph.full_path(node)
    }

    /// The path of the `index`th node of a level in messages.
    pub(super) fn path_in(&self, level: usize, index: usize) -> String {
        let level = &self.levels[level];
        let id = &self.graph.workflows[level.workflow].nodes[index].id;
        format!("{}{}{id}", self.graph.scope_prefix(level.scope), level.prefix)
    }

    /// Reports an edge that goes where it may not.
    pub(super) fn leaves_zone(&mut self, source: String, slot: Option<&str>, target: &str) {
        let message = format!(
            "the edge to `{target}` leaves the body of a loop zone; give the value to a `core:GroupOutput` inside the zone and take it from the zone"
        );
        self.problem(Problem::error(ProblemCode::EdgeLeavesZone, message).at(source).slot_of(slot));
    }

    pub(super) fn scope_ix(index: usize) -> ScopeIx {
        ScopeIx::try_from(index).unwrap_or(ScopeIx::MAX)
    }
}

//! Branches: the choices under which a node runs.
//!
//! Some nodes decide which of their outputs gives a value. From that follows which nodes can never run, which edges
//! exclude each other, and which groups may be skipped. Nothing of it is guessed: where the choices become too many,
//! the answer is that anything may happen.

use std::collections::HashSet;

use agent_types::Problem;
use petgraph::algo::kosaraju_scc;
use petgraph::graph::{DiGraph, NodeIndex};

use super::build::Builder;
use super::condition::{Choice, Condition};
use super::drafts::Doubled;
use super::levels::{Boundary, Level, Role};
use super::sources::sources_of_edge;
use super::{GraphNode, Input, NodeIx, NodeKind, ScopeKind, Source};
use crate::policy::OnError;
use crate::problem::ProblemCode;
use crate::structural::ERROR_SLOT;

/// The node does not decide between outputs, or gives its normal ones.
const NORMAL: u32 = 0;

impl Builder<'_, '_> {
    /// Reports nodes that can never run and edges that may meet in a slot for one value; closes groups that may be
    /// skipped.
    pub(super) fn check_branches(&mut self, acyclic: bool) {
        let doubled = std::mem::take(&mut self.doubled);
        if !acyclic || !has_branches(self) {
            self.problems.extend(doubled.into_iter().map(|doubled| doubled.problem));
            return;
        }
        add_gates(self);
        let mut conditions = Conditions::new(self);
        let (never, meets) = (conditions.never(), conditions.meeting(doubled));
        let open = conditions.open_gates();
        self.problems.extend(meets);
        for node in never {
            let message = "this node never runs: it needs values of branches that exclude each other";
            self.problem(Problem::warning(ProblemCode::NeverRuns, message).at(self.path_of(node)));
        }
        for (node, gate) in open {
            self.graph.nodes[node as usize].gates[gate].clear();
        }
        for node in &mut self.graph.nodes {
            node.gates.retain(|gate| !gate.is_empty());
        }
    }
}

/// Returns `true` if a node may be skipped while the workflow runs.
fn has_branches(builder: &Builder<'_, '_>) -> bool {
    builder.graph.nodes.iter().enumerate().any(|(index, node)| {
        let spec = builder.graph.spec(node);
        let by_type = builder.definitions[index].is_some_and(|definition| definition.routes);
        let by_error = matches!(spec.on_error, Some(OnError::Branch | OnError::Skip));
        let is_call = matches!(node.kind, NodeKind::Call { .. });
        by_type || by_error || is_call || spec.skip_if.is_some() || matches!(node.kind, NodeKind::Muted)
    })
}

/// Gives the nodes of each group that is wired straight through the inputs of the group as gates.
fn add_gates(builder: &mut Builder<'_, '_>) {
    for level in 0..builder.levels.len() {
        let Boundary::Flat { level: outer, index } = builder.levels[level].boundary else { continue };
        let gates = gates_of(builder, level, outer, index);
        if gates.is_empty() {
            continue;
        }
        for node in nodes_within(builder, level) {
            builder.graph.nodes[node as usize].gates.extend(gates.iter().cloned());
        }
    }
    open_circles(builder);
}

/// The wired inputs of a group that have no value of their own and are not declared optional.
fn gates_of(builder: &mut Builder<'_, '_>, level: usize, outer: usize, index: usize) -> Vec<Vec<Source>> {
    let workflow = builder.graph.workflows[builder.levels[level].workflow].clone();
    let around = builder.graph.workflows[builder.levels[outer].workflow].clone();
    let own = &around.nodes[index].input_values;
    let mut gates = Vec::new();
    for (name, slot) in &workflow.interface_inputs {
        let has_value = own.get(name).is_some_and(|value| !value.is_null()) || slot.default_value().is_some();
        if has_value || slot.required == Some(false) {
            continue;
        }
        let key = (u32::try_from(index).unwrap_or(u32::MAX), name.clone());
        let edges = builder.levels[outer].into.get(&key).cloned().unwrap_or_default();
        let sources: Vec<Source> =
            edges.iter().flat_map(|edge| sources_of_edge(builder, outer, *edge)).collect();
        let can_fail = !sources.is_empty()
            && !sources.iter().any(|source| matches!(source, Source::Value(_) | Source::Fallback(_)));
        if can_fail {
            gates.push(sources);
        }
    }
    gates
}

/// The nodes of a level and of the groups in it that run in its scope.
fn nodes_within(builder: &Builder<'_, '_>, level: usize) -> Vec<NodeIx> {
    let (mut found, mut levels) = (Vec::new(), vec![level]);
    while let Some(Level { places, scope, .. }) = levels.pop().map(|level| &builder.levels[level]) {
        for place in places {
            match place {
                Role::Node(node) if builder.graph.nodes[*node as usize].scope == *scope => found.push(*node),
                Role::Flat { level } => levels.push(*level),
                Role::Node(_)
                | Role::GroupInput
                | Role::GroupOutput(_)
                | Role::LoopState(_)
                | Role::LoopNext(_)
                | Role::Nothing => {}
            }
        }
    }
    found
}

/// Drops gates through which a group would wait for itself: its results lead back into it.
fn open_circles(builder: &mut Builder<'_, '_>) {
    let mut links = DiGraph::<(), (), u32>::with_capacity(builder.graph.nodes.len(), 0);
    for _ in 0..builder.graph.nodes.len() {
        links.add_node(());
    }
    for index in 0..builder.graph.nodes.len() {
        let node = &builder.graph.nodes[index];
        let sources = node.inputs.iter().flat_map(|input| &input.sources);
        let sources =
            sources.chain(node.gates.iter().flatten()).filter_map(|source| before(builder, node, source));
        for from in sources.chain(node.after.iter().copied()) {
            links.add_edge(NodeIndex::from(from), NodeIndex::new(index), ());
        }
    }
    let mut knot_of = vec![0; builder.graph.nodes.len()];
    for (number, knot) in kosaraju_scc(&links).into_iter().enumerate() {
        knot.into_iter().for_each(|node| knot_of[node.index()] = number);
    }
    for index in 0..builder.graph.nodes.len() {
        let mut gates = std::mem::take(&mut builder.graph.nodes[index].gates);
        let node = &builder.graph.nodes[index];
        gates.retain(|gate| {
            gate.iter().all(|source| {
                before(builder, node, source).is_none_or(|from| knot_of[from as usize] != knot_of[index])
            })
        });
        builder.graph.nodes[index].gates = gates;
    }
}

/// The node beside `node` that stands for a source.
fn before(builder: &Builder<'_, '_>, node: &GraphNode, source: &Source) -> Option<NodeIx> {
    match source {
        Source::Node(from, _) => builder.graph.holder_in(*from, node.scope).or(Some(*from)),
        Source::Entry(..) | Source::Value(_) | Source::Fallback(_) | Source::Absent(_) => None,
    }
}

/// The conditions of all nodes, as far as they are known.
struct Conditions<'b, 'a, 'w> {
    builder: &'b Builder<'a, 'w>,
    known: Vec<Option<Condition>>,
    /// By node: set where an output of a loop or group may be absent although it ran.
    is_partial: Vec<bool>,
}

impl<'b, 'a, 'w> Conditions<'b, 'a, 'w> {
    fn new(builder: &'b Builder<'a, 'w>) -> Self {
        let n_nodes = builder.graph.nodes.len();
        Self { builder, known: vec![None; n_nodes], is_partial: vec![false; n_nodes] }
    }

    /// Nodes whose condition cannot hold, without those that only hang on such a node.
    fn never(&mut self) -> Vec<NodeIx> {
        let nodes = 0..NodeIx::try_from(self.known.len()).unwrap_or(NodeIx::MAX);
        let never: HashSet<NodeIx> =
            nodes.clone().filter(|node| self.condition_of(*node).is_never()).collect();
        let first = |node: &NodeIx| {
            let sources = self.sources(*node);
            !sources.iter().any(|source| matches!(source, Source::Node(from, _) if never.contains(from)))
        };
        nodes.filter(|node| never.contains(node) && first(node)).collect()
    }

    /// The problems of those slots whose edges may both be taken.
    fn meeting(&mut self, doubled: Vec<Doubled>) -> Vec<Problem> {
        let mut problems = Vec::new();
        for Doubled { problem, wires } in doubled {
            let conditions: Vec<Condition> = wires.iter().map(|wire| self.any_of(wire)).collect();
            let meet =
                |at: usize, one: &Condition| conditions[at + 1..].iter().any(|other| !one.excludes(other));
            if conditions.iter().enumerate().any(|(at, one)| meet(at, one)) {
                problems.push(problem);
            }
        }
        problems
    }

    /// Gates that are always passed.
    fn open_gates(&mut self) -> Vec<(NodeIx, usize)> {
        let builder = self.builder;
        let gates = (0..).zip(&builder.graph.nodes).flat_map(|(node, own)| {
            own.gates.iter().enumerate().map(move |(number, gate)| (node, number, gate))
        });
        gates
            .filter(|(.., gate)| self.any_of(gate).is_always())
            .map(|(node, number, _)| (node, number))
            .collect()
    }

    /// Condition of a node: found depth first, with a stack of our own, since workflows may be long.
    fn condition_of(&mut self, node: NodeIx) -> Condition {
        let mut stack = vec![node];
        let mut begun = HashSet::new();
        while let Some(at) = stack.last().copied() {
            if self.known[at as usize].is_some() {
                stack.pop();
                continue;
            }
            let missing: Vec<NodeIx> = if begun.insert(at) { self.missing(at) } else { Vec::new() };
            if missing.is_empty() {
                self.is_partial[at as usize] = self.may_lack_results(at);
                self.known[at as usize] = Some(self.calculate(at));
                stack.pop();
            } else {
                stack.extend(missing);
            }
        }
        self.known[node as usize].clone().unwrap_or(Condition::Unknown)
    }

    /// Nodes whose conditions are needed first.
    fn missing(&self, node: NodeIx) -> Vec<NodeIx> {
        let after = self.builder.graph.nodes[node as usize].after.iter().copied();
        let sources = self.sources(node).into_iter().filter_map(|source| match source {
            Source::Node(from, _) => Some(*from),
            Source::Entry(..) | Source::Value(_) | Source::Fallback(_) | Source::Absent(_) => None,
        });
        sources.chain(after).filter(|from| self.known[*from as usize].is_none()).collect()
    }

    /// Everything that a node takes, the results of its body included.
    fn sources(&self, node: NodeIx) -> Vec<&Source> {
        let graph = &self.builder.graph;
        let node = &graph.nodes[node as usize];
        let body = match node.kind {
            NodeKind::Zone { scope, .. } | NodeKind::Call { scope } => Some(&graph.scopes[scope as usize]),
            NodeKind::Plain | NodeKind::Muted | NodeKind::Bypass(_) => None,
        };
        let results =
            body.into_iter().flat_map(|body| body.outputs.values().flat_map(|output| &output.sources));
        let inputs = node.inputs.iter().flat_map(|input| &input.sources);
        inputs.chain(node.gates.iter().flatten()).chain(results).collect()
    }

    /// Returns `true` for a loop or group some result of which depends on a branch, or whose failure does not end the run. Its
    /// body is known by then, so that nested ones are looked at once each.
    fn may_lack_results(&self, node: NodeIx) -> bool {
        let graph = &self.builder.graph;
        let node = &graph.nodes[node as usize];
        let (NodeKind::Zone { scope, .. } | NodeKind::Call { scope }) = node.kind else { return false };
        let fails = matches!(graph.spec(node).on_error, Some(OnError::Branch | OnError::Skip));
        let outputs = graph.scopes[scope as usize].outputs.values();
        fails || !outputs.into_iter().all(|output| self.any_of(&output.sources).is_always())
    }

    fn calculate(&self, node: NodeIx) -> Condition {
        let own = &self.builder.graph.nodes[node as usize];
        let spec = self.builder.graph.spec(own);
        let may_skip = spec.skip_if.is_some() || matches!(own.kind, NodeKind::Muted);
        let mut condition = if may_skip { Condition::at_run_time(node) } else { Condition::Always };
        let order = own.after.iter().map(|from| self.of_known(*from));
        if spec.first {
            let inputs = own.inputs.iter().map(|input| self.any_of(&input.sources));
            return condition.and(&Condition::any(inputs.chain(order)));
        }
        let strict = |input: &&Input| input.strict;
        for input in own.inputs.iter().filter(strict) {
            condition = condition.and(&self.any_of(&input.sources));
        }
        for gate in &own.gates {
            condition = condition.and(&self.any_of(gate));
        }
        condition.and(&Condition::any(order))
    }

    /// Condition under which one of these gives a value.
    fn any_of(&self, sources: &[Source]) -> Condition {
        Condition::any(sources.iter().map(|source| self.given(source)))
    }

    fn given(&self, source: &Source) -> Condition {
        let graph = &self.builder.graph;
        match source {
            Source::Value(_) | Source::Fallback(_) => Condition::Always,
            Source::Absent(name) => Condition::at_run_time(*name),
            Source::Entry(scope, _) => match graph.scopes[*scope as usize].kind {
                ScopeKind::Zone => Condition::Always,
                ScopeKind::Root | ScopeKind::Call => self.argument(source),
            },
            Source::Node(from, name) => {
                let condition = self.of_known(*from);
                let node = &graph.nodes[*from as usize];
                match node.kind {
                    NodeKind::Zone { .. } | NodeKind::Call { .. } if self.is_partial[*from as usize] => {
                        condition.and(&Condition::at_run_time(*from))
                    }
                    NodeKind::Zone { .. } | NodeKind::Call { .. } => condition,
                    NodeKind::Plain | NodeKind::Muted | NodeKind::Bypass(_) => {
                        self.output(*from, graph.name(*name), *name, condition)
                    }
                }
            }
        }
    }

    /// An argument that may be absent.
    fn argument(&self, source: &Source) -> Condition {
        let Source::Entry(scope, name) = source else { return Condition::Always };
        let graph = &self.builder.graph;
        let slot = graph.scopes[*scope as usize].inputs.get(&**graph.name(*name));
        let is_given = slot.is_none_or(|slot| slot.is_required() || slot.absent_value().is_some());
        if is_given { Condition::Always } else { Condition::at_run_time(*name) }
    }

    /// An output of a node that may decide between several.
    fn output(&self, node: NodeIx, name: &str, index: u32, condition: Condition) -> Condition {
        let spec = self.builder.graph.spec(&self.builder.graph.nodes[node as usize]);
        let routes = self.builder.definitions[node as usize].is_some_and(|definition| definition.routes);
        let chosen = match spec.on_error {
            Some(OnError::Skip) => return condition.and(&Condition::at_run_time(node)),
            Some(OnError::Branch) if name == ERROR_SLOT => Some(index + 1),
            Some(OnError::Branch) if !routes => Some(NORMAL),
            _ => routes.then_some(index + 1),
        };
        match chosen {
            Some(output) => condition.and(&Condition::made(Choice { node, output })),
            None => condition,
        }
    }

    fn of_known(&self, node: NodeIx) -> Condition {
        self.known[node as usize].clone().unwrap_or(Condition::Unknown)
    }
}

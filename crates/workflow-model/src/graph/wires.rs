//! Going through the edges: each ends in an input, a result or the next pass.

use std::sync::Arc;

use agent_types::Problem;
use serde_json::{Map, Value};
use smallvec::SmallVec;

use super::build::Builder;
use super::drafts::Doubled;
use super::levels::{Boundary, Role};
use super::sources::{AllFound, Through, common_way, sources_of_edge};
use super::{Graph, NameIx, NodeIx, NodeKind, ScopeIx, ScopeKind, Source, Sources};
use crate::definition::SlotDefinition;
use crate::edge::Edge;
use crate::problem::ProblemCode;
use crate::types::{slots_fit, type_fits};
use crate::zone::ZoneSpec;

/// Edges whose ends are looked up together, so that their texts come from memory side by side.
const TOGETHER: usize = 64;

/// An edge into an input slot, followed back to what gives its value.
pub(super) struct WireIn {
    pub(super) target: NodeIx,
    pub(super) slot: NameIx,
    pub(super) ordinal: Option<u32>,
    /// Level and index of the edge.
    pub(super) edge: (u32, u32),
    pub(super) shape: Shape,
    /// The types of all sources fit that of the slot.
    pub(super) typed: bool,
    /// Types of the groups on the way of all sources.
    pub(super) through: Through,
    pub(super) sources: Sources,
}

/// Values that a slot accepts.
#[derive(Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each is a property of its own")]
pub(super) struct Shape {
    pub(super) data_flow_type: crate::slot::DataFlowType,
    pub(super) multi: bool,
    pub(super) stream: bool,
    pub(super) lazy: bool,
    /// The node runs without a value, or has a default.
    pub(super) optional: bool,
}

impl Shape {
    pub(super) fn from_slot(slot: &SlotDefinition) -> Self {
        Self {
            data_flow_type: slot.data_flow_type,
            multi: slot.multi,
            stream: slot.is_stream,
            lazy: slot.lazy,
            optional: slot.optional || slot.default.is_some(),
        }
    }
}

/// The ends of an edge, as far as they are there.
struct FoundEnds {
    /// Level and node.
    source: Option<(usize, usize)>,
    /// The output slot, if the edge names one.
    output: Option<NameIx>,
    target: Option<usize>,
}

/// An edge with its ends found.
struct Ends<'e> {
    level: usize,
    index: usize,
    edge: &'e Edge,
    source: (usize, usize),
    output: Option<NameIx>,
    target: usize,
}

impl<'w> Builder<'_, 'w> {
    pub(super) fn add_wires(&mut self) {
        for level in 0..self.levels.len() {
            let workflow = self.graph.workflows[self.levels[level].workflow].clone();
            for (chunk, edges) in workflow.edges.chunks(TOGETHER).enumerate() {
                let found: SmallVec<[FoundEnds; TOGETHER]> =
                    edges.iter().map(|edge| self.ends_of(level, edge)).collect();
                for (index, (edge, found)) in (chunk * TOGETHER..).zip(edges.iter().zip(found)) {
                    let FoundEnds { source, output, target } = found;
                    if let (Some(source), Some(target)) = (source, target) {
                        self.add_wire(&Ends { level, index, edge, source, output, target });
                    } else {
                        self.unknown_ends(level, edge, &found);
                    }
                }
            }
            for index in 0..workflow.nodes.len() {
                self.add_constants(level, index, &workflow.nodes[index].input_values);
            }
        }
    }

    /// Values that the file itself gives for results and for the next pass, where no edge does.
    fn add_constants(&mut self, level: usize, node: usize, values: &Map<String, Value>) {
        let place = self.levels[level].places[node];
        for (name, value) in values.iter().filter(|(_, value)| !value.is_null()) {
            let constant = Source::Value(Arc::new(value.clone()));
            let name = self.graph.names.intern(name);
            match place {
                Role::GroupOutput(scope) => {
                    if let Some(output) = self.graph.scopes[scope as usize].outputs.get_mut(&name)
                        && output.sources.is_empty()
                    {
                        output.sources.push(constant);
                    }
                }
                Role::LoopNext(scope) => {
                    self.graph.scopes[scope as usize].next.entry(name).or_insert_with(|| vec![constant]);
                }
                Role::Node(_) | Role::Flat { .. } | Role::GroupInput | Role::LoopState(_) | Role::Nothing => {
                }
            }
        }
    }

    /// The nodes at the ends. Bodies see the nodes around their zone too.
    fn ends_of(&mut self, level: usize, edge: &Edge) -> FoundEnds {
        let mut at = level;
        let source = loop {
            match (self.levels[at].ids.get(edge.source.as_str()), self.levels[at].boundary) {
                (Some(node), _) => break Some((at, *node as usize)),
                (None, Boundary::Body { level }) => at = level,
                (None, Boundary::Root | Boundary::Flat { .. } | Boundary::Call { .. }) => break None,
            }
        };
        let target = self.levels[level].ids.get(edge.target.as_str()).map(|node| *node as usize);
        FoundEnds { source, output: self.output_name(edge), target }
    }

    /// The output slot that an edge names.
    pub(super) fn output_name(&mut self, edge: &Edge) -> Option<NameIx> {
        edge.source_slot().map(|slot| self.graph.names.intern(slot))
    }

    fn unknown_ends(&mut self, level: usize, edge: &Edge, found: &FoundEnds) {
        if found.source.is_none() {
            if let Some(target) = found.target {
                self.count_as_wired(level, target, edge.target_slot());
            }
            self.unknown_end(level, edge, &edge.source, found.target.map(|node| (node, edge.target_slot())));
        }
        if found.target.is_none() {
            let other = found.source.filter(|(at, _)| *at == level);
            self.unknown_end(level, edge, &edge.target, other.map(|(_, node)| (node, edge.source_slot())));
        }
    }

    /// An edge from nowhere is reported as such; its slot is not reported as empty too.
    fn count_as_wired(&mut self, level: usize, target: usize, handle: Option<&str>) {
        if let Role::Node(target) = self.levels[level].places[target]
            && let Some(found) = self.input_of(target, handle)
        {
            let slot = self.graph.names.intern(&found.name);
            let shape = Shape::from_slot(&found.slot);
            self.wires.push(WireIn {
                target,
                slot,
                ordinal: found.ordinal,
                edge: (0, 0),
                shape,
                typed: true,
                through: Through::new(),
                sources: Sources::new(),
            });
        }
    }

    /// The problem stands at the end that is there.
    fn unknown_end(
        &mut self,
        level: usize,
        edge: &Edge,
        missing: &str,
        other: Option<(usize, Option<&str>)>,
    ) {
        let workflow = self.graph.workflows[self.levels[level].workflow].clone();
        let near = self.nearest(missing, workflow.nodes.iter().map(|node| node.id.as_str()));
        let message = format!("an edge names the node `{missing}`, which is not there");
        let mut problem = Problem::error(ProblemCode::UnknownNode, message).suggest(near);
        if let Some((node, slot)) = other {
            problem = problem.at(self.path_in(level, node)).slot_of(slot);
        } else if let Some(id) = &edge.id {
            problem.message.extend([" (edge `", id, "`)"]);
        }
        self.problem(problem);
    }

    fn add_wire(&mut self, ends: &Ends<'_>) {
        let is_order = ends.edge.source_slot().is_none() && ends.edge.target_slot().is_none();
        let target = self.levels[ends.level].places[ends.target];
        let source = self.levels[ends.source.0].places[ends.source.1];
        match (target, source) {
            (Role::Nothing, _) | (_, Role::Nothing) => {}
            (Role::Node(target), Role::Node(source)) if is_order => self.add_order(source, target),
            // What a scope gives is there before its nodes, what it takes comes after them.
            (Role::Node(_) | Role::GroupOutput(_) | Role::LoopNext(_), _) if is_order => {}
            (Role::Node(target), _) => self.wire_input(ends, target),
            (Role::GroupOutput(scope), _) => self.wire_result(ends, scope),
            (Role::LoopNext(scope), _) => self.wire_next(ends, scope),
            (Role::Flat { level: child }, _) => self.check_group_input(ends, child),
            (Role::GroupInput | Role::LoopState(_), _) => self.no_input(ends, &[]),
        }
    }

    fn add_order(&mut self, source: NodeIx, target: NodeIx) {
        if let Some(holder) = self.graph.holder_in(target, self.graph.nodes[source as usize].scope) {
            self.links.push((source, holder));
            self.graph.nodes[holder as usize].after.push(source);
        } else {
            let (source, target) = (self.path_of(source), self.path_of(target));
            self.leaves_zone(source, None, &target);
        }
    }

    fn wire_input(&mut self, ends: &Ends<'_>, target: NodeIx) {
        let Some(found) = self.input_of(target, ends.edge.target_slot()) else {
            let names = self.input_names(target);
            return self.no_input(ends, &names);
        };
        let sources = self.sources_of(ends.source.0, ends.source.1, ends.output);
        let scope = self.graph.nodes[target as usize].scope;
        let through = common_way(&sources);
        let typed =
            sources.iter().all(|(_, from, _)| type_fits(from.data_flow_type, found.slot.data_flow_type));
        let sources = self.join(sources, (scope, Some(target)), &found.slot, ends);
        let slot = self.graph.names.intern(&found.name);
        let mut shape = Shape::from_slot(&found.slot);
        shape.lazy |=
            self.graph.spec(&self.graph.nodes[target as usize]).lazy.iter().any(|name| *name == *found.name);
        let as_u32 = |index: usize| u32::try_from(index).unwrap_or(u32::MAX);
        let edge = (as_u32(ends.level), as_u32(ends.index));
        self.wires.push(WireIn {
            target,
            slot,
            ordinal: found.ordinal,
            edge,
            shape,
            typed,
            through,
            sources,
        });
    }

    /// Checks that values may come from there to here, and notes what waits for what.
    fn join(
        &mut self,
        sources: AllFound<'w>,
        (scope, node): (ScopeIx, Option<NodeIx>),
        slot: &SlotDefinition,
        ends: &Ends<'_>,
    ) -> Sources {
        let mut joined = Sources::with_capacity(sources.len());
        for (source, from, _) in sources {
            if !self.reaches(&source, scope, node, ends) {
                continue;
            }
            if !slots_fit(&from, slot) {
                let path = self.path_in(ends.level, ends.target);
                let message = format!(
                    "takes {}, but `{}` gives {}",
                    slot.data_flow_type, ends.edge.source, from.data_flow_type
                );
                self.problem(
                    Problem::error(ProblemCode::TypeMismatch, message)
                        .at(path)
                        .slot_of(ends.edge.target_slot()),
                );
            }
            joined.push(source);
        }
        joined
    }

    /// Returns `true` if a source is visible in a scope: it is in that scope or in an enclosing one.
    fn reaches(&mut self, source: &Source, scope: ScopeIx, node: Option<NodeIx>, ends: &Ends<'_>) -> bool {
        let reached = match source {
            Source::Value(_) | Source::Fallback(_) | Source::Absent(_) => true,
            Source::Entry(entry, _) => self.graph.is_inside(scope, *entry),
            Source::Node(from, _) => {
                let home = self.graph.nodes[*from as usize].scope;
                let start = node.or(self.graph.scopes[scope as usize].owner.filter(|_| scope != home));
                match start.map(|start| self.graph.holder_in(start, home)) {
                    // A result takes from a node beside it: nothing waits.
                    None => home == scope,
                    Some(Some(holder)) => {
                        self.links.push((*from, holder));
                        true
                    }
                    Some(None) => false,
                }
            }
        };
        if !reached {
            let path = self.path_in(ends.source.0, ends.source.1);
            let target = self.path_in(ends.level, ends.target);
            self.leaves_zone(path, ends.edge.source_slot(), &target);
        }
        reached
    }

    fn wire_result(&mut self, ends: &Ends<'_>, scope: ScopeIx) {
        let flat = matches!(self.levels[ends.level].boundary, Boundary::Flat { .. });
        if flat && scope == self.levels[ends.level].scope {
            // Followed from the outside; here only what the group declares counts.
            let workflow = self.graph.workflows[self.levels[ends.level].workflow].clone();
            let declared: Vec<String> = workflow.interface_outputs.keys().cloned().collect();
            let known = ends
                .edge
                .target_slot()
                .is_some_and(|slot| declared.is_empty() || workflow.interface_outputs.contains_key(slot));
            return if known {
            } else {
                self.no_input(ends, &declared);
            };
        }
        let first = self.graph.scopes[scope as usize].outputs.keys().next().copied();
        let named = ends.edge.target_slot().map_or(first, |slot| self.graph.find_name(slot));
        let slot = named.and_then(|name| {
            Some((name, self.graph.scopes[scope as usize].outputs.get(&name)?.slot.clone()))
        });
        let Some((name, slot)) = slot else {
            let names = self.graph.scopes[scope as usize].outputs.keys();
            let names: Vec<String> = names.map(|name| self.graph.name(*name).to_string()).collect();
            return self.no_input(ends, &names);
        };
        let sources = self.sources_of(ends.source.0, ends.source.1, ends.output);
        let through = common_way(&sources);
        let sources = self.join(sources, (scope, None), &slot, ends);
        let output = &mut self.graph.scopes[scope as usize].outputs[&name];
        let is_same_way = output.sources.is_empty() || output.through[..] == through[..];
        output.through = if is_same_way { through.into_vec() } else { Vec::new() };
        let taken = &mut output.sources;
        let before = (!taken.is_empty() && !slot.multi).then(|| Sources::from(&taken[..]));
        taken.extend(sources.iter().cloned());
        if let Some(before) = before {
            self.doubled.push(Doubled { problem: self.duplicate(ends), wires: vec![before, sources] });
        }
    }

    fn wire_next(&mut self, ends: &Ends<'_>, scope: ScopeIx) {
        let Some(spec) = self.graph.zone_spec(scope) else { return };
        let slots: Vec<(String, crate::slot::DataFlowType)> = spec
            .state
            .iter()
            .map(|state| (state.key.clone(), state.data_flow_type))
            .chain(["break", "continue"].map(|name| (name.to_owned(), crate::slot::DataFlowType::Boolean)))
            .collect();
        let wanted = ends.edge.target_slot().unwrap_or(&slots[0].0);
        let Some((name, kind)) = slots.iter().find(|(name, _)| name == wanted) else {
            let names: Vec<String> = slots.into_iter().map(|(name, _)| name).collect();
            return self.no_input(ends, &names);
        };
        let slot = SlotDefinition::new(*kind, "");
        let sources = self.sources_of(ends.source.0, ends.source.1, ends.output);
        let sources = self.join(sources, (scope, None), &slot, ends);
        let name = self.graph.names.intern(name);
        let taken = self.graph.scopes[scope as usize].next.entry(name).or_default();
        let before = (!taken.is_empty()).then(|| Sources::from(&taken[..]));
        taken.extend(sources.iter().cloned());
        if let Some(before) = before {
            self.doubled.push(Doubled { problem: self.duplicate(ends), wires: vec![before, sources] });
        }
    }

    fn check_group_input(&mut self, ends: &Ends<'_>, child: usize) {
        let workflow = self.graph.workflows[self.levels[child].workflow].clone();
        let Some(handle) = ends.edge.target_slot() else { return };
        let name = self.group_input_name(child, handle);
        let Some(slot) = workflow.interface_inputs.get(&name) else {
            let names: Vec<String> = workflow.interface_inputs.keys().cloned().collect();
            return self.no_input(ends, &names);
        };
        let key = (u32::try_from(ends.target).unwrap_or(u32::MAX), name);
        let edges = self.levels[ends.level].into.get(&key).map_or(&[][..], Vec::as_slice);
        let before =
            edges.iter().take_while(|edge| **edge as usize != ends.index).copied().collect::<Vec<_>>();
        let sources = self.sources_of(ends.source.0, ends.source.1, ends.output);
        if !slot.multi && !before.is_empty() {
            let before = before.iter().flat_map(|edge| sources_of_edge(self, ends.level, *edge)).collect();
            let own = sources.iter().map(|(source, ..)| source.clone()).collect();
            self.doubled.push(Doubled { problem: self.duplicate(ends), wires: vec![before, own] });
        }
        for (_, from, _) in sources {
            if !slots_fit(&from, &SlotDefinition::from(slot)) {
                let path = self.path_in(ends.level, ends.target);
                let message = format!(
                    "takes {}, but `{}` gives {}",
                    slot.data_flow_type, ends.edge.source, from.data_flow_type
                );
                self.problem(Problem::error(ProblemCode::TypeMismatch, message).at(path).slot(handle));
            }
        }
    }

    fn duplicate(&self, ends: &Ends<'_>) -> Problem {
        let path = self.path_in(ends.level, ends.target);
        let message = format!(
            "another edge leads here already, and `{}` does too; only branches that exclude each other may share a slot",
            ends.edge.source
        );
        Problem::error(ProblemCode::DuplicateInput, message).at(path).slot_of(ends.edge.target_slot())
    }

    fn no_input(&mut self, ends: &Ends<'_>, names: &[String]) {
        let path = self.path_in(ends.level, ends.target);
        let slot = ends.edge.target_slot();
        let message = match slot {
            Some(slot) => format!("it has no input `{slot}`"),
            None => "it has no input".to_owned(),
        };
        let near = slot.and_then(|slot| self.nearest(slot, names.iter().map(String::as_str)));
        self.problem(Problem::error(ProblemCode::UnknownSlot, message).at(path).suggest(near).slot_of(slot));
    }
}

impl Graph<'_> {
    /// Returns `true` for a scope within another one, and for that one itself.
    fn is_inside(&self, scope: ScopeIx, outer: ScopeIx) -> bool {
        let mut at = Some(scope);
        while let Some(scope) = at {
            if scope == outer {
                return true;
            }
            at = self.scopes[scope as usize].owner.map(|owner| self.nodes[owner as usize].scope);
        }
        false
    }

    /// The settings of the zone whose body a scope is.
    pub(super) fn zone_spec(&self, scope: ScopeIx) -> Option<&ZoneSpec> {
        let scope = &self.scopes[scope as usize];
        if scope.kind != ScopeKind::Zone {
            return None;
        }
        match &self.nodes[scope.owner? as usize].kind {
            NodeKind::Zone { spec, .. } => Some(spec),
            NodeKind::Plain | NodeKind::Muted | NodeKind::Bypass(_) | NodeKind::Call { .. } => None,
        }
    }
}

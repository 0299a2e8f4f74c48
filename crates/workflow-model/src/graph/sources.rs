//! Following an edge back to what really gives its value, through the borders of groups.

use std::sync::Arc;

use agent_types::{Problem, nearest};
use smallvec::{SmallVec, smallvec};

use super::build::Builder;
use super::drafts::SlotRef;
use super::expose::RESULTS;
use super::levels::{Boundary, Role};
use super::{NameIx, NodeIx, ScopeIx, Source, Sources};
use crate::definition::SlotDefinition;
use crate::policy::OnError;
use crate::problem::ProblemCode;
use crate::slot::DataFlowType;
use crate::structural::ERROR_SLOT;
use crate::types::type_fits;

/// Something that an edge leads back to.
enum Want {
    /// An output slot of a node of a level; without a name the main one.
    Slot { level: usize, node: usize, slot: Option<NameIx>, through: Through },
    /// An argument of a level.
    Argument { level: usize, name: NameIx, through: Through },
}

/// Types that groups which are wired straight through declare for a value, in the order in which it passes them.
pub(super) type Through = SmallVec<[DataFlowType; 1]>;

/// A source, what is known of its type, and the types that it passes on its way.
pub(super) type Found<'w> = (Source, SlotRef<'w>, Through);
/// Sources of one edge; nearly always there is one.
pub(super) type AllFound<'w> = SmallVec<[Found<'w>; 1]>;

impl<'w> Builder<'_, 'w> {
    /// Sources of an output slot; several where a group takes several.
    pub(super) fn sources_of(&mut self, level: usize, node: usize, slot: Option<NameIx>) -> AllFound<'w> {
        if let Role::Node(source) = self.levels[level].places[node]
            && let Some((name, definition)) = self.output_at(source, slot)
        {
            return smallvec![(Source::Node(source, name), definition, Through::new())];
        }
        let mut stack = vec![Want::Slot { level, node, slot, through: Through::new() }];
        let mut found = AllFound::new();
        let mut steps = 100 + 4 * self.levels.len();
        while let Some(want) = stack.pop() {
            if steps == 0 {
                let path = self.path_in(level, node);
                let message =
                    "groups hand this value to each other in a circle; use a `core:LoopZone` to repeat work";
                self.problem(Problem::error(ProblemCode::Cycle, message).cycle(vec![path]));
                break;
            }
            steps -= 1;
            let before = stack.len();
            match want {
                Want::Slot { level, node, slot, through } => {
                    self.follow_slot((level, node), slot, &through, &mut stack, &mut found);
                }
                Want::Argument { level, name, through } => {
                    self.follow_argument((level, name), &through, &mut stack, &mut found);
                }
            }
            stack[before..].reverse();
        }
        for (_, from, through) in &mut found {
            // What fits by category only is not converted.
            through.retain(|kind| type_fits(from.data_flow_type, *kind));
        }
        // What counts in place of the others stands behind them.
        found.sort_by_key(|(source, ..)| matches!(source, Source::Fallback(_)));
        found
    }

    fn follow_slot(
        &mut self,
        (level, node): (usize, usize),
        slot: Option<NameIx>,
        through: &Through,
        stack: &mut Vec<Want>,
        found: &mut AllFound<'w>,
    ) {
        let text = slot.map(|slot| Arc::clone(self.graph.name(slot)));
        let text = text.as_deref();
        match self.levels[level].places[node] {
            Role::Node(source) => {
                if let Some((name, definition)) = self.output_at(source, slot) {
                    found.push((Source::Node(source, name), definition, through.clone()));
                } else {
                    let names = self.output_names(source);
                    self.no_output(level, node, text, &names);
                }
            }
            Role::Flat { level: child } => {
                self.follow_result((level, node), child, (text, through), stack);
            }
            Role::GroupInput => {
                let first = self.arguments(level).next().cloned();
                match slot.or_else(|| first.map(|first| self.graph.names.intern(&first))) {
                    Some(name) => stack.push(Want::Argument { level, name, through: through.clone() }),
                    None => self.no_output(level, node, None, &[]),
                }
            }
            Role::LoopState(scope) => self.follow_state((level, node), scope, (text, through), found),
            Role::GroupOutput(_) | Role::LoopNext(_) => self.no_output(level, node, text, &[]),
            Role::Nothing => {}
        }
    }

    /// The output slot of that name; no name is the main one.
    fn output_at(&mut self, node: NodeIx, name: Option<NameIx>) -> Option<(NameIx, SlotRef<'w>)> {
        if let Some(name) = name {
            let slot = self.output_slot(node, self.graph.name(name))?;
            return Some((name, slot));
        }
        let main = self.output_names(node).into_iter().next()?;
        let slot = self.output_slot(node, &main)?;
        Some((self.graph.names.intern(&main), slot))
    }

    /// A result of a group that is wired straight through.
    fn follow_result(
        &mut self,
        (level, node): (usize, usize),
        child: usize,
        (slot, through): (Option<&str>, &Through),
        stack: &mut Vec<Want>,
    ) {
        let workflow = self.graph.workflows[self.levels[child].workflow].clone();
        let declared: Vec<String> = workflow.interface_outputs.keys().cloned().collect();
        let Some(name) = slot.map(str::to_owned).or_else(|| declared.first().cloned()) else {
            return self.no_output(level, node, slot, &declared);
        };
        let edges = self.levels[child].into.get(&(RESULTS, name.clone())).cloned().unwrap_or_default();
        if edges.is_empty() && !declared.contains(&name) {
            return self.no_output(level, node, Some(&name), &declared);
        }
        let kind = workflow.interface_outputs.get(&name).map(|slot| slot.data_flow_type);
        let through = behind(kind, through);
        for edge in edges {
            self.want_source(child, edge, &through, stack);
        }
    }

    /// A value of a pass.
    fn follow_state(
        &mut self,
        (level, node): (usize, usize),
        scope: ScopeIx,
        (slot, through): (Option<&str>, &Through),
        found: &mut AllFound<'w>,
    ) {
        let Some(spec) = self.graph.zone_spec(scope) else { return };
        let own = [
            ("index", DataFlowType::Integer),
            ("item", DataFlowType::Wildcard),
            ("remaining", DataFlowType::Integer),
        ];
        let keys = spec.state.iter().map(|state| (state.key.as_str(), state.data_flow_type));
        let slots: Vec<(String, DataFlowType)> =
            keys.chain(own).map(|(name, kind)| (name.to_owned(), kind)).collect();
        let wanted = slot.unwrap_or(&slots[0].0).to_owned();
        if let Some((name, kind)) = slots.iter().find(|(name, _)| *name == wanted) {
            let name = self.graph.names.intern(name);
            let definition = SlotRef::from(SlotDefinition::new(*kind, ""));
            found.push((Source::Entry(scope, name), definition, through.clone()));
        } else {
            let names: Vec<String> = slots.into_iter().map(|(name, _)| name).collect();
            self.no_output(level, node, Some(&wanted), &names);
        }
    }

    fn follow_argument(
        &mut self,
        (level, argument): (usize, NameIx),
        through: &Through,
        stack: &mut Vec<Want>,
        found: &mut AllFound<'w>,
    ) {
        let boundary = self.levels[level].boundary;
        if let Boundary::Body { level: outer } = boundary {
            return stack.push(Want::Argument { level: outer, name: argument, through: through.clone() });
        }
        let name = &*Arc::clone(self.graph.name(argument));
        let Some(slot) =
            self.graph.workflows[self.levels[level].workflow].interface_inputs.get(name).cloned()
        else {
            return self.no_argument(level, name);
        };
        match boundary {
            Boundary::Root | Boundary::Call { .. } | Boundary::Body { .. } => {
                let definition = SlotRef::from(SlotDefinition::from(&slot));
                found.push((Source::Entry(self.levels[level].scope, argument), definition, through.clone()));
            }
            Boundary::Flat { level: outer, index } => {
                let key = (u32::try_from(index).unwrap_or(u32::MAX), name.to_owned());
                let edges = self.levels[outer].into.get(&key).cloned().unwrap_or_default();
                let through = behind(Some(slot.data_flow_type), through);
                for edge in &edges {
                    self.want_source(outer, *edge, &through, stack);
                }
                let node = &self.graph.workflows[self.levels[outer].workflow].nodes[index];
                let preset = node.input_values.get(name).filter(|value| !value.is_null());
                if !edges.is_empty() {
                    if let Some(value) = preset.or(slot.default_value()) {
                        let value = Source::Fallback(Arc::new(value.clone()));
                        found.push((value, SlotRef::from(SlotDefinition::from(&slot)), through));
                    }
                    return;
                }
                let preset = node.input_values.get(name);
                let definition = SlotRef::from(SlotDefinition::from(&slot));
                if let Some(value) = preset.or_else(|| slot.default_value()).cloned() {
                    found.push((Source::Value(Arc::new(value)), definition, through));
                } else if let Some(value) = slot.absent_value() {
                    // A trigger without a value: no type converts it.
                    found.push((Source::Value(Arc::new(value)), definition, Through::new()));
                } else if !slot.is_required() {
                    found.push((Source::Absent(self.graph.names.intern(name)), definition, through));
                } else {
                    let message = format!("the required input `{name}` has no edge, value or default");
                    let problem = Problem::error(ProblemCode::MissingInput, message);
                    let path = self.path_in(outer, index);
                    self.problem(problem.at(path).slot(name));
                }
            }
        }
    }

    /// Follows an edge of a level from its beginning.
    fn want_source(&mut self, level: usize, edge: u32, through: &Through, stack: &mut Vec<Want>) {
        if let Some((node, slot)) = source_of_edge(self, level, edge) {
            stack.push(Want::Slot { level, node, slot, through: through.clone() });
        }
    }

    fn arguments(&self, level: usize) -> impl Iterator<Item = &String> {
        let mut level = level;
        while let Boundary::Body { level: outer } = self.levels[level].boundary {
            level = outer;
        }
        self.graph.workflows[self.levels[level].workflow].interface_inputs.keys()
    }

    fn no_output(&mut self, level: usize, node: usize, slot: Option<&str>, names: &[String]) {
        let path = self.path_in(level, node);
        let mut message = match slot {
            Some(slot) => format!("it has no output `{slot}`"),
            None => "it has no output".to_owned(),
        };
        let spec = &self.graph.workflows[self.levels[level].workflow].nodes[node];
        let branches = spec.on_error == Some(OnError::Branch);
        let means_error = slot.is_some_and(|slot| nearest(slot, [ERROR_SLOT, "onError"]).is_some());
        let near = slot.and_then(|slot| self.nearest(slot, names.iter().map(String::as_str)));
        let near = near.or_else(|| (branches && means_error).then(|| ERROR_SLOT.to_owned()));
        if !branches && means_error {
            message.push_str("; `\"onError\": \"branch\"` gives it the output `error`");
        }
        self.problem(Problem::error(ProblemCode::UnknownSlot, message).at(path).suggest(near).slot_of(slot));
    }

    fn no_argument(&mut self, level: usize, name: &str) {
        let names: Vec<String> = self.arguments(level).cloned().collect();
        let near = self.nearest(name, names.iter().map(String::as_str));
        let workflow = &self.graph.workflows[self.levels[level].workflow];
        let input = workflow.nodes.iter().position(|node| node.node_type == crate::structural::GROUP_INPUT);
        let path = input.map(|node| self.path_in(level, node));
        let message = format!("the workflow declares no input `{name}`");
        let mut problem = Problem::error(ProblemCode::UnknownSlot, message).slot(name).suggest(near);
        problem.place.node = path;
        self.problem(problem);
    }
}

/// The types that a value passes which passes these behind a border of this type.
fn behind(kind: Option<DataFlowType>, through: &Through) -> Through {
    let own = kind.filter(|kind| !kind.is_any());
    own.into_iter().chain(through.iter().copied()).collect()
}

/// The types that all of these sources pass; none where their ways differ.
pub(super) fn common_way(found: &AllFound<'_>) -> Through {
    let mut ways = found.iter().map(|(_, _, through)| through);
    let first = ways.next();
    first.filter(|first| ways.all(|way| way == *first)).cloned().unwrap_or_default()
}

/// Sources of an edge of a level.
pub(super) fn sources_of_edge(builder: &mut Builder<'_, '_>, level: usize, edge: u32) -> Sources {
    let Some((node, slot)) = source_of_edge(builder, level, edge) else { return Sources::new() };
    builder.sources_of(level, node, slot).into_iter().map(|(source, ..)| source).collect()
}

/// The node and slot where an edge of a level begins; none for an edge from nowhere, which is reported with the edges.
fn source_of_edge(builder: &mut Builder<'_, '_>, level: usize, edge: u32) -> Option<(usize, Option<NameIx>)> {
    let workflow = builder.graph.workflows[builder.levels[level].workflow].clone();
    let edge = &workflow.edges[edge as usize];
    let node = builder.levels[level].ids.get(edge.source.as_str()).copied()?;
    Some((node as usize, builder.output_name(edge)))
}

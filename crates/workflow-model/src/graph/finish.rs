//! Making the inputs of each node of its wires and values, and finding what is missing.

use std::collections::HashMap;
use std::sync::Arc;

use agent_types::Problem;
use serde_json::Value;

use super::build::Builder;
use super::drafts::Doubled;
use super::wires::{Shape, WireIn};
use super::{Input, NameIx, NodeIx, NodeKind, ScopeKind, Source, Sources, WorkflowRef};
use crate::node::Node;
use crate::problem::ProblemCode;
use crate::structural::{GROUP_INPUT, workflow_setting};
use crate::zone::{ZoneMode, is_reserved};

/// Brings the wires of each slot together, in the order in which the slots come.
fn group_by_slot(wires: &mut [WireIn]) {
    if wires.windows(2).all(|pair| pair[0].slot == pair[1].slot) {
        return;
    }
    let mut places: HashMap<NameIx, usize> = HashMap::new();
    for wire in &*wires {
        let next = places.len();
        places.entry(wire.slot).or_insert(next);
    }
    wires.sort_by_key(|wire| places[&wire.slot]);
}

impl<'a> Builder<'a, '_> {
    pub(super) fn finish_nodes(&mut self) {
        let mut wires = std::mem::take(&mut self.wires);
        wires.sort_by_key(|wire| wire.target);
        let mut left = wires.as_mut_slice();
        for node in 0..self.graph.nodes.len() {
            let node = NodeIx::try_from(node).unwrap_or(NodeIx::MAX);
            let own = left.iter().take_while(|wire| wire.target == node).count();
            let (wires, behind) = left.split_at_mut(own);
            left = behind;
            let held = self.held_of(node);
            let spec = &held.nodes[self.graph.nodes[node as usize].index as usize];
            let inputs = self.inputs_of(node, spec, wires);
            self.graph.nodes[node as usize].inputs = inputs;
            let is_call = matches!(self.graph.nodes[node as usize].kind, NodeKind::Call { .. });
            let embeds = workflow_setting(&spec.node_type).is_some();
            if !embeds || is_call || self.definitions[node as usize].is_some() {
                self.check_missing(node);
            }
            if matches!(self.graph.nodes[node as usize].kind, NodeKind::Bypass(_)) {
                let outputs = self.bypass_of(node);
                self.graph.nodes[node as usize].kind = NodeKind::Bypass(outputs);
            }
        }
    }

    /// The workflow that a node stands in.
    fn held_of(&self, node: NodeIx) -> WorkflowRef<'a> {
        self.graph.workflows[self.graph.nodes[node as usize].workflow as usize].clone()
    }

    fn inputs_of(&mut self, node: NodeIx, spec: &Node, wires: &mut [WireIn]) -> Vec<Input> {
        group_by_slot(wires);
        let is_same = |one: &WireIn, other: &WireIn| one.slot == other.slot;
        let mut inputs = Vec::with_capacity(wires.chunk_by(is_same).count());
        inputs.extend(wires.chunk_by_mut(is_same).map(|group| self.wired_input(node, spec, group)));
        for (name, value) in &spec.input_values {
            let wired =
                self.graph.find_name(name).is_some_and(|slot| inputs.iter().any(|input| input.slot == slot));
            if !wired && !value.is_null() {
                inputs.extend(self.valued_input(node, name, value));
            }
        }
        inputs
    }

    fn wired_input(&mut self, node: NodeIx, spec: &Node, group: &mut [WireIn]) -> Input {
        let WireIn { slot, shape, .. } = group[0];
        let name = Arc::clone(self.graph.name(slot));
        if !shape.multi && !spec.first && group.len() > 1 {
            let path = self.path_of(node);
            let message = format!(
                "{} edges lead into `{name}`, which takes one; only branches that exclude each other may share a slot",
                group.len()
            );
            let problem = Problem::error(ProblemCode::DuplicateInput, message).at(path).slot(&*name);
            let wires = group.iter().map(|wire| wire.sources.clone()).collect();
            self.doubled.push(Doubled { problem, wires });
        }
        if group.len() > 1 {
            let order = self.edge_order(spec, &name, group);
            let place = |wire: &WireIn| {
                (order.get(&wire.edge).copied().unwrap_or(usize::MAX), wire.ordinal, wire.edge)
            };
            group.sort_by_key(place);
        }
        let typed = group.iter().all(|wire| wire.typed);
        let is_same_way = group.iter().all(|wire| wire.through == group[0].through);
        let through = if is_same_way { group[0].through.to_vec() } else { Vec::new() };
        let mut sources: Sources =
            group.iter_mut().flat_map(|wire| std::mem::take(&mut wire.sources)).collect();
        let mut fallback = self.own_value(node, spec, &name);
        sources.retain(|source| match source {
            Source::Fallback(value) => {
                fallback = Some(Arc::clone(value));
                false
            }
            Source::Node(..) | Source::Entry(..) | Source::Value(_) | Source::Absent(_) => true,
        });
        let strict = !shape.optional && !shape.lazy && !sources.is_empty() && fallback.is_none();
        Input {
            slot,
            data_flow_type: shape.data_flow_type,
            typed,
            through,
            multi: shape.multi,
            stream: shape.stream,
            lazy: shape.lazy,
            strict,
            sources,
            fallback,
        }
    }

    /// The value that a slot has without its edges: that of the file, or for a group the declared default.
    fn own_value(&self, node: NodeIx, spec: &Node, name: &str) -> Option<Arc<Value>> {
        let of_file = spec.input_values.get(name).filter(|value| !value.is_null());
        let declared = || match &self.graph.nodes[node as usize].kind {
            NodeKind::Call { scope } => self.graph.scopes[*scope as usize].inputs.get(name)?.default_value(),
            NodeKind::Plain | NodeKind::Muted | NodeKind::Bypass(_) | NodeKind::Zone { .. } => None,
        };
        of_file.or_else(declared).cloned().map(Arc::new)
    }

    /// The place that `inputConnectionOrders` gives to each edge of a slot.
    fn edge_order(&self, spec: &Node, slot: &str, group: &[WireIn]) -> HashMap<(u32, u32), usize> {
        let Some(ids) = spec.input_connection_orders.get(slot) else { return HashMap::new() };
        let places: HashMap<&str, usize> = ids.iter().enumerate().map(|(at, id)| (id.as_str(), at)).collect();
        let place = |wire: &WireIn| {
            let workflow = &self.graph.workflows[self.levels[wire.edge.0 as usize].workflow];
            let id = workflow.edges[wire.edge.1 as usize].id.as_deref()?;
            Some((wire.edge, *places.get(id)?))
        };
        group.iter().filter_map(place).collect()
    }

    fn valued_input(&mut self, node: NodeIx, name: &str, value: &Value) -> Option<Input> {
        let Some(found) = self.input_of(node, Some(name)) else {
            let names = self.input_names(node);
            let near = self.nearest(name, names.iter().map(String::as_str));
            let path = self.path_of(node);
            let message = format!("a value is given for `{name}`, which is not an input; it is not used");
            self.problem(
                Problem::warning(ProblemCode::UnknownSlot, message).at(path).slot(name).suggest(near),
            );
            return None;
        };
        let shape = Shape::from_slot(&found.slot);
        Some(Input {
            slot: self.graph.names.intern(&found.name),
            data_flow_type: shape.data_flow_type,
            typed: found.slot.match_categories.is_empty(),
            through: Vec::new(),
            multi: shape.multi,
            stream: shape.stream,
            lazy: false,
            strict: false,
            sources: Sources::new(),
            fallback: Some(Arc::new(value.clone())),
        })
    }

    fn check_missing(&mut self, node: NodeIx) {
        if let NodeKind::Zone { spec, .. } = &self.graph.nodes[node as usize].kind {
            let each = spec.mode == ZoneMode::Each;
            let keys: Vec<String> = spec
                .state
                .iter()
                .filter(|state| state.initial.is_none())
                .map(|state| state.key.clone())
                .collect();
            for key in keys.into_iter().filter(|key| !self.has_input(node, key)).collect::<Vec<_>>() {
                let message = format!(
                    "the carried value `{key}` has no first value: give `initial`, a value or an edge"
                );
                self.missing(node, &key, ProblemCode::MissingInitial, message);
            }
            if each && !self.has_input(node, "items") {
                let message = "mode `each` needs a list in `items`".to_owned();
                self.missing(node, "items", ProblemCode::MissingInput, message);
            }
            return;
        }
        for name in self.required_inputs(node) {
            if !self.has_input(node, &name) {
                let message = format!("the required input `{name}` has no edge, value or default");
                self.missing(node, &name, ProblemCode::MissingInput, message);
            }
        }
    }

    fn missing(&mut self, node: NodeIx, slot: &str, code: ProblemCode, message: String) {
        let path = self.path_of(node);
        self.problem(Problem::error(code, message).at(path).slot(slot));
    }

    fn has_input(&self, node: NodeIx, name: &str) -> bool {
        self.input(node, name).is_some()
    }

    fn input(&self, node: NodeIx, name: &str) -> Option<&Input> {
        let slot = self.graph.find_name(name)?;
        self.graph.nodes[node as usize].inputs.iter().find(|input| input.slot == slot)
    }

    /// Checks scopes, once all their edges are resolved.
    pub(super) fn check_scopes(&mut self) {
        for scope in 0..self.graph.scopes.len() {
            match self.graph.scopes[scope].kind {
                ScopeKind::Zone => self.check_zone(scope),
                ScopeKind::Root => self.check_results(scope),
                ScopeKind::Call => {}
            }
        }
    }

    fn check_zone(&mut self, scope: usize) {
        let Some(spec) = self.graph.zone_spec(Self::scope_ix(scope)).cloned() else { return };
        let Some(owner) = self.graph.scopes[scope].owner else { return };
        let path = self.path_of(owner);
        let outputs: Vec<String> =
            self.graph.scopes[scope].outputs.keys().map(|name| self.graph.name(*name).to_string()).collect();
        for output in &outputs {
            let taken = spec.state_index(output).is_some();
            if taken || is_reserved(output) {
                let owner = if taken { "a carried value" } else { "the zone itself" };
                let message =
                    format!("a result of the body is called `{output}`, which is a name of {owner}");
                self.problem(Problem::error(ProblemCode::ReservedName, message).at(&path).slot(output));
            }
        }
        let known: Vec<&str> = outputs
            .iter()
            .map(String::as_str)
            .chain(spec.state.iter().map(|state| state.key.as_str()))
            .collect();
        for name in spec.collect.iter().filter(|name| !known.contains(&name.as_str())) {
            let near = self.nearest(name, known.iter().copied());
            let message = format!("`collect` names `{name}`, which the body does not give");
            self.problem(
                Problem::error(ProblemCode::UnknownSlot, message).at(&path).slot(name).suggest(near),
            );
        }
        let carries = self.graph.scopes[scope]
            .next
            .keys()
            .any(|name| spec.state_index(self.graph.name(*name)).is_some());
        if spec.parallel > 1 && carries {
            let message = "values carried from pass to pass need passes one after the other";
            self.problem(Problem::error(ProblemCode::BadValue, message).at(&path).slot("parallel"));
        }
    }

    /// A declared result that nothing fills.
    fn check_results(&mut self, scope: usize) {
        // With an error elsewhere an empty result is only its shadow.
        let sound = Problem::are_warnings(&self.problems);
        let has_nodes = sound && !self.graph.scopes[scope].output_nodes.is_empty();
        let empty: Vec<String> = self.graph.scopes[scope]
            .outputs
            .iter()
            .filter(|(_, output)| output.sources.is_empty())
            .map(|(name, _)| self.graph.name(*name).to_string())
            .collect();
        for name in empty.into_iter().filter(|_| has_nodes) {
            let message = format!("nothing is given for the output `{name}` of the workflow");
            self.problem(Problem::warning(ProblemCode::MissingInput, message).slot(name));
        }
        let declares = !self.graph.scopes[scope].inputs.is_empty();
        let takes = self.graph.workflows[0].nodes.iter().any(|node| node.node_type == GROUP_INPUT);
        if declares && !takes && !self.graph.nodes.is_empty() {
            let message = "the workflow declares inputs, but has no `core:GroupInput` that gives them";
            self.problem(Problem::warning(ProblemCode::MissingInput, message));
        }
    }
}

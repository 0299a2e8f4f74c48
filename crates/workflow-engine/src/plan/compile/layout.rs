//! Giving every node, slot and edge its number.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use smallvec::SmallVec;
use workflow_model::graph::{BypassSource, Graph, GraphNode, Input, NameIx, NodeKind, ScopeKind, Source};
use workflow_model::{DataFlowType, NamedTool, Problem, ProblemCode, ZoneSpec};

use super::needed::mark_needed;
use super::settings::{PreparedSettings, is_detailed, key_ref};
use super::streams::{is_stream, stream_names};
use super::{arguments, is_dead, variables};
use crate::error::PlanError;
use crate::node::{Node, NodeCatalog};
use crate::plan::csr::Csr;
use crate::plan::data::{
    BypassPlan, Details, Entry, InputPlan, Kind, LocalIx, NONE, NodePlan, Origin, OutPlan, PlanData,
    ResultPlan, ScopePlan, SlotIx, TypePlan, slots,
};
use crate::plan::order::topological_order;
use crate::plan::zone::ZonePlan;

/// A scope while its wires are gathered.
#[derive(Default)]
pub(super) struct ScopeDraft {
    plan: ScopePlan,
    /// (slot, reader), and the same for those that read a stream.
    reads: Vec<(u32, u32)>,
    stream_reads: Vec<(u32, u32)>,
    /// (node, follower).
    follows: Vec<(u32, u32)>,
    /// (node, source).
    sources: Vec<(u32, u32)>,
    entries: HashMap<EntryKey, SlotIx>,
    captured: HashSet<(SlotIx, LocalIx)>,
    /// By slot: set if an input takes it as one value.
    joined: Vec<bool>,
    pub(super) next: Vec<Origin>,
}

impl ScopeDraft {
    /// These are taken as one value each.
    fn join(&mut self, slots: impl IntoIterator<Item = SlotIx>) {
        self.joined.resize(self.plan.n_slots as usize, false);
        for slot in slots {
            self.joined[slot as usize] = true;
        }
    }
}

#[derive(PartialEq, Eq, Hash)]
enum EntryKey {
    Name(NameIx),
    Absent(NameIx),
    Outer(SlotIx),
}

pub(super) struct Layout<'g> {
    graph: &'g Graph<'g>,
    catalog: &'g NodeCatalog,
    settled: PreparedSettings,
    drafts: Vec<ScopeDraft>,
    /// Index of each node of the graph within its scope.
    local: Vec<LocalIx>,
    /// Used outputs of each node of the graph.
    slots: Vec<SmallVec<[(NameIx, SlotIx); 2]>>,
    types: Vec<TypePlan>,
    /// The code of each type.
    code: Vec<Arc<dyn Node>>,
    type_index: HashMap<&'g str, u32>,
    details: Vec<Details>,
    /// Slots that each node of the graph needs because a group around it does.
    gates: Vec<Vec<Vec<SlotIx>>>,
    bypasses: Vec<Vec<BypassPlan>>,
    zones: Vec<ZonePlan>,
}

pub(super) fn index(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(NONE)
}

impl<'g> Layout<'g> {
    pub(super) fn new(graph: &'g Graph<'g>, catalog: &'g NodeCatalog, settled: PreparedSettings) -> Self {
        let mut drafts: Vec<ScopeDraft> = graph.scopes.iter().map(|_| ScopeDraft::default()).collect();
        let mut local = Vec::with_capacity(graph.nodes.len());
        let mut counts = vec![0_u32; drafts.len()];
        for node in &graph.nodes {
            local.push(counts[node.scope as usize]);
            counts[node.scope as usize] += 1;
        }
        for (draft, count) in drafts.iter_mut().zip(&counts) {
            draft.plan.counts = vec![0; *count as usize];
        }
        Self {
            graph,
            catalog,
            settled,
            drafts,
            local,
            slots: vec![SmallVec::new(); graph.nodes.len()],
            types: Vec::new(),
            code: Vec::new(),
            type_index: HashMap::new(),
            details: Vec::new(),
            gates: vec![Vec::new(); graph.nodes.len()],
            bypasses: Vec::new(),
            zones: Vec::new(),
        }
    }

    pub(super) fn finish(
        mut self,
        mut problems: Vec<Problem>,
    ) -> Result<(PlanData, Vec<Arc<dyn Node>>), PlanError> {
        let graph = self.graph;
        for (number, node) in graph.nodes.iter().enumerate() {
            self.add_node(number, node);
        }
        for scope in 0..graph.scopes.len() {
            if !is_dead(graph, scope) {
                self.add_results(scope);
            }
        }
        for (number, node) in graph.nodes.iter().enumerate() {
            self.add_kind(number, node);
        }
        let scopes: Result<Vec<ScopePlan>, Problem> =
            (0..graph.scopes.len()).map(|scope| self.seal(scope)).collect();
        let scopes = match scopes {
            Ok(scopes) => scopes,
            Err(problem) => {
                problems.push(problem);
                return Err(PlanError { problems });
            }
        };
        let mut plan = PlanData {
            names: graph.names().to_vec(),
            types: self.types,
            details: self.details,
            scopes,
            bypasses: self.bypasses,
            zones: self.zones,
            groups: self.settled.groups,
            arguments: arguments(graph),
            variables: variables(graph),
            available_tools: graph.root().available_tools.clone().map(|tools| {
                let dynamic = graph.root().tools_of_nodes().filter(NamedTool::is_dynamic);
                tools.with_named_by_nodes(dynamic.map(|named| named.id.to_owned()))
            }),
            input_nodes: graph.scopes[0].input_nodes.iter().filter(|path| is_shown(path)).cloned().collect(),
            output_nodes: graph.scopes[0]
                .output_nodes
                .iter()
                .filter(|path| is_shown(path))
                .cloned()
                .collect(),
            warnings: problems,
            has_effect: self.settled.has_effect,
        };
        mark_needed(&mut plan, &self.code, graph, &self.local, &self.drafts);
        Ok((plan, self.code))
    }

    /// The inputs of a node and what it waits for.
    fn add_node(&mut self, number: usize, node: &GraphNode) {
        let (scope, local) = (node.scope as usize, self.local[number]);
        let start = index(self.drafts[scope].plan.inputs.len());
        // A second attempt reads its streams again, so their text must be kept.
        let rereads = self.graph.spec(node).retry.is_some();
        for input in &node.inputs {
            let plan = self.input(scope, local, input);
            if rereads {
                let read: Vec<SlotIx> = slots(self.drafts[scope].plan.origins(&plan)).collect();
                self.drafts[scope].join(read);
            }
            self.drafts[scope].plan.inputs.push(plan);
        }
        self.gates[number] = node.gates.iter().map(|gate| self.gate(scope, local, gate)).collect();
        let end = index(self.drafts[scope].plan.inputs.len());
        for source in &node.after {
            let source = self.local[*source as usize];
            self.drafts[scope].follows.push((source, local));
            self.drafts[scope].sources.push((local, source));
            self.drafts[scope].plan.counts[local as usize] += 1;
        }
        self.drafts[scope].plan.nodes.push(NodePlan {
            path: Arc::clone(&node.path),
            kind: Kind::Muted,
            details: NONE,
            inputs: (start, end),
            outs: (0, 0),
        });
    }

    fn input(&mut self, scope: usize, local: LocalIx, input: &Input) -> InputPlan {
        let start = index(self.drafts[scope].plan.origins.len());
        for source in &input.sources {
            let Some(origin) = self.origin(scope, source) else { continue };
            if let Origin::Slot(slot) = origin {
                self.wait(scope, local, slot, input, source);
            }
            self.drafts[scope].plan.origins.push(origin);
        }
        InputPlan {
            slot: input.slot,
            data_flow_type: input.data_flow_type,
            typed: input.typed && !input.data_flow_type.is_any(),
            through: input.through.clone().into(),
            multi: input.multi,
            stream: input.stream,
            lazy: input.lazy,
            strict: input.strict,
            from: (start, index(self.drafts[scope].plan.origins.len())),
            fallback: input.fallback.clone(),
        }
    }

    /// The slots of a gate, which a node waits for as for an input.
    fn gate(&mut self, scope: usize, local: LocalIx, sources: &[Source]) -> Vec<SlotIx> {
        let origins: Vec<Origin> = sources.iter().filter_map(|source| self.origin(scope, source)).collect();
        let gate: Vec<SlotIx> = slots(&origins).collect();
        gate.iter().for_each(|slot| self.wait_for(scope, local, *slot));
        gate
    }

    /// Notes that a node waits for all of a slot.
    fn wait_for(&mut self, scope: usize, local: LocalIx, slot: SlotIx) {
        let draft = &mut self.drafts[scope];
        draft.plan.counts[local as usize] += 1;
        draft.reads.push((slot, local));
        draft.join([slot]);
        let owner = draft.plan.owners[slot as usize];
        if owner != NONE {
            draft.sources.push((local, owner));
        }
    }

    /// Notes that a node waits for a slot, for all of it or for its beginning.
    fn wait(&mut self, scope: usize, local: LocalIx, slot: SlotIx, input: &Input, source: &Source) {
        let draft = &mut self.drafts[scope];
        if input.lazy {
            draft.join([slot]);
            return;
        }
        draft.plan.counts[local as usize] += 1;
        let owner = draft.plan.owners[slot as usize];
        if owner != NONE {
            draft.sources.push((local, owner));
        }
        let streamed = input.stream
            && matches!(source, Source::Node(node, name) if self.graph.nodes[*node as usize].scope as usize == scope && is_stream(self.graph, self.catalog, *node, *name));
        let draft = &mut self.drafts[scope];
        if streamed {
            draft.stream_reads.push((slot, local));
        } else {
            draft.reads.push((slot, local));
            draft.join([slot]);
        }
    }

    /// Returns the position of a value in the frames of a scope.
    fn origin(&mut self, scope: usize, source: &Source) -> Option<Origin> {
        let slot = match source {
            Source::Value(value) | Source::Fallback(value) => return Some(Origin::Value(Arc::clone(value))),
            Source::Node(node, name) if self.graph.nodes[*node as usize].scope as usize == scope => {
                self.node_slot(*node as usize, *name)
            }
            Source::Entry(home, name) if *home as usize == scope => return self.entry_origin(scope, *name),
            Source::Absent(name) => self.entry_slot(scope, EntryKey::Absent(*name), Entry::Absent(*name)),
            Source::Node(..) | Source::Entry(..) => return self.captured(scope, source),
        };
        Some(Origin::Slot(slot))
    }

    /// A value of a frame further out: it comes in through the container.
    fn captured(&mut self, scope: usize, source: &Source) -> Option<Origin> {
        let owner = self.graph.scopes[scope].owner? as usize;
        let home = self.graph.nodes[owner].scope as usize;
        let outer = match self.origin(home, source)? {
            Origin::Value(value) => return Some(Origin::Value(value)),
            Origin::Slot(slot) => slot,
        };
        let container = self.local[owner];
        let draft = &mut self.drafts[home];
        if draft.captured.insert((outer, container)) {
            draft.plan.counts[container as usize] += 1;
            draft.reads.push((outer, container));
            draft.join([outer]);
            let from = draft.plan.owners[outer as usize];
            if from != NONE {
                draft.sources.push((container, from));
            }
        }
        Some(Origin::Slot(self.entry_slot(scope, EntryKey::Outer(outer), Entry::Outer(outer))))
    }

    fn entry_origin(&mut self, scope: usize, name: NameIx) -> Option<Origin> {
        let text = Arc::clone(self.graph.name(name));
        let graph_scope = &self.graph.scopes[scope];
        let entry = match graph_scope.kind {
            ScopeKind::Root => Entry::Argument(index(graph_scope.inputs.get_index_of(&*text)?)),
            ScopeKind::Call => {
                let owner = &self.graph.nodes[graph_scope.owner? as usize];
                if let Some(place) = owner.inputs.iter().position(|input| input.slot == name) {
                    Entry::Input(index(place))
                } else if let Some(default) = graph_scope.inputs.get(&*text)?.absent_value() {
                    return Some(Origin::Value(Arc::new(default)));
                } else {
                    Entry::Absent(name)
                }
            }
            ScopeKind::Zone => match &*text {
                "index" => Entry::Index,
                "item" => Entry::Item,
                "remaining" => Entry::Remaining,
                key => {
                    let owner = &self.graph.nodes[graph_scope.owner? as usize];
                    let NodeKind::Zone { spec, .. } = &owner.kind else { return None };
                    Entry::State(index(spec.state_index(key)?))
                }
            },
        };
        Some(Origin::Slot(self.entry_slot(scope, EntryKey::Name(name), entry)))
    }

    fn entry_slot(&mut self, scope: usize, key: EntryKey, entry: Entry) -> SlotIx {
        let draft = &mut self.drafts[scope];
        if let Some(slot) = draft.entries.get(&key) {
            return *slot;
        }
        let slot = new_slot(&mut draft.plan, NONE);
        draft.entries.insert(key, slot);
        draft.plan.entries.push((slot, entry));
        slot
    }

    fn node_slot(&mut self, node: usize, name: NameIx) -> SlotIx {
        if let Some((_, slot)) = self.slots[node].iter().find(|(own, _)| *own == name) {
            return *slot;
        }
        let scope = self.graph.nodes[node].scope as usize;
        let slot = new_slot(&mut self.drafts[scope].plan, self.local[node]);
        self.slots[node].push((name, slot));
        slot
    }

    /// Adds the results of a scope and the state of its next pass.
    fn add_results(&mut self, scope: usize) {
        let graph = self.graph;
        for (name, output) in &graph.scopes[scope].outputs {
            // A list has no place for what counts instead of its items.
            let counts = |source: &&Source| !output.slot.multi || !matches!(source, Source::Fallback(_));
            let origins: Vec<Origin> = output
                .sources
                .iter()
                .filter(counts)
                .filter_map(|source| self.origin(scope, source))
                .collect();
            let draft = &mut self.drafts[scope];
            draft.join(slots(&origins));
            let name = Arc::clone(graph.name(*name));
            let (data_flow_type, multi) = (output.slot.data_flow_type, output.slot.multi);
            let through = output.through.clone().into();
            draft.plan.results.push(ResultPlan { name, data_flow_type, through, multi, origins });
        }
        let next: Vec<Origin> = graph.scopes[scope]
            .next
            .values()
            .flatten()
            .filter_map(|source| self.origin(scope, source))
            .collect();
        self.drafts[scope].join(slots(&next));
        self.drafts[scope].next = next;
        if let Some(owner) = graph.scopes[scope].owner {
            let home = graph.nodes[owner as usize].scope;
            self.drafts[scope].plan.owner = Some((home, self.local[owner as usize]));
        }
    }

    /// Adds the action of a node, once all slots are known.
    fn add_kind(&mut self, number: usize, node: &GraphNode) {
        let scope = node.scope as usize;
        let kind = match &node.kind {
            NodeKind::Plain => Kind::Run(self.type_of(number)),
            NodeKind::Muted => Kind::Muted,
            NodeKind::Bypass(outputs) => {
                let outputs = outputs.iter().map(|output| match &output.from {
                    BypassSource::Input(slot, empty) => {
                        BypassPlan { output: output.output, input: Some(*slot), value: Arc::clone(empty) }
                    }
                    BypassSource::Value(value) => {
                        BypassPlan { output: output.output, input: None, value: Arc::clone(value) }
                    }
                });
                self.bypasses.push(outputs.collect());
                Kind::Bypass(index(self.bypasses.len() - 1))
            }
            NodeKind::Zone { scope: body, spec } => {
                let zone = self.zone(number, *body as usize, spec);
                self.zones.push(zone);
                Kind::Zone(index(self.zones.len() - 1))
            }
            NodeKind::Call { scope } => Kind::Call(*scope),
        };
        let details = self.details_of(number);
        let draft = &mut self.drafts[scope];
        let start = index(draft.plan.outs.len());
        for (name, slot) in &self.slots[number] {
            let stream = match kind {
                Kind::Run(node_type) => {
                    let name = self.graph.name(*name);
                    self.types[node_type as usize].streams.contains(name)
                }
                Kind::Muted | Kind::Bypass(_) | Kind::Call(_) | Kind::Zone(_) => {
                    is_stream(self.graph, self.catalog, index(number), *name)
                }
            };
            let joined = draft.joined.get(*slot as usize) == Some(&true);
            draft.plan.outs.push(OutPlan { name: *name, slot: *slot, stream, joined });
        }
        let plan = &mut draft.plan.nodes[self.local[number] as usize];
        plan.kind = kind;
        plan.details = details;
        plan.outs = (start, index(draft.plan.outs.len()));
    }

    fn type_of(&mut self, number: usize) -> u32 {
        let name = self.graph.spec(&self.graph.nodes[number]).node_type.as_str();
        if let Some(known) = self.type_index.get(name) {
            return *known;
        }
        // The check has found every type, so this one is there.
        let Some(node) = self.catalog.get(name) else { return NONE };
        let definition = node.definition();
        let first = definition.outputs.keys().next();
        let first_of_mode =
            definition.modes.as_ref().and_then(|modes| modes.modes.values().next()?.outputs.keys().next());
        let main = first.or(first_of_mode).map_or("", String::as_str);
        let output_type = definition.outputs.get(main).map(|slot| slot.data_flow_type);
        self.code.push(Arc::clone(node));
        self.types.push(TypePlan {
            name: name.into(),
            version: definition.version.as_str().into(),
            main: main.into(),
            output_type: output_type.unwrap_or(DataFlowType::ConvertibleAny),
            idempotent: definition.idempotent,
            blocking: definition.blocking,
            streams: stream_names(definition),
        });
        let known = index(self.types.len() - 1);
        self.type_index.insert(name, known);
        known
    }

    fn details_of(&mut self, number: usize) -> u32 {
        let spec = self.graph.spec(&self.graph.nodes[number]);
        let prepared = self.settled.prepared.remove(&number);
        let policy = self.settled.policies.remove(&number);
        let gates = std::mem::take(&mut self.gates[number]);
        if !is_detailed(spec, prepared.as_ref(), policy.as_ref()) && gates.is_empty() {
            return NONE;
        }
        self.details.push(Details {
            config: spec.config_values.clone(),
            prepared: prepared.unwrap_or_default(),
            policy: policy.unwrap_or_default(),
            gates,
        });
        index(self.details.len() - 1)
    }

    fn zone(&mut self, number: usize, body: usize, spec: &ZoneSpec) -> ZonePlan {
        let graph = self.graph;
        let node = &graph.nodes[number];
        let place_of = |name: &str| {
            let name = graph.find_name(name);
            let place = name.and_then(|name| node.inputs.iter().position(|input| input.slot == name));
            place.map_or(NONE, index)
        };
        let results: Vec<&str> = graph.scopes[body].outputs.keys().map(|name| &**graph.name(*name)).collect();
        let collect = spec.collect.iter().filter_map(|name| {
            Some((Arc::from(format!("collected.{name}")), key_ref(spec, &results, name)?))
        });
        let collect = collect.collect();
        let mut next = |name: &str| {
            let sources = graph.find_name(name).and_then(|name| graph.scopes[body].next.get(&name));
            sources.into_iter().flatten().filter_map(|source| self.origin(body, source)).collect()
        };
        ZonePlan {
            scope: index(body),
            keys: spec.state.iter().map(|state| state.key.as_str().into()).collect(),
            next: spec.state.iter().map(|state| next(&state.key)).collect(),
            break_if: next("break"),
            continue_if: next("continue"),
            condition: self.settled.conditions.remove(&number),
            collect,
            initial_inputs: spec.state.iter().map(|state| place_of(&state.key)).collect(),
            items_input: place_of("items"),
            spec: spec.clone(),
        }
    }

    /// Completes a scope. The check has found every cycle, so that one is a fault of the check.
    fn seal(&mut self, scope: usize) -> Result<ScopePlan, Problem> {
        let draft = &mut self.drafts[scope];
        let mut plan = std::mem::take(&mut draft.plan);
        let (n_slots, n_nodes) = (plan.n_slots as usize, plan.nodes.len());
        plan.readers = Csr::new(n_slots, &draft.reads);
        plan.stream_readers = Csr::new(n_slots, &draft.stream_reads);
        plan.followers = Csr::new(n_nodes, &draft.follows);
        plan.sources = Csr::new(n_nodes, &draft.sources);
        plan.order = topological_order(n_nodes, &draft.sources).map_err(|at| {
            let path = plan.nodes.get(at as usize).map(|node| node.path.to_string());
            Problem::error(ProblemCode::Cycle, "this node waits for itself").at(path.unwrap_or_default())
        })?;
        Ok(plan)
    }
}

fn new_slot(plan: &mut ScopePlan, owner: LocalIx) -> SlotIx {
    let slot = plan.n_slots;
    plan.n_slots += 1;
    plan.owners.push(owner);
    slot
}

/// Nodes whose id begins with `$` belong to the machinery that made the workflow.
fn is_shown(path: &str) -> bool {
    !path.starts_with('$')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_keep_their_order() {
        let csr = Csr::new(3, &[(2, 5), (0, 1), (2, 4)]);
        assert_eq!([csr.row(0), csr.row(1), csr.row(2), csr.row(9)], [&[1][..], &[], &[5, 4], &[]]);
        assert_eq!(Csr::default().row(0), &[0_u32; 0]);
    }

    #[test]
    fn machinery_is_not_shown() {
        assert!(is_shown("a/$b") && !is_shown("$b"));
    }
}

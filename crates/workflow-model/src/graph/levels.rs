//! Levels of the graph: nodes of the workflow itself, of embedded groups, and of loop bodies.

use std::cell::LazyCell;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use agent_types::Problem;
use foldhash::fast::RandomState;
use indexmap::IndexMap;
use serde_json::{Map, Value};

use super::build::Builder;
use super::drafts::Face;
use super::{
    GraphNode, MAX_DEPTH, MAX_LEVELS, MAX_NODES, NodeIx, NodeKind, Scope, ScopeIx, ScopeKind, WorkflowRef,
};
use crate::definition::NodeDefinition;
use crate::node::Node;
use crate::policy::{Bypass, Cache, OnError};
use crate::problem::ProblemCode;
use crate::structural::{
    FRAME, GROUP_INPUT, GROUP_OUTPUT, LOOP_NEXT, LOOP_STATE, LOOP_ZONE, NODE_GROUP, WORKFLOW,
    workflow_setting,
};
use crate::workflow::{LoadError, Workflow};
use crate::zone::ZoneSpec;

/// One use of a workflow or body: its nodes and edges, with ids of their own.
pub(super) struct Level {
    /// Index among the workflows that the graph holds.
    pub(super) workflow: usize,
    /// Prefix of its node ids within the scope.
    pub(super) prefix: String,
    /// Scope of the nodes that are in no zone.
    pub(super) scope: ScopeIx,
    pub(super) boundary: Boundary,
    /// Result for each node of the file.
    pub(super) places: Vec<Role>,
    pub(super) ids: foldhash::HashMap<Arc<str>, u32>,
    /// Edges into groups and results of this level, by node and slot.
    pub(super) into: HashMap<(u32, String), Vec<u32>>,
    /// The ids of the workflows around this one, outermost first.
    ancestry: Vec<Arc<str>>,
}

/// Connection of a level to the one around it.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Boundary {
    Root,
    /// A group whose wires go straight through.
    Flat {
        level: usize,
        index: usize,
    },
    /// A group that runs as one node.
    Call {
        level: usize,
        index: usize,
    },
    /// A body given by `configValues.body`.
    Body {
        level: usize,
    },
}

/// Role of a node of the file in the graph.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Role {
    Node(NodeIx),
    Flat {
        level: usize,
    },
    GroupInput,
    GroupOutput(ScopeIx),
    LoopState(ScopeIx),
    LoopNext(ScopeIx),
    /// A frame, or something already reported.
    Nothing,
}

/// A level that is still to be read.
struct Task<'a> {
    held: WorkflowRef<'a>,
    prefix: String,
    scope: ScopeIx,
    boundary: Boundary,
    ancestry: Vec<Arc<str>>,
    /// Group node that refers to this level.
    parent: Option<(usize, usize)>,
}

impl<'a, 'w> Builder<'a, 'w> {
    /// Reads the workflow and, one after the other, everything inside it.
    pub(super) fn add_levels(&mut self, root: WorkflowRef<'a>) {
        self.graph
            .scopes
            .push(Scope { inputs: root.interface_inputs.clone(), ..scope(None, ScopeKind::Root) });
        let own = self.world.own_id.map(str::to_owned).or_else(|| root.id.clone());
        let mut tasks = VecDeque::from([Task {
            held: root,
            prefix: String::new(),
            scope: 0,
            boundary: Boundary::Root,
            ancestry: own.into_iter().map(Arc::from).collect(),
            parent: None,
        }]);
        while let Some(task) = tasks.pop_front() {
            let inner = task.boundary != Boundary::Root;
            let too_many =
                self.graph.nodes.len() + task.held.nodes.len() > MAX_NODES || self.levels.len() >= MAX_LEVELS;
            if inner && too_many {
                let message = format!("more than {MAX_LEVELS} groups or {MAX_NODES} nodes after expansion");
                self.problem(Problem::error(ProblemCode::BadValue, message));
                break;
            }
            self.add_level(task, &mut tasks);
        }
    }

    fn add_level(&mut self, task: Task<'a>, tasks: &mut VecDeque<Task<'a>>) {
        let index = self.levels.len();
        if let Some((level, node)) = task.parent {
            self.levels[level].places[node] = Role::Flat { level: index };
        }
        let held = task.held.clone();
        let n_nodes = held.nodes.len();
        self.graph.workflows.push(task.held);
        self.levels.push(Level {
            workflow: self.graph.workflows.len() - 1,
            prefix: task.prefix,
            scope: task.scope,
            boundary: task.boundary,
            places: vec![Role::Nothing; n_nodes],
            ids: foldhash::HashMap::with_capacity_and_hasher(n_nodes, RandomState::default()),
            into: HashMap::new(),
            ancestry: task.ancestry,
        });
        self.graph.nodes.reserve(n_nodes);
        let ids = self.name_nodes(index, &held);
        let mut zones = self.zones_of(index, &held, &ids);
        let scopes = self.add_zone_scopes(&held, &ids);
        let ordered = LazyCell::new(|| nodes_with_order_edges(&held));
        // Zones first and outer ones before inner ones, so that the path of every node is known from the start.
        let depths = self.depths(index, &mut zones);
        let mut order: Vec<usize> = (0..n_nodes).filter(|node| scopes[*node].is_some()).collect();
        order.sort_by_key(|node| depths[*node]);
        order.extend((0..n_nodes).filter(|node| scopes[*node].is_none()));
        for node in order {
            let Some(id) = &ids[node] else { continue };
            let spec = &held.nodes[node];
            let zone = zones[node].and_then(|zone| scopes[zone]);
            let new = Placing {
                level: index,
                node,
                id,
                spec,
                definition: self.world.definitions.definition(&spec.node_type),
                scope: zone.unwrap_or(self.levels[index].scope),
                zone_scope: scopes[node],
                own_order: spec.node_type == NODE_GROUP && ordered.contains(spec.id.as_str()),
            };
            self.place_node(&new, tasks);
        }
    }

    /// Fills the table of ids and returns them; none for a node whose id is taken.
    fn name_nodes(&mut self, level: usize, held: &Workflow) -> Vec<Option<Arc<str>>> {
        let mut ids = Vec::with_capacity(held.nodes.len());
        for (index, node) in held.nodes.iter().enumerate() {
            let number = u32::try_from(index).unwrap_or(u32::MAX);
            let id: Arc<str> = node.id.as_str().into();
            if let Entry::Vacant(place) = self.levels[level].ids.entry(Arc::clone(&id)) {
                place.insert(number);
                ids.push(Some(id));
                continue;
            }
            let path = self.path_in(level, index);
            let message = format!("two nodes have the id `{}`", node.id);
            self.problem(Problem::error(ProblemCode::DuplicateNode, message).at(path));
            ids.push(None);
        }
        ids
    }

    /// For each node the zone around it, found through frames and other parents.
    fn zones_of(&mut self, level: usize, held: &Workflow, ids: &[Option<Arc<str>>]) -> Vec<Option<usize>> {
        let parents = self.parents_of(level, held, ids);
        let mut known: Vec<Option<Option<usize>>> = vec![None; held.nodes.len()];
        let mut chain = Vec::new();
        for start in 0..held.nodes.len() {
            let mut at = Some(start);
            let zone = loop {
                let Some(node) = at else { break None };
                if let Some(zone) = known[node] {
                    break zone;
                }
                let circle = chain.contains(&node);
                if circle || chain.len() > MAX_DEPTH {
                    self.parent_fault(level, start, circle);
                    break None;
                }
                chain.push(node);
                match parents[node] {
                    Some(parent) if held.nodes[parent].node_type == LOOP_ZONE => break Some(parent),
                    parent => at = parent,
                }
            };
            // All on the way share the answer: none of them had a zone as its parent but the last.
            for node in chain.drain(..) {
                known[node] = Some(zone);
            }
        }
        known.into_iter().map(Option::flatten).collect()
    }

    fn parents_of(&mut self, level: usize, held: &Workflow, ids: &[Option<Arc<str>>]) -> Vec<Option<usize>> {
        let mut parents = Vec::with_capacity(held.nodes.len());
        for (index, node) in held.nodes.iter().enumerate() {
            let Some(parent) = node.parent_node.as_deref().filter(|_| ids[index].is_some()) else {
                parents.push(None);
                continue;
            };
            let found = self.levels[level].ids.get(parent).copied();
            if found.is_none() {
                let near = self.nearest(parent, held.nodes.iter().map(|node| node.id.as_str()));
                let message = format!("its parent `{parent}` is not there");
                let path = self.path_in(level, index);
                self.problem(Problem::error(ProblemCode::UnknownNode, message).at(path).suggest(near));
            }
            parents.push(found.map(|parent| parent as usize));
        }
        parents
    }

    fn parent_fault(&mut self, level: usize, node: usize, circle: bool) {
        let path = self.path_in(level, node);
        let problem = if circle {
            Problem::error(ProblemCode::Cycle, "its parents form a circle")
        } else {
            Problem::error(ProblemCode::BadValue, format!("nested deeper than {MAX_DEPTH} levels"))
        };
        self.problem(problem.at(path));
    }

    /// The scope of the body of each zone.
    fn add_zone_scopes(&mut self, held: &Workflow, ids: &[Option<Arc<str>>]) -> Vec<Option<ScopeIx>> {
        let scopes = held.nodes.iter().zip(ids).map(|(node, id)| {
            (id.is_some() && node.node_type == LOOP_ZONE).then(|| {
                self.graph.scopes.push(scope(None, ScopeKind::Zone));
                Self::scope_ix(self.graph.scopes.len() - 1)
            })
        });
        scopes.collect()
    }

    /// Nesting depth of each node's zones. Zones by `parentNode` nest as deep as groups in groups, no deeper.
    /// Where they form a cycle or nest deeper, a node is taken out of its zone, so that every later walk
    /// terminates.
    fn depths(&mut self, level: usize, zones: &mut [Option<usize>]) -> Vec<usize> {
        let mut depths = vec![0; zones.len()];
        let mut is_reported = false;
        for start in 0..zones.len() {
            let mut at = zones[start];
            let mut circle = false;
            while let Some(zone) = at.filter(|_| depths[start] <= MAX_DEPTH) {
                depths[start] += 1;
                circle |= zone == start;
                at = zones[zone];
            }
            if depths[start] > MAX_DEPTH {
                zones[start] = None;
                if !is_reported {
                    self.parent_fault(level, start, circle);
                    is_reported = true;
                }
            }
        }
        depths
    }

    fn place_node(&mut self, new: &Placing<'_, 'w>, tasks: &mut VecDeque<Task<'a>>) {
        // In a zone of this level the path of the zone stands before that of the node, groups included.
        let prefix =
            if new.scope == self.levels[new.level].scope { &*self.levels[new.level].prefix } else { "" };
        let id = new.id;
        let path: Arc<str> = if prefix.is_empty() { Arc::clone(id) } else { format!("{prefix}{id}").into() };
        let zone_kind = self.graph.scopes[new.scope as usize].kind;
        let place = match new.spec.node_type.as_str() {
            FRAME => Role::Nothing,
            GROUP_INPUT => {
                if self.levels[new.level].boundary == Boundary::Root {
                    self.graph.scopes[0].input_nodes.push(path);
                }
                Role::GroupInput
            }
            GROUP_OUTPUT => {
                if self.levels[new.level].boundary == Boundary::Root && new.scope == 0 {
                    self.graph.scopes[0].output_nodes.push(path);
                }
                Role::GroupOutput(new.scope)
            }
            LOOP_STATE | LOOP_NEXT if zone_kind != ScopeKind::Zone => {
                let message = format!("`{}` stands in no loop zone", new.spec.node_type);
                let path = self.path_in(new.level, new.node);
                self.problem(Problem::error(ProblemCode::BadValue, message).at(path));
                Role::Nothing
            }
            LOOP_STATE => Role::LoopState(new.scope),
            LOOP_NEXT => Role::LoopNext(new.scope),
            LOOP_ZONE => self.place_zone(new, path, tasks),
            NODE_GROUP | WORKFLOW => self.place_group(new, path, tasks),
            _ => self.place_plain(new, path),
        };
        self.levels[new.level].places[new.node] = place;
    }

    fn place_plain(&mut self, new: &Placing<'_, 'w>, path: Arc<str>) -> Role {
        if new.definition.is_none() {
            let wanted = new.spec.node_type.as_str();
            let names = self.world.definitions.type_names();
            let near = self.nearest(wanted, names);
            let path = self.path_in(new.level, new.node);
            let message = format!("no node has the type `{wanted}`");
            self.problem(Problem::error(ProblemCode::UnknownType, message).at(path).suggest(near));
        }
        let kind = match new.spec.bypass {
            None => NodeKind::Plain,
            Some(Bypass::Mute) => NodeKind::Muted,
            // What goes where is known when its inputs are.
            Some(Bypass::Pass) => NodeKind::Bypass(Vec::new()),
        };
        Role::Node(self.push_node(new, path, kind))
    }

    fn place_zone(&mut self, new: &Placing<'_, 'w>, path: Arc<str>, tasks: &mut VecDeque<Task<'a>>) -> Role {
        let Some(scope) = new.zone_scope else { return Role::Nothing };
        let full = self.path_in(new.level, new.node);
        let spec = Box::new(ZoneSpec::read(new.spec, &full, &mut self.problems));
        let (kind, face) = match new.spec.bypass {
            None => (NodeKind::Zone { scope, spec }, None),
            Some(Bypass::Mute) => (NodeKind::Muted, None),
            Some(Bypass::Pass) => (NodeKind::Bypass(Vec::new()), Some(Face::of_zone(&spec))),
        };
        let node = self.push_node(new, path, kind);
        self.faces.extend(face.map(|face| (node, face)));
        self.graph.scopes[scope as usize].owner = Some(node);
        if let Some(body) = new.spec.config_values.get("body").filter(|body| !body.is_null()) {
            match read_body(body) {
                Ok(body) => tasks.push_back(Task {
                    held: WorkflowRef::Shared(Arc::new(body)),
                    prefix: String::new(),
                    scope,
                    boundary: Boundary::Body { level: new.level },
                    ancestry: self.levels[new.level].ancestry.clone(),
                    parent: None,
                }),
                Err(error) => {
                    let message = format!("`body`: {error}");
                    self.problem(Problem::error(ProblemCode::BadValue, message).at(full).slot("body"));
                }
            }
        }
        Role::Node(node)
    }

    fn place_group(&mut self, new: &Placing<'_, 'w>, path: Arc<str>, tasks: &mut VecDeque<Task<'a>>) -> Role {
        let Some((id, workflow)) = self.referenced(new) else { return Role::Nothing };
        match new.spec.bypass {
            None => {}
            Some(Bypass::Mute) => return Role::Node(self.push_node(new, path, NodeKind::Muted)),
            Some(Bypass::Pass) => {
                let node = self.push_node(new, path, NodeKind::Bypass(Vec::new()));
                self.faces.insert(node, Face::of_group(&workflow));
                return Role::Node(node);
            }
        }
        let mut ancestry = self.levels[new.level].ancestry.clone();
        ancestry.push(id.into());
        let owner = (new.level, new.node);
        if new.spec.node_type == NODE_GROUP && !new.own_order && !says_how_to_run(new.spec) {
            tasks.push_back(Task {
                prefix: format!("{path}/"),
                scope: new.scope,
                boundary: Boundary::Flat { level: new.level, index: new.node },
                held: WorkflowRef::Shared(workflow),
                ancestry,
                parent: Some(owner),
            });
            return Role::Nothing;
        }
        let inner = Self::scope_ix(self.graph.scopes.len());
        let node = self.push_node(new, path, NodeKind::Call { scope: inner });
        let inputs = workflow.interface_inputs.clone();
        self.graph.scopes.push(Scope { inputs, ..scope(Some(node), ScopeKind::Call) });
        tasks.push_back(Task {
            prefix: String::new(),
            scope: inner,
            boundary: Boundary::Call { level: new.level, index: new.node },
            held: WorkflowRef::Shared(workflow),
            ancestry,
            parent: None,
        });
        Role::Node(node)
    }

    /// The workflow that a group embeds, unless that is itself or not there.
    fn referenced(&mut self, new: &Placing<'_, 'w>) -> Option<(String, Arc<Workflow>)> {
        let path = self.path_in(new.level, new.node);
        let key = workflow_setting(&new.spec.node_type)?;
        let Some(id) = new.spec.config_values.get(key).and_then(Value::as_str) else {
            let problem = Problem::error(ProblemCode::BadValue, format!("`{key}` must name a workflow"));
            self.problem(problem.at(path).slot(key));
            return None;
        };
        let ancestry = &self.levels[new.level].ancestry;
        if ancestry.iter().any(|own| &**own == id) {
            let chain = ancestry.iter().map(|own| &**own).chain([id]).collect::<Vec<_>>().join(" → ");
            let message = format!("the workflow embeds itself: {chain}");
            self.problem(Problem::error(ProblemCode::SelfReference, message).at(path));
            return None;
        }
        if ancestry.len() >= MAX_DEPTH {
            let message = format!("workflows nested deeper than {MAX_DEPTH} levels");
            self.problem(Problem::error(ProblemCode::BadValue, message).at(path));
            return None;
        }
        let found = self.world.workflows.workflow(id);
        if found.is_none() {
            let ids = self.world.workflows.workflow_ids();
            let near = self.nearest(id, ids.iter().map(String::as_str));
            let message = format!("no workflow has the id `{id}`");
            self.problem(Problem::error(ProblemCode::UnknownWorkflow, message).at(path).suggest(near));
        }
        Some((id.to_owned(), found?))
    }

    fn push_node(&mut self, new: &Placing<'_, 'w>, path: Arc<str>, kind: NodeKind) -> NodeIx {
        let index = NodeIx::try_from(self.graph.nodes.len()).unwrap_or(NodeIx::MAX);
        self.graph.nodes.push(GraphNode {
            path,
            scope: new.scope,
            kind,
            inputs: Vec::new(),
            after: Vec::new(),
            gates: Vec::new(),
            workflow: u32::try_from(self.levels[new.level].workflow).unwrap_or(u32::MAX),
            index: u32::try_from(new.node).unwrap_or(u32::MAX),
        });
        self.definitions.push(new.definition);
        index
    }
}

/// A node about to get its place.
struct Placing<'s, 'w> {
    level: usize,
    node: usize,
    /// Its id.
    id: &'s Arc<str>,
    spec: &'s Node,
    /// Its type, where there is one.
    definition: Option<&'w NodeDefinition>,
    scope: ScopeIx,
    /// For a zone: the scope of its body.
    zone_scope: Option<ScopeIx>,
    /// An edge that is order only begins or ends at it.
    own_order: bool,
}

fn scope(owner: Option<NodeIx>, kind: ScopeKind) -> Scope {
    Scope {
        owner,
        kind,
        outputs: IndexMap::new(),
        next: IndexMap::new(),
        inputs: IndexMap::new(),
        input_nodes: Vec::new(),
        output_nodes: Vec::new(),
    }
}

/// Returns `true` if a group has policies of its own and must therefore run as one node.
fn says_how_to_run(node: &Node) -> bool {
    let limits = [node.timeout_ms, node.idle_ms, node.total_ms];
    limits.iter().any(Option::is_some)
        || node.retry.is_some()
        || node.on_error.as_ref().is_some_and(|strategy| *strategy != OnError::Fail)
        || node.cache.as_ref().is_some_and(|cache| *cache != Cache::Off)
        || node.group.is_some()
        || node.effect.is_some()
        || node.first
        || node.skip_if.is_some()
        || !node.lazy.is_empty()
}

fn nodes_with_order_edges(workflow: &Workflow) -> HashSet<&str> {
    let order = |edge: &&crate::edge::Edge| edge.source_slot().is_none() && edge.target_slot().is_none();
    workflow
        .edges
        .iter()
        .filter(order)
        .flat_map(|edge| [edge.source.as_str(), edge.target.as_str()])
        .collect()
}

/// `{nodes, edges?}` as a workflow without an interface.
fn read_body(body: &Value) -> Result<Workflow, LoadError> {
    let mut map = body.as_object().cloned().unwrap_or_default();
    if !body.is_object() {
        return Workflow::from_value(body.clone());
    }
    map.entry("edges").or_insert_with(|| Value::Array(Vec::new()));
    Workflow::from_value(Value::Object(Map::from_iter(map)))
}

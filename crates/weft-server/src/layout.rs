//! Places for the nodes of a workflow: layers from left to right, loop zones around their bodies.
//!
//! Each node stands behind the longest way that leads to it; within a layer, nodes stand near those that they hang on.
//! What a loop carries stands at the sides of its zone: the values of a pass on the left, those of the next on the right.
//! An edge that passes a layer has a lane there, so that it does not run behind nodes.
//! A thousand nodes take about a millisecond, where the library that was tried (`rust-sugiyama` 0.4) took half a second.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::Serialize;
use workflow_model::{Node, Workflow, structural};

/// Size of a node without slots, room for each slot, room between nodes and inside zones.
const WIDTH: f64 = 240.0;
const HEIGHT: f64 = 80.0;
const SLOT: f64 = 24.0;
const GAP: (f64, f64) = (80.0, 40.0);
const PADDING: (f64, f64) = (32.0, 64.0);

/// Width of the carried values at the sides of a zone.
const RAIL: f64 = 148.0;
/// Vertical offset of the first one from the upper side of the zone.
const RAIL_TOP: f64 = 48.0;

/// Number of sweeps, there and back, that improve the order within layers.
const SWEEPS: usize = 4;

/// Positions of the nodes of a workflow.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Placed {
    /// All nodes, in the order of the file.
    pub(crate) nodes: Vec<PlacedNode>,
}

/// Position of a node.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct PlacedNode {
    /// Its id.
    pub(crate) id: String,
    /// Its upper left corner; within a zone, from that of the zone.
    pub(crate) position: At,
    /// Its width.
    pub(crate) width: f64,
    /// Its height.
    pub(crate) height: f64,
}

/// A place.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub(crate) struct At {
    /// To the right.
    pub(crate) x: f64,
    /// Down.
    pub(crate) y: f64,
}

/// A side of a loop zone.
#[derive(Clone, Copy, PartialEq)]
enum Rail {
    Left,
    Right,
}

/// Nodes by their place in the file, with what surrounds them.
struct Sketch {
    parents: Vec<Option<usize>>,
    /// Nodes at the side of the zone around them.
    rails: Vec<Option<Rail>>,
    zones: Vec<bool>,
    edges: Vec<(usize, usize)>,
    sizes: Vec<(f64, f64)>,
    at: Vec<At>,
}

/// Places all nodes.
pub(crate) fn place(workflow: &Workflow) -> Placed {
    let index: HashMap<&str, usize> =
        workflow.nodes.iter().enumerate().map(|(at, node)| (node.id.as_str(), at)).collect();
    let find = |id: &str| index.get(id).copied();
    let mut sketch = Sketch {
        parents: workflow.nodes.iter().map(|node| node.parent_node.as_deref().and_then(find)).collect(),
        rails: workflow.nodes.iter().map(rail_of).collect(),
        zones: workflow.nodes.iter().map(|node| node.node_type == structural::LOOP_ZONE).collect(),
        edges: workflow
            .edges
            .iter()
            .filter_map(|edge| Some((find(&edge.source)?, find(&edge.target)?)))
            .collect(),
        sizes: Vec::new(),
        at: vec![At { x: 0.0, y: 0.0 }; workflow.nodes.len()],
    };
    sketch.break_rings_of_parents();
    let slots = sketch.slots();
    let sized = workflow.nodes.iter().zip(slots).map(|(node, slots)| {
        let own = |key| node.extra.get(key).and_then(serde_json::Value::as_f64).filter(|size| *size > 0.0);
        (own("width").unwrap_or(WIDTH), own("height").unwrap_or(HEIGHT + SLOT * slots))
    });
    sketch.sizes = sized.collect();
    for group in sketch.groups() {
        sketch.place_group(group);
    }
    let nodes = workflow.nodes.iter().enumerate().map(|(node, about)| PlacedNode {
        id: about.id.clone(),
        position: sketch.at[node],
        width: sketch.sizes[node].0,
        height: sketch.sizes[node].1,
    });
    Placed { nodes: nodes.collect() }
}

fn rail_of(node: &Node) -> Option<Rail> {
    match node.node_type.as_str() {
        structural::LOOP_STATE => Some(Rail::Left),
        structural::LOOP_NEXT => Some(Rail::Right),
        _ => None,
    }
}

impl Sketch {
    /// A file may hold zones that stand in each other; one of them then stands outside.
    fn break_rings_of_parents(&mut self) {
        for node in 0..self.parents.len() {
            let (mut at, mut steps) = (node, 0);
            while let Some(parent) = self.parents[at] {
                steps += 1;
                if parent == node || steps > self.parents.len() {
                    self.parents[node] = None;
                    break;
                }
                at = parent;
            }
        }
    }

    /// Slots in use on the fuller side of each node.
    fn slots(&self) -> Vec<f64> {
        let mut slots = vec![(0_u32, 0_u32); self.parents.len()];
        for (source, target) in &self.edges {
            slots[*source].1 += 1;
            slots[*target].0 += 1;
        }
        slots.into_iter().map(|(into, out)| f64::from(into.max(out).min(12))).collect()
    }

    fn depth(&self, node: usize) -> usize {
        std::iter::successors(self.parents[node], |parent| self.parents[*parent]).count()
    }

    /// Zones from the innermost out, `None` for the canvas itself.
    fn groups(&self) -> Vec<Option<usize>> {
        let mut zones: Vec<usize> = self.parents.iter().flatten().copied().collect();
        zones.sort_unstable();
        zones.dedup();
        zones.sort_by_key(|zone| std::cmp::Reverse(self.depth(*zone)));
        zones.into_iter().map(Some).chain([None]).collect()
    }

    /// Places what stands directly in a zone, and makes the zone as large as it must be.
    fn place_group(&mut self, zone: Option<usize>) {
        let is_loop = zone.is_some_and(|zone| self.zones[zone]);
        let inside: Vec<usize> = (0..self.parents.len()).filter(|node| self.parents[*node] == zone).collect();
        let (rails, members): (Vec<usize>, Vec<usize>) =
            inside.into_iter().partition(|node| is_loop && self.rails[*node].is_some());
        let side = if is_loop { RAIL + PADDING.0 } else { PADDING.0 };
        let ends = self.ends_in(&members);
        let edges: Vec<(usize, usize)> = ends.iter().filter_map(|(from, to)| from.zip(*to)).collect();
        let lanes = Lanes::beside(layers(members.len(), &edges), &ends);
        let layers = ordered(lanes.layers, &lanes.edges);
        let (mut x, mut lowest) = (side, 0.0_f64);
        for layer in &layers {
            let (mut y, mut widest) = (PADDING.1, 0.0_f64);
            for member in layer {
                let Some(&node) = members.get(*member) else {
                    y += SLOT * lanes.wires[*member - members.len()] + GAP.1;
                    continue;
                };
                self.at[node] = At { x, y };
                y += self.sizes[node].1 + GAP.1;
                widest = widest.max(self.sizes[node].0);
            }
            lowest = lowest.max(y - GAP.1);
            x += widest + GAP.0;
        }
        let Some(zone) = zone else { return };
        let end = if layers.is_empty() { side + WIDTH } else { x - GAP.0 };
        let rail = rails.iter().map(|node| RAIL_TOP + self.sizes[*node].1).fold(lowest, f64::max);
        self.sizes[zone] = ((end + side).max(WIDTH), (rail + PADDING.0).max(HEIGHT));
        for node in rails {
            let x = if self.rails[node] == Some(Rail::Left) { 0.0 } else { self.sizes[zone].0 - RAIL };
            self.at[node] = At { x, y: RAIL_TOP };
            self.sizes[node].0 = RAIL;
        }
    }

    /// The ends of all edges by their places in a group, or by what stands around them there; `None` is outside of it.
    fn ends_in(&self, members: &[usize]) -> Vec<(Option<usize>, Option<usize>)> {
        let places: HashMap<usize, usize> =
            members.iter().enumerate().map(|(place, node)| (*node, place)).collect();
        let around = |node: usize| {
            std::iter::successors(Some(node), |inner| self.parents[*inner])
                .find_map(|node| places.get(&node).copied())
        };
        let edges = self.edges.iter().map(|(from, to)| (around(*from), around(*to)));
        edges.filter(|(from, to)| from != to).collect()
    }
}

/// Layers with room for what passes them.
struct Lanes {
    /// Members of the group, and behind their numbers those of the lanes.
    layers: Vec<Vec<usize>>,
    /// From layer to layer.
    edges: Vec<(usize, usize)>,
    /// Number of edges in each lane.
    wires: Vec<f64>,
}

impl Lanes {
    /// Splits edges that pass layers; all from one node share a lane in each layer. An end that is `None` is outside.
    fn beside(layers: Vec<Vec<usize>>, ends: &[(Option<usize>, Option<usize>)]) -> Self {
        let mut own = Self { layers, edges: Vec::new(), wires: Vec::new() };
        let members = own.layers.iter().map(Vec::len).sum();
        let mut layer = vec![0; members];
        for (at, nodes) in own.layers.iter().enumerate() {
            for node in nodes {
                layer[*node] = at;
            }
        }
        let mut lanes: HashMap<(Option<usize>, usize), usize> = HashMap::new();
        for (from, to) in ends {
            let mut before = *from;
            let first = from.map_or(0, |from| layer[from] + 1);
            for at in first..to.map_or(own.layers.len(), |to| layer[to]) {
                let lane = *lanes.entry((*from, at)).or_insert_with(|| {
                    own.wires.push(0.0);
                    own.layers[at].push(members + own.wires.len() - 1);
                    members + own.wires.len() - 1
                });
                own.wires[lane - members] += 1.0;
                own.edges.extend(before.map(|before| (before, lane)));
                before = Some(lane);
            }
            own.edges.extend(before.zip(*to));
        }
        // What comes from the side stands above where nothing else orders it: there the carried values begin.
        for nodes in &mut own.layers {
            nodes.sort_by_key(|node| *node < members);
        }
        own
    }
}

/// The longest way to each node; edges that close a cycle are passed over.
fn layers(nodes: usize, edges: &[(usize, usize)]) -> Vec<Vec<usize>> {
    let mut out = vec![Vec::new(); nodes];
    let mut waits = vec![0_usize; nodes];
    for (from, to) in edges {
        out[*from].push(*to);
        waits[*to] += 1;
    }
    let mut layer = vec![0_usize; nodes];
    let mut done = vec![false; nodes];
    let mut ready: Vec<usize> = (0..nodes).filter(|node| waits[*node] == 0).collect();
    for next in 0..nodes {
        // Where everything waits for something, the first of the file begins.
        if ready.is_empty()
            && let Some(node) = (next..nodes).chain(0..next).find(|node| !done[*node])
        {
            ready.push(node);
        }
        let Some(node) = ready.pop() else { break };
        if std::mem::replace(&mut done[node], true) {
            continue;
        }
        for to in &out[node] {
            if !done[*to] {
                layer[*to] = layer[*to].max(layer[node] + 1);
                waits[*to] = waits[*to].saturating_sub(1);
                if waits[*to] == 0 {
                    ready.push(*to);
                }
            }
        }
    }
    let depth = layer.iter().max().map_or(0, |deepest| deepest + 1);
    let mut layers = vec![Vec::new(); depth];
    for (node, layer) in layer.into_iter().enumerate() {
        layers[layer].push(node);
    }
    layers.retain(|layer| !layer.is_empty());
    layers
}

/// The same with each layer in an order in which fewer edges cross.
fn ordered(mut layers: Vec<Vec<usize>>, edges: &[(usize, usize)]) -> Vec<Vec<usize>> {
    let nodes = layers.iter().map(Vec::len).sum();
    let mut neighbours = vec![Vec::new(); nodes];
    for (from, to) in edges {
        neighbours[*from].push(*to);
        neighbours[*to].push(*from);
    }
    let mut place = vec![0.0; nodes];
    for sweep in 0..SWEEPS {
        let mut order: Vec<usize> = (0..layers.len()).collect();
        if sweep % 2 == 1 {
            order.reverse();
        }
        for layer in order {
            let layer = &mut layers[layer];
            let middle = |node: usize, place: &[f64]| {
                let near = neighbours[node].iter().map(|near| place[*near]);
                let (sum, count) = near.fold((0.0, 0.0), |(sum, count), place| (sum + place, count + 1.0));
                if count > 0.0 { sum / count } else { place[node] }
            };
            let mut wanted: Vec<(f64, usize)> =
                layer.iter().map(|node| (middle(*node, &place), *node)).collect();
            wanted.sort_by(|(one, _), (other, _)| one.total_cmp(other));
            *layer = wanted.into_iter().map(|(_, node)| node).collect();
            let mut next = 0.0;
            for node in layer {
                place[*node] = next;
                next += 1.0;
            }
        }
    }
    layers
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn placed(nodes: &serde_json::Value, edges: &[(&str, &str)]) -> HashMap<String, PlacedNode> {
        let edges: Vec<_> =
            edges.iter().map(|(source, target)| json!({"source": source, "target": target})).collect();
        let workflow = Workflow::from_value(json!({"nodes": nodes, "edges": edges})).unwrap();
        place(&workflow).nodes.into_iter().map(|node| (node.id.clone(), node)).collect()
    }

    #[test]
    fn what_hangs_on_something_stands_to_its_right() {
        let nodes = json!([{"id": "c", "type": "t"}, {"id": "a", "type": "t"}, {"id": "b", "type": "t"}]);
        let placed = placed(&nodes, &[("a", "b"), ("b", "c"), ("a", "c")]);
        let x = |id: &str| placed[id].position.x;
        assert!(x("a") < x("b") && x("b") < x("c"));
    }

    #[test]
    fn a_zone_is_as_large_as_what_stands_in_it() {
        let nodes = json!([
            {"id": "zone", "type": "core:LoopZone"},
            {"id": "in", "type": "t", "parentNode": "zone"}, {"id": "out", "type": "t", "parentNode": "zone"},
            {"id": "after", "type": "t"}]);
        let placed = placed(&nodes, &[("in", "out"), ("zone", "after")]);
        let (zone, last, after) = (&placed["zone"], &placed["out"], &placed["after"]);
        assert!(zone.width >= last.position.x + last.width && zone.height >= last.position.y + last.height);
        assert!(after.position.x >= zone.position.x + zone.width);
    }

    #[test]
    fn carried_values_stand_at_the_sides_of_their_loop() {
        let nodes = json!([
            {"id": "zone", "type": "core:LoopZone"},
            {"id": "state", "type": "core:LoopState", "parentNode": "zone"},
            {"id": "step", "type": "t", "parentNode": "zone", "width": 100, "height": 300},
            {"id": "alone", "type": "t", "parentNode": "zone"},
            {"id": "next", "type": "core:LoopNext", "parentNode": "zone"}]);
        let placed = placed(&nodes, &[("state", "step"), ("step", "next")]);
        let end = |id: &str| placed[id].position.x + placed[id].width;
        assert!(end("state") < placed["step"].position.x && end("state") < placed["alone"].position.x);
        assert!(end("step") < placed["next"].position.x && end("alone") < placed["next"].position.x);
        assert!((end("next") - placed["zone"].width).abs() < f64::EPSILON);
        let (step, alone) = (&placed["step"], &placed["alone"]);
        assert!(
            alone.position.y >= step.position.y + 300.0 || step.position.y >= alone.position.y + alone.height
        );
    }

    #[test]
    fn an_edge_that_passes_a_node_has_a_lane_there() {
        let nodes = json!([
            {"id": "zone", "type": "core:LoopZone"},
            {"id": "state", "type": "core:LoopState", "parentNode": "zone"},
            {"id": "first", "type": "t", "parentNode": "zone"},
            {"id": "second", "type": "t", "parentNode": "zone"}]);
        let beside = placed(&nodes, &[("first", "second")])["first"].position.y;
        let passed = placed(&nodes, &[("first", "second"), ("state", "second")])["first"].position.y;
        assert!((passed - beside - SLOT - GAP.1).abs() < f64::EPSILON, "{beside} to {passed}");
    }

    #[test]
    fn cycles_and_zones_in_each_other_are_placed_too() {
        let nodes = json!([
            {"id": "a", "type": "t", "parentNode": "b"}, {"id": "b", "type": "t", "parentNode": "a"},
            {"id": "c", "type": "t"}, {"id": "d", "type": "t"}]);
        assert_eq!(placed(&nodes, &[("c", "d"), ("d", "c")]).len(), 4);
    }
}

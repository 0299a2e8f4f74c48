//! The frames of a run, used again and again.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use agent_types::EventLocation;
use serde_json::Value;

use super::frame::{Frame, Key, NodeState, Slot, Standing, StreamSlot};
use super::inputs::origin_value;
use crate::convert::convert;
use crate::outputs::Outputs;
use crate::plan::data::{LocalIx, NodePlan, Origin, PlanData, ResultPlan, ScopePlan, SlotIx};

/// Frames by number. A retired frame is used again under another generation, so that old keys find nothing.
pub(crate) struct Frames<'p> {
    plan: &'p PlanData,
    all: Vec<Frame>,
    free: Vec<u32>,
    /// Index of the nodes by their paths, while events of a log are looked up.
    paths: Option<Box<Paths>>,
    /// Buffer for building texts.
    scratch: RefCell<String>,
}

/// Frames by what stands before the paths of their nodes, and nodes of scopes by their paths.
#[derive(Debug, Default)]
struct Paths {
    frames: HashMap<Arc<str>, u32>,
    nodes: HashMap<u32, HashMap<Arc<str>, LocalIx>>,
}

impl<'p> Frames<'p> {
    pub(super) fn new(plan: &'p PlanData) -> Self {
        Self::restored(plan, Vec::new(), Vec::new())
    }

    pub(super) fn restored(plan: &'p PlanData, frames: Vec<Frame>, free: Vec<u32>) -> Self {
        Self { plan, all: frames, free, paths: None, scratch: RefCell::default() }
    }

    pub(super) fn all(&self) -> &[Frame] {
        &self.all
    }

    pub(super) fn free(&self) -> &[u32] {
        &self.free
    }

    pub(crate) fn at(&self, at: u32) -> Option<&Frame> {
        self.all.get(at as usize)
    }

    pub(crate) fn get(&self, key: Key) -> Option<&Frame> {
        self.at(key.frame).filter(|frame| frame.generation() == key.generation)
    }

    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut Frame> {
        self.all.get_mut(key.frame as usize).filter(|frame| frame.generation() == key.generation)
    }

    /// A frame for a scope, made anew or used again.
    pub(super) fn add(&mut self, standing: Standing, needed: Option<&[bool]>) -> Key {
        let scope = &self.plan.scopes[standing.scope as usize];
        let needed = needed.unwrap_or(&scope.needed);
        let prefix = self.paths.is_some().then(|| Arc::clone(&standing.prefix));
        let at = if let Some(at) = self.free.pop() {
            self.all[at as usize].reuse(standing, scope, needed);
            at
        } else {
            self.all.push(Frame::new(standing, scope, needed));
            u32::try_from(self.all.len() - 1).unwrap_or(u32::MAX)
        };
        if let (Some(paths), Some(prefix)) = (&mut self.paths, prefix) {
            paths.frames.insert(prefix, at);
        }
        Key { frame: at, generation: self.all[at as usize].generation(), node: 0 }
    }

    /// Nothing of the frame counts any more.
    pub(crate) fn retire(&mut self, at: u32) {
        if let Some(frame) = self.all.get_mut(at as usize) {
            frame.retire();
            if let Some(paths) = &mut self.paths {
                paths.frames.remove(&frame.standing().prefix);
            }
            self.free.push(at);
        }
    }

    /// Makes nodes known by their paths until [`forget_paths`](Self::forget_paths).
    pub(crate) fn index_paths(&mut self) {
        let used = (0..).zip(&self.all).filter(|(at, _)| !self.free.contains(at));
        let frames = used.map(|(at, frame)| (Arc::clone(&frame.standing().prefix), at)).collect();
        self.paths = Some(Box::new(Paths { frames, nodes: HashMap::new() }));
    }

    pub(crate) fn forget_paths(&mut self) {
        self.paths = None;
    }

    /// The node at a path, if it stands in a pass that is on.
    pub(crate) fn find(&mut self, path: &str) -> Option<Key> {
        let paths = self.paths.as_mut()?;
        let cuts = path.char_indices().rev().filter(|(_, c)| *c == '/').map(|(at, _)| at + 1);
        for cut in cuts.chain([0]) {
            let (prefix, rest) = path.split_at(cut);
            let Some(at) = paths.frames.get(prefix) else { continue };
            let Some(frame) = self.all.get(*at as usize) else { continue };
            let scope = frame.standing().scope;
            let nodes = paths.nodes.entry(scope).or_insert_with(|| {
                let nodes = &self.plan.scopes[scope as usize].nodes;
                (0..).zip(nodes).map(|(at, node)| (Arc::clone(&node.path), at)).collect()
            });
            if let Some(node) = nodes.get(rest) {
                return Some(Key { frame: *at, generation: frame.generation(), node: *node });
            }
        }
        None
    }

    pub(crate) fn scope(&self, key: Key) -> Option<&'p ScopePlan> {
        Some(&self.plan.scopes[self.get(key)?.standing().scope as usize])
    }

    pub(crate) fn node(&self, key: Key) -> Option<&'p NodePlan> {
        Some(&self.scope(key)?.nodes[key.node as usize])
    }

    /// State of a node; a node whose pass is over is settled.
    pub(crate) fn state(&self, key: Key) -> NodeState {
        self.get(key).map_or(NodeState::Settled, |frame| frame.state(key.node))
    }

    /// The innermost pass around a node.
    pub(crate) fn iteration(&self, key: Key) -> Option<u64> {
        self.get(key)?.standing().iteration
    }

    /// The node whose body holds a node; `None` at the root, and for a pass that is over.
    pub(crate) fn container(&self, key: Key) -> Option<Key> {
        self.get(key)?.standing().container
    }

    /// Parts as one text, with a single allocation.
    pub(crate) fn text(&self, parts: &[&str]) -> Arc<str> {
        let mut scratch = self.scratch.borrow_mut();
        scratch.clear();
        scratch.extend(parts.iter().copied());
        Arc::from(scratch.as_str())
    }

    /// The path of a node in this run.
    pub(crate) fn path(&self, key: Key) -> Arc<str> {
        let Some(frame) = self.at(key.frame) else { return Arc::from("") };
        let standing = frame.standing();
        let path = &self.plan.scopes[standing.scope as usize].nodes[key.node as usize].path;
        if standing.prefix.is_empty() { Arc::clone(path) } else { self.text(&[&standing.prefix, path]) }
    }

    /// The location of an event of a node's attempt.
    pub(crate) fn location(&self, key: Key, span: u64, attempt: Option<u32>) -> EventLocation {
        let standing = self.at(key.frame).map(Frame::standing);
        EventLocation {
            path: Some(self.path(key)),
            iteration: standing.and_then(|standing| standing.iteration),
            attempt,
            span,
            parent: standing.map(|standing| standing.span),
            ..EventLocation::default()
        }
    }

    /// Returns the results of a frame, by name. Results of a branch that was not taken are left out.
    ///
    /// # Errors
    /// A value is not of the type that the result declares.
    pub(crate) fn results(&self, at: u32) -> Result<Outputs, String> {
        let Some(frame) = self.at(at) else { return Ok(Outputs::none()) };
        let mut outputs = Outputs::none();
        for result in &self.plan.scopes[frame.standing().scope as usize].results {
            if let Some(value) = self.result(at, result)? {
                outputs = outputs.with_shared(result.name.to_string(), value);
            }
        }
        Ok(outputs)
    }

    /// Returns one result of a frame, if a branch to it was taken.
    ///
    /// # Errors
    /// The value is not of the type that the result declares.
    pub(crate) fn result(&self, at: u32, result: &ResultPlan) -> Result<Option<Arc<Value>>, String> {
        let Some(frame) = self.at(at) else { return Ok(None) };
        let values = result.origins.iter().filter_map(|origin| origin_value(frame, origin));
        let mut typed = values.map(|value| {
            let typed = result.through.iter().try_fold(value, |value, kind| convert(&value, *kind));
            let typed = typed.and_then(|value| convert(&value, result.data_flow_type));
            typed.map_err(|fault| format!("the output `{}` {fault}", result.name))
        });
        if !result.multi {
            return typed.next().transpose();
        }
        let all = typed.map(|value| Ok((*value?).clone())).collect::<Result<Vec<Value>, String>>()?;
        Ok((!all.is_empty()).then(|| Arc::new(Value::Array(all))))
    }

    /// The value of an origin in a frame.
    pub(crate) fn value(&self, at: u32, origin: &Origin) -> Option<Arc<Value>> {
        origin_value(self.at(at)?, origin)
    }

    /// The stream that was opened for a slot.
    pub(crate) fn open_stream(&self, key: Key, slot: SlotIx) -> Option<Arc<StreamSlot>> {
        match self.get(key)?.slot(slot) {
            Slot::Stream(open) => Some(Arc::clone(open)),
            Slot::Unknown | Slot::Skipped(_) | Slot::Value(_) => None,
        }
    }

    /// The streams that a node has opened.
    pub(crate) fn open_streams(&self, key: Key) -> Vec<(SlotIx, Arc<StreamSlot>)> {
        let Some((scope, node)) = self.scope(key).zip(self.node(key)) else { return Vec::new() };
        let outs = scope.outs(node).iter();
        outs.filter_map(|out| Some((out.slot, self.open_stream(key, out.slot)?))).collect()
    }

    /// Scheduled nodes of a frame without a terminal event.
    pub(crate) fn unsettled(&self, frame: u32) -> Vec<Key> {
        let Some(own) = self.at(frame) else { return Vec::new() };
        let key = |node| Key { frame, generation: own.generation(), node };
        own.unsettled().map(key).collect()
    }
}

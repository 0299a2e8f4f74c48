//! Results of scopes, as far as they are known before the edges are resolved.

use super::build::Builder;
use super::levels::{Boundary, Role};
use super::{Output, ScopeIx, ScopeKind};
use crate::definition::SlotDefinition;
use crate::node::Node;
use crate::slot::DataFlowType;

/// The key of a level's own results in its table of edges.
pub(super) const RESULTS: u32 = u32::MAX;

impl Builder<'_, '_> {
    /// Declares the results of every scope and lists the edges that cross the border of a group.
    pub(super) fn expose_outputs(&mut self) {
        for level in 0..self.levels.len() {
            let workflow = self.graph.workflows[self.levels[level].workflow].clone();
            let scope = self.levels[level].scope;
            if matches!(self.levels[level].boundary, Boundary::Root | Boundary::Call { .. }) {
                for (name, slot) in &workflow.interface_outputs {
                    self.declare(scope, name, SlotDefinition::from(slot));
                }
            }
            for (index, node) in workflow.nodes.iter().enumerate() {
                if let Role::GroupOutput(inner) = self.levels[level].places[index] {
                    self.expose_constants(level, inner, node);
                }
            }
            let is_border = |place: &Role| matches!(place, Role::GroupOutput(_) | Role::Flat { .. });
            if !self.levels[level].places.iter().any(is_border) {
                continue;
            }
            for (index, edge) in workflow.edges.iter().enumerate() {
                let Some(target) = self.levels[level].ids.get(edge.target.as_str()).copied() else {
                    continue;
                };
                let Some(handle) = edge.target_slot() else { continue };
                let index = u32::try_from(index).unwrap_or(u32::MAX);
                match self.levels[level].places[target as usize] {
                    Role::GroupOutput(inner) => self.expose(level, inner, handle, index),
                    Role::Flat { level: child } => {
                        let name = self.group_input_name(child, handle);
                        self.levels[level].into.entry((target, name)).or_default().push(index);
                    }
                    Role::Node(_)
                    | Role::GroupInput
                    | Role::LoopState(_)
                    | Role::LoopNext(_)
                    | Role::Nothing => {}
                }
            }
        }
    }

    /// An edge into a `GroupOutput`.
    fn expose(&mut self, level: usize, scope: ScopeIx, handle: &str, edge: u32) {
        let flat = matches!(self.levels[level].boundary, Boundary::Flat { .. });
        if flat && scope == self.levels[level].scope {
            self.levels[level].into.entry((RESULTS, handle.to_owned())).or_default().push(edge);
            return;
        }
        if self.declares_by_edges(level, scope) {
            self.declare(scope, handle, SlotDefinition::new(DataFlowType::Wildcard, ""));
        }
    }

    /// Results that the file itself gives.
    fn expose_constants(&mut self, level: usize, scope: ScopeIx, node: &Node) {
        if self.declares_by_edges(level, scope) {
            for name in node.input_values.keys() {
                self.declare(scope, name, SlotDefinition::new(DataFlowType::Wildcard, ""));
            }
        }
    }

    /// Returns `true` if the edges to its `GroupOutput` declare the results of a scope.
    fn declares_by_edges(&self, level: usize, scope: ScopeIx) -> bool {
        match self.graph.scopes[scope as usize].kind {
            ScopeKind::Zone => true,
            // A file without an interface for its results means those that its edges name.
            ScopeKind::Root | ScopeKind::Call => {
                self.graph.workflows[self.levels[level].workflow].interface_outputs.is_empty()
            }
        }
    }

    fn declare(&mut self, scope: ScopeIx, name: &str, slot: SlotDefinition) {
        let name = self.graph.names.intern(name);
        let output = Output { slot, through: Vec::new(), sources: Vec::new() };
        self.graph.scopes[scope as usize].outputs.entry(name).or_insert(output);
    }

    /// The interface slot that a handle of a group means: itself, or the one before `__N`.
    pub(super) fn group_input_name(&self, child: usize, handle: &str) -> String {
        let inputs = &self.graph.workflows[self.levels[child].workflow].interface_inputs;
        match split_ordinal(handle) {
            Some((base, _)) if !inputs.contains_key(handle) && inputs.contains_key(base) => base.to_owned(),
            Some(_) | None => handle.to_owned(),
        }
    }
}

/// `key__3` as `key` and 3.
pub(super) fn split_ordinal(handle: &str) -> Option<(&str, u32)> {
    let (base, ordinal) = handle.rsplit_once("__")?;
    let plain = !ordinal.is_empty() && ordinal.bytes().all(|byte| byte.is_ascii_digit());
    (plain && !base.is_empty()).then(|| ordinal.parse().ok().map(|ordinal| (base, ordinal)))?
}

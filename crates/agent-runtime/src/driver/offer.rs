//! The tools of one turn.

use std::sync::{Arc, OnceLock};

use llm_provider::ModelInfo;
use tool_registry::{RegistryChange, Snapshot, ToolSource};
use tool_schema::ToolSet;

use crate::prompt::constraint::GrammarConstraint;

/// Offer of a turn: the tools, and the tool set for the reader of replies.
#[derive(Debug, Clone)]
pub(crate) struct ToolOffer {
    pub(crate) tools: Snapshot,
    pub(crate) set: Arc<ToolSet>,
    /// Constraint on replies, once it was requested.
    constraint: Arc<OnceLock<GrammarConstraint>>,
}

impl ToolOffer {
    pub(crate) fn new(tools: Snapshot, set: ToolSet) -> Self {
        Self { tools, set: Arc::new(set), constraint: Arc::default() }
    }

    /// Returns the constraint on replies of the model, and `true` the first time, so that its unsupported tools are
    /// reported once.
    pub(crate) fn constraint(&self, model: &ModelInfo) -> (&GrammarConstraint, bool) {
        let is_first = self.constraint.get().is_none();
        (self.constraint.get_or_init(|| GrammarConstraint::new(model, &self.tools)), is_first)
    }

    /// Takes the current tools; returns the change. Tools that cannot be offered together are rejected with a report.
    pub(crate) fn refresh(&mut self, source: &dyn ToolSource) -> Option<RegistryChange> {
        let newer = source.snapshot();
        if newer.is_same(&self.tools) {
            return None;
        }
        let mut change = self.tools.change_to(&newer);
        match newer.tool_set() {
            Ok(set) => *self = Self::new(newer, set),
            Err(error) => {
                change = RegistryChange::default();
                change.warnings.push(format!("the tools stay as they were: {error}"));
            }
        }
        (!change.is_empty()).then_some(change)
    }
}

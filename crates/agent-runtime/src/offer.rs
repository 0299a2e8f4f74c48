//! The tools of one turn.

use std::sync::{Arc, OnceLock};

use llm_provider::ModelInfo;
use tool_registry::{RegistryChange, Snapshot, ToolSource};
use tool_schema::ToolSet;

use crate::constraint::GrammarConstraint;

/// What a turn offers: the tools, and the same as the reader of replies needs them.
#[derive(Debug, Clone)]
pub(crate) struct ToolOffer {
    pub(crate) tools: Snapshot,
    pub(crate) set: Arc<ToolSet>,
    /// What replies are held to, once it was asked for.
    held: Arc<OnceLock<GrammarConstraint>>,
}

impl ToolOffer {
    pub(crate) fn new(tools: Snapshot, set: ToolSet) -> Self {
        Self { tools, set: Arc::new(set), held: Arc::default() }
    }

    /// What replies of the model are held to; and, the first time, the tools that it cannot call so.
    pub(crate) fn held(&self, model: &ModelInfo) -> (&GrammarConstraint, bool) {
        let is_first = self.held.get().is_none();
        (self.held.get_or_init(|| GrammarConstraint::new(model, &self.tools)), is_first)
    }

    /// Takes the tools of now; gives what changed since. Tools that cannot be offered together are not taken, and that is told.
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

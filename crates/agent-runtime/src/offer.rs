//! The tools of one turn.

use std::sync::Arc;

use tool_registry::{RegistryChange, Snapshot, ToolSource};
use tool_schema::ToolSet;

/// What a turn offers: the tools, and the same as the reader of replies needs them.
#[derive(Debug, Clone)]
pub(crate) struct Offer {
    pub(crate) tools: Snapshot,
    pub(crate) set: Arc<ToolSet>,
}

impl Offer {
    /// Takes the tools of now; gives what changed since. Tools that cannot be offered together are not taken, and that is told.
    pub(crate) fn refresh(&mut self, source: &dyn ToolSource) -> Option<RegistryChange> {
        let newer = source.snapshot();
        if newer.is_same(&self.tools) {
            return None;
        }
        let mut change = self.tools.change_to(&newer);
        match newer.tool_set() {
            Ok(set) => *self = Self { tools: newer, set: Arc::new(set) },
            Err(error) => {
                change = RegistryChange::default();
                change.warnings.push(format!("the tools stay as they were: {error}"));
            }
        }
        (!change.is_empty()).then_some(change)
    }
}

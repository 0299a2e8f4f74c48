//! Causes that skipped nodes name.

use std::sync::Arc;

/// Paths by number.
#[derive(Debug, Default)]
pub(crate) struct Causes(Vec<Arc<str>>);

impl Causes {
    pub(super) fn restored(causes: Vec<Arc<str>>) -> Self {
        Self(causes)
    }

    pub(super) fn to_saved(&self) -> Vec<Arc<str>> {
        self.0.clone()
    }

    /// The number of a cause.
    pub(super) fn number(&mut self, path: Arc<str>) -> u32 {
        if self.0.last().is_none_or(|last| *last != path) {
            self.0.push(path);
        }
        u32::try_from(self.0.len() - 1).unwrap_or(u32::MAX)
    }

    pub(super) fn get(&self, number: u32) -> Option<&Arc<str>> {
        self.0.get(number as usize)
    }

    /// The cause that was named last.
    pub(crate) fn last(&self) -> Option<&Arc<str>> {
        self.0.last()
    }
}

//! Tokens that are used inside calls.

use agent_types::Usage;
use parking_lot::Mutex;

/// Tokens that agents and workflows inside calls used; shared by a tree of agents, among the services of their calls.
#[derive(Debug, Default)]
pub struct UsageMeter(Mutex<Usage>);

impl UsageMeter {
    /// Counts what was used.
    pub fn add(&self, usage: Usage) {
        *self.0.lock() += usage;
    }

    /// Usage so far.
    #[must_use]
    pub fn total(&self) -> Usage {
        *self.0.lock()
    }
}

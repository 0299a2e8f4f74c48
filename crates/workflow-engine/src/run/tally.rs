//! Counts of a run: starts, tokens, and the budgets that they draw from.

use agent_types::{Budget, BudgetKey, NodeErrorKind, ReplayData, Usage};

use super::graph_state::frame::Key;
use super::options::RunOptions;
use super::workers::failure::Failure;
use crate::hash::NumberMap;

/// Counts of a run.
pub(crate) struct Tally {
    usage: Usage,
    starts: u64,
    max_starts: Option<u64>,
    budget: Option<Budget>,
    /// Usage of running nodes, where events are persisted.
    used: NumberMap<Key, Usage>,
}

impl Tally {
    pub(crate) fn new(options: &RunOptions) -> Self {
        Self {
            usage: Usage::default(),
            starts: 0,
            max_starts: options.max_starts,
            budget: options.budget.clone(),
            used: NumberMap::default(),
        }
    }

    pub(crate) fn usage(&self) -> Usage {
        self.usage
    }

    pub(crate) fn starts(&self) -> u64 {
        self.starts
    }

    /// Takes the counts that a checkpoint has.
    pub(crate) fn restore(&mut self, usage: Usage, starts: u64) {
        (self.usage, self.starts) = (usage, starts);
    }

    /// Counts what models read and wrote, here and in what started this run.
    pub(crate) fn count(&mut self, usage: Usage) {
        self.usage += usage;
        if let Some(budget) = &self.budget {
            budget.add(BudgetKey::Tokens, usage.total);
        }
    }

    /// Keeps what a running node used, for the replay data of its end.
    pub(crate) fn keep(&mut self, key: Key, usage: Usage) {
        *self.used.entry(key).or_default() += usage;
    }

    /// Adds the usage of a node to the replay data of its end.
    pub(crate) fn with_usage(
        &mut self,
        key: Key,
        record: Option<Box<ReplayData>>,
    ) -> Option<Box<ReplayData>> {
        if self.used.is_empty() {
            return record;
        }
        let Some(usage) = self.used.remove(&key) else { return record };
        let mut record = record.unwrap_or_default();
        record.usage = Some(usage);
        Some(record)
    }

    /// Counts a recorded start, which the limits have let pass.
    pub(crate) fn count_recorded_start(&mut self) {
        self.starts += 1;
    }

    /// Counts a start against the limits of the run and of what started it.
    ///
    /// # Errors
    /// A limit has been reached.
    pub(crate) fn count_start(&mut self) -> Result<(), Failure> {
        self.starts += 1;
        if let Some(limit) = self.max_starts.filter(|limit| self.starts > *limit) {
            let key = BudgetKey::NodeStarts.as_str();
            return Err(exceeded(key, format!("limit of {limit} {key} reached")));
        }
        let Some(budget) = &self.budget else { return Ok(()) };
        budget.take(BudgetKey::NodeStarts).map_err(|spent| exceeded(spent.key.as_str(), spent.to_string()))
    }
}

fn exceeded(key: &str, message: String) -> Failure {
    Failure { code: Some(key.to_owned()), ..Failure::new(NodeErrorKind::BudgetExceeded, message) }
}

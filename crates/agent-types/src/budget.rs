//! Limits shared by a tree of agents and workflows.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Microdollars to the dollar: cost is counted in whole microdollars so that it adds up exactly.
const MICROS: f64 = 1_000_000.0;

/// Default depth of agents and workflows that call each other.
const DEFAULT_MAX_DEPTH: u32 = 8;

macro_rules! budget_keys {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)+) => {
        /// A quantity that a budget limits.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum BudgetKey {
            $($(#[$doc])* #[serde(rename = $name)] $variant,)+
        }

        impl BudgetKey {
            const ALL: &[Self] = &[$(Self::$variant),+];

            /// The key in a profile's `budgets`, and the `kind` of a run that ended by it.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }
        }
    };
}

budget_keys! {
    /// Passes of the agent loop.
    Turns = "turns",
    /// Attempts of tools.
    ToolCalls = "tool_calls",
    /// Tokens read and written.
    Tokens = "tokens",
    /// Cost in millionths of a dollar.
    CostMicros = "cost_usd",
    /// Starts of workflow nodes.
    NodeStarts = "node_starts",
}

/// Upper limits; `None` means unlimited.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BudgetLimits {
    /// Passes of the agent loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns: Option<u64>,
    /// Attempts of tools, in the whole tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<u64>,
    /// Tokens read and written, in the whole tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Cost in dollars, in the whole tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Time of the run in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall_ms: Option<u64>,
    /// Faulty replies in a row before the run ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub corrections: Option<u64>,
    /// Starts of workflow nodes, in the whole tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_starts: Option<u64>,
}

impl BudgetLimits {
    /// The lower of both limits of each quantity.
    #[must_use]
    pub fn lowered_by(&self, other: &Self) -> Self {
        let lower = |own: Option<u64>, other: Option<u64>| own.into_iter().chain(other).min();
        Self {
            turns: lower(self.turns, other.turns),
            tool_calls: lower(self.tool_calls, other.tool_calls),
            tokens: lower(self.tokens, other.tokens),
            cost_usd: self.cost_usd.into_iter().chain(other.cost_usd).reduce(f64::min),
            wall_ms: lower(self.wall_ms, other.wall_ms),
            corrections: lower(self.corrections, other.corrections),
            node_starts: lower(self.node_starts, other.node_starts),
        }
    }

    fn limit(&self, key: BudgetKey) -> Option<u64> {
        match key {
            BudgetKey::Turns => self.turns,
            BudgetKey::ToolCalls => self.tool_calls,
            BudgetKey::Tokens => self.tokens,
            BudgetKey::CostMicros => self.cost_usd.map(micros),
            BudgetKey::NodeStarts => self.node_starts,
        }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to what the type holds")]
fn micros(dollars: f64) -> u64 {
    (dollars.max(0.0) * MICROS).round() as u64
}

/// A limit that is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("limit of {limit} {} reached", key.as_str())]
pub struct BudgetExceeded {
    /// Quantity that ran out.
    pub key: BudgetKey,
    /// Limit of the budget.
    pub limit: u64,
    /// Amount used. It exceeds the limit where usage is counted after the fact.
    pub used: u64,
}

/// Shared counters with limits. Clones and children count into the same tree.
#[derive(Debug, Clone)]
pub struct Budget(Arc<Node>);

#[derive(Debug)]
struct Node {
    limits: BudgetLimits,
    used: [AtomicU64; BudgetKey::ALL.len()],
    depth: u32,
    max_depth: u32,
    parent: Option<Budget>,
}

impl Budget {
    /// The root of a tree.
    #[must_use]
    pub fn new(limits: BudgetLimits) -> Self {
        Self::node(limits, 0, DEFAULT_MAX_DEPTH, None)
    }

    /// A part of this budget with limits of its own; what it uses counts here too. `None` when the tree is already 8 levels deep.
    #[must_use]
    pub fn child(&self, limits: BudgetLimits) -> Option<Self> {
        let depth = self.0.depth + 1;
        (depth <= self.0.max_depth).then(|| Self::node(limits, depth, self.0.max_depth, Some(self.clone())))
    }

    /// A part of this budget on the same level, without limits of its own, whose usage can be
    /// [taken back](Self::take_back).
    #[must_use]
    pub fn part(&self) -> Self {
        Self::node(BudgetLimits::default(), self.0.depth, self.0.max_depth, Some(self.clone()))
    }

    /// Takes back from all above what was counted here: it is counted again from a log.
    pub fn take_back(&self) {
        for key in BudgetKey::ALL {
            let counted = self.counter(*key).swap(0, Ordering::Relaxed);
            let less = |used: u64| Some(used.saturating_sub(counted));
            let mut node = self.0.parent.as_ref();
            while let Some(budget) = node {
                budget.counter(*key).fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).ok();
                node = budget.0.parent.as_ref();
            }
        }
    }

    fn node(limits: BudgetLimits, depth: u32, max_depth: u32, parent: Option<Self>) -> Self {
        Self(Arc::new(Node { limits, used: Default::default(), depth, max_depth, parent }))
    }

    /// Levels above this one.
    #[must_use]
    pub fn depth(&self) -> u32 {
        self.0.depth
    }

    /// Levels that the tree may have below its root.
    #[must_use]
    pub fn max_depth(&self) -> u32 {
        self.0.max_depth
    }

    /// The limits of this node.
    #[must_use]
    pub fn limits(&self) -> &BudgetLimits {
        &self.0.limits
    }

    /// Returns `true` where a limit stands here or above.
    #[must_use]
    pub fn is_limited(&self, key: BudgetKey) -> bool {
        let parents = std::iter::successors(Some(self), |budget| budget.0.parent.as_ref());
        parents.into_iter().any(|budget| budget.0.limits.limit(key).is_some())
    }

    /// Returns the usage of this node and its children.
    #[must_use]
    pub fn used(&self, key: BudgetKey) -> u64 {
        self.counter(key).load(Ordering::Relaxed)
    }

    /// Takes one unit here and in all above, or none anywhere.
    ///
    /// # Errors
    /// [`BudgetExceeded`] names the first limit, from here upward, that is exhausted.
    pub fn take(&self, key: BudgetKey) -> Result<(), BudgetExceeded> {
        if let Some(limit) = self.0.limits.limit(key) {
            let take = |used| (used < limit).then_some(used + 1);
            if self.counter(key).fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_err() {
                return Err(BudgetExceeded { key, limit, used: limit });
            }
        } else {
            self.count(key, 1);
        }
        if let Some(parent) = &self.0.parent
            && let Err(spent) = parent.take(key)
        {
            // What was counted here may have been taken back meanwhile.
            let less = |used: u64| Some(used.saturating_sub(1));
            self.counter(key).fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).ok();
            return Err(spent);
        }
        Ok(())
    }

    /// Counts what was used already, here and in all above, over a limit too.
    pub fn add(&self, key: BudgetKey, amount: u64) {
        let mut node = Some(self);
        while let Some(budget) = node {
            budget.count(key, amount);
            node = budget.0.parent.as_ref();
        }
    }

    /// The first limit that is reached, here or above.
    #[must_use]
    pub fn spent(&self, key: BudgetKey) -> Option<BudgetExceeded> {
        let mut node = Some(self);
        while let Some(budget) = node {
            if let Some(limit) = budget.0.limits.limit(key)
                && budget.used(key) >= limit
            {
                return Some(BudgetExceeded { key, limit, used: budget.used(key) });
            }
            node = budget.0.parent.as_ref();
        }
        None
    }

    /// Counts here alone; a counter that is full stays so.
    fn count(&self, key: BudgetKey, amount: u64) {
        let add = |used: u64| Some(used.saturating_add(amount));
        self.counter(key).fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).ok();
    }

    fn counter(&self, key: BudgetKey) -> &AtomicU64 {
        &self.0.used[key as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(tool_calls: u64) -> BudgetLimits {
        BudgetLimits { tool_calls: Some(tool_calls), ..BudgetLimits::default() }
    }

    #[test]
    fn a_child_counts_into_its_parents() {
        let root = Budget::new(limits(3));
        let child = root.child(limits(2)).unwrap();
        assert_eq!(child.take(BudgetKey::ToolCalls), Ok(()));
        assert_eq!(child.take(BudgetKey::ToolCalls), Ok(()));
        assert_eq!(
            child.take(BudgetKey::ToolCalls),
            Err(BudgetExceeded { key: BudgetKey::ToolCalls, limit: 2, used: 2 })
        );
        assert_eq!(root.used(BudgetKey::ToolCalls), 2);
        let other = root.child(BudgetLimits::default()).unwrap();
        assert_eq!(other.take(BudgetKey::ToolCalls), Ok(()));
        assert_eq!(
            other.take(BudgetKey::ToolCalls),
            Err(BudgetExceeded { key: BudgetKey::ToolCalls, limit: 3, used: 3 })
        );
        assert_eq!(other.used(BudgetKey::ToolCalls), 1, "a refused unit is given back");
    }

    #[test]
    fn the_tree_is_eight_levels_deep() {
        let mut budget = Budget::new(BudgetLimits::default());
        for _ in 0..8 {
            budget = budget.child(BudgetLimits::default()).unwrap();
        }
        assert!(budget.child(BudgetLimits::default()).is_none());
    }

    #[test]
    fn a_counter_that_is_full_stays_so() {
        let budget = Budget::new(BudgetLimits { tokens: Some(5), ..BudgetLimits::default() });
        budget.add(BudgetKey::Tokens, u64::MAX);
        budget.add(BudgetKey::Tokens, 7);
        assert_eq!(
            budget.spent(BudgetKey::Tokens),
            Some(BudgetExceeded { key: BudgetKey::Tokens, limit: 5, used: u64::MAX })
        );
    }

    #[test]
    fn cost_is_counted_in_millionths() {
        let budget = Budget::new(BudgetLimits { cost_usd: Some(0.01), ..BudgetLimits::default() });
        budget.add(BudgetKey::CostMicros, 9_999);
        assert_eq!(budget.spent(BudgetKey::CostMicros), None);
        budget.add(BudgetKey::CostMicros, 1);
        assert_eq!(
            budget.spent(BudgetKey::CostMicros),
            Some(BudgetExceeded { key: BudgetKey::CostMicros, limit: 10_000, used: 10_000 })
        );
    }
}

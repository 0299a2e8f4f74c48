//! End of a reply at the end of its block: behind it a model writes of results that it does not know.

use agent_types::{Budget, BudgetKey};
use llm_provider::ModelInfo;
use tool_registry::Snapshot;

use crate::prompt::text::Protocol;

/// End of a block, behind which nothing of use can stand.
const BLOCK_END: &str = "</ACTION>";

/// Text at which the server ends a reply: the end of a block, where calls are written in text.
#[must_use]
pub fn stop_at(protocol: Protocol, tools: &Snapshot) -> Option<&'static str> {
    (protocol == Protocol::Text && !tools.is_empty()).then_some(BLOCK_END)
}

/// Returns `true` when a reply may be cut behind its block. A model that reasons may still say that all of it was
/// reasoning, native calls may follow, and a budget of tokens needs the usage that stands at the end.
#[must_use]
pub fn is_cut_safe(model: &ModelInfo, protocol: Protocol, budget: &Budget) -> bool {
    let is_known = model.cuts_replies || model.scripted;
    is_known && protocol == Protocol::Text && !is_metered(budget)
}

/// Returns `true` when tokens or dollars are limited.
pub(super) fn is_metered(budget: &Budget) -> bool {
    budget.is_limited(BudgetKey::Tokens) || budget.is_limited(BudgetKey::CostMicros)
}

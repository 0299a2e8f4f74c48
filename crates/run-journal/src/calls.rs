//! Ids of calls inside calls: the id of the call around it, a point, and its own.

use agent_types::CallId;

/// Returns the calls around a call, the innermost first.
pub fn calls_around(call: &CallId) -> impl Iterator<Item = CallId> {
    let id = call.as_str();
    id.rmatch_indices('.').map(move |(at, _)| CallId::new(&id[..at]))
}

/// Returns the call of a level that a call is or lies in; 0 is the level of the run's agent.
#[must_use]
pub fn call_at_level(call: &CallId, level: u32) -> CallId {
    let id = call.as_str();
    let end = id.match_indices('.').nth(level as usize).map_or(id.len(), |(at, _)| at);
    CallId::new(&id[..end])
}

//! Names within a run: of questions, and of calls inside calls, whose ids are that of the call around, a point and
//! their own.

use agent_types::CallId;

/// Returns the name of a question from inside a call.
#[must_use]
pub fn ask_in_call(call: &CallId, ask: &str) -> String {
    format!("{call}/{ask}")
}

/// Returns the name of a question from the deliberation of a turn.
#[must_use]
pub fn ask_in_turn(turn: u32, ask: &str) -> String {
    format!("t{turn}/{ask}")
}

/// Returns the name of a question that is put once more about something: an answer counts for the start that it was
/// given for, and for no other.
#[must_use]
pub fn ask_once_more(ask: &str, start: u32) -> String {
    format!("{ask}~{start}")
}

/// Returns the name of a question about a call that would do what has a digest, where the answer under the call's own
/// name was given for something else.
#[must_use]
pub fn ask_about_digest(ask: &str, digest: &str) -> String {
    format!("{ask}~{digest:.8}")
}

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

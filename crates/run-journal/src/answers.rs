//! Names of questions, and the answers to those of an inner run.

use std::collections::HashMap;

use agent_types::CallId;
use serde_json::Value;

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

/// Answers to the questions below a prefix, by the names that the inner run knows.
pub(crate) fn answers_below(answers: &HashMap<String, Value>, prefix: &str) -> HashMap<String, Value> {
    let below = answers.iter();
    below.filter_map(|(ask, value)| Some((ask.strip_prefix(prefix)?.to_owned(), value.clone()))).collect()
}

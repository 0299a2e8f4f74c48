//! Logs of the runs inside a run: what happened in a call, or while a turn deliberated, as a log of its own.

use agent_types::{CallId, EventLocation, ResumeLog, StoredEvent};
use serde_json::Value;

use crate::names::{ask_in_call, ask_in_turn};

/// Returns the log of the run inside a call of an agent `level` levels down; `None` if nothing happened in it.
#[must_use]
pub fn log_in_call(log: &ResumeLog, call: &CallId, level: u32) -> Option<ResumeLog> {
    let deeper = format!("{call}.");
    let is_inside = |place: &EventLocation| {
        // A result without a call names the call around it.
        let own = place.call.as_ref().or(place.parent_call.as_ref());
        let at_it = own == Some(call) && (place.path.is_some() || place.depth.unwrap_or_default() > level);
        at_it || own.is_some_and(|own| own.as_str().starts_with(&deeper))
    };
    let mut inner = log_where(log, is_inside, &ask_in_call(call, ""))?;
    for StoredEvent { event, .. } in &mut inner.events {
        for own in [&mut event.place.call, &mut event.place.parent_call] {
            own.take_if(|own| own == call);
        }
    }
    Some(inner)
}

/// Returns the log of the run in which a turn deliberated; `None` if nothing happened in it. The ids of the calls that
/// it made begin with `prefix`.
#[must_use]
pub fn log_in_turn(log: &ResumeLog, turn: u32, prefix: &str) -> Option<ResumeLog> {
    let is_inside = |place: &EventLocation| match &place.call {
        None => place.path.is_some() && place.turn == Some(turn),
        Some(call) => call.as_str().starts_with(prefix),
    };
    log_where(log, is_inside, &ask_in_turn(turn, ""))
}

/// Cuts events out of a log, with the answers to questions whose names have a prefix.
fn log_where(log: &ResumeLog, is_inside: impl Fn(&EventLocation) -> bool, prefix: &str) -> Option<ResumeLog> {
    let events: Vec<_> = log.events.iter().filter(|stored| is_inside(&stored.event.place)).cloned().collect();
    let below = |(ask, value): (&String, &Value)| Some((ask.strip_prefix(prefix)?.to_owned(), value.clone()));
    let answers = log.answers.iter().filter_map(below).collect();
    (!events.is_empty()).then_some(ResumeLog { snapshot: None, events, answers })
}

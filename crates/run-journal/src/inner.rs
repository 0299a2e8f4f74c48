//! Logs of the runs inside a run: what happened in a call, or while a turn deliberated, as a log of its own.

use std::collections::HashMap;

use agent_types::{CallId, EventLocation, ResumeLog, StoredEvent};
use serde_json::Value;

use crate::answers::{answers_below, ask_in_call, ask_in_turn};

/// Returns the log of the run inside a call of an agent `level` levels down; `None` if nothing happened in it.
#[must_use]
pub fn log_in_call(
    events: &[StoredEvent],
    answers: &HashMap<String, Value>,
    call: &CallId,
    level: u32,
) -> Option<ResumeLog> {
    let deeper = format!("{call}.");
    let is_inside = |place: &EventLocation| {
        // A result without a call names the call around it.
        let own = place.call.as_ref().or(place.parent_call.as_ref());
        let at_it = own == Some(call) && (place.path.is_some() || place.depth.unwrap_or_default() > level);
        at_it || own.is_some_and(|own| own.as_str().starts_with(&deeper))
    };
    let mut log = log_where(events, is_inside, answers, &ask_in_call(call, ""))?;
    for StoredEvent { event, .. } in &mut log.events {
        for own in [&mut event.place.call, &mut event.place.parent_call] {
            own.take_if(|own| own == call);
        }
    }
    Some(log)
}

/// Returns the log of the run in which a turn deliberated; `None` if nothing happened in it. The ids of the calls that
/// it made begin with `prefix`.
#[must_use]
pub fn log_in_turn(
    events: &[StoredEvent],
    answers: &HashMap<String, Value>,
    turn: u32,
    prefix: &str,
) -> Option<ResumeLog> {
    let is_inside = |place: &EventLocation| match &place.call {
        None => place.path.is_some() && place.turn == Some(turn),
        Some(call) => call.as_str().starts_with(prefix),
    };
    log_where(events, is_inside, answers, &ask_in_turn(turn, ""))
}

fn log_where(
    events: &[StoredEvent],
    is_inside: impl Fn(&EventLocation) -> bool,
    answers: &HashMap<String, Value>,
    prefix: &str,
) -> Option<ResumeLog> {
    let events: Vec<StoredEvent> =
        events.iter().filter(|stored| is_inside(&stored.event.place)).cloned().collect();
    let answers = answers_below(answers, prefix);
    (!events.is_empty()).then_some(ResumeLog { snapshot: None, events, answers })
}

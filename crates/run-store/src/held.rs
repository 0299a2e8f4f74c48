//! Answers that a fork or a retry holds: those whose effect lies among its events.
//!
//! An approval is for one execution of a call, and an answer for one question. A run that begins with what another one
//! did has an answer only if it has what came of it; otherwise it would do a second time what was allowed once.

use agent_types::{AskKind, CallId, EventBody, StoredEvent};
use serde_json::Value;

use crate::AskRecord;

/// An answer, and the number of the last event before it.
pub(crate) struct Answered {
    pub(crate) ask: String,
    pub(crate) value: Value,
    pub(crate) seq: u64,
}

/// Separates the answers given up to an event into those with an effect among some events, and the others.
pub(crate) fn held(
    asks: Vec<AskRecord>,
    upto: u64,
    events: &[StoredEvent],
) -> (Vec<Answered>, Vec<Answered>) {
    let given = asks.into_iter().filter_map(|ask| {
        let (value, seq) = ask.answer.clone()?;
        let is_held = has_effect(&ask, seq, events);
        (seq <= upto).then(|| (Answered { ask: ask.summary.ask.to_string(), value, seq }, is_held))
    });
    let (held, others): (Vec<_>, Vec<_>) = given.partition(|(_, is_held)| *is_held);
    let answers = |answers: Vec<(Answered, bool)>| answers.into_iter().map(|(answer, _)| answer).collect();
    (answers(held), answers(others))
}

/// Returns `true` if the call or node that an answer was for has started or ended with it.
fn has_effect(ask: &AskRecord, answered: u64, events: &[StoredEvent]) -> bool {
    let summary = &ask.summary;
    // A question about a call is named by it, behind the calls around it and before the number of its start.
    let name = summary.ask.rsplit('/').next().unwrap_or_default();
    let call = CallId::new(name.split('~').next().unwrap_or_default());
    let later = events.iter().filter(|kept| kept.event.seq > answered).map(|kept| &kept.event);
    later.into_iter().any(|event| {
        let is_at_path = summary.path.is_some() && event.place.path == summary.path;
        let is_at = is_at_path || event.place.call.as_ref() == Some(&call);
        match summary.kind {
            AskKind::Approval => is_at && (is_of_call(&event.body) || is_node_end(&event.body)),
            AskKind::Result => matches!(event.body, EventBody::AgentTurnStarted {}),
            _ => is_at && (is_of_call(&event.body) || is_of_node(&event.body)),
        }
    })
}

const fn is_of_call(body: &EventBody) -> bool {
    matches!(body, EventBody::AgentToolStarted { .. } | EventBody::AgentToolFinished { .. })
}

const fn is_node_end(body: &EventBody) -> bool {
    matches!(
        body,
        EventBody::NodeFinished { .. } | EventBody::NodeFailed { .. } | EventBody::NodeSkipped { .. }
    )
}

const fn is_of_node(body: &EventBody) -> bool {
    is_node_end(body)
        || matches!(
            body,
            EventBody::NodeStarted { .. } | EventBody::NodeWaiting { .. } | EventBody::NodeRetrying { .. }
        )
}

//! Events of the machine.

use std::sync::Arc;

use agent_types::{ApprovalState, CallSummary, EventBody, Observation, ToolId};
use serde_json::{Value, json};

use super::effect::{At, Effect, Emission};
use super::plan::PlannedCall;
use super::reply::Reply;

/// An event at a location.
pub(super) fn event(at: At, event: EventBody) -> Effect {
    Effect::Emit(Box::new(Emission { at, event, record: None }))
}

/// An event of the turn with a value that a resumed run needs.
pub(super) fn recorded(event: EventBody, name: &str, value: Value) -> Effect {
    Effect::Emit(Box::new(Emission { at: At::Turn, event, record: Some((name.to_owned(), value)) }))
}

/// The contents of a reply: its calls, and its faults.
#[must_use]
pub fn reply_events(reply: &Reply) -> Vec<Effect> {
    let calls = reply.ready.iter().map(|call| CallSummary { call: call.id.clone(), tool: call.tool.clone() });
    let parsed = EventBody::AgentParsed { calls: calls.collect(), diagnostics: reply.diagnostics.clone() };
    let mut effects = vec![event(At::Turn, parsed)];
    effects.extend(reply.refusal.as_ref().map(|refusal| {
        let (code, errors) = (refusal.code.clone(), refusal.errors.clone());
        event(At::Turn, EventBody::AgentParseFailed { code, errors })
    }));
    effects.extend(reply.ready.iter().map(|call| {
        let arguments = Arc::clone(&call.arguments);
        let (tool, repairs) = (call.tool.clone(), call.repairs.clone());
        event(At::Call(call.id.clone()), EventBody::AgentCallReady { tool, arguments, repairs })
    }));
    if reply.has_calls() && !reply.message.is_empty() {
        effects.push(message(reply.message.clone(), false));
    }
    effects
}

/// Warning about an answer that holds a call which was not read.
pub(super) const UNREAD_ANSWER: &str =
    "the answer holds what looks like a call of a tool; nothing of it was run";

/// A call that was not read: a fault of the reply, or a warning where the reply is the answer all the same.
#[must_use]
pub fn unread_events(unread: &Observation, is_answer: bool) -> Vec<Effect> {
    if is_answer {
        return vec![warning(At::Turn, unread.code.as_str(), UNREAD_ANSWER.to_owned())];
    }
    let errors = vec![json!({"code": unread.code, "tool": unread.tool, "message": unread.text})];
    let code = unread.code.as_str().to_owned();
    vec![event(At::Turn, EventBody::AgentParseFailed { code, errors })]
}

/// A text for the user.
#[must_use]
pub fn message(text: String, is_final: bool) -> Effect {
    event(At::Turn, EventBody::AgentMessage { text, r#final: is_final, warning: None })
}

/// The answer, with the warning about it if there is one.
pub(super) fn answer(text: String, warning: Option<String>) -> Effect {
    event(At::Turn, EventBody::AgentMessage { text, r#final: true, warning })
}

/// An observation for the model.
#[must_use]
pub fn observed(observation: &Observation) -> Effect {
    let at = observation.call.clone().map_or(At::Turn, At::Call);
    let tool = Some(observation.tool.clone()).filter(|tool| !tool.is_empty());
    event(at, EventBody::AgentObservation { tool, text: observation.line() })
}

/// A change of the approval of a call.
pub(super) fn approval(call: &PlannedCall, state: ApprovalState, reason: Option<String>) -> Effect {
    let tool: ToolId = call.call.tool.clone();
    event(At::Call(call.call.id.clone()), EventBody::AgentToolApproval { tool, state, reason })
}

/// A warning.
pub(super) fn warning(at: At, kind: &str, message: String) -> Effect {
    event(at, EventBody::AgentWarning { kind: kind.to_owned(), message })
}

//! Human decisions about calls, and the selection of calls that wait for one.

use std::collections::BTreeMap;

use agent_types::{ApprovalState, AskKind, CallId, EventBody, EventLocation, canonical_json};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use tool_registry::Tool;

use crate::plan::{CallDisposition, PlannedCall};
use crate::resume::{Decision, PastCall, RunLog, decision};
use crate::trace::Trace;

/// A name for a tool with arguments: what an approval is bound to. Hex of SHA-256 over the canonical form.
#[must_use]
pub fn approval_digest(tool: &str, arguments: &Map<String, Value>) -> String {
    let mut hash = Sha256::new();
    hash.update(tool);
    hash.update([0]);
    hash.update(canonical_json(&Value::Object(arguments.clone())));
    format!("{:x}", hash.finalize())
}

/// Gives calls that need a person the word that a person has given. What is refused is remembered by its digest.
pub(crate) fn decide_approvals<'a>(
    planned: &mut [PlannedCall],
    refused: &mut BTreeMap<String, String>,
    trace: &Trace,
    answer: impl Fn(&CallId) -> Option<&'a Value>,
) {
    for planned in planned.iter_mut().filter(|planned| planned.verdict == CallDisposition::Ask) {
        let digest = approval_digest(planned.call.tool.as_str(), &planned.call.arguments);
        if let Some(reason) = refused.get(&digest) {
            // The same question is asked once.
            planned.verdict = CallDisposition::Refuse(format!("denied: {reason}"));
            continue;
        }
        let Some(decision) = answer(&planned.call.id).and_then(|answer| decision(answer, &digest)) else {
            continue;
        };
        let place = EventLocation { call: Some(planned.call.id.clone()), ..trace.place() };
        let tool = planned.call.tool.clone();
        let emit = |state, reason| {
            trace.emit_at(place.clone(), EventBody::AgentToolApproval { tool: tool.clone(), state, reason });
        };
        match decision {
            Decision::Approve => {
                emit(ApprovalState::Approved, None);
                planned.verdict = CallDisposition::Run;
            }
            Decision::Edit(arguments) => match typed(&planned.tool, arguments) {
                Ok(arguments) => {
                    emit(ApprovalState::Edited, None);
                    planned.call.arguments = arguments;
                    planned.edited = true;
                    planned.verdict = CallDisposition::Run;
                }
                // The call still waits, for valid arguments.
                Err(faults) => planned.why = Some(format!("these arguments do not fit: {faults}")),
            },
            Decision::Deny(reason) => {
                emit(ApprovalState::Denied, Some(reason.clone()));
                planned.verdict = CallDisposition::Refuse(format!("denied: {reason}"));
                refused.insert(digest, reason);
            }
        }
    }
}

/// Arguments that a person wrote, typed as the model's are, or what is wrong with them.
pub(crate) fn typed(tool: &Tool, arguments: Map<String, Value>) -> Result<Map<String, Value>, String> {
    let typed = tool.schema().map_err(|error| error.to_string())?.type_json(Value::Object(arguments));
    let messages: Vec<String> = typed.problems.into_iter().map(|problem| problem.message).collect();
    if messages.is_empty() { Ok(typed.arguments) } else { Err(messages.join("; ")) }
}

/// Parts calls that may run from those that wait: for a person, or, if they change something, for one before them.
pub(crate) fn split_waiting(planned: Vec<PlannedCall>, log: &RunLog) -> (Vec<PlannedCall>, Vec<PlannedCall>) {
    let (mut run, mut waiting) = (Vec::new(), Vec::new());
    for mut call in planned {
        // A call that was running had been allowed before it started, if only for that process.
        if matches!(call.verdict, CallDisposition::Run | CallDisposition::Ask) && was_at_work(&call, log) {
            call.verdict = if is_repeatable(&call) {
                CallDisposition::Run
            } else {
                CallDisposition::Reconcile(unused_ask(&call, log))
            };
        }
        let waits = match &call.verdict {
            CallDisposition::Ask => true,
            CallDisposition::Reconcile(ask) => {
                !log.answer(ask).is_some_and(|answer| AskKind::Outcome.takes(answer))
            }
            CallDisposition::Run => !waiting.is_empty() && !call.tool.definition().annotations.read_only,
            CallDisposition::Refuse(_) => false,
        };
        if waits { waiting.push(call) } else { run.push(call) }
    }
    (run, waiting)
}

/// Returns `true` when the process ended while the call ran.
fn was_at_work(call: &PlannedCall, log: &RunLog) -> bool {
    matches!(log.call(&call.call.id), Some(PastCall::AtWork { .. }))
}

/// Returns `true` when a call that may have run already can run again without a decision.
fn is_repeatable(call: &PlannedCall) -> bool {
    let annotations = &call.tool.definition().annotations;
    // An agent or a workflow resumes inside; interrupted calls there are asked about.
    !annotations.effect || annotations.idempotent || call.tool.has_inner_run()
}

/// The id of the question what became of a call: its own, unless something else was asked under that, as whether it is
/// approved. An answer counts for the start that it was given for, and for no other.
fn unused_ask(call: &PlannedCall, log: &RunLog) -> String {
    let id = call.call.id.to_string();
    match log.call(&call.call.id) {
        Some(PastCall::AtWork { starts, asked }) if *starts > 1 || *asked => format!("{id}~{starts}"),
        _ => id,
    }
}

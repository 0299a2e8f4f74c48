//! Human decisions about calls, and the selection of calls that wait for one.

use std::collections::BTreeMap;
use std::sync::Arc;

use agent_types::{ApprovalState, AskKind, canonical_json};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::effect::Effect;
use super::emit;
use super::plan::{CallDisposition, Past, PlannedCall, Review, Verdict};
use crate::outcome::PendingCall;

/// Question about a call that was running when a process ended.
const INTERRUPTED: &str = "it was running when the process ended: `retry`, `skip` or `done`?";

/// Identity of a tool with arguments that an approval is bound to. Hex of SHA-256 over the canonical form.
#[must_use]
pub fn approval_digest(tool: &str, arguments: &Map<String, Value>) -> String {
    let mut hash = Sha256::new();
    hash.update(tool);
    hash.update([0]);
    hash.update(canonical_json(&Value::Object(arguments.clone())));
    format!("{:x}", hash.finalize())
}

/// Applies a review to a call. A denial is remembered by its digest.
pub(super) fn review(
    planned: &mut PlannedCall,
    review: Review,
    denied: &mut BTreeMap<String, String>,
    effects: &mut Vec<Effect>,
) {
    let is_refused = matches!(planned.disposition, CallDisposition::Refuse(_));
    if let Some(reason) = review.blocked.filter(|_| !is_refused) {
        planned.disposition = CallDisposition::Refuse(format!("denied: {reason}"));
    }
    if planned.disposition == CallDisposition::Ask {
        decide(planned, review.verdict, denied, effects);
    }
    planned.is_recorded = review.past == Past::Ended;
    if let Past::Interrupted { ask, outcome } = review.past
        && matches!(planned.disposition, CallDisposition::Run | CallDisposition::Ask)
    {
        // A call that was running had been allowed before it started, if only for that process.
        let is_repeatable = planned.call.facts.is_repeatable;
        let asked = CallDisposition::Reconcile { ask, outcome };
        planned.disposition = if is_repeatable { CallDisposition::Run } else { asked };
    }
}

fn decide(
    planned: &mut PlannedCall,
    verdict: Option<Verdict>,
    denied: &mut BTreeMap<String, String>,
    effects: &mut Vec<Effect>,
) {
    let digest = approval_digest(planned.call.tool.as_str(), &planned.call.arguments);
    if let Some(reason) = denied.get(&digest) {
        // The same question is asked once.
        planned.disposition = CallDisposition::Refuse(format!("denied: {reason}"));
        return;
    }
    match verdict {
        None => {}
        Some(Verdict::Approve) => {
            effects.push(emit::approval(planned, ApprovalState::Approved, None));
            planned.disposition = CallDisposition::Run;
        }
        Some(Verdict::Edit(arguments)) => {
            effects.push(emit::approval(planned, ApprovalState::Edited, None));
            planned.call.arguments = arguments;
            planned.is_edited = true;
            planned.disposition = CallDisposition::Run;
        }
        // The call still waits, for valid arguments.
        Some(Verdict::BadEdit(faults)) => planned.why = Some(format!("these arguments do not fit: {faults}")),
        Some(Verdict::Deny(reason)) => {
            effects.push(emit::approval(planned, ApprovalState::Denied, Some(reason.clone())));
            planned.disposition = CallDisposition::Refuse(format!("denied: {reason}"));
            denied.insert(digest, reason);
        }
    }
}

/// Parts calls that may run from those that wait: for a person, or, if they change something, for one before them.
pub(super) fn split_waiting(planned: Vec<PlannedCall>) -> (Vec<PlannedCall>, Vec<PlannedCall>) {
    let (mut run, mut waiting) = (Vec::new(), Vec::new());
    for call in planned {
        let waits = match &call.disposition {
            CallDisposition::Ask => true,
            CallDisposition::Reconcile { outcome, .. } => outcome.is_none(),
            CallDisposition::Run => !waiting.is_empty() && !call.call.facts.is_read_only,
            CallDisposition::Refuse(_) => false,
        };
        if waits { waiting.push(call) } else { run.push(call) }
    }
    (run, waiting)
}

/// The question about a call that waits for a person, with the event that says so; `None` for one that only waits for
/// a call before it.
#[must_use]
pub fn question(planned: &PlannedCall) -> Option<(PendingCall, Effect)> {
    let call = &planned.call;
    let (ask, kind, prompt) = match &planned.disposition {
        CallDisposition::Run | CallDisposition::Refuse(_) => return None,
        CallDisposition::Ask => (call.id.to_string(), AskKind::Approval, planned.why.clone()),
        CallDisposition::Reconcile { ask, .. } => {
            (ask.clone(), AskKind::Outcome, Some(INTERRUPTED.to_owned()))
        }
    };
    let event = emit::approval(planned, ApprovalState::Asked, prompt.clone());
    let (tool, arguments) = (call.tool.clone(), Arc::clone(&call.arguments));
    Some((PendingCall { ask, kind, tool, arguments, path: None, prompt }, event))
}

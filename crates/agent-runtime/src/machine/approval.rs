//! Human decisions about calls, and the selection of calls that wait for one.

use std::collections::BTreeMap;
use std::sync::Arc;

use agent_types::{ApprovalState, AskKind, DefinitionDigests, canonical_json};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use tool_registry::Tool;

use super::effect::Effect;
use super::emit;
use super::plan::{CallDisposition, Past, PlannedCall, Review, Verdict};
use crate::outcome::PendingCall;

/// Question about a call that was running when a process ended.
const INTERRUPTED: &str = "it was running when the process ended: `retry`, `skip` or `done`?";

/// Identity of what an approval is bound to: a tool, its arguments and its definition. Hex of SHA-256 over the canonical
/// form.
#[must_use]
pub fn approval_digest(tool: &str, arguments: &Map<String, Value>, definition: &DefinitionDigests) -> String {
    let mut hash = Sha256::new();
    hash.update(tool);
    hash.update([0]);
    hash.update(canonical_json(&Value::Object(arguments.clone())));
    for (part, digest) in definition {
        hash.update([0]);
        hash.update(part);
        hash.update([0]);
        hash.update(digest);
    }
    format!("{:x}", hash.finalize())
}

/// Digests of the parts of what a tool does, by their names.
#[must_use]
pub fn definition_digests(tool: &Tool) -> DefinitionDigests {
    let digest = |part: &Value| format!("{:.16}", format!("{:x}", Sha256::digest(canonical_json(part))));
    tool.parts().iter().map(|(name, part)| (name.clone(), digest(part))).collect()
}

/// Applies a review to a call. A denial is remembered by its digest.
pub(super) fn review(
    planned: &mut PlannedCall,
    review: Review,
    denied: &mut BTreeMap<String, String>,
    effects: &mut Vec<Effect>,
) {
    let is_refused = matches!(planned.disposition, CallDisposition::Refuse(_));
    planned.definition = review.definition;
    if let Some((ask, why)) = review.ask_anew {
        (planned.ask, planned.why) = (Some(ask), Some(why));
    }
    if let Some(reason) = review.blocked.filter(|_| !is_refused) {
        planned.disposition = CallDisposition::Refuse(format!("denied: {reason}"));
    }
    if planned.disposition == CallDisposition::Ask {
        decide(planned, review.verdict, denied, effects);
    }
    planned.is_recorded = review.past == Past::Ended;
    if planned.is_recorded && planned.disposition == CallDisposition::Ask {
        // It was allowed before it ran.
        planned.disposition = CallDisposition::Run;
    }
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
    let digest = approval_digest(planned.call.tool.as_str(), &planned.call.arguments, &planned.definition);
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
pub(super) fn question(planned: &PlannedCall) -> Option<(PendingCall, Effect)> {
    let call = &planned.call;
    let (ask, kind, prompt) = match &planned.disposition {
        CallDisposition::Run | CallDisposition::Refuse(_) => return None,
        CallDisposition::Ask => {
            let ask = planned.ask.clone().unwrap_or_else(|| call.id.to_string());
            (ask, AskKind::Approval, planned.why.clone())
        }
        CallDisposition::Reconcile { ask, .. } => {
            (ask.clone(), AskKind::Outcome, Some(INTERRUPTED.to_owned()))
        }
    };
    let event = emit::approval(planned, ApprovalState::Asked, prompt.clone());
    let (tool, arguments) = (call.tool.clone(), Arc::clone(&call.arguments));
    let definition = planned.definition.clone();
    Some((PendingCall { ask, kind, tool, arguments, path: None, prompt, definition }, event))
}

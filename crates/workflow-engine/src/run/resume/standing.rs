//! Part of a failed or cancelled run that stands: its log without the failure and what followed from it.
//!
//! The end of such a log is a burst of ends: the node that failed, what was cancelled for its sake, the passes and
//! containers around it, the run. Without them, and without the beginning of what failed, the log is that of a run
//! that was interrupted there, and is replayed as such. What had started and was cancelled stands as started: whether
//! its effect has happened is asked as after an interruption.

use std::collections::HashSet;
use std::sync::Arc;

use agent_types::{EventBody, StoredEvent, ToolStatus};

use crate::run::resume::inner::is_inner;

/// The events of a run that stand when it is retried.
#[must_use]
pub fn standing(mut events: Vec<StoredEvent>) -> Vec<StoredEvent> {
    let kept = events.iter().rposition(|kept| !is_end(&kept.event.body)).map_or(0, |last| last + 1);
    let ends = events.split_off(kept);
    let failed = ends.iter().filter(|kept| matches!(kept.event.body, EventBody::NodeFailed { .. }));
    let failed: HashSet<Arc<str>> = failed.filter_map(|kept| kept.event.place.path.clone()).collect();
    for path in &failed {
        forget(&mut events, path);
    }
    events
}

/// Drops what a node did that failed in the end, unless work inside it has been done.
fn forget(events: &mut Vec<StoredEvent>, path: &Arc<str>) {
    let is_of = |kept: &StoredEvent| kept.event.place.path.as_ref() == Some(path);
    let before = events.iter().rposition(|kept| is_of(kept) && is_terminal(&kept.event.body));
    let first = before.map_or(0, |last| last + 1);
    let behind = events.get(first..).unwrap_or_default();
    let has_inside = |kept: &StoredEvent| {
        let inside = kept.event.place.path.as_deref().and_then(|own| own.strip_prefix(&**path));
        (is_of(kept) && is_inner(kept)) || inside.is_some_and(|rest| rest.starts_with(['/', '[']))
    };
    if behind.iter().any(has_inside) {
        return;
    }
    let mut index = 0;
    events.retain(|kept| {
        index += 1;
        index <= first || !is_of(kept)
    });
}

/// Returns `true` if an event ends a node that is not run again.
fn is_terminal(body: &EventBody) -> bool {
    matches!(
        body,
        EventBody::NodeFinished { .. }
            | EventBody::NodeCached { .. }
            | EventBody::NodeFailed { .. }
            | EventBody::NodeSkipped { .. }
    )
}

/// Returns `true` if an event is the end of something that did not end by itself.
fn is_end(body: &EventBody) -> bool {
    match body {
        EventBody::RunFinished { .. }
        | EventBody::NodeFailed { .. }
        | EventBody::NodeCancelled { .. }
        | EventBody::NodeSkipped { .. }
        | EventBody::LoopIterFinished { .. }
        | EventBody::LoopExited { .. }
        | EventBody::AgentTurnFinished {} => true,
        EventBody::AgentLlmFinished { finish, .. } => matches!(finish.as_str(), "cancelled" | "error"),
        EventBody::AgentToolFinished { status, .. } => *status == ToolStatus::Cancelled,
        _ => false,
    }
}

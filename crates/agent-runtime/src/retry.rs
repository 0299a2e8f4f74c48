//! The part that is kept of an agent's run that failed or was cancelled.
//!
//! The run continues from its last completed turn or call: the log without the end, without the reply that could not be
//! used, and without the calls that failed the run or were cancelled with it. A call that was cancelled stands as
//! started: whether its effect has happened is asked as after an interruption.

use std::collections::{HashMap, HashSet};

use agent_types::{CallId, EventBody, ExitReason, StoredEvent, ToolStatus};
use run_journal::call_at_level;
use workflow_engine::standing as standing_inside;

/// The events of an agent's run that stand when it is retried.
#[must_use]
pub fn standing(mut events: Vec<StoredEvent>) -> Vec<StoredEvent> {
    let Some(exit) = exit_of(&events) else { return events };
    events.retain(|kept| !(is_own(kept) && is_end_of_run(&kept.event.body)));
    let turn = events
        .iter()
        .rposition(|kept| is_own(kept) && matches!(kept.event.body, EventBody::AgentTurnStarted {}));
    let Some(turn) = turn else { return events };
    let mut last = events.split_off(turn);
    if let Some(asked) = unanswered(&last) {
        last.truncate(asked);
    } else if is_of_reply(exit) && !last.iter().any(starts_call) {
        last.clear();
    } else {
        last = without_calls(last, exit);
    }
    events.extend(last);
    events
}

fn exit_of(events: &[StoredEvent]) -> Option<ExitReason> {
    events.iter().rev().find_map(|kept| match &kept.event.body {
        EventBody::RunFinished { exit, .. } if is_own(kept) => Some(exit.unwrap_or(ExitReason::Cancelled)),
        _ => None,
    })
}

/// Returns `true` for an event of the agent itself, not of something inside its calls.
fn is_own(kept: &StoredEvent) -> bool {
    kept.event.place.path.is_none() && kept.event.place.depth.is_none()
}

fn is_end_of_run(body: &EventBody) -> bool {
    matches!(body, EventBody::RunFinished { .. } | EventBody::AgentBudget { .. })
}

/// Returns `true` if the reply ended the run.
const fn is_of_reply(exit: ExitReason) -> bool {
    matches!(exit, ExitReason::SelfCorrectionFailed | ExitReason::GuardrailBlocked | ExitReason::LoopDetected)
}

fn starts_call(kept: &StoredEvent) -> bool {
    is_own(kept) && matches!(kept.event.body, EventBody::AgentToolStarted { .. })
}

/// Position of the last request to the model, if it was not answered.
fn unanswered(turn: &[StoredEvent]) -> Option<usize> {
    let started = turn
        .iter()
        .rposition(|kept| is_own(kept) && matches!(kept.event.body, EventBody::AgentLlmStarted { .. }))?;
    let is_answer = |kept: &StoredEvent| {
        is_own(kept)
            && matches!(&kept.event.body, EventBody::AgentLlmFinished { finish, .. }
                if !matches!(finish.as_str(), "cancelled" | "error"))
    };
    let has_answer = turn.get(started..).unwrap_or_default().iter().any(is_answer);
    (!has_answer).then_some(started)
}

/// The turn without the ends of calls that were cancelled, and without calls that failed the run.
fn without_calls(turn: Vec<StoredEvent>, exit: ExitReason) -> Vec<StoredEvent> {
    // A call that was interrupted and has ended since has two ends: the last one counts.
    let ends = turn.iter().filter(|kept| is_own(kept)).filter_map(|kept| match &kept.event.body {
        EventBody::AgentToolFinished { status, .. } => Some((kept.event.place.call.clone()?, *status)),
        _ => None,
    });
    let ends: HashMap<CallId, ToolStatus> = ends.collect();
    let ended = |status: ToolStatus| {
        let ended = ends.iter().filter(|(_, own)| **own == status);
        ended.map(|(call, _)| call.clone()).collect::<HashSet<CallId>>()
    };
    let cancelled = ended(ToolStatus::Cancelled);
    let failed = if exit == ExitReason::ToolError { ended(ToolStatus::Failed) } else { HashSet::new() };
    if cancelled.is_empty() && failed.is_empty() {
        return turn;
    }
    let (mut kept_events, mut inside) = (Vec::new(), Vec::new());
    for kept in turn {
        let body = &kept.event.body;
        match kept.event.place.call.as_ref().filter(|_| !is_own(&kept)) {
            Some(call) if is_inside(call, &failed) => {}
            Some(call) if is_inside(call, &cancelled) => inside.push(kept),
            Some(_) => kept_events.push(kept),
            None if matches!(body, EventBody::AgentTurnFinished {}) => {}
            None => {
                let call = kept.event.place.call.as_ref();
                let of = |calls: &HashSet<CallId>| call.is_some_and(|call| calls.contains(call));
                let is_result =
                    matches!(body, EventBody::AgentToolFinished { .. } | EventBody::AgentObservation { .. });
                let is_start =
                    matches!(body, EventBody::AgentToolStarted { .. } | EventBody::AgentToolChunk { .. });
                if !(of(&cancelled) && is_result || of(&failed) && (is_result || is_start)) {
                    kept_events.push(kept);
                }
            }
        }
    }
    kept_events.extend(standing_inside(inside));
    kept_events.sort_by_key(|kept| kept.event.seq);
    kept_events
}

fn is_inside(call: &CallId, calls: &HashSet<CallId>) -> bool {
    calls.contains(&call_at_level(call, 0))
}

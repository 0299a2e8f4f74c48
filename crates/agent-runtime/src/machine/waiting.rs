//! The end of a run whose calls wait.

use std::sync::Arc;

use agent_types::{AskKind, AskSummary, ExitReason};
use run_journal::ask_in_call;

use super::approval::question;
use super::effect::Effect;
use super::end::End;
use super::plan::PlannedCall;
use super::result::PendingInner;
use crate::history::CallRecord;
use crate::outcome::PendingCall;

/// Calls wait, for a person or for what is inside them: the run ends for now. `inside` has the calls of the turn with
/// the questions inside them, by position.
pub(super) fn waiting(
    held: &[PlannedCall],
    inside: Vec<(usize, &CallRecord, PendingInner)>,
    effects: &mut Vec<Effect>,
) -> End {
    let mut pending = Vec::new();
    let mut exits: Vec<ExitReason> = inside.iter().map(|(_, _, waits)| waits.exit).collect();
    for call in held {
        let Some((ask, event)) = question(call) else {
            continue;
        };
        exits.push(match ask.kind {
            AskKind::Outcome => ExitReason::NeedsReconciliation,
            _ => ExitReason::AwaitingApproval,
        });
        effects.push(event);
        pending.push((call.call.index, ask));
    }
    for (index, call, waits) in inside {
        pending.extend(asks_inside(call, waits.asks).into_iter().map(|ask| (index, ask)));
    }
    pending.sort_by_key(|(index, _)| *index);
    let first = [ExitReason::NeedsReconciliation, ExitReason::AwaitingApproval];
    let exit = first.into_iter().find(|exit| exits.contains(exit)).unwrap_or(ExitReason::AwaitingResult);
    let pending = pending.into_iter().map(|(_, ask)| ask).collect();
    End { pending, is_within_turn: true, ..End::new(exit) }
}

/// Questions inside a call, named by the call and their own name.
fn asks_inside(call: &CallRecord, asks: Vec<AskSummary>) -> Vec<PendingCall> {
    let Some(tool) = call.tool_id() else {
        return Vec::new();
    };
    let named = |ask: AskSummary| PendingCall {
        ask: ask_in_call(&call.id, &ask.ask),
        kind: ask.kind,
        // A call inside the call is named itself: it is what a person decides.
        tool: ask.tool.unwrap_or_else(|| tool.clone()),
        arguments: ask.arguments.unwrap_or_else(|| Arc::new(call.arguments.clone())),
        path: ask.path,
        prompt: ask.prompt,
        definition: ask.definition,
    };
    asks.into_iter().map(named).collect()
}

//! Reasons for which a run ends, or suspends.

use std::sync::Arc;

use crate::deliberate::DeliberationFault;
use crate::dispatch::PendingInner;
use crate::outcome::PendingCall;
use crate::plan::{CallDisposition, PlannedCall};
use crate::state::{AgentState, OpenTask};
use crate::trace::Trace;
use agent_types::{
    ApprovalState, AskKind, AskSummary, BudgetExceeded, BudgetKey, EventBody, EventLocation, ExitReason,
    ToolId,
};
use run_journal::ask_in_turn;

/// End of a run with its reason.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) exit: ExitReason,
    pub(crate) kind: Option<String>,
    pub(crate) error: Option<String>,
    pub(crate) pending: Vec<PendingCall>,
    /// The turn that it ends continues when the run resumes.
    pub(crate) within_turn: bool,
    /// The limit that ends it: its name, what was used, what there was.
    pub(crate) limit: Option<(&'static str, u64, u64)>,
}

impl End {
    pub(crate) fn new(exit: ExitReason) -> Self {
        Self { exit, kind: None, error: None, pending: Vec::new(), within_turn: false, limit: None }
    }

    /// Returns `true` when the model may still be asked for a final answer, if the profile wants one.
    pub(crate) fn is_limit(&self) -> bool {
        self.exit == ExitReason::BudgetExceeded && self.kind.as_deref() == Some(BudgetKey::ToolCalls.as_str())
    }

    pub(crate) fn budget_exceeded(exceeded: BudgetExceeded) -> Self {
        let exit =
            if exceeded.key == BudgetKey::Turns { ExitReason::MaxTurns } else { ExitReason::BudgetExceeded };
        let (kind, error) = (Some(exceeded.key.as_str().into()), Some(exceeded.to_string()));
        Self {
            kind,
            error,
            limit: Some((exceeded.key.as_str(), exceeded.used, exceeded.limit)),
            ..Self::new(exit)
        }
    }

    /// Emits the reached limit, if there is one.
    pub(crate) fn emit_limit(self, trace: &Trace) -> Self {
        if let Some((key, used, limit)) = self.limit {
            trace.emit(EventBody::AgentBudget { key: key.into(), used, limit });
        }
        self
    }

    /// Questions that were put while a turn deliberated.
    pub(crate) fn asked(turn: u32, tool: Option<&ToolId>, asks: Vec<AskSummary>) -> Self {
        let pending = asks.into_iter().filter_map(|ask| {
            Some(PendingCall {
                ask: ask_in_turn(turn, &ask.ask),
                kind: ask.kind,
                tool: ask.tool.or_else(|| tool.cloned())?,
                arguments: ask.arguments.unwrap_or_default(),
                path: ask.path,
                prompt: ask.prompt,
            })
        });
        Self { pending: pending.collect(), within_turn: true, ..Self::new(ExitReason::AwaitingApproval) }
    }

    pub(crate) fn llm(error: &DeliberationFault) -> Self {
        let limits = [BudgetKey::ToolCalls, BudgetKey::Tokens, BudgetKey::CostMicros, BudgetKey::NodeStarts];
        let is_limit = limits.iter().any(|key| key.as_str() == error.code());
        let exit = if is_limit { ExitReason::BudgetExceeded } else { ExitReason::LlmFailed };
        Self { kind: Some(error.code().into()), error: Some(error.to_string()), ..Self::new(exit) }
    }

    pub(crate) fn wall_time(limit: u64) -> Self {
        Self {
            limit: Some(("wall_ms", limit, limit)),
            kind: Some("wall_ms".into()),
            error: Some(format!("limit of {limit} ms reached")),
            ..Self::new(ExitReason::BudgetExceeded)
        }
    }

    /// A tool says that nothing more is of use.
    pub(crate) fn fatal(tool: &ToolId, message: String) -> Self {
        Self { kind: Some(tool.to_string()), error: Some(message), ..Self::new(ExitReason::ToolError) }
    }

    /// A guardrail said no.
    pub(crate) fn blocked(guard: &str, reason: String) -> Self {
        Self { kind: Some(guard.into()), error: Some(reason), ..Self::new(ExitReason::GuardrailBlocked) }
    }

    /// Creates the end of a run whose model has answered while tasks are running.
    pub(crate) fn awaits(tasks: &[OpenTask]) -> Self {
        let pending = tasks.iter().map(|open| PendingCall {
            ask: open.task.clone(),
            tool: open.tool.clone(),
            arguments: Arc::new(open.arguments.clone()),
            kind: AskKind::Result,
            path: None,
            prompt: None,
        });
        Self { pending: pending.collect(), ..Self::new(ExitReason::AwaitingResult) }
    }

    /// These calls wait, for a person or for what is inside them: the run ends for now.
    pub(crate) fn waiting(
        trace: &Trace,
        state: &mut AgentState,
        held: &[PlannedCall],
        inside: Vec<(usize, PendingInner)>,
    ) -> Self {
        let mut pending = Vec::new();
        let mut exits: Vec<ExitReason> = inside.iter().map(|(_, waits)| waits.exit).collect();
        for call in held.iter().filter(|call| call.verdict != CallDisposition::Run) {
            exits.push(match call.verdict {
                CallDisposition::Reconcile(_) => ExitReason::NeedsReconciliation,
                _ => ExitReason::AwaitingApproval,
            });
            pending.push((call.call.index, ask_about(trace, call)));
        }
        for (index, waits) in inside {
            pending.extend(asks_inside(state, index, waits.asks).into_iter().map(|ask| (index, ask)));
        }
        pending.sort_by_key(|(index, _)| *index);
        let first = [ExitReason::NeedsReconciliation, ExitReason::AwaitingApproval];
        let exit = first.into_iter().find(|exit| exits.contains(exit)).unwrap_or(ExitReason::AwaitingResult);
        let pending = pending.into_iter().map(|(_, ask)| ask).collect();
        Self { pending, within_turn: true, ..Self::new(exit) }
    }
}

/// Emits the question about a call.
fn ask_about(trace: &Trace, planned: &PlannedCall) -> PendingCall {
    let PlannedCall { call, verdict, why, .. } = planned;
    let place = EventLocation { call: Some(call.id.clone()), ..trace.place() };
    let (ask, kind, reason) = match verdict {
        CallDisposition::Reconcile(ask) => {
            let reason = "it was at work when the process ended: `retry`, `skip` or `done`?";
            (ask.clone(), AskKind::Outcome, Some(reason.to_owned()))
        }
        _ => (call.id.to_string(), AskKind::Approval, why.clone()),
    };
    let state = ApprovalState::Asked;
    trace.emit_at(
        place,
        EventBody::AgentToolApproval { tool: call.tool.clone(), state, reason: reason.clone() },
    );
    PendingCall {
        ask,
        kind,
        tool: call.tool.clone(),
        arguments: Arc::new(call.arguments.clone()),
        path: None,
        prompt: reason,
    }
}

/// Questions inside a call, named by the call and their own name.
fn asks_inside(state: &mut AgentState, index: usize, asks: Vec<AskSummary>) -> Vec<PendingCall> {
    let call = state.last_turn().and_then(|turn| turn.calls.get(index));
    let Some((call, tool)) = call.and_then(|call| Some((call, call.tool_id()?))) else { return Vec::new() };
    let named = |ask: AskSummary| PendingCall {
        ask: format!("{}/{}", call.id, ask.ask),
        kind: ask.kind,
        // A call inside the call is named itself: it is what a person decides.
        tool: ask.tool.unwrap_or_else(|| tool.clone()),
        arguments: ask.arguments.unwrap_or_else(|| Arc::new(call.arguments.clone())),
        path: ask.path,
        prompt: ask.prompt,
    };
    asks.into_iter().map(named).collect()
}

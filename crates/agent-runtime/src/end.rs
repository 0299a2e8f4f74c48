//! Why a run ends, or ends for now.

use std::sync::Arc;

use crate::deliberate::DeliberationFault;
use crate::outcome::{PendingCall, exit_status};
use crate::plan::{PlannedCall, Verdict};
use crate::resume::asks_of_turn;
use crate::state::{AgentState, OpenTask};
use crate::trace::Trace;
use agent_types::{
    ApprovalState, AskSummary, BudgetKey, EventBody, ExitReason, Place, RunStatus, Spent, ToolId,
};

/// Why a run ended.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) exit: ExitReason,
    pub(crate) kind: Option<String>,
    pub(crate) error: Option<String>,
    pub(crate) pending: Vec<PendingCall>,
}

impl End {
    pub(crate) fn new(exit: ExitReason) -> Self {
        Self { exit, kind: None, error: None, pending: Vec::new() }
    }

    pub(crate) fn waits(&self) -> bool {
        exit_status(self.exit) == RunStatus::Waiting
    }

    /// Whether the model may still be asked for a last word, where the profile wants one.
    pub(crate) fn is_limit(&self) -> bool {
        self.exit == ExitReason::BudgetExceeded && self.kind.as_deref() == Some(BudgetKey::ToolCalls.as_str())
    }

    pub(crate) fn spent(spent: Spent) -> Self {
        let exit =
            if spent.key == BudgetKey::Turns { ExitReason::MaxTurns } else { ExitReason::BudgetExceeded };
        Self { kind: Some(spent.key.as_str().into()), error: Some(spent.to_string()), ..Self::new(exit) }
    }

    /// Questions that were put while a turn deliberated.
    pub(crate) fn asked(turn: u32, tool: Option<&ToolId>, asks: Vec<AskSummary>) -> Self {
        let prefix = asks_of_turn(turn);
        let pending = asks.into_iter().filter_map(|ask| {
            Some(PendingCall {
                ask: format!("{prefix}{}", ask.ask),
                tool: ask.tool.or_else(|| tool.cloned())?,
                arguments: ask.arguments.unwrap_or_default(),
                path: ask.path,
                prompt: ask.prompt,
            })
        });
        Self { pending: pending.collect(), ..Self::new(ExitReason::AwaitingApproval) }
    }

    pub(crate) fn llm(error: &DeliberationFault) -> Self {
        let limits = [BudgetKey::ToolCalls, BudgetKey::Tokens, BudgetKey::CostMicros, BudgetKey::NodeStarts];
        let is_limit = limits.iter().any(|key| key.as_str() == error.code());
        let exit = if is_limit { ExitReason::BudgetExceeded } else { ExitReason::LlmFailed };
        Self { kind: Some(error.code().into()), error: Some(error.to_string()), ..Self::new(exit) }
    }

    pub(crate) fn wall_time(limit: u64) -> Self {
        Self {
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

    /// The model has answered, and tasks that it began are at work.
    pub(crate) fn awaits(tasks: &[OpenTask]) -> Self {
        let pending = tasks.iter().map(|open| PendingCall {
            ask: open.task.clone(),
            tool: open.tool.clone(),
            arguments: Arc::new(open.arguments.clone()),
            path: None,
            prompt: None,
        });
        Self { pending: pending.collect(), ..Self::new(ExitReason::AwaitingResult) }
    }

    /// These calls need a person: the run ends for now.
    pub(crate) fn wait_for_people(trace: &Trace, waiting: &[PlannedCall]) -> Self {
        let is_unknown = waiting.iter().any(|call| call.verdict == Verdict::Reconcile);
        let exit = if is_unknown { ExitReason::NeedsReconciliation } else { ExitReason::AwaitingApproval };
        let mut end = Self::new(exit);
        for PlannedCall { call, verdict, why, .. } in waiting {
            if *verdict == Verdict::Run {
                continue;
            }
            let place = Place { call: Some(call.id.clone()), ..trace.place() };
            let state = ApprovalState::Asked;
            let reason = match verdict {
                Verdict::Reconcile => {
                    Some("it was at work when the process ended: `retry`, `skip` or `done`?".to_owned())
                }
                _ => why.clone(),
            };
            trace.emit_at(place, EventBody::AgentToolApproval { tool: call.tool.clone(), state, reason });
            end.pending.push(PendingCall {
                ask: call.id.to_string(),
                tool: call.tool.clone(),
                arguments: Arc::new(call.arguments.clone()),
                path: None,
                prompt: why.clone(),
            });
        }
        end
    }

    /// Questions inside calls, named by the call and their own name.
    pub(crate) fn add_asked(&mut self, state: &mut AgentState, asked: Vec<(usize, Vec<AskSummary>)>) {
        let Some(turn) = state.last_turn() else { return };
        for (index, asks) in asked {
            let Some((call, tool)) = turn.calls.get(index).and_then(|call| Some((call, call.tool_id()?)))
            else {
                continue;
            };
            self.pending.extend(asks.into_iter().map(|ask| PendingCall {
                ask: format!("{}/{}", call.id, ask.ask),
                // A call inside the call is named itself: it is what a person decides.
                tool: ask.tool.clone().unwrap_or_else(|| tool.clone()),
                arguments: ask.arguments.clone().unwrap_or_else(|| Arc::new(call.arguments.clone())),
                path: ask.path,
                prompt: ask.prompt,
            }));
        }
    }
}

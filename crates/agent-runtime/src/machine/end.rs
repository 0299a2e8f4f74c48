//! Reasons for which a run ends, or suspends.

use std::sync::Arc;

use agent_types::{AskKind, AskSummary, BudgetExceeded, BudgetKey, DefinitionDigests, ExitReason, ToolId};
use llm_provider::Finish;
use run_journal::ask_in_turn;
use serde::{Deserialize, Serialize};

use super::tasks::OpenTask;
use crate::outcome::PendingCall;

/// Name of the limit of the wall time.
pub(super) const WALL_TIME: &str = "wall_ms";

/// Name of the limit of the model's window.
const CONTEXT: &str = "context";

/// End of a run with its reason.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// Reason.
    pub exit: ExitReason,
    /// Word for programs.
    pub kind: Option<String>,
    /// Description of the error.
    pub error: Option<String>,
    /// Calls that wait.
    pub pending: Vec<PendingCall>,
    /// The turn that it ends continues when the run resumes.
    pub is_within_turn: bool,
    /// The limit that ends it.
    pub limit: Option<Limit>,
    /// There is an answer, and it did not reach its end.
    pub is_partial: bool,
}

/// A limit that was reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// Its name.
    pub key: String,
    /// Amount used.
    pub used: u64,
    /// Amount allowed.
    pub limit: u64,
}

impl End {
    /// An end for a reason that says all.
    #[must_use]
    pub const fn new(exit: ExitReason) -> Self {
        let pending = Vec::new();
        Self { exit, kind: None, error: None, pending, is_within_turn: false, limit: None, is_partial: false }
    }

    /// A spent budget.
    #[must_use]
    pub fn budget_exceeded(exceeded: BudgetExceeded) -> Self {
        let exit =
            if exceeded.key == BudgetKey::Turns { ExitReason::MaxTurns } else { ExitReason::BudgetExceeded };
        let key = exceeded.key.as_str();
        Self {
            kind: Some(key.to_owned()),
            error: Some(exceeded.to_string()),
            limit: Some(Limit { key: key.to_owned(), used: exceeded.used, limit: exceeded.limit }),
            ..Self::new(exit)
        }
    }

    /// The conversation does not fit into the model's window, and nothing more can be compacted.
    pub(super) fn too_long(used: u64, limit: u64) -> Self {
        let error = format!(
            "the conversation needs about {used} tokens, and the model's window leaves {limit} for a request; \
             shorten the instructions or the message, or raise `context_window`"
        );
        Self {
            limit: Some(Limit { key: CONTEXT.to_owned(), used, limit }),
            kind: Some(CONTEXT.to_owned()),
            error: Some(error),
            ..Self::new(ExitReason::BudgetExceeded)
        }
    }

    /// A tool says that nothing more is of use.
    #[must_use]
    pub fn fatal(tool: &ToolId, message: String) -> Self {
        Self { kind: Some(tool.to_string()), error: Some(message), ..Self::new(ExitReason::ToolError) }
    }

    /// Returns `true` when the model may still be asked for a final answer, if the profile wants one.
    pub(super) fn allows_final_answer(&self) -> bool {
        self.exit == ExitReason::BudgetExceeded && self.kind.as_deref() == Some(BudgetKey::ToolCalls.as_str())
    }

    /// The wall time of the run, in milliseconds, is over.
    pub(super) fn out_of_time(limit: u64) -> Self {
        Self {
            limit: Some(Limit { key: WALL_TIME.to_owned(), used: limit, limit }),
            kind: Some(WALL_TIME.to_owned()),
            error: Some(format!("limit of {limit} ms reached")),
            ..Self::new(ExitReason::BudgetExceeded)
        }
    }

    /// The model failed. What is used up for it is used up for the run.
    pub(super) fn failed(code: String, message: String) -> Self {
        let limits = [BudgetKey::ToolCalls, BudgetKey::Tokens, BudgetKey::CostMicros, BudgetKey::NodeStarts];
        let is_limit = limits.iter().any(|key| key.as_str() == code);
        let exit = if is_limit { ExitReason::BudgetExceeded } else { ExitReason::LlmFailed };
        Self { kind: Some(code), error: Some(message), ..Self::new(exit) }
    }

    /// The reply ended before its own end: an answer in part, or none.
    pub(super) fn cut(finish: &Finish, text: &str) -> Self {
        let exit = if text.is_empty() { ExitReason::LlmFailed } else { ExitReason::Completed };
        let error = match finish {
            Finish::Length => "the answer was cut off at its limit of tokens; raise `max_tokens`".to_owned(),
            finish => format!("the model's server ended the answer: {}", finish.as_str()),
        };
        let kind = match finish {
            Finish::Other(word) => word.split(':').next().unwrap_or_default().to_lowercase(),
            finish => finish.as_str().to_owned(),
        };
        Self { kind: Some(kind), error: Some(error), is_partial: true, ..Self::new(exit) }
    }

    /// The model gave nothing, and nothing again when it was asked once more.
    pub(super) fn empty() -> Self {
        let error = "the model's reply was empty, and empty again when it was asked once more".to_owned();
        Self { kind: Some("llm_empty".into()), error: Some(error), ..Self::new(ExitReason::LlmFailed) }
    }

    /// A guardrail blocked the message or the answer.
    pub(super) fn blocked(guard: String, reason: String) -> Self {
        Self { kind: Some(guard), error: Some(reason), ..Self::new(ExitReason::GuardrailBlocked) }
    }

    /// The model has answered while tasks are running.
    pub(super) fn awaits(tasks: &[OpenTask]) -> Self {
        let pending = tasks.iter().map(|open| PendingCall {
            ask: open.task.clone(),
            tool: open.tool.clone(),
            arguments: Arc::new(open.arguments.clone()),
            kind: AskKind::Result,
            path: None,
            prompt: None,
            definition: DefinitionDigests::new(),
        });
        Self { pending: pending.collect(), ..Self::new(ExitReason::AwaitingResult) }
    }

    /// Questions were put while a turn deliberated, about calls of `tool` unless they name another.
    pub(super) fn asked(turn: u32, tool: Option<&ToolId>, asks: Vec<AskSummary>) -> Self {
        let pending = asks.into_iter().filter_map(|ask| {
            Some(PendingCall {
                ask: ask_in_turn(turn, &ask.ask),
                kind: ask.kind,
                tool: ask.tool.or_else(|| tool.cloned())?,
                arguments: ask.arguments.unwrap_or_default(),
                path: ask.path,
                prompt: ask.prompt,
                definition: ask.definition,
            })
        });
        Self { pending: pending.collect(), is_within_turn: true, ..Self::new(ExitReason::AwaitingApproval) }
    }
}

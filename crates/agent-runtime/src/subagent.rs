//! An agent as a tool of another one.

use std::sync::Arc;

use agent_types::ToolDefinition;
use agent_types::{Budget, EventSink, ExitReason};
use async_trait::async_trait;
use serde_json::{Map, Value};
use tool_registry::{
    Tool, ToolContext, ToolError, ToolErrorKind, ToolHandler, ToolKind, ToolOutput, UsageMeter,
};
use tool_schema::ToolSetError;

use crate::agent::Agent;
use crate::driver::context::{LastMessage, SHARED};
use crate::history::Exchange;
use crate::outcome::RunOutcome;
use crate::state::AgentState;

/// Maximum length of the user's last message for an inner agent, in characters.
const MAX_SHARED: usize = 2_000;

/// An agent that answers one call: the arguments are its message, its final text is the result.
///
/// It has a separate history; the calling agent sees only the result. Its turns, calls and tokens count in the
/// budget of the whole tree, and its events come with those of the run that it is part of, one level deeper.
#[derive(Debug)]
pub struct SubAgent {
    agent: Agent,
    shares_message: bool,
    task: Option<Arc<dyn TaskText>>,
}

/// Text of a task, made of the arguments of the call.
pub trait TaskText: Send + Sync + std::fmt::Debug {
    /// The task for the agent.
    fn text(&self, arguments: &Map<String, Value>) -> String;
}

impl SubAgent {
    /// Answers calls with this agent.
    #[must_use]
    pub fn new(agent: Agent) -> Self {
        Self { agent, shares_message: false, task: None }
    }

    /// The same with a task that is made of the arguments.
    #[must_use]
    pub fn with_task(mut self, task: Arc<dyn TaskText>) -> Self {
        self.task = Some(task);
        self
    }

    /// Shows it the user's last message besides the arguments, at most 2,000 characters of it.
    #[must_use]
    pub fn sharing_last_message(mut self) -> Self {
        self.shares_message = true;
        self
    }

    /// It as a tool.
    ///
    /// # Errors
    /// The definition cannot be offered.
    pub fn into_tool(self, definition: ToolDefinition) -> Result<Tool, ToolSetError> {
        let profile = serde_json::to_value(self.agent.profile()).unwrap_or_default();
        Tool::new(definition, ToolKind::NATIVE, self).with_parts([("agent".to_owned(), profile)]).checked()
    }

    fn message(&self, arguments: Map<String, Value>, cx: &ToolContext) -> String {
        let mut message = match (&self.task, arguments.len(), arguments.values().next()) {
            (Some(task), ..) => task.text(&arguments),
            (None, 1, Some(Value::String(text))) => text.clone(),
            (None, ..) => Value::Object(arguments).to_string(),
        };
        if let Some(last) = cx.services.get::<LastMessage>().filter(|_| self.shares_message) {
            let end = last.0.char_indices().nth(MAX_SHARED).map_or(last.0.len(), |(end, _)| end);
            message.extend(["\n\nThe user said: ", &last.0[..end]]);
        }
        message
    }
}

#[async_trait]
impl ToolHandler for SubAgent {
    async fn call(&self, arguments: Map<String, Value>, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let Some(budget) = cx.budget.child(self.agent.profile().limits()) else {
            let message = format!("limit of {} levels reached", cx.budget.max_depth());
            return Err(ToolError::new(ToolErrorKind::Refused, message).with_code("limit_reached"));
        };
        let sink: Arc<dyn EventSink> = cx.inner_sink();
        let run = self
            .agent
            .start_inside(self.message(arguments, cx), sink, cx, budget)
            .map_err(|error| ToolError::new(ToolErrorKind::Failed, error.to_string()))?;
        let (outcome, _): (RunOutcome, AgentState) = run.outcome().await;
        if let Some(meter) = cx.services.get::<UsageMeter>() {
            meter.add(outcome.usage);
        }
        result(outcome, &cx.budget)
    }

    fn has_inner_run(&self) -> bool {
        true
    }
}

fn result(outcome: RunOutcome, shared: &Budget) -> Result<ToolOutput, ToolError> {
    match outcome.exit {
        ExitReason::Completed if outcome.partial => {
            let reason = outcome.error.as_deref().unwrap_or("the answer is incomplete");
            Ok(ToolOutput::Text(format!("{}\nNote - {reason}", outcome.text)))
        }
        ExitReason::Completed => Ok(match outcome.value {
            Some(value) => ToolOutput::Json(value),
            None => ToolOutput::Text(outcome.text),
        }),
        ExitReason::Cancelled => Err(ToolError::new(ToolErrorKind::Cancelled, "cancelled")),
        exit @ (ExitReason::AwaitingApproval
        | ExitReason::AwaitingResult
        | ExitReason::NeedsReconciliation) => {
            let asks = outcome.pending.iter().map(crate::outcome::PendingCall::summary).collect();
            let error = ToolError::failed("it needs human approval or input, which is not available here");
            Err(error.with_code(exit.as_str()).asking(asks))
        }
        ExitReason::ToolError => Err(ToolError::fatal(outcome.error.unwrap_or_default())),
        exit => {
            let mut reason = format!("it ended with {exit}");
            if let Some(error) = &outcome.error {
                reason.extend([": ", error]);
            }
            let is_limit = matches!(exit, ExitReason::MaxTurns | ExitReason::BudgetExceeded);
            // What is used up for the whole tree is used up for the caller too.
            let is_shared =
                exit == ExitReason::BudgetExceeded && SHARED.iter().any(|key| shared.spent(*key).is_some());
            let so_far = so_far(&outcome);
            if is_limit && !is_shared && !so_far.is_empty() {
                return Ok(ToolOutput::Text(format!("{so_far}\nNote - partial: {reason}")));
            }
            if !so_far.is_empty() {
                reason.extend(["; so far: ", &so_far]);
            }
            let error = ToolError::failed(reason);
            Err(if is_shared { error.with_code(exit.as_str()) } else { error })
        }
    }
}

/// Text or value of an agent that did not reach its end; without one, the results of its last calls.
fn so_far(outcome: &RunOutcome) -> String {
    if let Some(value) = &outcome.value {
        return value.to_string();
    }
    if !outcome.text.is_empty() {
        return outcome.text.clone();
    }
    let last = outcome.history.iter().rev().find_map(|exchange| match exchange {
        Exchange::Turn(turn) if !turn.calls.is_empty() => Some(turn),
        _ => None,
    });
    let results = last.into_iter().flat_map(|turn| &turn.calls).filter_map(|call| call.observation.as_ref());
    results.map(|observation| observation.text.as_str()).collect::<Vec<_>>().join("\n")
}

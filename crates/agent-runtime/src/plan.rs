//! Selection of the calls of a turn that run, before any of them does.

use agent_types::ApprovalDefault;
use serde_json::Value;
use tool_registry::{Snapshot, Tool};
use workflow_engine::{Expression, Scope};

use crate::agent::ApprovalMode;
use crate::decide::ReadyCall;
use crate::profile::{AgentProfile, ApprovalChoice};

/// Maximum number of calls in one decision.
pub(crate) const CALLS_PER_DECISION: usize = 10;

/// Reason for asking about a call that untrusted text holds too.
const ECHO: &str = "echo_of_untrusted: the same call stands in the result of a tool";

/// Disposition of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CallDisposition {
    /// It runs.
    Run,
    /// It does not, for this reason.
    Refuse(String),
    /// A person is asked.
    Ask,
    /// It was running when a process ended, and only a person can state its outcome.
    Reconcile(String),
}

/// A call and what becomes of it.
#[derive(Debug, Clone)]
pub(crate) struct PlannedCall {
    pub(crate) call: ReadyCall,
    pub(crate) tool: Tool,
    pub(crate) verdict: CallDisposition,
    /// Reason for asking for approval, if it is not obvious.
    pub(crate) why: Option<String>,
    /// A person changed its arguments.
    pub(crate) edited: bool,
}

/// Reason for refusing a call in advance: calls of the last turn, and those beyond the limit.
pub(crate) fn beyond(position: usize, last_turn: bool) -> Option<String> {
    if last_turn {
        return Some("limit of turns reached".into());
    }
    (position >= CALLS_PER_DECISION).then(|| limit_of(CALLS_PER_DECISION))
}

/// Message for calls beyond the limit of one decision.
pub(crate) fn limit_of(calls: usize) -> String {
    format!("limit of {calls} calls in one decision reached")
}

/// Decides every call of a turn: limits first, then permission. `refuse` gives the reason for refusing the call of a
/// position, where there is one.
pub(crate) fn plan(
    calls: Vec<ReadyCall>,
    tools: &Snapshot,
    profile: &AgentProfile,
    mode: ApprovalMode,
    refuse: impl Fn(usize) -> Option<String>,
) -> Vec<PlannedCall> {
    calls
        .into_iter()
        .enumerate()
        .filter_map(|(position, call)| {
            // The reader knows only tools of this snapshot.
            let tool = tools.get(call.tool.as_str())?.clone();
            let mut why = None;
            let verdict = if let Some(reason) = refuse(position) {
                CallDisposition::Refuse(reason)
            } else {
                let choice = match choice(profile, &tool, &call) {
                    ApprovalDefault::Auto if call.is_echo => {
                        why = Some(ECHO.to_owned());
                        ApprovalDefault::Ask
                    }
                    choice => choice,
                };
                verdict(choice, mode)
            };
            Some(PlannedCall { call, tool, verdict, why, edited: false })
        })
        .collect()
}

/// The first that speaks counts: the profile, then the tool.
fn choice(profile: &AgentProfile, tool: &Tool, call: &ReadyCall) -> ApprovalDefault {
    match profile.approval_of(tool.id().as_str()) {
        Some(ApprovalChoice::Auto) => ApprovalDefault::Auto,
        Some(ApprovalChoice::Never) => ApprovalDefault::Never,
        Some(ApprovalChoice::Ask) => ApprovalDefault::Ask,
        Some(ApprovalChoice::AskIf(condition)) => {
            if holds(condition, call) {
                ApprovalDefault::Ask
            } else {
                ApprovalDefault::Auto
            }
        }
        None => tool.approval(),
    }
}

fn verdict(choice: ApprovalDefault, mode: ApprovalMode) -> CallDisposition {
    match (choice, mode) {
        (ApprovalDefault::Auto, _) | (ApprovalDefault::Ask, ApprovalMode::All) => CallDisposition::Run,
        (ApprovalDefault::Never, _) => CallDisposition::Refuse("this tool may not be used".into()),
        (ApprovalDefault::Ask, ApprovalMode::None) => {
            CallDisposition::Refuse("denied: approvals are turned off for this run".into())
        }
        (ApprovalDefault::Ask, ApprovalMode::Ask) => CallDisposition::Ask,
    }
}

/// Evaluates a condition over `args`. One that cannot be evaluated requires approval.
fn holds(condition: &str, call: &ReadyCall) -> bool {
    let arguments = || Value::Object(call.arguments.clone());
    compiled(condition)
        .and_then(|condition| condition.evaluate_bool(|name| (name == "args").then(arguments)))
        .unwrap_or(true)
}

/// A condition over `args`, read.
pub(crate) fn compiled(condition: &str) -> Result<Expression, workflow_engine::ExpressionError> {
    Expression::compile(condition, &Scope::new().with("args"))
}

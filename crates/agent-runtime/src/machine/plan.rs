//! Selection of the calls of a turn that run, before any of them does.

use std::sync::Arc;

use agent_types::{ApprovalDefault, DefinitionDigests};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use workflow_engine::{Expression, ExpressionError, Scope};

use super::reply::ReadyCall;
use crate::profile::{AgentProfile, ApprovalChoice};

/// Maximum number of calls in one decision.
pub const CALLS_PER_DECISION: usize = 10;

/// Reason for asking about a call that untrusted text holds too.
const ECHO: &str = "echo_of_untrusted: the same call stands in the result of a tool";

/// Policy for calls that need human approval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ApprovalMode {
    /// The run ends and reports the pending calls.
    #[default]
    Ask,
    /// Every call that may be approved runs.
    All,
    /// Every call that would need approval is denied.
    None,
}

/// Disposition of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum CallDisposition {
    /// It runs.
    Run,
    /// It does not, for this reason.
    Refuse(String),
    /// A person is asked.
    Ask,
    /// It was running when a process ended, and only a person can state its outcome.
    Reconcile {
        /// Id of the question.
        ask: String,
        /// The stated outcome.
        outcome: Option<Value>,
    },
}

/// A call and its disposition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedCall {
    /// The call.
    pub call: ReadyCall,
    /// Its disposition.
    pub disposition: CallDisposition,
    /// Reason for asking for approval, if it is not obvious.
    pub why: Option<String>,
    /// A person changed its arguments.
    pub is_edited: bool,
    /// The log of a resumed run has its result.
    pub is_recorded: bool,
    /// The question about its approval, if that is not named by the call.
    #[serde(default)]
    pub ask: Option<String>,
    /// Digests of the parts of what it would do.
    #[serde(default)]
    pub definition: DefinitionDigests,
}

/// Opinion of guardrails, the user and the log about a call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Review {
    /// Reason of a guardrail against it.
    pub blocked: Option<String>,
    /// Decision of the user.
    pub verdict: Option<Verdict>,
    /// Its state in the log.
    pub past: Past,
    /// Question that is put instead of one whose answer was given for something else, and why.
    #[serde(default)]
    pub ask_anew: Option<(String, String)>,
    /// Digests of the parts of what it would do.
    #[serde(default)]
    pub definition: DefinitionDigests,
}

/// Decision of the user about a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Verdict {
    /// It may run.
    Approve,
    /// It may run with these arguments.
    Edit(Arc<Map<String, Value>>),
    /// The arguments of the user do not fit, for this reason.
    BadEdit(String),
    /// It must not run, for this reason.
    Deny(String),
}

/// State of a call in the log of a resumed run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub enum Past {
    /// It was not started.
    #[default]
    None,
    /// It ended.
    Ended,
    /// It was running when the process ended.
    Interrupted {
        /// Id of the question about its outcome.
        ask: String,
        /// The outcome that the user stated.
        outcome: Option<Value>,
    },
}

/// Reason for refusing a call in advance: calls of the last turn, and those beyond the limit.
pub(super) fn beyond(position: usize, is_last_turn: bool) -> Option<String> {
    if is_last_turn {
        return Some("limit of turns reached".into());
    }
    (position >= CALLS_PER_DECISION).then(|| too_many_calls(CALLS_PER_DECISION))
}

/// Reason for refusing calls beyond the limit of one decision.
#[must_use]
pub fn too_many_calls(limit: usize) -> String {
    format!("limit of {limit} calls in one decision reached")
}

/// Decides every call of a turn: limits first, then permission. `refuse` gives the reason for refusing the call of a
/// position, where there is one.
pub(super) fn plan(
    calls: Vec<ReadyCall>,
    profile: &AgentProfile,
    mode: ApprovalMode,
    refuse: impl Fn(usize) -> Option<String>,
) -> Vec<PlannedCall> {
    let planned = |(position, call): (usize, ReadyCall)| {
        let mut why = None;
        let disposition = match (refuse(position), choice(profile, &call)) {
            (Some(reason), _) => CallDisposition::Refuse(reason),
            (None, ApprovalDefault::Auto) if call.is_echo => {
                why = Some(ECHO.to_owned());
                disposition(ApprovalDefault::Ask, mode)
            }
            (None, choice) => disposition(choice, mode),
        };
        let (ask, definition) = (None, DefinitionDigests::new());
        PlannedCall { call, disposition, why, is_edited: false, is_recorded: false, ask, definition }
    };
    calls.into_iter().enumerate().map(planned).collect()
}

/// The first that speaks counts: the profile, then the tool.
fn choice(profile: &AgentProfile, call: &ReadyCall) -> ApprovalDefault {
    match profile.approval_of(call.tool.as_str()) {
        Some(ApprovalChoice::Auto) => ApprovalDefault::Auto,
        Some(ApprovalChoice::Never) => ApprovalDefault::Never,
        Some(ApprovalChoice::AskIf(condition)) if !holds(condition, call) => ApprovalDefault::Auto,
        Some(ApprovalChoice::Ask | ApprovalChoice::AskIf(_)) => ApprovalDefault::Ask,
        None => call.facts.approval,
    }
}

fn disposition(choice: ApprovalDefault, mode: ApprovalMode) -> CallDisposition {
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
    let arguments = || Value::Object((*call.arguments).clone());
    compiled(condition)
        .and_then(|condition| condition.evaluate_bool(|name| (name == "args").then(arguments)))
        .unwrap_or(true)
}

/// A condition over `args`, read.
pub(crate) fn compiled(condition: &str) -> Result<Expression, ExpressionError> {
    Expression::compile(condition, &Scope::new().with("args"))
}

//! Which of the calls of a turn run, before any of them does.

use agent_types::ApprovalDefault;
use tool_registry::{Snapshot, Tool};

use crate::agent::ApprovalMode;
use crate::decide::ReadyCall;
use crate::profile::{AgentProfile, ApprovalChoice};

/// Calls that one decision may hold.
pub(crate) const CALLS_PER_DECISION: usize = 10;

/// What becomes of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It runs.
    Run,
    /// It does not, for this reason.
    Refuse(String),
    /// A person is asked.
    Ask,
    /// It was at work when a process ended, and only a person can tell what became of it.
    Reconcile,
}

/// A call and what becomes of it.
#[derive(Debug, Clone)]
pub(crate) struct PlannedCall {
    pub(crate) call: ReadyCall,
    pub(crate) tool: Tool,
    pub(crate) verdict: Verdict,
    /// A person changed its arguments.
    pub(crate) edited: bool,
}

/// Decides every call of a turn: limits first, then permission.
pub(crate) fn plan(
    calls: Vec<ReadyCall>,
    tools: &Snapshot,
    profile: &AgentProfile,
    mode: ApprovalMode,
    last_turn: bool,
) -> Vec<PlannedCall> {
    calls
        .into_iter()
        .enumerate()
        .filter_map(|(position, call)| {
            // The reader knows only tools of this snapshot.
            let tool = tools.get(call.tool.as_str())?.clone();
            let verdict = if last_turn {
                Verdict::Refuse("limit of turns reached".into())
            } else if position >= CALLS_PER_DECISION {
                Verdict::Refuse(format!("limit of {CALLS_PER_DECISION} calls in one decision reached"))
            } else {
                permission(profile, &tool, mode)
            };
            Some(PlannedCall { call, tool, verdict, edited: false })
        })
        .collect()
}

/// The first that speaks counts: the profile, then the tool.
fn permission(profile: &AgentProfile, tool: &Tool, mode: ApprovalMode) -> Verdict {
    let choice = match profile.approval_of(tool.id().as_str()) {
        Some(ApprovalChoice::Auto) => ApprovalDefault::Auto,
        Some(ApprovalChoice::Never) => ApprovalDefault::Never,
        // A condition that this part cannot weigh is one for a person.
        Some(ApprovalChoice::Ask | ApprovalChoice::AskIf(_)) => ApprovalDefault::Ask,
        None => tool.approval(),
    };
    match (choice, mode) {
        (ApprovalDefault::Auto, _) | (ApprovalDefault::Ask, ApprovalMode::All) => Verdict::Run,
        (ApprovalDefault::Never, _) => Verdict::Refuse("this tool may not be used".into()),
        (ApprovalDefault::Ask, ApprovalMode::None) => {
            Verdict::Refuse("denied: approvals are turned off for this run".into())
        }
        (ApprovalDefault::Ask, ApprovalMode::Ask) => Verdict::Ask,
    }
}

//! The words in which events say how things stand and why they ended.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// State of a run: how far it is, or how it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RunStatus {
    /// Ended as meant.
    Ok,
    /// Ended by an error.
    Error,
    /// Ended by a wish to end.
    Cancelled,
    /// Waits for answers from outside.
    Waiting,
}

macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$doc])* #[serde(rename = $word)] $variant,)+
        }

        impl $name {
            /// The word on the wire; never reworded.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

words! {
    /// Reason why an agent run ended.
    ExitReason {
        /// The model answered.
        Completed = "completed",
        /// No turns left.
        MaxTurns = "max_turns",
        /// Another limit was reached.
        BudgetExceeded = "budget_exceeded",
        /// The same call gave the same result too often.
        LoopDetected = "loop_detected",
        /// Too many faulty replies in a row.
        SelfCorrectionFailed = "self_correction_failed",
        /// A person must approve a call.
        AwaitingApproval = "awaiting_approval",
        /// A long-running call is not done.
        AwaitingResult = "awaiting_result",
        /// A tool ended the run with an error.
        ToolError = "tool_error",
        /// The run was cancelled on request.
        Cancelled = "cancelled",
        /// A person took over.
        HandedOff = "handed_off",
        /// The conversation was closed.
        Closed = "closed",
        /// A flow answered.
        FlowCompleted = "flow_completed",
        /// A flow ran without a reply.
        FlowSilent = "flow_silent",
        /// A guardrail stopped the run.
        GuardrailBlocked = "guardrail_blocked",
        /// The model could not be asked.
        LlmFailed = "llm_failed",
        /// The end of an effect is not known.
        NeedsReconciliation = "needs_reconciliation",
    }
}

words! {
    /// Reason why a node failed.
    NodeErrorKind {
        /// The node said so.
        Failed = "failed",
        /// An attempt, the node or the run took too long.
        Timeout = "timeout",
        /// No chunk came for too long.
        Idle = "idle",
        /// The node's code panicked.
        Panic = "panic",
        /// A condition could not be evaluated.
        Condition = "condition",
        /// A loop zone reached its last pass and its condition did not hold.
        MaxPasses = "max_passes",
        /// Nothing runs and something is not settled.
        Stalled = "stalled",
        /// A required input was not given.
        MissingInput = "missing_input",
        /// A shared limit was reached.
        BudgetExceeded = "budget_exceeded",
    }
}

words! {
    /// Reason why a loop zone ended.
    LoopEnd {
        /// Its condition held, or no longer held.
        Condition = "condition",
        /// It reached `maxIterations`.
        Max = "max",
        /// The body asked for the end.
        Break = "break",
        /// The number of passes was done.
        Times = "times",
        /// Every item was done.
        Items = "items",
        /// A pass failed.
        Error = "error",
        /// The run was cancelled.
        Cancelled = "cancelled",
    }
}

words! {
    /// Decision with which a pass of a loop zone ended.
    PassDecision {
        /// The condition asks for another pass.
        Next = "next",
        /// The condition ended the loop.
        Condition = "condition",
        /// The body asked for the end.
        Break = "break",
        /// The body asked for the next pass, without the results of this one.
        Continue = "continue",
        /// The pass failed, or the condition could not be read.
        Error = "error",
        /// The pass was cancelled.
        Cancelled = "cancelled",
    }
}

words! {
    /// Outcome of a tool call.
    ToolStatus {
        /// It answered.
        Ok = "ok",
        /// It said that it failed.
        Failed = "failed",
        /// It was not started.
        Refused = "refused",
        /// It did not answer in time.
        Timeout = "timeout",
        /// Its code panicked.
        Panicked = "panicked",
        /// It was cancelled.
        Cancelled = "cancelled",
    }
}

words! {
    /// State of an approval.
    ApprovalState {
        /// A person is asked.
        Asked = "asked",
        /// It may run.
        Approved = "approved",
        /// It may run with changed arguments.
        Edited = "edited",
        /// It may not run.
        Denied = "denied",
    }
}

words! {
    /// Subject of an open question; it determines the form of the answer.
    #[derive(Default)]
    AskKind {
        /// A call must be approved: `{"approve": true}`, with `arguments` that take the place of its own, or `{"deny": reason}`.
        Approval = "approval",
        /// Something is asked: any value answers it.
        #[default]
        Question = "question",
        /// A call or node was running when the process ended: `retry`, `skip` or `done`, alone or as `outcome` of an object
        /// that may have the `value` that it gave.
        Outcome = "outcome",
        /// A task is running: any value is its result.
        Result = "result",
    }
}

impl AskKind {
    /// Checks that a value has the form of an answer to such a question.
    #[must_use]
    pub fn takes(self, answer: &Value) -> bool {
        match self {
            Self::Question | Self::Result => true,
            Self::Approval => {
                let approves = answer.get("approve") == Some(&Value::Bool(true));
                approves
                    || answer.get("deny").is_some()
                    || answer.get("arguments").is_some_and(Value::is_object)
            }
            Self::Outcome => {
                let word = answer.get("outcome").unwrap_or(answer).as_str();
                matches!(word, Some("retry" | "skip" | "done"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answers_fit_their_questions() {
        use AskKind::{Approval, Outcome, Question, Result};
        for (answer, takes) in [
            (json!({"approve": true, "digest": "x"}), &[Approval, Question, Result][..]),
            (json!({"approve": false}), &[Question, Result]),
            (json!({"deny": "no"}), &[Approval, Question, Result]),
            (json!("retry"), &[Outcome, Question, Result]),
            (json!({"outcome": "done", "value": 1}), &[Outcome, Question, Result]),
            (json!({"outcome": "perhaps"}), &[Question, Result]),
            (json!("yes"), &[Question, Result]),
            (json!(null), &[Question, Result]),
        ] {
            for kind in [Approval, Question, Outcome, Result] {
                assert_eq!(kind.takes(&answer), takes.contains(&kind), "{kind} {answer}");
            }
        }
    }
}

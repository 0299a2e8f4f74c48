//! Answers to open questions of runs.

use agent_runtime::approval_digest;
use agent_types::{AskKind, AskSummary, RunId};
use serde_json::{Map, Value, json};

use crate::error::RunsError;

/// An answer to an open question. The form in which it is kept is written here and nowhere else.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// The call may run, with other arguments where some are given.
    Approve {
        /// Other arguments.
        arguments: Option<Map<String, Value>>,
    },
    /// The call may not run.
    Deny {
        /// Reason, which the model receives.
        reason: String,
    },
    /// The answer to a question.
    Value(Value),
    /// Outcome of an effect whose outcome is unknown.
    Outcome(EffectOutcome),
}

/// Outcome of an effect that was interrupted, as the user reports it.
#[derive(Debug, Clone, PartialEq)]
pub enum EffectOutcome {
    /// It did not happen: it is executed again.
    Retry,
    /// It did not happen, and is not needed.
    Skip,
    /// It happened, and gave this value.
    Done(Option<Value>),
}

impl Answer {
    /// A denial without a reason of its own.
    #[must_use]
    pub fn deny(reason: &str) -> Self {
        let reason = if reason.is_empty() { "not wanted" } else { reason };
        Self::Deny { reason: reason.to_owned() }
    }

    /// A value as it is written by hand: JSON where it reads as JSON, else a text.
    #[must_use]
    pub fn written(text: &str) -> Self {
        Self::Value(agent_types::read_json(text.as_bytes()).unwrap_or_else(|_| Value::from(text)))
    }

    /// The arguments that it changes.
    pub(crate) fn changed(&self) -> Option<&Map<String, Value>> {
        match self {
            Self::Approve { arguments } => arguments.as_ref(),
            Self::Deny { .. } | Self::Value(_) | Self::Outcome(_) => None,
        }
    }

    /// The form in which it is kept.
    ///
    /// # Errors
    /// It approves or denies a question that is not about a call.
    pub fn to_value(&self, run: &RunId, summary: &AskSummary) -> Result<Value, RunsError> {
        let call = summary.tool.as_ref().zip(summary.arguments.as_deref());
        let call = call.filter(|_| summary.kind == AskKind::Approval);
        match (self, call) {
            (Self::Value(value), _) => Ok(value.clone()),
            (Self::Outcome(EffectOutcome::Retry), _) => Ok("retry".into()),
            (Self::Outcome(EffectOutcome::Skip), _) => Ok("skip".into()),
            (Self::Outcome(EffectOutcome::Done(None)), _) => Ok("done".into()),
            (Self::Outcome(EffectOutcome::Done(Some(value))), _) => {
                Ok(json!({"outcome": "done", "value": value}))
            }
            (Self::Approve { arguments }, Some((tool, own))) => {
                let digest = approval_digest(tool.as_str(), own, &summary.definition);
                let mut answer = json!({"approve": true, "digest": digest});
                if !summary.definition.is_empty() {
                    answer["definition"] = serde_json::to_value(&summary.definition).unwrap_or_default();
                }
                if let Some(arguments) = arguments {
                    answer["arguments"] = Value::Object(arguments.clone());
                }
                Ok(answer)
            }
            (Self::Deny { reason }, Some(_)) => Ok(json!({ "deny": reason })),
            (Self::Approve { .. } | Self::Deny { .. }, None) => {
                Err(RunsError::NoApproval { run: run.to_string(), ask: summary.ask.to_string() })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn summary(kind: AskKind) -> AskSummary {
        let arguments = json!({"to": "a"}).as_object().cloned().map(Arc::new);
        let tool = "mail".parse().ok();
        AskSummary {
            ask: "c1".into(),
            kind,
            tool,
            arguments,
            path: None,
            prompt: None,
            definition: std::collections::BTreeMap::default(),
        }
    }

    #[test]
    fn approval_carries_the_digest_of_what_was_shown() {
        let run = RunId::new("r");
        let ask = summary(AskKind::Approval);
        let approved = Answer::Approve { arguments: None }.to_value(&run, &ask).unwrap();
        assert_eq!(approved["approve"], true);
        assert!(approved["digest"].is_string());
        assert_eq!(Answer::deny("").to_value(&run, &ask).unwrap(), json!({"deny": "not wanted"}));
    }

    #[test]
    fn questions_and_unknown_outcomes_take_no_approval() {
        for kind in [AskKind::Question, AskKind::Outcome, AskKind::Result] {
            for answer in [Answer::Approve { arguments: None }, Answer::deny("no")] {
                let refused = answer.to_value(&RunId::new("r"), &summary(kind)).unwrap_err();
                assert_eq!(refused.code(), "no_approval");
            }
        }
    }

    #[test]
    fn each_outcome_of_an_effect_is_an_answer_to_its_question() {
        let ask = summary(AskKind::Outcome);
        let done = EffectOutcome::Done(Some(1.into()));
        for outcome in [EffectOutcome::Retry, EffectOutcome::Skip, EffectOutcome::Done(None), done] {
            let value = Answer::Outcome(outcome).to_value(&RunId::new("r"), &ask).unwrap();
            assert!(AskKind::Outcome.takes(&value), "{value}");
        }
    }

    #[test]
    fn what_reads_as_json_is_json() {
        assert_eq!(Answer::written("[1]"), Answer::Value(json!([1])));
        assert_eq!(Answer::written("yes"), Answer::Value(json!("yes")));
    }
}

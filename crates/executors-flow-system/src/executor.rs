//! The two executors: what a flow does, and what a system action does. Neither is seen by the model.

use agent_types::{AskSummary, EventBody, ExitReason, Problem};
use serde_json::{Map, Value};

use crate::config::{OnConflict, OnError, When};
use crate::error::OrchestratorError;
use crate::flows::{Action, ActionKind, Flow};
use crate::session::Phase;
use crate::step::{Step, StepContext, StepFault, USER_MESSAGE};
use crate::turn::Turn;
use crate::words::Sentence;

/// Message of a flow that was cancelled.
const CANCELLED: &str = "cancelled";

/// Message of an action whose code asks the user.
const ASKS: &str = "it asks the user, who cannot be asked there";

/// Message for an effect that was interrupted between its start and its result.
const UNKNOWN: &str =
    "it was interrupted when the process ended, and is not run again: its outcome is unknown";

/// Decision of a flow or a system action on the turn.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Decision {
    /// The turn ends, with a reply or without.
    End { exit: ExitReason, text: Option<String>, error: Option<String> },
    /// The turn is suspended until the user has answered.
    Ask(Vec<AskSummary>),
    /// The turn continues.
    Continue,
}

/// Reason for which a step has no result.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum NoResult {
    Failed(String),
    /// It was begun in an earlier life of the run, or for the same message before; its end is not known.
    Unknown,
    Cancelled,
    /// It waits for answers of the user.
    Asks(Vec<AskSummary>),
}

impl From<StepFault> for NoResult {
    fn from(fault: StepFault) -> Self {
        match fault {
            StepFault::Failed(message) => Self::Failed(message),
            StepFault::Asks(asks) => Self::Asks(asks),
            StepFault::Unknown => Self::Unknown,
        }
    }
}

impl NoResult {
    pub(crate) fn message(&self) -> &str {
        match self {
            Self::Failed(message) => message,
            Self::Unknown => UNKNOWN,
            Self::Cancelled => CANCELLED,
            Self::Asks(_) => ASKS,
        }
    }
}

impl Turn<'_> {
    /// Runs a flow.
    pub(crate) async fn run_flow(
        &mut self,
        flow: &Flow,
        why: &str,
        groups: &Map<String, Value>,
    ) -> Result<Decision, OrchestratorError> {
        let id = flow.id.clone();
        flow.counters.matched();
        self.emit(EventBody::FlowMatched { flow: id.clone(), why: why.to_owned() });
        let finished = EventBody::FlowFinished { flow: id.clone(), silent: flow.silent };
        if self.events.is_recorded(&finished) {
            // A reply that was sent is recorded, and stays as it was.
            let value = self
                .cx
                .recorded_value(|body| matches!(body, EventBody::FlowFinished { flow, .. } if *flow == id));
            let exit = if flow.silent { ExitReason::FlowSilent } else { ExitReason::FlowCompleted };
            let unknown = Decision::End { exit, text: None, error: None };
            return Ok(value.map_or(unknown, |value| self.flow_done(flow, &value)));
        }
        // A failure that was decided stays one: its reply may have been sent.
        let failure = self.cx.recorded(|body| match body {
            EventBody::FlowFailed { flow, message } if *flow == id && message != CANCELLED => {
                Some(message.clone())
            }
            _ => None,
        });
        if let Some(message) = failure {
            return Ok(self.flow_failed(flow, &NoResult::Failed(message)));
        }
        match self.run_step(&format!("flow:{id}"), &flow.step, &flow.mapping, groups).await? {
            Ok(value) => {
                flow.counters.finished();
                self.events.emit_with(finished, Some(&value));
                Ok(self.flow_done(flow, &value))
            }
            Err(NoResult::Asks(asks)) if self.cx.is_answered && !flow.silent => Ok(Decision::Ask(asks)),
            Err(reason) => Ok(self.flow_failed(flow, &reason)),
        }
    }

    /// The reply of a flow that gave a value.
    fn flow_done(&self, flow: &Flow, value: &Value) -> Decision {
        if flow.silent {
            return Decision::End { exit: ExitReason::FlowSilent, text: None, error: None };
        }
        let text = match &flow.reply {
            Some(template) => Some(self.fill(template, value)),
            None => plain_text(value),
        };
        Decision::End { exit: ExitReason::FlowCompleted, text, error: None }
    }

    /// A flow that failed always says so in an event; what the user reads is the file's choice.
    fn flow_failed(&self, flow: &Flow, reason: &NoResult) -> Decision {
        flow.counters.failed();
        let message = reason.message().to_owned();
        self.emit(EventBody::FlowFailed { flow: flow.id.clone(), message: message.clone() });
        if *reason == NoResult::Cancelled {
            return Decision::End { exit: ExitReason::Cancelled, text: None, error: None };
        }
        let text = match &flow.on_error {
            Some(OnError::Continue) => return Decision::Continue,
            Some(OnError::Silent) => None,
            Some(OnError::Reply(text)) => Some(text.clone()),
            None => Some(self.sentence(Sentence::Failed)),
        };
        let text = text.filter(|_| !flow.silent);
        Decision::End {
            exit: ExitReason::ToolError,
            text,
            error: Some(format!("the flow `{}` failed: {message}", flow.id)),
        }
    }

    /// Runs a system action.
    pub(crate) async fn run_action(
        &mut self,
        action: &Action,
        groups: &Map<String, Value>,
    ) -> Result<Decision, OrchestratorError> {
        let id = action.id.clone();
        let ended = |status: &str, message| {
            let (action, status) = (id.clone(), status.to_owned());
            EventBody::SystemAction { action, status, message }
        };
        let result = if self.events.is_recorded(&ended("ok", None)) {
            let is_end = |body: &EventBody| matches!(body, EventBody::SystemAction { action, status, .. } if *action == id && status == "ok");
            Ok(self.cx.recorded_value(is_end).unwrap_or_default())
        } else {
            let mut result = match (self.decided(&id), &action.step) {
                (Some(reason), _) => Err(reason),
                (None, Some(step)) => {
                    self.run_step(&format!("action:{id}"), step, &action.mapping, groups).await?
                }
                (None, None) => Ok(Value::Object(self.mapped(&action.mapping, groups))),
            };
            if action.kind == ActionKind::UpdateProfile
                && let Ok(answer) = &result
            {
                result = self.profile_update(action, answer, groups);
            }
            let (status, message) = match &result {
                Ok(_) => ("ok", None),
                Err(NoResult::Unknown) => ("unknown", Some(UNKNOWN.to_owned())),
                Err(reason) => ("failed", Some(reason.message().to_owned())),
            };
            self.events.emit_with(ended(status, message), result.as_ref().ok());
            result
        };
        match result {
            Ok(value) => Ok(self.action_done(action, &value)),
            Err(NoResult::Cancelled) => {
                Ok(Decision::End { exit: ExitReason::Cancelled, text: None, error: None })
            }
            Err(_) if action.when != When::OnMatch => Ok(Decision::Continue),
            Err(reason) => {
                let text = (!action.silent).then(|| self.sentence(Sentence::Failed));
                let error = Some(format!("the system action `{id}` failed: {}", reason.message()));
                Ok(Decision::End { exit: ExitReason::ToolError, text, error })
            }
        }
    }

    /// Reason for which a system action has no result, if that is recorded: what was decided once stays so.
    fn decided(&self, id: &str) -> Option<NoResult> {
        self.cx.recorded(|body| match body {
            EventBody::SystemAction { action, status, message } if action == id => {
                let message = message.clone().filter(|message| message != CANCELLED)?;
                Some(if status == "unknown" { NoResult::Unknown } else { NoResult::Failed(message) })
            }
            _ => None,
        })
    }

    /// Applies a system action to the session, and gives its reply.
    fn action_done(&mut self, action: &Action, value: &Value) -> Decision {
        let (since, id) = (self.shared.clock.now(), action.id.clone());
        let (exit, sentence) = match action.kind {
            ActionKind::HandOff => {
                let reason = value.get("reason").and_then(Value::as_str).map(str::to_owned);
                self.kept.state.phase = Phase::HandedOver { since, action: id.clone(), reason, person: None };
                self.emit(EventBody::SystemHandedOff { action: id });
                (ExitReason::HandedOff, Some(Sentence::HandedOff))
            }
            ActionKind::Close => {
                self.kept.state.phase = Phase::Closed { since, action: id };
                (ExitReason::Closed, Some(Sentence::Closed))
            }
            ActionKind::UpdateProfile => {
                self.update_profile(value);
                (ExitReason::FlowCompleted, Some(Sentence::Updated))
            }
            ActionKind::Registered => (ExitReason::FlowCompleted, None),
        };
        if action.when != When::OnMatch {
            return Decision::Continue;
        }
        let exit =
            if action.silent && exit == ExitReason::FlowCompleted { ExitReason::FlowSilent } else { exit };
        let text = match (&action.reply, sentence) {
            _ if action.silent => None,
            (Some(template), _) => Some(self.fill(template, value)),
            (None, Some(sentence)) => Some(self.sentence(sentence)),
            (None, None) => plain_text(value),
        };
        Decision::End { exit, text, error: None }
    }

    /// Updates the user's profile with the members of an object.
    fn update_profile(&mut self, value: &Value) {
        if let Value::Object(members) = value {
            self.kept.state.profile.extend(members.clone());
        }
    }

    /// The members of the profile that an action changes: what was said, and what was answered where a mapping says so.
    fn profile_update(
        &self,
        action: &Action,
        answer: &Value,
        groups: &Map<String, Value>,
    ) -> Result<Value, NoResult> {
        let mut new = self.mapped(&action.mapping, groups);
        if action.step.is_some() {
            let pick = |(name, path): (&String, &String)| {
                let found = path.split('.').try_fold(answer, |value, part| match part.parse::<usize>() {
                    Ok(at) if value.is_array() => value.get(at),
                    _ => value.get(part),
                });
                Some((name.clone(), found?.clone()))
            };
            new.extend(action.result_mapping.iter().filter_map(pick));
            if action.mapping.is_empty() && action.result_mapping.is_empty() {
                new.extend(answer.as_object().cloned().unwrap_or_default());
            }
        }
        let known = &self.kept.state.profile;
        let merged =
            new.into_iter().filter_map(|(name, value)| match (known.get(&name), action.on_conflict) {
                (Some(_), OnConflict::Keep) => None,
                (Some(old), OnConflict::Append) => Some((name, appended(old, value))),
                (Some(_), OnConflict::Replace) | (None, _) => Some((name, value)),
            });
        let merged: Map<String, Value> = merged.collect();
        if let Some(schema) = &action.profile {
            let mut whole = known.clone();
            whole.extend(merged.clone());
            let problems = schema.type_json(whole.into()).problems;
            if !problems.is_empty() {
                let message = Problem::messages(&problems);
                return Err(NoResult::Failed(format!("the profile does not fit its schema: {message}")));
            }
        }
        Ok(Value::Object(merged))
    }

    /// Does what a step does, once for each message.
    async fn run_step(
        &mut self,
        name: &str,
        step: &Step,
        mapping: &crate::mapping::Mapping,
        groups: &Map<String, Value>,
    ) -> Result<Result<Value, NoResult>, OrchestratorError> {
        let log = self.cx.resume.as_ref().and_then(|resume| step.log_inside(name, &resume.log));
        // What happened inside the step is in the log: it resumes there, and no effect of it is begun again.
        if log.is_none() && !step.is_read_only() && !self.begin_effect(name).await? {
            return Ok(Err(NoResult::Unknown));
        }
        let cx = StepContext { log, ..self.step_context() };
        let context = cx.context.clone();
        let given = &self.message.parameters;
        let sources =
            crate::mapping::Sources { message: &self.message.text, groups, context: &context, given };
        let running = Box::pin(step.run(name, mapping, sources, &cx));
        let cancelled = std::pin::pin!(self.cx.cancel.cancelled());
        Ok(match futures::future::select(running, cancelled).await {
            futures::future::Either::Left((result, _)) => result.map_err(NoResult::from),
            futures::future::Either::Right(_) => Err(NoResult::Cancelled),
        })
    }

    fn mapped(&self, mapping: &crate::mapping::Mapping, groups: &Map<String, Value>) -> Map<String, Value> {
        let context = self.context();
        let given = &self.message.parameters;
        mapping.fill(crate::mapping::Sources {
            message: &self.message.text,
            groups,
            context: &context,
            given,
        })
    }

    /// A reply; what it looks for and does not find is empty, with a warning.
    pub(crate) fn fill(&self, template: &http_caller::ReplyTemplate, value: &Value) -> String {
        let values = Map::from_iter([
            ("result".to_owned(), value.clone()),
            (USER_MESSAGE.to_owned(), self.message.text.as_str().into()),
            ("$ctx".to_owned(), self.context().into()),
        ]);
        let (text, warnings) = template.fill(&values);
        for message in warnings {
            self.emit(EventBody::AgentWarning { kind: "response_template".into(), message });
        }
        text
    }
}

/// A value with another one behind it, once each.
fn appended(old: &Value, new: Value) -> Value {
    let mut all = match old {
        Value::Array(all) => all.clone(),
        one => vec![one.clone()],
    };
    if !all.contains(&new) {
        all.push(new);
    }
    Value::Array(all)
}

/// Reply for a result: a text as it is, anything else as JSON, `None` for null.
fn plain_text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()).filter(|text| !text.is_empty()),
        other => Some(other.to_string()),
    }
}

//! Answer in one piece, and the outcome of a run in the terms of the interface.

use std::sync::Arc;

use agent_types::{AskKind, EventRole, ExitReason, RunId, TraceEvent, Usage};
use axum::Json;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde_json::{Value, json};
use weft_runs::{RunHandle, RunOutcome, RunsError};

use super::CancelOnDrop;
use super::content::Content;
use super::request::Form;
use crate::app::App;
use crate::problem::Problem;

/// Waits for the end of a run and gives its answer. A client that goes away ends the run.
pub(super) async fn answer(
    app: &Arc<App>,
    agent: String,
    begun: RunHandle,
    form: Form,
    mut content: Content,
) -> Result<Response, Problem> {
    let mut guard = CancelOnDrop::new(app, &begun);
    let RunHandle { id: run, mut events, outcome, .. } = begun;
    let (mut text, mut steps) = (String::new(), Vec::new());
    while let Some(batch) = events.next().await? {
        for event in &batch {
            text.push_str(&content.take(event).concat());
            if form.steps && is_step(event) {
                steps.push(serde_json::to_value(event).unwrap_or_default());
            }
        }
    }
    let ended = outcome.await;
    guard.has_ended = true;
    let end = end_of(ended, &run)?;
    text.push_str(&remaining_text(&end, &run, &mut content).concat());
    let mut completion = json!({
        "id": completion_id(&run),
        "object": "chat.completion",
        "created": app.clock.now().as_millis() / 1000,
        "model": agent,
        "choices": [{
            "index": 0,
            "message": {"role": "assistant", "content": text, "refusal": null},
            "logprobs": null,
            "finish_reason": finish_reason(&end),
        }],
        "usage": usage(end.usage()),
    });
    if let Some(mut weft) = extension(&run, &end, form) {
        if form.steps {
            weft["steps"] = Value::Array(steps);
        }
        completion["weft"] = weft;
    }
    Ok(Json(completion).into_response())
}

pub(super) fn completion_id(run: &RunId) -> String {
    format!("chatcmpl-{run}")
}

/// Returns `true` for an event that is a step; pieces of texts are not.
pub(super) fn is_step(event: &TraceEvent) -> bool {
    event.body.info().role != EventRole::Piece
}

/// Outcome of the run, or the problem for which no answer exists.
pub(super) fn end_of(ended: Result<RunOutcome, RunsError>, run: &RunId) -> Result<RunOutcome, Problem> {
    let end = match ended {
        Ok(end @ (RunOutcome::Agent(_) | RunOutcome::Session(_))) => end,
        Err(RunsError::Left { .. }) | Ok(_) => {
            let detail = format!("the server ends; the run `{run}` can be resumed");
            let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "shutting_down", detail);
            return Err(problem.with("run", run.as_str()));
        }
        Err(error) => {
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            let problem = Problem::new(status, error.code().to_owned(), error.to_string());
            return Err(problem.with("run", run.as_str()));
        }
    };
    if end.is_failed_flow() {
        return Ok(end);
    }
    let exit = exit_of(&end);
    let status = match exit {
        ExitReason::LlmFailed => StatusCode::BAD_GATEWAY,
        ExitReason::Cancelled => StatusCode::CONFLICT,
        ExitReason::ToolError | ExitReason::SelfCorrectionFailed | ExitReason::LoopDetected => {
            StatusCode::INTERNAL_SERVER_ERROR
        }
        _ => return Ok(end),
    };
    let detail = end.error().unwrap_or_else(|| format!("the run ended: {exit}"));
    Err(Problem::new(status, exit.as_str(), detail).with("run", run.as_str()))
}

/// Exit reason of a run, which runs of agents always have.
pub(super) fn exit_of(end: &RunOutcome) -> ExitReason {
    end.exit().unwrap_or(ExitReason::Completed)
}

/// Text that is still to be sent when the run has ended: the final answer where none of it was streamed, and open
/// questions.
pub(super) fn remaining_text(end: &RunOutcome, run: &RunId, content: &mut Content) -> Vec<String> {
    let mut words = if content.is_empty() { content.end(end.text()) } else { Vec::new() };
    for pending in end.pending() {
        let what = match &pending.prompt {
            Some(prompt) => prompt.clone(),
            None => format!("`{}` must be approved.", pending.tool),
        };
        let how = match pending.kind {
            AskKind::Approval => "approve",
            AskKind::Result => continue,
            _ => "answer",
        };
        let gap = if content.is_empty() && words.is_empty() { "" } else { "\n\n" };
        words.push(format!("{gap}{what} (`weft runs {how} {run} --ask {}`)", pending.ask));
    }
    words
}

pub(super) fn finish_reason(end: &RunOutcome) -> &'static str {
    match exit_of(end) {
        ExitReason::MaxTurns | ExitReason::BudgetExceeded => "length",
        ExitReason::GuardrailBlocked => "content_filter",
        ExitReason::Completed => match end.incomplete() {
            None => "stop",
            Some("content_filter" | "refusal") => "content_filter",
            Some(_) => "length",
        },
        _ => "stop",
    }
}

pub(super) fn usage(usage: Usage) -> Value {
    let mut shown = json!({"prompt_tokens": usage.input, "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
    });
    if usage.cached > 0 {
        shown["prompt_tokens_details"] = json!({"cached_tokens": usage.cached});
    }
    shown
}

/// Fields of the answer that this server adds where they are asked for, or where the answer is that of a failure.
pub(super) fn extension(run: &RunId, end: &RunOutcome, form: Form) -> Option<Value> {
    let mut weft = json!({"run": run, "exit": exit_of(end), "pending": end.pending()});
    if end.is_failed_flow() {
        weft["failed"] = true.into();
    }
    (form.steps || end.is_failed_flow()).then_some(weft)
}

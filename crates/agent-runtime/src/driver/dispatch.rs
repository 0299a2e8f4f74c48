//! One call: its start, its attempts, and its result.

use std::sync::Arc;
use std::time::Duration;

use agent_types::{
    AskSummary, Backoff, BudgetExceeded, BudgetKey, EventBody, ExitReason, Observation, ToolStatus,
    estimate_tokens,
};
use futures::future::{Either, select};
use serde_json::Value;
use tool_registry::{CallEnd, CallOutcome, Tool, ToolContext, ToolError, ToolOutput};
use tool_system::BlobSource;

use super::call_env::CallEnv;
use super::context::SHARED;
use super::results::{images, shorten_end, shortened, within};
use super::tasks::task_change;
use super::trace::Trace;
use crate::machine::{CallDisposition, CallOrder, CallResult, End, PendingInner, PlannedCall, observe};
use crate::resume::{PastCall, record_of};

/// Number of bytes that frame a result.
const FRAME: usize = 48;

/// Tokens of what stands around a result that is cut: its frame, and the pointer to the whole.
const NOTE_TOKENS: usize = 64;

/// Bytes of a result that are shown however full the window is.
const LEAST_SHOWN: usize = 240;

/// Result of a call that the log has, or whose outcome a user stated.
pub(super) fn known(call: &PlannedCall, env: &CallEnv) -> Option<CallResult> {
    let index = call.call.index;
    let log = env.trace.log();
    if let Some(PastCall::Done(past)) = log.call(&call.call.id) {
        if past.status != ToolStatus::Refused {
            // It was counted when it ran; a limit that it reached was reported then.
            env.budget.add(BudgetKey::ToolCalls, 1 + past.retries);
        }
        env.budget.add(BudgetKey::Tokens, past.usage.total);
        env.meter.add(past.usage);
        let result = CallResult::new(index, past.observation.clone(), past.status);
        let (value, attachments) = (past.value.clone(), past.attachments.clone());
        let end = past.end.clone();
        let output = past.output.clone();
        return Some(CallResult { value, task: past.task.clone(), attachments, end, output, ..result });
    }
    stated(call, env)
}

/// Result of an interrupted call whose outcome the user stated. The run resumes once with it; later the log has it, with
/// the observation of the call.
fn stated(call: &PlannedCall, env: &CallEnv) -> Option<CallResult> {
    let CallDisposition::Reconcile { outcome: Some(answer), .. } = &call.disposition else { return None };
    let tool = call.call.tool.as_str();
    let outcome = answer.get("outcome").and_then(Value::as_str).or(answer.as_str());
    let ((mut end, status), output) = match outcome {
        Some("done") => {
            let value = answer.get("value").cloned().unwrap_or_default();
            let output = env.keeps_output.then(|| value.clone());
            (observe::of_end(&call.call.id, tool, &CallEnd::Ok(ToolOutput::Json(value))), output)
        }
        Some("skip") => {
            let reason = "skipped after an interruption";
            ((observe::refused(&call.call.id, tool, reason), ToolStatus::Refused), None)
        }
        _ => return None,
    };
    note_edit(&mut end, call);
    env.trace.log().resume();
    if status != ToolStatus::Refused {
        // The call was allowed before it was interrupted, and each start counts.
        env.budget.add(BudgetKey::ToolCalls, interrupted(call, env).max(1));
    }
    let result = CallResult { output, ..CallResult::new(call.call.index, end, status) };
    env.trace.log().note_stated(&call.call.id, record_of(&result));
    Some(result)
}

/// Starts of a call that were interrupted: each was an attempt.
fn interrupted(call: &PlannedCall, env: &CallEnv) -> u64 {
    env.trace.log().call(&call.call.id).map_or(0, PastCall::starts).into()
}

/// Emits the start of a call, or refuses it.
pub(super) fn start(order: &CallOrder, env: &CallEnv) -> Result<Trace, Box<CallResult>> {
    let CallOrder { call: planned, reason } = order;
    let call = &planned.call;
    if let Some(place) = env.trace.log().waits(&call.id) {
        // The start was emitted before; the call resumes with the answer.
        let _ = env.budget.take(BudgetKey::ToolCalls);
        return Ok(env.trace.at(place.clone()));
    }
    let trace = env.trace.span(|place| place.call = Some(call.id.clone()));
    let tool = call.tool.clone();
    let reason = (!reason.is_empty()).then(|| reason.clone());
    trace.emit(EventBody::AgentToolChosen { tool: tool.clone(), reason });
    let refusal = match &planned.disposition {
        CallDisposition::Refuse(reason) => Some((reason.clone(), None)),
        CallDisposition::Run | CallDisposition::Ask | CallDisposition::Reconcile { .. } => {
            env.budget.add(BudgetKey::ToolCalls, interrupted(planned, env));
            let taken = env.budget.take(BudgetKey::ToolCalls);
            taken.err().map(|exceeded| (exceeded.to_string(), Some(exceeded)))
        }
    };
    let Some((reason, exceeded)) = refusal else {
        trace.emit(EventBody::AgentToolStarted { tool });
        return Ok(trace);
    };
    let observation = observe::refused(&call.id, tool.as_str(), &reason);
    let result = CallResult::new(call.index, observation, ToolStatus::Refused);
    let refused = CallResult { end: exceeded.map(End::budget_exceeded), ..result };
    emit_finished(&trace, planned, &refused, Shown { summary: shortened(&reason), ..Shown::default() });
    Err(Box::new(refused))
}

/// Runs a call to its result.
pub(super) async fn run_call(
    call: PlannedCall,
    tool: Tool,
    trace: Trace,
    cx: ToolContext,
    (tokens, keeps_output): (Option<usize>, bool),
) -> CallResult {
    let (index, id, name) = (call.call.index, &call.call.id, call.call.tool.as_str());
    let safe = match trace.sink().persister().filter(|_| !call.call.facts.is_read_only) {
        // No effect begins before all that led to it is safe.
        Some(persister) => {
            let (safe, cancelled) =
                (std::pin::pin!(persister.durable()), std::pin::pin!(cx.cancel.cancelled()));
            match select(safe, cancelled).await {
                Either::Left((safe, _)) => safe,
                Either::Right(_) => {
                    let (observation, status) = observe::of_end(id, name, &CallEnd::Cancelled);
                    return CallResult::new(index, observation, status);
                }
            }
        }
        None => Ok(()),
    };
    if let Err(fault) = safe {
        let error = ToolError::failed("what led to the call could not be stored").with_detail(fault.message);
        let end = CallEnd::Failed(error);
        let (observation, status) = observe::of_end(id, name, &end);
        return CallResult::new(index, observation, status);
    }
    let (budget, blobs) = (cx.budget.clone(), cx.services.get::<dyn BlobSource>());
    let Attempts { outcome: CallOutcome { mut end, took }, exceeded, retries } =
        attempts(&call, &tool, cx).await;
    if let Some(waits) = pending_inside(&mut end) {
        let (observation, status) = observe::of_end(id, name, &end);
        return CallResult { waits: Some(waits), ..CallResult::new(index, observation, status) };
    }
    let stop = match &end {
        CallEnd::Failed(error) if error.fatal => {
            Some(End::fatal(&call.call.tool, error.message_for_model.clone()))
        }
        CallEnd::Failed(error) if error.code == Some(ExitReason::BudgetExceeded.as_str()) => {
            SHARED.iter().find_map(|key| budget.spent(*key)).map(End::budget_exceeded)
        }
        _ => exceeded.map(End::budget_exceeded),
    };
    let task = task_change(&call.call, &tool, &end);
    let (value, attachments) = match &end {
        CallEnd::Ok(ToolOutput::Ended(value)) => (Some(value.clone()), Vec::new()),
        CallEnd::Ok(output) => (None, images(output)),
        _ => (None, Vec::new()),
    };
    let output = if keeps_output { output_of(&end) } else { None };
    let limit = limit_of(&tool, &end, tokens);
    let fault = end.fault();
    let (observation, status, shown) = observation(&call, limit, end, blobs).await;
    let result = CallResult::new(index, observation, status);
    let result = CallResult { value, task, attachments, end: stop, retries, fault, output, ..result };
    emit_finished(&trace, &call, &result, Shown { took, ..shown });
    result
}

/// The whole output of a call that succeeded.
fn output_of(end: &CallEnd) -> Option<Value> {
    match end {
        CallEnd::Ok(ToolOutput::Json(value) | ToolOutput::Ended(value)) => Some(value.clone()),
        CallEnd::Ok(output) => Some(output.text().into()),
        _ => None,
    }
}

/// Pending questions inside a call that is not complete.
fn pending_inside(end: &mut CallEnd) -> Option<PendingInner> {
    let CallEnd::Failed(error) = end else { return None };
    let asks: Vec<AskSummary> = std::mem::take(&mut error.asks);
    let exit = [ExitReason::AwaitingResult, ExitReason::NeedsReconciliation]
        .into_iter()
        .find(|exit| error.code == Some(exit.as_str()))
        .unwrap_or(ExitReason::AwaitingApproval);
    (!asks.is_empty()).then_some(PendingInner { exit, asks })
}

/// Bytes of a result that the model may be shown: the limit of its tool, and what fits beside the conversation.
fn limit_of(tool: &Tool, end: &CallEnd, tokens: Option<usize>) -> usize {
    let limit = tool.settings().result_limit;
    let (Some(tokens), CallEnd::Ok(output)) = (tokens, end) else { return limit };
    let shown = output.shown();
    let needed = estimate_tokens(&shown).max(1);
    if needed + NOTE_TOKENS <= tokens {
        return limit;
    }
    let fitting = shown.len().saturating_mul(tokens.saturating_sub(NOTE_TOKENS)) / needed;
    limit.min(fitting.max(LEAST_SHOWN))
}

/// The observation of a call that is over, within a limit.
async fn observation(
    call: &PlannedCall,
    limit: usize,
    mut end: CallEnd,
    blobs: Option<Arc<dyn BlobSource>>,
) -> (Observation, ToolStatus, Shown) {
    let name = call.call.tool.as_str();
    let mut blob = None;
    if let CallEnd::Ok(output) = end {
        let (output, kept) = within(output, limit.saturating_sub(FRAME + name.len()), blobs).await;
        (end, blob) = (CallEnd::Ok(output), kept);
    }
    let (mut observation, status) = observe::of_end(&call.call.id, name, &end);
    shorten_end(&mut observation.text, limit);
    let summary = match &end {
        CallEnd::Ok(output) => shortened(&output.shown()),
        _ => shortened(&observation.text),
    };
    if let Some(blob) = &blob {
        let whole = format!("the whole result is at blob:{blob}, read it with system:read_blob");
        observation.text.extend(["\nNote - ", &whole]);
    }
    note_edit(&mut observation, call);
    (observation, status, Shown { blob, summary, took: Duration::ZERO })
}

/// Adds to the observation of a call that the user changed its arguments.
fn note_edit(observation: &mut Observation, call: &PlannedCall) {
    if call.is_edited {
        let arguments = Value::Object((*call.call.arguments).clone()).to_string();
        observation.text.extend(["\nNote - arguments changed by the user: ", &arguments]);
    }
}

/// Outcome of a call after its attempts.
struct Attempts {
    outcome: CallOutcome,
    /// The limit that ended the attempts.
    exceeded: Option<BudgetExceeded>,
    /// Attempts after the first one.
    retries: u64,
}

/// Runs the call, with retries where its tool's settings allow them; each attempt counts. If the budget ends the
/// attempts, the error is returned with the last failure.
async fn attempts(call: &PlannedCall, tool: &Tool, cx: ToolContext) -> Attempts {
    let retry = tool.settings().retry;
    let retries = retry.map_or(0, |retry| retry.max);
    let backoff = Backoff::new(retry.map_or(Duration::ZERO, |retry| retry.backoff));
    let mut failures = 0;
    let mut took = Duration::ZERO;
    loop {
        let mut outcome = tool.invoke((*call.call.arguments).clone(), cx.clone()).await;
        took += outcome.took;
        outcome.took = took;
        let again = match &outcome.end {
            CallEnd::Failed(error) if error.retryable && error.asks.is_empty() => Some(error.retry_after),
            CallEnd::TimedOut { .. } if call.call.facts.is_read_only => Some(None),
            _ => None,
        };
        let Some(after) = again.filter(|_| failures < retries) else {
            return Attempts { outcome, exceeded: None, retries: failures.into() };
        };
        if let Err(exceeded) = cx.budget.take(BudgetKey::ToolCalls) {
            return Attempts { outcome, exceeded: Some(exceeded), retries: failures.into() };
        }
        failures += 1;
        let pause = after.unwrap_or_else(|| backoff.after(failures));
        let slept = cx.clock.sleep(pause);
        let cancelled = std::pin::pin!(cx.cancel.cancelled());
        if let futures::future::Either::Right(_) = futures::future::select(slept, cancelled).await {
            let outcome = CallOutcome { end: CallEnd::Cancelled, took };
            return Attempts { outcome, exceeded: None, retries: failures.into() };
        }
    }
}

/// Facts about a result for its event.
#[derive(Default)]
struct Shown {
    blob: Option<String>,
    summary: String,
    took: Duration,
}

fn emit_finished(trace: &Trace, call: &PlannedCall, result: &CallResult, shown: Shown) {
    let Shown { blob, summary, took } = shown;
    let body = EventBody::AgentToolFinished {
        tool: call.call.tool.clone(),
        status: result.status,
        summary,
        blob,
        ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        error: result.fault.clone(),
    };
    trace.emit_kept(body, || record_of(result));
}

//! Runs the calls of one turn: read-only neighbours side by side, others in order.

use std::sync::Arc;
use std::time::Duration;

use agent_types::{
    AskSummary, Backoff, Budget, BudgetExceeded, BudgetKey, EventBody, EventLocation, ExitReason,
    Observation, ToolStatus,
};
use llm_provider::Attachment;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tool_registry::{CallEnd, CallOutcome, Part, ToolContext, ToolError, ToolOutput, UsageMeter};
use tool_system::BlobSource;

use crate::end::End;
use crate::observe;
use crate::plan::{CallDisposition, PlannedCall};
use crate::resume::{PastCall, record_of};
use crate::subagent::SHARED;
use crate::tasks::TaskChange;
use crate::trace::Trace;

/// Longest summary of a result in an event, in characters.
const MAX_SUMMARY: usize = 200;

/// Number of bytes that frame a result.
const FRAME: usize = 48;

/// Bytes of the words between the beginning and the end of a long result.
const GAP: usize = 48;

/// A call that is over.
pub(crate) struct Finished {
    pub(crate) index: usize,
    pub(crate) observation: Observation,
    pub(crate) status: ToolStatus,
    /// The value that the call ends the run with.
    pub(crate) value: Option<Value>,
    /// Change of the tasks that the run waits for.
    pub(crate) task: Option<TaskChange>,
    /// Images of its result.
    pub(crate) attachments: Vec<Attachment>,
    /// The call is not complete: a question inside it is pending.
    pub(crate) waits: Option<PendingInner>,
    /// Reason for ending the run with this call.
    pub(crate) end: Option<End>,
}

/// Pending questions of a call that is not complete.
pub(crate) struct PendingInner {
    /// Exit reason of the inner run.
    pub(crate) exit: ExitReason,
    /// Questions inside it.
    pub(crate) asks: Vec<AskSummary>,
}

impl PendingInner {
    fn from_error(error: &mut ToolError) -> Option<Self> {
        let asks = std::mem::take(&mut error.asks);
        let exit = [ExitReason::AwaitingResult, ExitReason::NeedsReconciliation]
            .into_iter()
            .find(|exit| error.code == Some(exit.as_str()))
            .unwrap_or(ExitReason::AwaitingApproval);
        (!asks.is_empty()).then_some(Self { exit, asks })
    }
}

impl Finished {
    pub(crate) fn new(index: usize, observation: Observation, status: ToolStatus) -> Self {
        let attachments = Vec::new();
        Self { index, observation, status, value: None, task: None, attachments, waits: None, end: None }
    }
}

/// Counters shared by a tree of agents and workflows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tree<'t> {
    pub(crate) budget: &'t Budget,
    pub(crate) meter: &'t UsageMeter,
}

/// Runs the calls and gives their results in the order of the block.
pub(crate) async fn run(
    planned: Vec<PlannedCall>,
    trace: &Trace,
    tree: Tree<'_>,
    reason: &str,
    block: &CancellationToken,
    context: impl Fn(&PlannedCall, EventLocation) -> ToolContext,
) -> Vec<Finished> {
    let mut finished = Vec::with_capacity(planned.len());
    let mut running = JoinSet::new();
    for call in planned {
        if let Some(known) = known(&call, trace, tree) {
            finished.push(known);
            continue;
        }
        // From here on the run does what its log does not have.
        trace.log().resume();
        let read_only = call.tool.definition().annotations.read_only;
        if !read_only {
            collect(&mut running, &mut finished, block).await;
        }
        if block.is_cancelled() {
            finished.push(not_started(&call));
            continue;
        }
        if !read_only && finished.iter().any(|call| call.waits.is_some()) {
            // Whatever changes something comes behind what is before it.
            continue;
        }
        match start(&call, trace, tree.budget, reason) {
            Err(refused) => finished.push(*refused),
            Ok(trace) => {
                let cx = context(&call, trace.place());
                running.spawn(run_call(call, trace, cx));
            }
        }
        if !read_only {
            collect(&mut running, &mut finished, block).await;
        }
    }
    collect(&mut running, &mut finished, block).await;
    finished.sort_by_key(|call| call.index);
    finished
}

/// Result of a call that the log has, or whose outcome a user stated.
fn known(call: &PlannedCall, trace: &Trace, tree: Tree<'_>) -> Option<Finished> {
    let index = call.call.index;
    if let Some(PastCall::Done(past)) = trace.log().call(&call.call.id) {
        if past.status != ToolStatus::Refused {
            // It was counted when it ran; a limit that it reached was reported then.
            let _ = tree.budget.take(BudgetKey::ToolCalls);
        }
        tree.budget.add(BudgetKey::Tokens, past.usage.total);
        tree.meter.add(past.usage);
        let finished = Finished::new(index, past.observation.clone(), past.status);
        let (value, attachments) = (past.value.clone(), past.attachments.clone());
        return Some(Finished { value, task: past.task.clone(), attachments, ..finished });
    }
    let CallDisposition::Reconcile(ask) = &call.verdict else { return None };
    let answer = trace.log().answer(ask)?;
    let tool = call.call.tool.as_str();
    let outcome = answer.get("outcome").and_then(Value::as_str).or(answer.as_str());
    let (end, status) = match outcome {
        Some("done") => {
            let value = answer.get("value").cloned().unwrap_or_default();
            observe::of_end(&call.call.id, tool, &CallEnd::Ok(ToolOutput::Json(value)))
        }
        Some("skip") => {
            let reason = "skipped after an interruption";
            (observe::refused(&call.call.id, tool, reason), ToolStatus::Refused)
        }
        _ => return None,
    };
    trace.log().resume();
    Some(Finished::new(index, end, status))
}

/// A call behind one that ended the run, or behind the end of the run.
fn not_started(call: &PlannedCall) -> Finished {
    let observation = observe::refused(&call.call.id, call.call.tool.as_str(), "the run ended before it");
    Finished::new(call.call.index, observation, ToolStatus::Refused)
}

async fn collect(running: &mut JoinSet<Finished>, finished: &mut Vec<Finished>, block: &CancellationToken) {
    while let Some(joined) = running.join_next().await {
        // A call's own panic is its outcome, so a task that fails was dropped with the run.
        let Ok(call) = joined else { continue };
        if call.end.as_ref().is_some_and(|end| end.exit == ExitReason::ToolError) {
            block.cancel();
        }
        finished.push(call);
    }
}

/// Emits the start of a call, or refuses it.
fn start(call: &PlannedCall, trace: &Trace, budget: &Budget, reason: &str) -> Result<Trace, Box<Finished>> {
    if let Some(place) = trace.log().waits(&call.call.id) {
        // The start was emitted before; the call resumes with the answer.
        let _ = budget.take(BudgetKey::ToolCalls);
        return Ok(trace.at(place.clone()));
    }
    let trace = trace.span(|place| place.call = Some(call.call.id.clone()));
    let tool = call.call.tool.clone();
    let reason = (!reason.is_empty()).then(|| reason.to_owned());
    trace.emit(EventBody::AgentToolChosen { tool: tool.clone(), reason });
    let refusal = match &call.verdict {
        CallDisposition::Refuse(reason) => Some((reason.clone(), None)),
        CallDisposition::Run | CallDisposition::Ask | CallDisposition::Reconcile(_) => {
            budget.take(BudgetKey::ToolCalls).err().map(|exceeded| (exceeded.to_string(), Some(exceeded)))
        }
    };
    let Some((reason, exceeded)) = refusal else {
        trace.emit(EventBody::AgentToolStarted { tool });
        return Ok(trace);
    };
    let observation = observe::refused(&call.call.id, tool.as_str(), &reason);
    let index = call.call.index;
    let status = ToolStatus::Refused;
    let refused =
        Finished { end: exceeded.map(End::budget_exceeded), ..Finished::new(index, observation, status) };
    emit_finished(&trace, call, &refused, None, shortened(&reason), Duration::ZERO);
    Err(Box::new(refused))
}

async fn run_call(call: PlannedCall, trace: Trace, cx: ToolContext) -> Finished {
    let blobs = cx.services.get::<dyn BlobSource>();
    let tool = call.call.tool.as_str();
    let safe = match trace.sink().keeper().filter(|_| !call.tool.definition().annotations.read_only) {
        // No effect begins before all that led to it is safe.
        Some(keeper) => keeper.durable().await,
        None => Ok(()),
    };
    if let Err(fault) = safe {
        let (observation, status) =
            observe::of_end(&call.call.id, tool, &CallEnd::Failed(ToolError::failed(fault.message)));
        return Finished::new(call.call.index, observation, status);
    }
    let budget = cx.budget.clone();
    let (CallOutcome { mut end, took }, exceeded) = attempts(&call, cx).await;
    if let CallEnd::Failed(error) = &mut end
        && let Some(waits) = PendingInner::from_error(error)
    {
        let (observation, status) = observe::of_end(&call.call.id, tool, &end);
        return Finished { waits: Some(waits), ..Finished::new(call.call.index, observation, status) };
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
    let task = TaskChange::from_call(&call, &end);
    let value = match &end {
        CallEnd::Ok(ToolOutput::Ended(value)) => Some(value.clone()),
        _ => None,
    };
    let attachments = match &end {
        CallEnd::Ok(ToolOutput::Parts(parts)) => parts.iter().filter_map(image).collect(),
        _ => Vec::new(),
    };
    let limit = call.tool.settings().result_limit;
    let mut blob = None;
    if let CallEnd::Ok(output) = end {
        let (output, kept) = within(output, limit.saturating_sub(FRAME + tool.len()), blobs).await;
        (end, blob) = (CallEnd::Ok(output), kept);
    }
    let (mut observation, status) = observe::of_end(&call.call.id, tool, &end);
    shorten_end(&mut observation.text, limit);
    let summary = match &end {
        CallEnd::Ok(output) => shortened(&output.shown()),
        _ => shortened(&observation.text),
    };
    if let Some(blob) = &blob {
        let whole = format!("the whole result is at blob:{blob}, read it with system:read_blob");
        observation.text.extend(["\nNote - ", &whole]);
    }
    if call.edited {
        let arguments = Value::Object(call.call.arguments.clone()).to_string();
        observation.text.extend(["\nNote - arguments changed by the user: ", &arguments]);
    }
    let finished = Finished {
        value,
        task,
        attachments,
        end: stop,
        ..Finished::new(call.call.index, observation, status)
    };
    emit_finished(&trace, &call, &finished, blob, summary, took);
    finished
}

/// The image that a part is: its bytes in Base64, or where they are.
fn image(part: &Part) -> Option<Attachment> {
    let Part::Image { image, mime } = part else { return None };
    let is_address = ["data:", "http://", "https://"].iter().any(|scheme| image.starts_with(scheme));
    Some(if is_address {
        Attachment::from_url(mime.as_str(), image.as_str())
    } else {
        Attachment::from_base64(mime.as_str(), image.as_str())
    })
}

/// Runs the call, with retries where its tool's settings allow them; each attempt counts. If the budget ends the
/// attempts, the error is returned with the last failure.
async fn attempts(call: &PlannedCall, cx: ToolContext) -> (CallOutcome, Option<BudgetExceeded>) {
    let retry = call.tool.settings().retry;
    let retries = retry.map_or(0, |retry| retry.max);
    let backoff = Backoff::new(retry.map_or(Duration::ZERO, |retry| retry.backoff));
    let mut failures = 0;
    let mut took = Duration::ZERO;
    loop {
        let mut outcome = call.tool.invoke(call.call.arguments.clone(), cx.clone()).await;
        took += outcome.took;
        outcome.took = took;
        let again = match &outcome.end {
            CallEnd::Failed(error) if error.retryable && error.asks.is_empty() => Some(error.retry_after),
            CallEnd::TimedOut { .. } if call.tool.definition().annotations.read_only => Some(None),
            _ => None,
        };
        let Some(after) = again.filter(|_| failures < retries) else { return (outcome, None) };
        if let Err(exceeded) = cx.budget.take(BudgetKey::ToolCalls) {
            return (outcome, Some(exceeded));
        }
        failures += 1;
        let pause = after.unwrap_or_else(|| backoff.after(failures));
        let slept = cx.clock.sleep(pause);
        let cancelled = std::pin::pin!(cx.cancel.cancelled());
        if let futures::future::Either::Right(_) = futures::future::select(slept, cancelled).await {
            return (CallOutcome { end: CallEnd::Cancelled, took }, None);
        }
    }
}

/// Limits a result to `limit`: of a longer one its beginning and its end stay, and the whole is stored as a blob.
async fn within(
    output: ToolOutput,
    limit: usize,
    blobs: Option<Arc<dyn BlobSource>>,
) -> (ToolOutput, Option<String>) {
    if output.shown().len() <= limit {
        return (output, None);
    }
    let whole = output.into_text();
    let head = whole.floor_char_boundary(limit - limit / 4);
    let tail = whole.ceil_char_boundary(whole.len() - (limit / 4).saturating_sub(GAP));
    let gap = tail - head;
    let text = format!("{}… ({gap} bytes left out) …{}", &whole[..head], &whole[tail..]);
    let blob = match blobs {
        Some(blobs) => blobs.put(whole.into_bytes()).await.ok(),
        None => None,
    };
    (ToolOutput::Text(text), blob)
}

fn emit_finished(
    trace: &Trace,
    call: &PlannedCall,
    finished: &Finished,
    blob: Option<String>,
    summary: String,
    took: Duration,
) {
    let Finished { observation, status, value, task, attachments, .. } = finished;
    let body = EventBody::AgentToolFinished {
        tool: call.call.tool.clone(),
        status: *status,
        summary,
        blob,
        ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
    };
    trace.emit_kept(body, || record_of(observation, value.as_ref(), task.as_ref(), attachments));
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_SUMMARY) {
        Some((end, _)) => format!("{}…", &text[..end].trim_end()),
        None => text.to_owned(),
    }
}

/// Cuts what is longer than the model should be shown, and says how much is missing.
fn shorten_end(text: &mut String, limit: usize) {
    if text.len() <= limit {
        return;
    }
    let end = text.floor_char_boundary(limit);
    let missing = text.len() - end;
    text.truncate(end);
    text.extend(["… (", &missing.to_string(), " more bytes)"]);
}

//! Runs the calls of one turn: read-only neighbours side by side, others in order.

use std::sync::Arc;
use std::time::Duration;

use agent_types::{AskSummary, Budget, BudgetKey, EventBody, Observation, Place, ToolStatus};
use serde_json::Value;
use tokio::task::JoinSet;
use tool_registry::{BlobSource, CallEnd, CallOutcome, ToolContext, ToolError, ToolOutput};

use crate::driver::Trace;
use crate::observe;
use crate::plan::{PlannedCall, Verdict};
use crate::resume::{PastCall, record_of};

/// Longest summary of a result in an event, in characters.
const MAX_SUMMARY: usize = 200;

/// Bytes of the words around a result.
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
    /// Where the whole of a long result is, as SHA-256.
    pub(crate) blob: Option<String>,
    /// It is not over: people must answer these first.
    pub(crate) asks: Vec<AskSummary>,
}

/// Runs the calls and gives their results in the order of the block.
pub(crate) async fn run(
    planned: Vec<PlannedCall>,
    trace: &Trace,
    budget: &Budget,
    reason: &str,
    context: impl Fn(&PlannedCall, Place) -> ToolContext,
) -> Vec<Finished> {
    let mut finished = Vec::with_capacity(planned.len());
    let mut running = JoinSet::new();
    for call in planned {
        if let Some(known) = known(&call, trace, budget) {
            finished.push(known);
            continue;
        }
        // From here on the run does what its log does not have.
        trace.log().go_on();
        let read_only = call.tool.definition().annotations.read_only;
        if !read_only {
            collect(&mut running, &mut finished).await;
        }
        match start(&call, trace, budget, reason) {
            Err(refused) => finished.push(*refused),
            Ok(trace) => {
                let cx = context(&call, trace.place());
                running.spawn(one(call, trace, cx));
            }
        }
        if !read_only {
            collect(&mut running, &mut finished).await;
        }
    }
    collect(&mut running, &mut finished).await;
    finished.sort_by_key(|call| call.index);
    finished
}

/// A call that the log has, or of which a person tells what became.
fn known(call: &PlannedCall, trace: &Trace, budget: &Budget) -> Option<Finished> {
    let index = call.call.index;
    if let Some(PastCall::Done { observation, status, value, blob }) = trace.log().call(&call.call.id) {
        if *status != ToolStatus::Refused {
            // It was counted when it ran; a limit that it reached then was told then.
            let _ = budget.take(BudgetKey::ToolCalls);
        }
        let (observation, value, blob) = (observation.clone(), value.clone(), blob.clone());
        return Some(Finished { index, observation, status: *status, value, blob, asks: Vec::new() });
    }
    if call.verdict != Verdict::Reconcile {
        return None;
    }
    let answer = trace.log().answer(&call.call.id)?;
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
    trace.log().go_on();
    Some(Finished { index, observation: end, status, value: None, blob: None, asks: Vec::new() })
}

async fn collect(running: &mut JoinSet<Finished>, finished: &mut Vec<Finished>) {
    while let Some(joined) = running.join_next().await {
        // A call's own panic is its outcome, so a task that fails was dropped with the run.
        finished.extend(joined);
    }
}

/// Tells that a call begins, or refuses it.
fn start(call: &PlannedCall, trace: &Trace, budget: &Budget, reason: &str) -> Result<Trace, Box<Finished>> {
    if let Some(place) = trace.log().waits(&call.call.id) {
        // It has had its start, and goes on now that somebody answered.
        let _ = budget.take(BudgetKey::ToolCalls);
        return Ok(trace.at(place.clone()));
    }
    let trace = trace.span(|place| place.call = Some(call.call.id.clone()));
    let tool = call.call.tool.clone();
    let reason = (!reason.is_empty()).then(|| reason.to_owned());
    trace.emit(EventBody::AgentToolChosen { tool: tool.clone(), reason });
    let refusal = match &call.verdict {
        Verdict::Refuse(reason) => Some(reason.clone()),
        Verdict::Run | Verdict::Ask | Verdict::Reconcile => {
            budget.take(BudgetKey::ToolCalls).err().map(|spent| spent.to_string())
        }
    };
    let Some(reason) = refusal else {
        trace.emit(EventBody::AgentToolStarted { tool });
        return Ok(trace);
    };
    let observation = observe::refused(&call.call.id, tool.as_str(), &reason);
    let index = call.call.index;
    let status = ToolStatus::Refused;
    let refused = Finished { index, observation, status, value: None, blob: None, asks: Vec::new() };
    tell_finished(&trace, call, &refused, shortened(&reason), Duration::ZERO);
    Err(Box::new(refused))
}

async fn one(call: PlannedCall, trace: Trace, cx: ToolContext) -> Finished {
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
        let index = call.call.index;
        return Finished { index, observation, status, value: None, blob: None, asks: Vec::new() };
    }
    let CallOutcome { mut end, took } = call.tool.invoke(call.call.arguments.clone(), cx).await;
    if let CallEnd::Failed(error) = &mut end
        && !error.asks.is_empty()
    {
        let asks = std::mem::take(&mut error.asks);
        let (observation, status) = observe::of_end(&call.call.id, tool, &end);
        return Finished { index: call.call.index, observation, status, value: None, blob: None, asks };
    }
    let value = match &end {
        CallEnd::Ok(ToolOutput::Ended(value)) => Some(value.clone()),
        _ => None,
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
    if call.edited {
        observation.text = format!("{}\nNote - arguments changed by the user", observation.text);
    }
    let finished = Finished { index: call.call.index, observation, status, value, blob, asks: Vec::new() };
    tell_finished(&trace, &call, &finished, summary, took);
    finished
}

/// A result that is no longer than `limit`: of a longer one its beginning and its end, the whole being kept as a blob.
async fn within(
    output: ToolOutput,
    limit: usize,
    blobs: Option<Arc<dyn BlobSource>>,
) -> (ToolOutput, Option<String>) {
    if output.shown().len() <= limit {
        return (output, None);
    }
    let whole = output.into_text();
    let head = floor(&whole, limit - limit / 4);
    let tail = ceiling(&whole, whole.len() - (limit / 4).saturating_sub(GAP));
    let gap = tail - head;
    let text = format!("{}… ({gap} bytes left out) …{}", &whole[..head], &whole[tail..]);
    let blob = match blobs {
        Some(blobs) => blobs.put(whole.into_bytes()).await.ok(),
        None => None,
    };
    (ToolOutput::Text(text), blob)
}

/// The last boundary of a character at or before a place.
fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// The first boundary of a character at or after a place.
fn ceiling(text: &str, at: usize) -> usize {
    (at..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len())
}

fn tell_finished(trace: &Trace, call: &PlannedCall, finished: &Finished, summary: String, took: Duration) {
    let Finished { observation, status, value, blob, .. } = finished;
    let body = EventBody::AgentToolFinished {
        tool: call.call.tool.clone(),
        status: *status,
        summary,
        blob: blob.clone(),
        ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
    };
    trace.emit_kept(body, || record_of(observation, value.as_ref()));
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
    let end = floor(text, limit);
    let missing = text.len() - end;
    text.truncate(end);
    text.extend(["… (", &missing.to_string(), " more bytes)"]);
}

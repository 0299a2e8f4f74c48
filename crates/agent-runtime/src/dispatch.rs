//! Runs the calls of one turn: read-only neighbours side by side, others in order.

use std::time::Duration;

use agent_types::{Budget, BudgetKey, EventBody, Observation, Place, ToolStatus};
use serde_json::Value;
use tokio::task::JoinSet;
use tool_registry::{CallEnd, CallOutcome, ToolContext, ToolOutput};

use crate::driver::Trace;
use crate::observe;
use crate::plan::{PlannedCall, Verdict};

/// Longest summary of a result in an event, in characters.
const MAX_SUMMARY: usize = 200;

/// A call that is over.
pub(crate) struct Finished {
    pub(crate) index: usize,
    pub(crate) observation: Observation,
    pub(crate) status: ToolStatus,
    /// The value that the call ends the run with.
    pub(crate) value: Option<Value>,
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

async fn collect(running: &mut JoinSet<Finished>, finished: &mut Vec<Finished>) {
    while let Some(joined) = running.join_next().await {
        // A call's own panic is its outcome, so a task that fails was dropped with the run.
        finished.extend(joined);
    }
}

/// Tells that a call begins, or refuses it.
fn start(call: &PlannedCall, trace: &Trace, budget: &Budget, reason: &str) -> Result<Trace, Box<Finished>> {
    let trace = trace.span(|place| place.call = Some(call.call.id.clone()));
    let tool = call.call.tool.clone();
    let reason = (!reason.is_empty()).then(|| reason.to_owned());
    trace.emit(EventBody::AgentToolChosen { tool: tool.clone(), reason });
    let refusal = match &call.verdict {
        Verdict::Refuse(reason) => Some(reason.clone()),
        Verdict::Run | Verdict::Ask => budget.take(BudgetKey::ToolCalls).err().map(|spent| spent.to_string()),
    };
    let Some(reason) = refusal else {
        trace.emit(EventBody::AgentToolStarted { tool });
        return Ok(trace);
    };
    let observation = observe::refused(&call.call.id, tool.as_str(), &reason);
    tell_finished(&trace, call, ToolStatus::Refused, &reason, Duration::ZERO);
    let index = call.call.index;
    Err(Box::new(Finished { index, observation, status: ToolStatus::Refused, value: None }))
}

async fn one(call: PlannedCall, trace: Trace, cx: ToolContext) -> Finished {
    let CallOutcome { end, took } = call.tool.invoke(call.call.arguments.clone(), cx).await;
    let (mut observation, status) = observe::of_end(&call.call.id, call.call.tool.as_str(), &end);
    limit(&mut observation, call.tool.settings().result_limit);
    let value = match &end {
        CallEnd::Ok(ToolOutput::Ended(value)) => Some(value.clone()),
        _ => None,
    };
    let summary = match &end {
        CallEnd::Ok(output) => output.text(),
        _ => observation.text.clone(),
    };
    tell_finished(&trace, &call, status, &summary, took);
    Finished { index: call.call.index, observation, status, value }
}

fn tell_finished(trace: &Trace, call: &PlannedCall, status: ToolStatus, summary: &str, took: Duration) {
    trace.emit(EventBody::AgentToolFinished {
        tool: call.call.tool.clone(),
        status,
        summary: shortened(summary),
        blob: None,
        ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
    });
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_SUMMARY) {
        Some((end, _)) => format!("{}…", &text[..end].trim_end()),
        None => text.to_owned(),
    }
}

/// Cuts what is longer than the model should be shown, and says how much is missing.
fn limit(observation: &mut Observation, limit: usize) {
    let text = &mut observation.text;
    if text.len() <= limit {
        return;
    }
    let mut end = limit;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let missing = text.len() - end;
    text.truncate(end);
    text.extend(["… (", &missing.to_string(), " more bytes)"]);
}

//! Running a workflow from the command line, from its beginning or from where it stopped.

use std::sync::Arc;

use agent_runtime::ApprovalMode;
use agent_types::{ResumeLog, RunStatus};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;
use weft_project::{Project, RunSink};
use workflow_engine::{OnWaiting, Plan, RunOptions, RunOutcome};

use crate::arguments::Output;
use crate::failure::{Exit, Failure};
use crate::{follow, interrupt, output};

/// Kinds of ends that are limits: of time, of passes, of what a budget counts.
const LIMITS: [&str; 9] = [
    "timeout",
    "max_passes",
    "max_starts",
    "budget_exceeded",
    "turns",
    "tool_calls",
    "tokens",
    "cost_usd",
    "node_starts",
];

/// What is run.
pub(crate) struct Start<'a> {
    pub(crate) project: &'a Project,
    pub(crate) id: &'a str,
    pub(crate) plan: &'a Plan,
    pub(crate) inputs: Map<String, Value>,
    /// Values that no model sees or sets.
    pub(crate) values: Map<String, Value>,
    /// What is done where a person would have to be asked.
    pub(crate) approval: ApprovalMode,
    pub(crate) desk: RunSink,
    pub(crate) resume: Option<ResumeLog>,
    /// Ends the run when it is cancelled.
    pub(crate) cancel: CancellationToken,
}

/// Runs to the end, telling what happens as the output form wants it.
pub(crate) async fn drive(form: Output, start: Start<'_>) -> Result<RunOutcome, Failure> {
    let Start { project, id, plan, inputs, values, approval, desk, resume, cancel } = start;
    let services =
        project.workflow_services(values, approval).map_err(|error| Failure::of_project(&error))?;
    let sink = desk.sink();
    let run = sink.run().clone();
    let mut options =
        RunOptions::new().with_services(services).with_clock(Arc::clone(project.clock())).with_sink(sink);
    options.workflow = Some(id.to_owned());
    options.on_waiting = OnWaiting::End;
    options.cancel = Some(cancel.clone());
    options.resume = resume.map(Box::new);
    let telling = follow::tell(form, desk.watch(follow::BEHIND), &cancel);
    let running = async {
        let outcome = interrupt::run(workflow_engine::run(plan, inputs, options).outcome(), &cancel);
        let heeding = follow::poll_cancel_requests(project, &run, &cancel);
        let outcome = match futures::future::select(Box::pin(outcome), Box::pin(heeding)).await {
            futures::future::Either::Left((outcome, _)) => outcome,
            futures::future::Either::Right(((), outcome)) => outcome.await,
        };
        // A fault of the store is in the outcome already.
        let _ = desk.close().await;
        outcome
    };
    let (outcome, told) = futures::join!(running, telling);
    told?;
    Ok(outcome)
}

/// Prints what came of a run.
pub(crate) fn tell(form: Output, outcome: &RunOutcome) -> Result<Exit, Failure> {
    let exit = exit_of(outcome);
    if let Some(error) = &outcome.error
        && form != Output::Text
    {
        Failure::new(exit, error.kind.clone(), error.to_string()).print(form);
    }
    match form {
        Output::Json => {
            let mut result =
                json!({"run": outcome.run, "status": outcome.status, "outputs": outcome.outputs});
            if let Some(error) = &outcome.error {
                result["error"] = json!({"kind": error.kind, "message": error.message, "path": error.path});
            }
            if !outcome.asks.is_empty() {
                result["asks"] = json!(outcome.asks);
            }
            output::json(&result)?;
        }
        Output::Jsonl => {}
        Output::Text => {
            match outcome.outputs.values().collect::<Vec<_>>()[..] {
                [Value::String(text)] => output::line(text)?,
                [] => {}
                _ => output::pretty(&outcome.outputs)?,
            }
            if let Some(error) = &outcome.error {
                Failure::new(exit, error.kind.clone(), error.to_string()).print(form);
            }
            for ask in &outcome.asks {
                note!("{}: {}", ask.ask, ask.prompt.as_deref().unwrap_or_default());
            }
            if let [ask, ..] = &outcome.asks[..] {
                let one =
                    if outcome.asks.len() == 1 { String::new() } else { format!(" --ask '{}'", ask.ask) };
                if ask.tool.is_some() {
                    note!("help: weft runs approve {}{one}", outcome.run);
                } else {
                    note!("help: weft runs answer {}{one} VALUE", outcome.run);
                }
            }
        }
    }
    Ok(exit)
}

fn exit_of(outcome: &RunOutcome) -> Exit {
    match outcome.error.as_ref().and_then(|error| error.code.as_deref()) {
        Some("llm_failed") => return Exit::Unreachable,
        Some("llm_authentication" | "no_model") => return Exit::Configuration,
        Some("tool_error") => return Exit::Tool,
        _ => {}
    }
    match (outcome.status, outcome.error.as_ref().map(|error| error.kind.as_str())) {
        (RunStatus::Ok, _) => Exit::Ok,
        (RunStatus::Cancelled, _) => Exit::Interrupted,
        (RunStatus::Waiting, _) => Exit::NeedsPerson,
        (RunStatus::Error, Some(kind)) if LIMITS.contains(&kind) => Exit::Limit,
        (RunStatus::Error, _) => Exit::Failed,
    }
}

//! The end of a run: its status, its results, and the last events.

use std::sync::Arc;

use agent_types::{EventBody, EventLocation, LoopEnd, NodeErrorKind, ReplayData, RunStatus};
use serde_json::{Map, Value};

use super::lifecycle::abandon;
use super::messages::read_messages;
use super::outcome::RunOutcome;
use super::state::{Ending, RunState};
use crate::context::millis;
use crate::error::RunError;

/// Consequences of the end of a run for its outcome and for the nodes that have not ended.
struct Final {
    status: RunStatus,
    error: Option<RunError>,
    /// The value of a stop.
    stopped: Option<Arc<Value>>,
    /// The cause that cancelled nodes name.
    cause: Arc<str>,
    /// The reason that open zones end with.
    why: LoopEnd,
}

impl Final {
    fn new(status: RunStatus, cause: &str) -> Self {
        Self { status, error: None, stopped: None, cause: Arc::from(cause), why: LoopEnd::Cancelled }
    }

    fn from_error(error: RunError) -> Self {
        let cause = error.path.clone().unwrap_or_else(|| Arc::from("error"));
        let why = LoopEnd::Error;
        Self { status: RunStatus::Error, error: Some(error), stopped: None, cause, why }
    }
}

/// Emits the last events, after everything has really stopped.
pub(super) async fn finalize(mut run: RunState<'_>) -> RunOutcome {
    run.workers.shutdown().await;
    read_messages(&mut run);
    let ending = run.end.take().or_else(|| run.events.take_fault().map(Ending::Failed));
    let ending = ending.unwrap_or(Ending::Cancelled);
    let is_waiting = matches!(ending, Ending::Waiting);
    let asks = if is_waiting { run.asks.summaries() } else { Vec::new() };
    let mut last = final_of(&mut run, ending);
    if !is_waiting {
        end_results(&mut run, &last.cause);
        for key in run.graph.frames().unsettled(0) {
            abandon(&mut run, key, &last.cause, last.why);
        }
    }
    let (outputs, fault) = outputs(&run);
    if let Some(message) = fault.filter(|_| last.status == RunStatus::Ok) {
        let error = RunError::new(NodeErrorKind::Failed.as_str(), message);
        (last.status, last.error) = (RunStatus::Error, Some(error));
    }
    if !is_waiting && !run.options.nested {
        emit_finished(&mut run, &last, &outputs);
    }
    run.events.flush();
    // What the outcome says is safe.
    if let Some(durable) = run.events.durable()
        && let Err(fault) = durable.await
    {
        last.status = RunStatus::Error;
        last.error = Some(RunError::new(fault.code, fault.message));
    }
    RunOutcome {
        run: run.shared.sink.run().clone(),
        status: last.status,
        outputs,
        error: last.error,
        stopped: last.stopped,
        asks,
        usage: run.tally.usage(),
        node_starts: run.tally.starts(),
    }
}

fn emit_finished(run: &mut RunState<'_>, last: &Final, outputs: &Map<String, Value>) {
    let body = EventBody::RunFinished {
        status: last.status,
        exit: None,
        kind: last.error.as_ref().map(|error| error.kind.clone()),
        partial: None,
        message: last.error.as_ref().map(ToString::to_string),
    };
    let record = run.events.persists().then(|| {
        let values = outputs.iter().map(|(name, value)| (name.as_str().into(), Arc::new(value.clone())));
        Box::new(ReplayData::from_values(values.collect()))
    });
    run.events.emit_with(EventLocation::default(), body, record);
}

fn final_of(run: &mut RunState<'_>, ending: Ending) -> Final {
    match ending {
        Ending::Complete => match run.end.first_error().take() {
            None => Final::new(RunStatus::Ok, ""),
            Some(error) => Final::from_error(error),
        },
        Ending::Failed(error) => Final::from_error(error),
        Ending::Stopped(value) => Final { stopped: Some(value), ..Final::new(RunStatus::Ok, "stop") },
        Ending::Cancelled => Final::new(RunStatus::Cancelled, "cancelled"),
        Ending::Deadline => {
            let limit = millis(run.options.deadline.unwrap_or_default());
            let message = format!("the run was not done within {limit} ms");
            let error = RunError::new(NodeErrorKind::Timeout.as_str(), message);
            let error = Some(RunError { limit: Some(limit), ..error });
            Final { error, ..Final::new(RunStatus::Error, "deadline") }
        }
        Ending::Stalled => {
            let nodes = unsettled_paths(run);
            let message = format!("nothing runs and these nodes are not settled: {}", nodes.join(", "));
            let mut error = RunError::new(NodeErrorKind::Stalled.as_str(), message);
            error.details.insert("nodes".to_owned(), nodes.into());
            Final { error: Some(error), why: LoopEnd::Error, ..Final::new(RunStatus::Error, "stalled") }
        }
        Ending::Waiting => Final::new(RunStatus::Waiting, ""),
    }
}

fn unsettled_paths(run: &RunState<'_>) -> Vec<String> {
    run.graph
        .frames()
        .unsettled(0)
        .into_iter()
        .take(20)
        .map(|key| run.graph.frames().path(key).to_string())
        .collect()
}

/// The nodes that stand for the results end with the run.
fn end_results(run: &mut RunState<'_>, cause: &Arc<str>) {
    let is_complete = run.graph.frames().at(0).is_some_and(super::graph_state::frame::Frame::is_complete);
    let has_results = !outputs(run).0.is_empty() || run.plan.scopes[0].results.is_empty();
    for path in &run.plan.output_nodes {
        let place =
            EventLocation { path: Some(Arc::clone(path)), parent: Some(0), ..EventLocation::default() };
        if is_complete && has_results {
            let started = EventBody::NodeStarted { node_type: Some(Arc::from("core:GroupOutput")) };
            let span = run.events.span_for(&place, &started);
            let place = EventLocation { attempt: Some(1), span, ..place };
            run.events.emit_once(place.clone(), started);
            run.events.emit_once(place, EventBody::node_finished(None));
            continue;
        }
        let body = if is_complete && cause.is_empty() {
            let cause = run.graph.causes().last().cloned().unwrap_or_else(|| Arc::from(""));
            EventBody::NodeSkipped { cause }
        } else {
            EventBody::NodeCancelled { cause: Arc::clone(cause) }
        };
        let span = run.events.new_span();
        run.events.emit_once(EventLocation { span, ..place }, body);
    }
}

/// The results of the run, and what is wrong with the first one that is not of its type, which is left out.
fn outputs(run: &RunState<'_>) -> (Map<String, Value>, Option<String>) {
    let wanted = |name: &str| run.options.want.as_ref().is_none_or(|want| want.iter().any(|own| own == name));
    let (mut values, mut fault) = (Map::new(), None);
    for result in run.plan.scopes[0].results.iter().filter(|result| wanted(&result.name)) {
        match run.graph.frames().result(0, result) {
            Ok(Some(value)) => _ = values.insert(result.name.to_string(), (*value).clone()),
            Ok(None) => {}
            Err(message) => fault = fault.or(Some(message)),
        }
    }
    (values, fault)
}

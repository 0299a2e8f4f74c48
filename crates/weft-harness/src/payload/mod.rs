//! Execution payloads, run in virtual time with stub nodes.

mod stubs;

use std::sync::Arc;
use std::time::Duration;

use agent_types::{Clock, RunStatus};
use llm_provider::{ModelSource, ScriptedModel, SingleModel};
use serde_json::{Map, Value, json};
use workflow_engine::{OnFail, Plan, RunOptions, RunOutcome, Services};
use workflow_model::{NoWorkflows, Payload};

use crate::VirtualTime;

/// Reply of the model of every payload, in pieces.
const MODEL: &str = r#"{"chunks": ["HI", " THERE"], "repeat": true}"#;

/// Runs a payload: the execution payload itself, or `{payload, interruptAfterMs}`.
///
/// Beside the `core:` nodes there are the stubs `test:Const`, `Upper`, `Fail`, `Streamer`, `Collect`, `Slow`, `Pass`, `PassMap` and `Mute`,
/// and a model that answers `HI THERE`.
///
/// The result is `{status, outputs, ms}` with `error {kind, message}` where there is one; a payload that cannot be planned gives
/// `{status: "refused", codes}`, one that cannot be read `{status: "unreadable", error}`.
#[must_use]
pub fn run_payload(case: Value, on_fail: OnFail) -> Value {
    let interrupt = case["interruptAfterMs"].as_u64().map(Duration::from_millis);
    let payload = match case {
        Value::Object(mut case) if case.contains_key("payload") => case.remove("payload").unwrap_or_default(),
        case => case,
    };
    match prepared(payload) {
        Ok((plan, arguments)) => match in_virtual_time(&plan, arguments, on_fail, interrupt) {
            Ok((outcome, ms)) => result_of(outcome, ms),
            Err(fault) => json!({"status": "unreadable", "error": fault}),
        },
        Err(refusal) => refusal,
    }
}

fn prepared(payload: Value) -> Result<(Plan, Map<String, Value>), Value> {
    let payload = Payload::from_value(payload)
        .map_err(|error| json!({"status": "unreadable", "error": error.to_string()}))?;
    let plan = Plan::new(&payload.workflow, &stubs::catalog(), &NoWorkflows).map_err(|error| {
        let codes: Vec<&str> = error.problems.iter().map(|problem| problem.code).collect();
        json!({"status": "refused", "codes": codes})
    })?;
    Ok((plan, payload.arguments))
}

fn in_virtual_time(
    plan: &Plan,
    arguments: Map<String, Value>,
    on_fail: OnFail,
    interrupt: Option<Duration>,
) -> Result<(RunOutcome, u128), String> {
    let time = VirtualTime::default();
    let clock = time.clock();
    let model = ScriptedModel::from_jsonl(MODEL).map_err(|error| error.to_string())?;
    let services = Services::new().with::<dyn ModelSource>(Arc::new(SingleModel::new(Arc::new(model))));
    let options =
        RunOptions { on_fail, ..RunOptions::new() }.with_services(services).with_clock(time.shared_clock());
    let outcome = time.block_on(async {
        let run = plan.run(arguments, options);
        let cancel = run.cancel_token();
        let interrupted = async {
            if let Some(after) = interrupt {
                clock.sleep(after).await;
                cancel.cancel();
            }
        };
        futures::join!(run.outcome(), interrupted).0
    });
    Ok((outcome, clock.elapsed().as_millis()))
}

fn result_of(outcome: RunOutcome, ms: u128) -> Value {
    let status = match outcome.status {
        RunStatus::Ok => "ok",
        RunStatus::Error => "error",
        RunStatus::Cancelled => "cancelled",
        RunStatus::Waiting => "waiting",
    };
    let ms = u64::try_from(ms).unwrap_or(u64::MAX);
    let mut result = json!({"status": status, "outputs": outcome.outputs, "ms": ms});
    if let Some(error) = outcome.error {
        result["error"] = json!({"kind": error.kind, "message": error.to_string()});
    }
    result
}

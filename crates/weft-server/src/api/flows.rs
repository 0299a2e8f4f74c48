//! Flows and system actions, run by their ids.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use weft_runs::{AgentPlan, AgentRequest, FlowCall, TargetKind, WhenBusy};

use super::accepted::{Accepted, begun_run};
use super::{Operation, post};
use crate::app::App;
use crate::body::{OptionalBody, Path};
use crate::problem::Problem;
use crate::runs::{IdempotencyKey, begin_agent};

/// Call of a flow or a system action.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct FlowBody {
    /// Values of its parameters.
    inputs: Map<String, Value>,
    /// The session that it acts in. Default: one that is gone with the run.
    session: Option<String>,
    /// `flow` or `system_action`, where both have the id.
    #[schemars(with = "Option<String>")]
    kind: Option<TargetKind>,
    /// Values that tools may use and no model sees or sets.
    context: Map<String, Value>,
    /// Reaction to a run of the session that executes: `queue`, `steer` or `reject`.
    busy: WhenBusy,
    /// Id of the call, as the header `Idempotency-Key`: one that comes again has the run of the first.
    message_id: Option<String>,
}

pub(super) fn operations() -> Vec<Operation> {
    vec![
        post("/api/flows/{flow}", "Run a flow or a system action by its id", run)
            .takes::<FlowBody>()
            .gives::<Accepted>()
            .status(StatusCode::ACCEPTED),
    ]
}

async fn run(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    key: IdempotencyKey,
    OptionalBody(body): OptionalBody<FlowBody>,
) -> Result<(StatusCode, Json<Accepted>), Problem> {
    let FlowBody { inputs, session, kind, context, busy, message_id } = body;
    let target = Some(FlowCall { id, kind, parameters: inputs });
    let agent = app.project().flows_agent()?.to_owned();
    let message_id = key.or(message_id)?;
    let plan = AgentPlan { target, values: context, message_id, ..AgentPlan::new(agent, "") };
    let request = AgentRequest { plan, thread: session, busy, ..AgentRequest::default() };
    Ok(begun_run(&begin_agent(&app, request).await?))
}

//! Requests that the turns of a run sent to the model.

use std::sync::Arc;

use agent_runtime::requests::{RecordedRequest, RequestPlace};
use agent_types::RunId;
use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use weft_runs::recorded_request;

use super::{Operation, get};
use crate::app::App;
use crate::body::{Path, Query};
use crate::problem::Problem;

pub(super) fn operations() -> Vec<Operation> {
    vec![
        get("/api/runs/{run}/requests/{turn}", "The request that a turn sent to the model", request)
            .query(&[
                ("call", "the turn of the agent that answers this call"),
                ("path", "the turn of the agent that this node runs, or the number of this node's request"),
                ("summary", "`true`: the request for the summary of the older part of the conversation"),
            ])
            .gives::<RecordedRequest>(),
    ]
}

#[derive(Debug, Deserialize)]
struct PlaceQuery {
    call: Option<String>,
    path: Option<String>,
    #[serde(default)]
    summary: bool,
}

async fn request(
    State(app): State<Arc<App>>,
    Path((run, turn)): Path<(String, u32)>,
    Query(PlaceQuery { call, path, summary }): Query<PlaceQuery>,
) -> Result<Json<RecordedRequest>, Problem> {
    let store = app.store.clone();
    let place = RequestPlace { path, call, turn, summary };
    app.blocking(move || Ok(Json(recorded_request(&store, &RunId::new(run), place)?))).await
}

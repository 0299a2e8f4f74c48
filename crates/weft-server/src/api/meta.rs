//! Description of the server and of its interface.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::{Operation, get};
use crate::app::App;
use crate::openapi;

/// Address of the guide to models.
const GUIDE: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/docs/guide/models.md");

/// Description of the server, which needs no token.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Meta {
    /// Always `weft`.
    name: &'static str,
    /// Its version.
    version: &'static str,
    /// Version of this interface.
    api: u32,
    /// A script plays the model's part, because the project has no model.
    scripted: bool,
    /// Fault of `flows.json` as it is now: its last good version is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    flows_fault: Option<String>,
    /// Address of the guide to models.
    guide: &'static str,
}

pub(super) fn operations() -> Vec<Operation> {
    vec![
        get("/api/meta", "What kind of server this is; needs no token", meta).gives::<Meta>(),
        get("/api/openapi.json", "This description", description).gives::<Value>(),
    ]
}

async fn meta(State(app): State<Arc<App>>) -> Json<Meta> {
    let project = app.project();
    let (scripted, flows_fault) = (project.is_scripted(), project.flows_fault().map(str::to_owned));
    Json(Meta {
        name: "weft",
        version: env!("CARGO_PKG_VERSION"),
        api: 1,
        scripted,
        flows_fault,
        guide: GUIDE,
    })
}

async fn description() -> Json<Value> {
    Json(openapi::document())
}

//! Description of the server and of its interface.

use axum::Json;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::{Operation, get};
use crate::openapi;

/// Description of the server, which needs no token.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Meta {
    /// Always `weft`.
    name: &'static str,
    /// Its version.
    version: &'static str,
    /// Version of this interface.
    api: u32,
}

pub(super) fn operations() -> Vec<Operation> {
    vec![
        get("/api/meta", "What kind of server this is; needs no token", meta).gives::<Meta>(),
        get("/api/openapi.json", "This description", description).gives::<Value>(),
    ]
}

async fn meta() -> Json<Meta> {
    Json(Meta { name: "weft", version: env!("CARGO_PKG_VERSION"), api: 1 })
}

async fn description() -> Json<Value> {
    Json(openapi::document())
}

//! What kind of server this is, and what it can be asked.

use axum::Json;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::{Operation, get};
use crate::openapi;

/// What kind of server this is. Everybody may know.
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

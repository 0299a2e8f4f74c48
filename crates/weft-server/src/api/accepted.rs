//! Answer to a request that begins or resumes a run.

use agent_types::RunId;
use axum::Json;
use http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;
use weft_runs::RunHandle;

/// A run that was started or resumed.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Accepted {
    /// Its id.
    pub(super) run: String,
    /// Messages before it in its conversation, the one that is answered included.
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<usize>,
    /// Set where the message had come before with the same id.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    repeated: bool,
}

pub(super) fn accepted(run: &RunId) -> (StatusCode, Json<Accepted>) {
    (StatusCode::ACCEPTED, Json(Accepted { run: run.to_string(), place: None, repeated: false }))
}

/// The same of a message, with its place.
pub(super) fn begun_run(begun: &RunHandle) -> (StatusCode, Json<Accepted>) {
    let RunHandle { id, place, repeated, .. } = begun;
    (StatusCode::ACCEPTED, Json(Accepted { run: id.to_string(), place: *place, repeated: *repeated }))
}

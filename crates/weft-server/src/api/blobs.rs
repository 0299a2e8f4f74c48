//! Large values by their SHA-256.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header;

use super::{Operation, get};
use crate::app::App;
use crate::body::Path;
use crate::problem::Problem;

pub(super) fn operations() -> Vec<Operation> {
    vec![
        get("/api/blobs/{sha256}", "A large value that events only name", blob)
            .media("application/octet-stream"),
    ]
}

async fn blob(State(app): State<Arc<App>>, Path(sha): Path<String>) -> Result<Response, Problem> {
    let is_digest = sha.len() == 64 && sha.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if !is_digest {
        return Err(Problem::bad_request("bad_digest", "a blob is named by 64 hexadecimal digits"));
    }
    let store = app.store.clone();
    let named = sha.clone();
    let found = app.blocking(move || Ok(store.blob(&named)?)).await?;
    let bytes = found.ok_or_else(|| Problem::not_found("unknown_blob", format!("unknown blob {sha}")))?;
    // Whatever it holds, a browser must not take it for a page.
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream"),
        (header::CONTENT_DISPOSITION, "attachment"),
        (header::CACHE_CONTROL, "private, max-age=31536000, immutable"),
    ];
    Ok((headers, bytes).into_response())
}

//! `/hooks/calls/{id}/{secret}`: one-time addresses at which other systems report the end of work that a call began.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::routing::post;
use http::StatusCode;
use run_store::StoreError;
use sha2::{Digest, Sha256};
use weft_project::{KnownCallback, StoredCallbacks};

use crate::app::App;
use crate::body::{Path, read_up_to};
use crate::hooks::value_of;
use crate::problem::Problem;
use crate::token::is_same;

pub(crate) fn router() -> Router<Arc<App>> {
    Router::new().route("/hooks/calls/{id}/{secret}", post(take))
}

async fn take(
    State(app): State<Arc<App>>,
    Path((id, secret)): Path<(String, String)>,
    body: Body,
) -> Result<StatusCode, Problem> {
    let own = id.clone();
    let known = with_callbacks(&app, move |callbacks| callbacks.known(&own)).await?;
    let known = check_secret(known, &secret)?;
    if !known.is_open {
        return Err(used());
    }
    let body = value_of(&read_up_to(body, known.max_body, &app).await?);
    // Of two at once, one is taken.
    let is_taken = with_callbacks(&app, move |callbacks| callbacks.take(&id, &body)).await?;
    if is_taken { Ok(StatusCode::NO_CONTENT) } else { Err(used()) }
}

/// Does work with the addresses of the project's calls.
async fn with_callbacks<T: Send + 'static>(
    app: &App,
    work: impl FnOnce(&StoredCallbacks) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, Problem> {
    let work = move |project: &Arc<weft_project::Project>| {
        let callbacks = project.callbacks()?.ok_or_else(unknown)?;
        Ok(work(&callbacks)?)
    };
    app.with_project(work).await
}

/// The address whose secret is given. One that does not exist takes as long as one with another secret.
fn check_secret(known: Option<KnownCallback>, secret: &str) -> Result<KnownCallback, Problem> {
    let none = "0".repeat(64);
    let digest = known.as_ref().map_or(none.as_str(), |known| known.sha256.as_str());
    let is_right = is_same(digest, &format!("{:x}", Sha256::digest(secret)));
    known.filter(|_| is_right).ok_or_else(unknown)
}

fn unknown() -> Problem {
    Problem::not_found("unknown_callback", "no call waits at this address")
}

fn used() -> Problem {
    let detail = "this address was used, its time is over, or its run has ended";
    Problem::new(StatusCode::GONE, "callback_used", detail)
}

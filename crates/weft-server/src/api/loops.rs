//! Loops of a run and their passes.

use std::sync::Arc;

use agent_types::RunId;
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use weft_runs::{LoopEntry, LoopReader};

use super::runs::{check_limit, link_next};
use super::{Operation, get};
use crate::app::App;
use crate::body::{Path, Query};
use crate::problem::Problem;

pub(super) fn operations() -> Vec<Operation> {
    vec![
        get(
            "/api/runs/{run}/loops",
            "Its loops and their passes, in the order in which they ended; those that are open come last",
            list,
        )
        .query(&[
            ("loop", "only the loop at this path"),
            ("limit", "so many at about, 50 where nothing is said"),
            ("cursor", "from the `Link` of the page before"),
        ])
        .gives::<Vec<LoopEntry>>(),
    ]
}

#[derive(Debug, Serialize, Deserialize)]
struct LoopsQuery {
    r#loop: Option<String>,
    limit: Option<usize>,
    cursor: Option<String>,
}

async fn list(
    State(app): State<Arc<App>>,
    Path(run): Path<String>,
    Query(query): Query<LoopsQuery>,
) -> Result<Response, Problem> {
    let limit = check_limit(query.limit);
    let reader = query.cursor.as_deref().map(LoopReader::from_cursor).transpose();
    let mut reader =
        reader.map_err(|_| Problem::bad_request("bad_cursor", "the cursor is invalid"))?.unwrap_or_default();
    let (store, path) = (app.store.clone(), query.r#loop.clone());
    let address = format!("/api/runs/{run}/loops");
    let (page, cursor) = app
        .blocking(move || {
            let wanted = |entry: &LoopEntry| path.as_deref().is_none_or(|path| path == entry.path());
            let page = reader.read(&store, &RunId::new(run), limit, wanted)?;
            let cursor = (!page.is_last).then(|| reader.cursor());
            Ok((page, cursor))
        })
        .await?;
    let mut response = Json(page.entries).into_response();
    if cursor.is_some() {
        link_next(&mut response, &address, &LoopsQuery { cursor, limit: Some(limit), ..query })?;
    }
    Ok(response)
}

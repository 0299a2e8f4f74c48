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
            ("pass", "only this pass of it"),
            ("call", "with `pass`: the tool call that the loop runs in"),
            ("limit", "so many at about, 50 where nothing is said"),
            ("cursor", "from the `Link` of the page before"),
        ])
        .gives::<Vec<LoopEntry>>(),
    ]
}

#[derive(Debug, Serialize, Deserialize)]
struct LoopsQuery {
    r#loop: Option<String>,
    pass: Option<u64>,
    call: Option<String>,
    limit: Option<usize>,
    cursor: Option<String>,
}

impl LoopsQuery {
    fn takes(&self, entry: &LoopEntry) -> bool {
        let is_of_loop = self.r#loop.as_deref().is_none_or(|path| path == entry.path());
        let is_of_pass = self.pass.is_none_or(|number| match entry {
            LoopEntry::Pass(pass) => pass.pass == number && pass.call == self.call,
            LoopEntry::Loop(_) => false,
        });
        is_of_loop && is_of_pass
    }
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
    let store = app.store.clone();
    let address = format!("/api/runs/{run}/loops");
    let (page, cursor, query) = app
        .blocking(move || {
            let page = reader.read(&store, &RunId::new(run), limit, |entry| query.takes(entry))?;
            let cursor = (!page.is_last).then(|| reader.cursor());
            Ok((page, cursor, query))
        })
        .await?;
    let mut response = Json(page.entries).into_response();
    if cursor.is_some() {
        link_next(&mut response, &address, &LoopsQuery { cursor, limit: Some(limit), ..query })?;
    }
    Ok(response)
}

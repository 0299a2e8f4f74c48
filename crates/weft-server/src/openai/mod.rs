//! Agents as models of any OpenAI client.

use std::sync::Arc;

use axum::Router;
use axum::response::{IntoResponse, Response};

use crate::app::App;
use crate::problem::Problem;

/// Whether a path belongs to this interface.
pub(crate) fn is_below(path: &str) -> bool {
    path == "/v1" || path.starts_with("/v1/")
}

/// A refusal as these clients read it.
pub(crate) fn refusal(problem: &Problem) -> Response {
    problem.clone().into_response()
}

pub(crate) fn router() -> Router<Arc<App>> {
    Router::new()
}

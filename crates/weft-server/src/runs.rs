//! Requests for runs as they come over HTTP.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use http::request::Parts;
use weft_runs::{AgentRequest, RunHandle, RunService};

use crate::app::App;
use crate::problem::Problem;

/// Longest id of a message.
const MAX_ID: usize = 200;

/// The header `Idempotency-Key`: the id of a message.
pub(crate) struct IdempotencyKey(Option<String>);

impl<S: Send + Sync> FromRequestParts<S> for IdempotencyKey {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let value = parts.headers.get("idempotency-key").and_then(|value| value.to_str().ok());
        Ok(Self(value.map(str::to_owned)))
    }
}

impl IdempotencyKey {
    /// The id of the body, else that of the header.
    pub(crate) fn or(self, of_body: Option<String>) -> Result<Option<String>, Problem> {
        let id = of_body.or(self.0);
        check_message_id(id.as_deref())?;
        Ok(id)
    }
}

/// Refuses an id of a message that is empty or too long.
pub(crate) fn check_message_id(id: Option<&str>) -> Result<(), Problem> {
    match id {
        Some(id) if id.is_empty() || id.len() > MAX_ID => {
            let detail = format!("the id of a message has 1 to {MAX_ID} bytes");
            Err(Problem::bad_request("bad_message_id", detail))
        }
        Some(_) | None => Ok(()),
    }
}

/// Begins a run of an agent.
pub(crate) async fn begin_agent(app: &App, request: AgentRequest) -> Result<RunHandle, Problem> {
    if let Some(thread) = &request.thread {
        check_thread(thread)?;
    }
    Ok(app.runs.begin(request.into()).await?)
}

/// Names of threads are names: short, and nothing that means something elsewhere.
pub(crate) fn check_thread(thread: &str) -> Result<(), Problem> {
    let is_fine = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '@');
    if !thread.is_empty() && thread.len() <= 128 && thread.chars().all(is_fine) && !thread.starts_with('.') {
        return Ok(());
    }
    Err(Problem::bad_request("bad_thread", "this is not a name of a conversation")
        .with_help("up to 128 letters, digits, `_`, `-`, `.`, `:` and `@`"))
}

//! Requests for runs as they come over HTTP.

use weft_runs::{AgentRequest, RunHandle, RunService};

use crate::app::App;
use crate::problem::Problem;

/// Begins a run of an agent.
pub(crate) async fn begin_agent(app: &App, request: AgentRequest) -> Result<RunHandle, Problem> {
    if let Some(thread) = &request.thread {
        check_thread(thread)?;
    }
    Ok(app.runs.begin(request.into()).await?)
}

/// Names of threads are names: short, and nothing that means something elsewhere.
fn check_thread(thread: &str) -> Result<(), Problem> {
    let is_fine = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '@');
    if !thread.is_empty() && thread.len() <= 128 && thread.chars().all(is_fine) && !thread.starts_with('.') {
        return Ok(());
    }
    Err(Problem::bad_request("bad_thread", "this is not a name of a conversation")
        .with_help("up to 128 letters, digits, `_`, `-`, `.`, `:` and `@`"))
}

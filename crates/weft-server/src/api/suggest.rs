//! Replies that an agent suggests to the person who answers in its place.

use std::sync::Arc;

use agent_runtime::ApprovalMode;
use axum::Json;
use axum::extract::State;
use http::StatusCode;
use weft_runs::{AgentPlan, AgentRequest, RunEnv, RunService, ThreadAction, ThreadName};

use super::accepted::{Accepted, begun_run};
use super::{Operation, post};
use crate::app::App;
use crate::body::Path;
use crate::problem::Problem;
use crate::runs::{begin_agent, check_thread};

/// Message with which the agent is asked.
const REQUEST: &str = "Note - a person answers the user in your place. Write the next reply to the user as a \
    suggestion, which that person may change before it is sent: in the user's language, and nothing but the reply.";

pub(super) fn operations() -> Vec<Operation> {
    vec![
        post(
            "/api/sessions/{session}/suggest",
            "Have the agent write a reply for the person: a run with read-only tools that leaves nothing in the session",
            suggest,
        )
        .gives::<Accepted>()
        .status(StatusCode::ACCEPTED),
    ]
}

async fn suggest(
    State(app): State<Arc<App>>,
    Path(session): Path<String>,
) -> Result<(StatusCode, Json<Accepted>), Problem> {
    check_thread(&session)?;
    let agent = app.runs.session(&session).await?.agent;
    let name = ThreadName::new(agent.clone(), session);
    let history = app.runs.thread(&name, ThreadAction::Read).await?.exchanges();
    let plan = AgentPlan { history, read_only: true, ..AgentPlan::new(agent, REQUEST) };
    let (approval, surroundings) = (ApprovalMode::None, RunEnv::AgentOnly);
    let request = AgentRequest { plan, approval, surroundings, ..AgentRequest::default() };
    Ok(begun_run(&begin_agent(&app, request).await?))
}

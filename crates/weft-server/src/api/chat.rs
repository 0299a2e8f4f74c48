//! Conversations with agents.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use run_store::{RunFilter, Store};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use weft_runs::{AgentPlan, AgentRequest, ChatMessage, RunService, ThreadAction, ThreadName, WhenBusy};

use super::accepted::{Accepted, begun_run};
use super::runs::title_of;
use super::{Operation, get, post};
use crate::app::App;
use crate::body::{JsonBody, Path};
use crate::problem::Problem;
use crate::runs::{IdempotencyKey, begin_agent};

/// A conversation, in short.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Thread {
    /// Its name.
    id: String,
    /// The beginning of what was said first.
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    /// Start of its last run.
    last: String,
    /// Number of its runs.
    runs: usize,
}

/// Message to a session.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SayBody {
    /// The text.
    text: String,
    /// Values that tools may use and no model sees or sets.
    #[serde(default)]
    context: Map<String, Value>,
    /// Reaction to a run of the conversation that executes: `queue`, `steer` or `reject`.
    #[serde(default)]
    busy: WhenBusy,
    /// Id of the message, as the header `Idempotency-Key`: one that comes again has the run of the first.
    message_id: Option<String>,
}

pub(super) fn operations() -> Vec<Operation> {
    vec![
        get("/api/chat/{agent}/threads", "Conversations with an agent", threads).gives::<Vec<Thread>>(),
        get("/api/chat/{agent}/threads/{thread}/messages", "What was said in one", messages)
            .gives::<Vec<ChatMessage>>(),
        post("/api/chat/{agent}/threads/{thread}/messages", "Say something", post_message)
            .takes::<SayBody>()
            .gives::<Accepted>()
            .status(StatusCode::ACCEPTED),
    ]
}

async fn threads(
    State(app): State<Arc<App>>,
    Path(agent): Path<String>,
) -> Result<Json<Vec<Thread>>, Problem> {
    let project = app.project();
    if project.flows_agent().ok() != Some(&agent) {
        project.agent_file(&agent)?;
    }
    let store = app.store.clone();
    let threads = app.blocking(move || threads_of(&store, agent)).await?;
    Ok(Json(threads))
}

/// The conversations of an agent, newest first.
fn threads_of(store: &Store, agent: String) -> Result<Vec<Thread>, Problem> {
    let runs = store.runs(&RunFilter { agent: Some(agent), ..RunFilter::default() })?;
    let mut threads: BTreeMap<String, Thread> = BTreeMap::new();
    for record in runs {
        let Some(id) = record.new.thread.clone() else { continue };
        let last = record.started.to_string();
        let thread = threads.entry(id.clone()).or_insert(Thread { id, title: None, last, runs: 0 });
        // Newest first: the last that comes was the first.
        thread.title = title_of(&record);
        thread.runs += 1;
    }
    let mut threads: Vec<Thread> = threads.into_values().collect();
    threads.sort_by(|one, other| other.last.cmp(&one.last));
    Ok(threads)
}

async fn messages(
    State(app): State<Arc<App>>,
    Path((agent, thread)): Path<(String, String)>,
) -> Result<Json<Vec<ChatMessage>>, Problem> {
    let info = app.runs.thread(&ThreadName::new(agent, thread), ThreadAction::Read).await?;
    Ok(Json(info.messages()))
}

async fn post_message(
    State(app): State<Arc<App>>,
    Path((agent, thread)): Path<(String, String)>,
    key: IdempotencyKey,
    JsonBody(body): JsonBody<SayBody>,
) -> Result<(StatusCode, Json<Accepted>), Problem> {
    let SayBody { text, context, busy, message_id } = body;
    let message_id = key.or(message_id)?;
    let plan = AgentPlan { message_id, values: context, ..AgentPlan::new(agent, text) };
    let request = AgentRequest { plan, thread: Some(thread), busy, ..AgentRequest::default() };
    Ok(begun_run(&begin_agent(&app, request).await?))
}

//! Conversations with agents.

use std::collections::BTreeMap;
use std::sync::Arc;

use agent_runtime::{Exchange, Turn};
use axum::Json;
use axum::extract::State;
use http::StatusCode;
use protocol_action::{NoVocabulary, parse};
use run_store::{RunFilter, Store};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use weft_runs::{AgentPlan, AgentRequest, RunHandle, RunService, ThreadAction, ThreadName};

use super::runs::{Accepted, accepted, title_of};
use super::{Operation, get, post};
use crate::app::App;
use crate::body::{JsonBody, Path};
use crate::problem::Problem;
use crate::runs::begin_agent;

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

/// Something that was said or done.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ChatMessage {
    /// `user assistant event note summary`.
    role: &'static str,
    /// The text.
    text: String,
    /// Calls of an assistant, with what came of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    calls: Vec<ChatCall>,
}

/// A call of an assistant.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ChatCall {
    /// Its id.
    id: String,
    /// The tool.
    tool: String,
    /// The arguments.
    arguments: Map<String, Value>,
    /// Text that the model received about the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    observation: Option<String>,
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
    app.project().agent_file(&agent)?;
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
    Ok(Json(info.history.iter().flat_map(shown).collect()))
}

fn shown(exchange: &Exchange) -> Vec<ChatMessage> {
    let plain = |role, text: &str| vec![ChatMessage { role, text: text.to_owned(), calls: Vec::new() }];
    match exchange {
        Exchange::User { text, .. } => plain("user", text),
        Exchange::Turn(turn) => of_turn(turn),
        Exchange::Event { name, payload } => plain("event", &format!("{name} {payload}")),
        Exchange::Observed { observations, .. } => {
            observations.iter().flat_map(|observation| plain("note", &observation.text)).collect()
        }
        Exchange::Summary { text, .. } => plain("summary", text),
    }
}

fn of_turn(turn: &Turn) -> Vec<ChatMessage> {
    let calls = turn.calls.iter().map(|call| ChatCall {
        id: call.id.to_string(),
        tool: call.tool.clone(),
        arguments: call.arguments.clone(),
        observation: call.observation.as_ref().map(|observation| observation.text.clone()),
    });
    // Blocks stand among the calls; a person reads what is said around them.
    let said = parse(&turn.text, &NoVocabulary).text.trim().to_owned();
    let mut messages = vec![ChatMessage { role: "assistant", text: said, calls: calls.collect() }];
    let notes = turn.notes.iter();
    messages.extend(notes.map(|note| ChatMessage {
        role: "note",
        text: note.text.clone(),
        calls: Vec::new(),
    }));
    messages
}

async fn post_message(
    State(app): State<Arc<App>>,
    Path((agent, thread)): Path<(String, String)>,
    JsonBody(body): JsonBody<SayBody>,
) -> Result<(StatusCode, Json<Accepted>), Problem> {
    let begun = say(&app, agent, thread, body.text, body.context).await?;
    Ok(accepted(&begun.id))
}

/// Says something in a conversation.
async fn say(
    app: &Arc<App>,
    agent: String,
    thread: String,
    text: String,
    values: Map<String, Value>,
) -> Result<RunHandle, Problem> {
    let plan = AgentPlan { agent, message: text, values, ..AgentPlan::default() };
    begin_agent(app, AgentRequest { plan, thread: Some(thread), ..AgentRequest::default() }).await
}

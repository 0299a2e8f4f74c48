//! Sessions, for the people who answer in place of the agent.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use http::HeaderMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use weft_runs::{
    ChatMessage, RunService, SeatAction, SessionInfo, SessionParty, SessionRequest, ThreadAction, ThreadName,
};

use super::{Operation, delete, get, post};
use crate::app::App;
use crate::body::{JsonBody, OptionalBody, Path, Query};
use crate::live::conversation::{self, Reading};
use crate::problem::Problem;
use crate::runs::check_thread;

/// A session with its conversation.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct SessionDetail {
    #[serde(flatten)]
    info: SessionInfo,
    /// The conversation, notes included.
    messages: Vec<ChatMessage>,
}

/// The person who acts, and the reason.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct SeatBody {
    /// Name of the person. Default: `person`.
    person: Option<String>,
    /// Reason for taking the session.
    reason: Option<String>,
}

/// Text that a person says or notes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SeatTextBody {
    /// The text.
    text: String,
    /// Name of the person. Default: `person`.
    person: Option<String>,
}

#[derive(Debug, Deserialize)]
struct ListQuery {
    with: Option<SessionParty>,
    waiting: Option<bool>,
}

pub(super) fn operations() -> Vec<Operation> {
    vec![
        get(
            "/api/sessions",
            "Sessions; those that wait for a person first, the longest before the others",
            list,
        )
        .query(&[
            ("with", "only those where `agent`, `person` or none (`closed`) answers"),
            ("waiting", "`true`: only those where the user waits for a person"),
        ])
        .gives::<Vec<SessionInfo>>(),
        get("/api/sessions/{session}", "A session with its conversation", show).gives::<SessionDetail>(),
        get("/api/sessions/{session}/events", "Messages and states of a session as they come", follow)
            .query(&[("after", "messages that are known; the header `Last-Event-ID` says the same")])
            .media("text/event-stream"),
        post("/api/sessions/{session}/take", "Answer in place of the agent from now on", take)
            .takes::<SeatBody>()
            .gives::<SessionInfo>(),
        post("/api/sessions/{session}/messages", "Answer as a person", say)
            .takes::<SeatTextBody>()
            .gives::<SessionInfo>(),
        post("/api/sessions/{session}/give-back", "Let the agent answer again", give_back)
            .takes::<SeatBody>()
            .gives::<SessionInfo>(),
        post("/api/sessions/{session}/close", "Close it", close).takes::<SeatBody>().gives::<SessionInfo>(),
        post("/api/sessions/{session}/reopen", "Open it again", reopen)
            .takes::<SeatBody>()
            .gives::<SessionInfo>(),
        post("/api/sessions/{session}/notes", "Note something that the user does not see", note)
            .takes::<SeatTextBody>()
            .gives::<SessionInfo>(),
        delete("/api/sessions/{session}/profile", "Delete what is known of the user", forget)
            .gives::<SessionInfo>(),
    ]
}

async fn list(
    State(app): State<Arc<App>>,
    Query(query): Query<ListQuery>,
) -> Result<Json<Vec<SessionInfo>>, Problem> {
    let mut sessions = app.runs.sessions().await?;
    sessions.retain(|info| query.with.is_none_or(|with| info.with == with));
    sessions.retain(|info| query.waiting.is_none_or(|waiting| info.waiting_ms.is_some() == waiting));
    Ok(Json(sessions))
}

async fn show(
    State(app): State<Arc<App>>,
    Path(session): Path<String>,
) -> Result<Json<SessionDetail>, Problem> {
    Ok(Json(detail(&app, &session).await?))
}

async fn detail(app: &App, session: &str) -> Result<SessionDetail, Problem> {
    check_thread(session)?;
    let info = app.runs.session(session).await?;
    let name = ThreadName::new(info.agent.clone(), session);
    let messages = app.runs.thread(&name, ThreadAction::Read).await?.messages();
    Ok(SessionDetail { info, messages })
}

async fn act(
    app: &App,
    session: String,
    person: Option<String>,
    action: SeatAction,
) -> Result<Json<SessionInfo>, Problem> {
    check_thread(&session)?;
    let person = person.unwrap_or_else(|| "person".to_owned());
    Ok(Json(app.runs.act(SessionRequest { session, person, action }).await?))
}

async fn take(
    State(app): State<Arc<App>>,
    Path(session): Path<String>,
    OptionalBody(body): OptionalBody<SeatBody>,
) -> Result<Json<SessionInfo>, Problem> {
    act(&app, session, body.person, SeatAction::Take { reason: body.reason }).await
}

async fn say(
    State(app): State<Arc<App>>,
    Path(session): Path<String>,
    JsonBody(body): JsonBody<SeatTextBody>,
) -> Result<Json<SessionInfo>, Problem> {
    act(&app, session, body.person, SeatAction::Say { text: body.text }).await
}

async fn note(
    State(app): State<Arc<App>>,
    Path(session): Path<String>,
    JsonBody(body): JsonBody<SeatTextBody>,
) -> Result<Json<SessionInfo>, Problem> {
    act(&app, session, body.person, SeatAction::Note { text: body.text }).await
}

async fn give_back(
    State(app): State<Arc<App>>,
    Path(session): Path<String>,
    OptionalBody(body): OptionalBody<SeatBody>,
) -> Result<Json<SessionInfo>, Problem> {
    act(&app, session, body.person, SeatAction::GiveBack).await
}

async fn close(
    State(app): State<Arc<App>>,
    Path(session): Path<String>,
    OptionalBody(body): OptionalBody<SeatBody>,
) -> Result<Json<SessionInfo>, Problem> {
    act(&app, session, body.person, SeatAction::Close).await
}

async fn reopen(
    State(app): State<Arc<App>>,
    Path(session): Path<String>,
    OptionalBody(body): OptionalBody<SeatBody>,
) -> Result<Json<SessionInfo>, Problem> {
    act(&app, session, body.person, SeatAction::Reopen).await
}

async fn forget(
    State(app): State<Arc<App>>,
    Path(session): Path<String>,
) -> Result<Json<SessionInfo>, Problem> {
    act(&app, session, None, SeatAction::ForgetProfile).await
}

#[derive(Debug, Deserialize)]
struct FollowQuery {
    after: Option<usize>,
}

async fn follow(
    State(app): State<Arc<App>>,
    Path(session): Path<String>,
    Query(query): Query<FollowQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    check_thread(&session)?;
    let last = headers.get("last-event-id").and_then(|value| value.to_str().ok()?.parse().ok());
    let seen = last.or(query.after).unwrap_or(0);
    // What cannot be read is refused before the stream begins.
    let name = ThreadName::new(app.runs.session(&session).await?.agent, session.as_str());
    let of = Arc::clone(&app);
    Ok(conversation::stream(&app, &name, seen, move || {
        let (app, session) = (Arc::clone(&of), session.clone());
        async move { Some(reading(&detail(&app, &session).await.ok()?)) }
    }))
}

fn reading(now: &SessionDetail) -> Reading {
    // The time that passes is not news.
    let mut news = now.info.clone();
    news.waiting_ms = news.waiting_ms.map(|_| 0);
    let messages = now.messages.iter().map(|message| json!(message)).collect();
    Reading { messages, state: json!(now.info), news: json!(news) }
}

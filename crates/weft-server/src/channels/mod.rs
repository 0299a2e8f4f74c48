//! Channels of sessions: `/channels/NAME` takes signed messages of other systems, and everything that is said goes back to them.
//!
//! A message that comes again under its id has the run of the first. What is to be sent is the conversation itself, which the
//! store keeps, behind a cursor for each session: nothing else has to be kept, and nothing is lost with the process.

mod outbox;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::routing::post;
use axum::{Extension, Json, Router};
use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};
use session_channels::{Channel, ChannelError, Frame, Incoming};
use sha2::{Digest, Sha256};
use tokio::sync::oneshot;
use weft_runs::{AgentPlan, AgentRequest, RunHandle};

use crate::app::App;
use crate::body::{Path, read_up_to};
use crate::connection::Connection;
use crate::problem::Problem;
use crate::runs::{begin_agent, check_message_id, check_thread};

pub(crate) use outbox::{deliver_all, outgoing};

/// Longest body of a message, in bytes.
const MAX_BODY: usize = 256 * 1024;

pub(crate) fn router() -> Router<Arc<App>> {
    Router::new().route("/channels/{channel}", post(answer))
}

async fn answer(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    Extension(connection): Extension<Arc<Connection>>,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<Value>), Problem> {
    let channel = app.project().channel(&name)?.ok_or_else(|| {
        Problem::not_found("unknown_channel", format!("unknown channel `{name}`"))
            .with_help("channels are entries of [channels] in weft.toml")
    })?;
    let body = read_up_to(body, MAX_BODY, &app).await?;
    let incoming = channel.receive(Frame { headers: &headers, body: &body })?;
    connection.is_known();
    let session = session_of(&name, &incoming.conversation);
    let (send, begun) = oneshot::channel();
    let (own, named) = (Arc::clone(&app), session.clone());
    // A sender that leaves does not stop what it began.
    app.tasks.spawn(async move {
        let _ = send.send(take(&own, &name, named, incoming).await);
    });
    let run = begun.await.map_err(|_| Problem::internal("a request failed: its task ended"))??;
    let (id, repeated) = (&run.id, run.repeated);
    let status = if repeated { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok((status, Json(json!({"run": id, "session": session, "repeated": repeated}))))
}

/// Takes a message of a channel into its session.
async fn take(app: &App, name: &str, session: String, incoming: Incoming) -> Result<RunHandle, Problem> {
    let settings = app.project().settings().channels.get(name).cloned();
    let settings = settings.ok_or_else(|| Problem::internal("the channel has gone"))?;
    check_thread(&session)?;
    check_message_id(incoming.id.as_deref())?;
    if settings.to.is_some() {
        outbox::open(app, name, &settings.agent, &session, &incoming.conversation).await?;
    }
    say(app, settings.agent, session, incoming).await
}

/// Begins the run of a message that came through a channel.
pub(crate) async fn say(
    app: &App,
    agent: String,
    session: String,
    incoming: Incoming,
) -> Result<RunHandle, Problem> {
    let plan = AgentPlan { message_id: incoming.id, ..AgentPlan::new(agent, incoming.text) };
    begin_agent(app, AgentRequest { plan, thread: Some(session), ..AgentRequest::default() }).await
}

/// The session of a conversation on the other side: its name, or the digest of a name that can be none of a session.
fn session_of(channel: &str, conversation: &str) -> String {
    let plain = format!("{channel}:{conversation}");
    if !conversation.contains(':') && check_thread(&plain).is_ok() {
        return plain;
    }
    format!("{channel}::{:.32x}", Sha256::digest(conversation))
}

impl From<ChannelError> for Problem {
    fn from(error: ChannelError) -> Self {
        let status = match error {
            ChannelError::BadSignature | ChannelError::StaleSignature { .. } => StatusCode::UNAUTHORIZED,
            ChannelError::BadMessage { .. } => StatusCode::BAD_REQUEST,
            _ => {
                // Whoever knocks learns nothing of the settings.
                log::warn!("a channel is closed: {error}");
                let detail = "the channel is closed: the log of the server and `weft doctor` say why";
                return Self::new(StatusCode::SERVICE_UNAVAILABLE, error.code(), detail);
            }
        };
        Self::new(status, error.code(), error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversations_have_sessions_of_their_own() {
        assert_eq!(session_of("desk", "c-1"), "desk:c-1");
        let names =
            ["+49 171", "a/b", "a:b", "用户 1", &"x".repeat(200)].map(|name| session_of("desk", name));
        for name in &names {
            assert!(check_thread(name).is_ok() && name.starts_with("desk::"), "{name}");
        }
        let distinct: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), names.len());
    }
}

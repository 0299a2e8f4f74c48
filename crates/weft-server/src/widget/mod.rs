//! Chats that other sites embed: `[widgets.NAME]` of `weft.toml` under `/widget/NAME`.
//!
//! A user's browser draws a random key; the conversation is named by the digest of it. Who has the key reaches that
//! conversation and nothing else, so that nothing must be stored, and the server's own token is never sent to a site.

mod events;
mod files;
mod key;
mod limit;
mod reply;
mod socket;

use std::sync::Arc;

use axum::extract::{State, WebSocketUpgrade};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use session_channels::Incoming;
use weft_project::{WidgetLanguage, WidgetSettings, WidgetTheme};
use weft_runs::RunHandle;

use crate::access::bearer;
use crate::app::App;
use crate::body::{JsonBody, Path, Query};
use crate::channels;
use crate::connection::Connection;
use crate::problem::Problem;
use crate::runs::{IdempotencyKey, check_message_id};

use key::UserKey;
pub(crate) use limit::Limits;

/// Longest message of a user, in bytes.
const MAX_TEXT: usize = 16 * 1024;

/// Longest message of a socket, in bytes: a text whose characters are escapes.
const MAX_FRAME: usize = 8 * MAX_TEXT;

/// The form of a chat, for its page.
#[derive(Debug, Serialize)]
struct Look {
    title: String,
    greeting: Option<String>,
    language: Option<WidgetLanguage>,
    theme: WidgetTheme,
}

/// A message of a user.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MessageBody {
    text: String,
    message_id: Option<String>,
}

#[derive(Debug, Deserialize)]
struct EventsQuery {
    after: Option<usize>,
}

pub(crate) fn router() -> Router<Arc<App>> {
    Router::new()
        .route("/widget/{name}", get(page))
        .route("/widget/{name}/embed.js", get(script))
        .route("/widget/{name}/look", get(look))
        .route("/widget/{name}/messages", post(say))
        .route("/widget/{name}/events", get(follow))
        .route("/widget/{name}/socket", get(open_socket))
}

fn settings(app: &App, name: &str) -> Result<WidgetSettings, Problem> {
    let found = app.project().settings().widgets.get(name).cloned();
    found.ok_or_else(|| {
        Problem::not_found("unknown_widget", format!("unknown widget `{name}`"))
            .with_help("widgets are entries of [widgets] in weft.toml")
    })
}

async fn page(State(app): State<Arc<App>>, Path(name): Path<String>) -> Result<Response, Problem> {
    let widget = settings(&app, &name)?;
    Ok(files::page(&title_of(&app, &widget), &widget))
}

async fn script(State(app): State<Arc<App>>, Path(name): Path<String>) -> Result<Response, Problem> {
    settings(&app, &name)?;
    Ok(files::script())
}

async fn look(State(app): State<Arc<App>>, Path(name): Path<String>) -> Result<Json<Look>, Problem> {
    let widget = settings(&app, &name)?;
    let title = title_of(&app, &widget);
    let WidgetSettings { greeting, language, theme, .. } = widget;
    Ok(Json(Look { title, greeting, language, theme }))
}

/// The heading of the widget, else the name of its agent.
fn title_of(app: &App, widget: &WidgetSettings) -> String {
    let of_agent = || {
        let project = app.project();
        let file = project.agents().find(|file| file.profile.id == widget.agent);
        let name = file.map(|file| file.profile.name.clone()).filter(|name| !name.is_empty());
        name.unwrap_or_else(|| widget.agent.clone())
    };
    widget.title.clone().unwrap_or_else(of_agent)
}

fn user(headers: &HeaderMap, name: &str) -> Result<UserKey, Problem> {
    let given = bearer(headers).unwrap_or_default();
    UserKey::new(name, given).ok_or_else(|| {
        Problem::new(StatusCode::UNAUTHORIZED, "bad_key", "the key of the user is missing or too short")
            .with_help("send 32 random bytes in hexadecimal as `Authorization: Bearer …`")
    })
}

/// Takes a message, and streams the text of the answer as it is written.
async fn say(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    key: IdempotencyKey,
    headers: HeaderMap,
    JsonBody(body): JsonBody<MessageBody>,
) -> Result<Response, Problem> {
    let widget = settings(&app, &name)?;
    let user = user(&headers, &name)?;
    let incoming = Incoming::new(user.thread(), body.text).with_id(key.or(body.message_id)?);
    let begun = begin(&app, &widget, &user, incoming).await?;
    Ok(reply::sse(&app, begun).into_response())
}

/// Begins the run of a user's message.
async fn begin(
    app: &App,
    widget: &WidgetSettings,
    user: &UserKey,
    mut incoming: Incoming,
) -> Result<RunHandle, Problem> {
    check_message_id(incoming.id.as_deref())?;
    incoming.text = incoming.text.trim().to_owned();
    if incoming.text.is_empty() || incoming.text.len() > MAX_TEXT {
        let detail = format!("a message has 1 to {MAX_TEXT} bytes");
        return Err(Problem::bad_request("bad_message", detail));
    }
    if !app.access.limits.admits(user.thread(), widget.messages_per_minute, app.clock.elapsed()) {
        let detail = format!("{} messages a minute are taken", widget.messages_per_minute);
        return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_many_messages", detail));
    }
    channels::say(app, widget.agent.clone(), user.thread().to_owned(), incoming).await
}

/// Opens the chat of a user as a WebSocket, for pages of the server and of the widget's sites.
async fn open_socket(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    Extension(connection): Extension<Arc<Connection>>,
    headers: HeaderMap,
    upgrade: WebSocketUpgrade,
) -> Result<Response, Problem> {
    let widget = settings(&app, &name)?;
    app.access.check_page(&headers, &widget.origins)?;
    let upgrade = upgrade.max_message_size(MAX_FRAME).max_frame_size(MAX_FRAME);
    let upgrade = upgrade.write_buffer_size(0).max_write_buffer_size(64 * MAX_FRAME);
    Ok(upgrade.on_upgrade(move |socket| socket::serve(app, name, widget, socket, connection)).into_response())
}

/// Streams the conversation of a user: what was said behind `after`, then what is said.
async fn follow(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    Query(query): Query<EventsQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let widget = settings(&app, &name)?;
    let user = user(&headers, &name)?;
    Ok(events::stream(&app, widget.agent, &user, query.after.unwrap_or(0)))
}

//! Chats that other sites embed: `[widgets.NAME]` of `weft.toml` under `/widget/NAME`.
//!
//! A user's browser draws a random key; the conversation is named by the digest of it. Who has the key reaches that
//! conversation and nothing else, so that nothing must be stored, and the server's own token is never sent to a site.

mod events;
mod files;
mod key;
mod limit;
mod reply;

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use weft_project::{WidgetLanguage, WidgetSettings, WidgetTheme};
use weft_runs::{AgentPlan, AgentRequest};

use crate::access::bearer;
use crate::app::App;
use crate::body::{JsonBody, Path, Query};
use crate::problem::Problem;
use crate::runs::{IdempotencyKey, begin_agent};

use key::UserKey;
pub(crate) use limit::Limits;

/// Longest message of a user, in bytes.
const MAX_TEXT: usize = 16 * 1024;

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
    let text = body.text.trim();
    if text.is_empty() || text.len() > MAX_TEXT {
        let detail = format!("a message has 1 to {MAX_TEXT} bytes");
        return Err(Problem::bad_request("bad_message", detail));
    }
    if !app.access.limits.admits(user.thread(), widget.messages_per_minute, app.clock.elapsed()) {
        let detail = format!("{} messages a minute are taken", widget.messages_per_minute);
        return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_many_messages", detail));
    }
    let message_id = key.or(body.message_id)?;
    let plan = AgentPlan { message_id, ..AgentPlan::new(widget.agent.clone(), text.to_owned()) };
    let thread = Some(user.thread().to_owned());
    let begun = begin_agent(&app, AgentRequest { plan, thread, ..AgentRequest::default() }).await?;
    Ok(reply::stream(&app, begun).into_response())
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

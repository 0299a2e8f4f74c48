//! `/hooks/{id}`: messages of other systems that start agents. Each hook has a secret of its own in place of the server's token.

use std::sync::Arc;

use agent_triggers::{TriggerKind, Webhook};
use axum::body::Body;
use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};
use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use weft_runs::Firing;

use crate::access::bearer;
use crate::app::App;
use crate::body::{Path, read_up_to};
use crate::problem::Problem;
use crate::signature;
use crate::token::is_same;

/// Header of a secret, beside `Authorization`.
const SECRET: &str = "x-hook-secret";

/// Headers by which systems name a message, so that one that comes again is known.
const MESSAGE_ID: [&str; 3] = ["webhook-id", "idempotency-key", "x-github-delivery"];

/// Longest name of a message.
const MAX_ID: usize = 256;

pub(crate) fn router() -> Router<Arc<App>> {
    Router::new().route("/hooks/{hook}", post(answer))
}

async fn answer(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<Value>), Problem> {
    let webhook = hook(&app, &id)?;
    check_secret(&webhook, &headers)?;
    let body = read_up_to(body, webhook.max_body, &app).await?;
    let signed = match &webhook.signature {
        Some(signature) => {
            let key = secret(&signature.secret)?;
            Some(signature::check(signature, &key, (&headers, &body), app.clock.now())?)
        }
        None => None,
    };
    let body = value_of(&body);
    let firing = Firing::webhook(&body, message_id(&headers)).with_signature(signed);
    let (send, begun) = oneshot::channel();
    let own = Arc::clone(&app);
    // A sender that leaves does not stop what it began.
    app.tasks.spawn(async move {
        let _ = send.send(own.runs.fire_trigger(&id, firing).await);
    });
    let run = begun.await.map_err(|_| Problem::internal("a request failed: its task ended"))??;
    Ok(if run.repeated {
        (StatusCode::OK, Json(json!({"run": run.id, "repeated": true})))
    } else {
        (StatusCode::ACCEPTED, Json(json!({"run": run.id})))
    })
}

/// A body: JSON, or else a text. One with a whole number beyond 64 bits is a text: as JSON it would be rounded.
pub(crate) fn value_of(body: &[u8]) -> Value {
    agent_types::read_json(body).unwrap_or_else(|_| String::from_utf8_lossy(body).into())
}

/// The webhook of an id.
fn hook(app: &App, id: &str) -> Result<Webhook, Problem> {
    let project = app.project();
    let entry = project.trigger(id).ok().filter(|entry| entry.trigger.enabled);
    match entry.map(|entry| &entry.trigger.kind) {
        Some(TriggerKind::Webhook(webhook)) => Ok(webhook.clone()),
        _ => Err(Problem::not_found("unknown_hook", "this server has no such hook")),
    }
}

/// A secret of a hook.
fn secret(name: &str) -> Result<String, Problem> {
    std::env::var(name).ok().filter(|secret| !secret.is_empty()).ok_or_else(|| {
        log::error!("a hook is closed: {name} is not set");
        let detail = "the secret of this hook is not set";
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "missing_secret", detail)
    })
}

fn check_secret(webhook: &Webhook, headers: &HeaderMap) -> Result<(), Problem> {
    let Some(name) = &webhook.secret else { return Ok(()) };
    let secret = secret(name)?;
    let given = headers.get(SECRET).and_then(|given| given.to_str().ok()).or_else(|| bearer(headers));
    if given.is_some_and(|given| is_same(given, &secret)) {
        return Ok(());
    }
    let detail = "the secret is not that of this hook";
    Err(Problem::new(StatusCode::UNAUTHORIZED, "bad_hook_secret", detail)
        .with_help("send it as `Authorization: Bearer SECRET` or `X-Hook-Secret: SECRET`"))
}

/// The sender's name of a message.
fn message_id(headers: &HeaderMap) -> Option<String> {
    let named = MESSAGE_ID.into_iter().find_map(|name| headers.get(name)?.to_str().ok());
    named.filter(|id| !id.is_empty() && id.len() <= MAX_ID).map(str::to_owned)
}

//! Agents as models of any OpenAI client: `/v1/models`, `/v1/chat/completions`.

mod answer;
mod content;
mod request;
mod stream;

use std::sync::Arc;

use agent_types::RunId;
use axum::Json;
use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use http::{HeaderName, HeaderValue, StatusCode, header};
use serde::Serialize;
use serde_json::{Value, json};
use weft_runs::{RunHandle, RunService};

use crate::app::App;
use crate::body::{JsonBody, Path};
use crate::problem::Problem;
use crate::runs::{IdempotencyKey, begin_agent};

pub(crate) use content::Content;
use request::{ChatBody, Wanted};

/// Header by which a client decides on a retry: agents may have caused effects already.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// The run that a completion was.
const RUN: HeaderName = HeaderName::from_static("x-weft-run");

/// Returns `true` for paths of this interface.
pub(crate) fn is_below(path: &str) -> bool {
    path == "/v1" || path.starts_with("/v1/")
}

/// A refusal as these clients read it.
pub(crate) fn refusal(problem: &Problem) -> Response {
    let mut response = (problem.status, Json(json!({"error": error_of(problem)}))).into_response();
    let headers = response.headers_mut();
    if problem.status == StatusCode::UNAUTHORIZED {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if problem.status == StatusCode::TOO_MANY_REQUESTS {
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    } else {
        headers.insert(SHOULD_RETRY, HeaderValue::from_static("false"));
    }
    response
}

/// The error object of these clients.
fn error_of(problem: &Problem) -> Value {
    let kind = match problem.status.as_u16() {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        429 => "rate_limit_error",
        400..=499 => "invalid_request_error",
        _ => "server_error",
    };
    let code = match &*problem.code {
        "unknown_agent" => "model_not_found",
        "bad_token" | "token_required" => "invalid_api_key",
        other => other,
    };
    let message = match &problem.help {
        Some(help) => format!("{}; {help}", problem.detail),
        None => problem.detail.clone(),
    };
    let mut error = json!({"message": message, "type": kind, "param": null, "code": code});
    if let Some(run) = problem.run() {
        error["run"] = run.clone();
    }
    error
}

/// A refusal of a handler, in this interface's form.
struct Refused(Problem);

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        refusal(&self.0)
    }
}

impl From<Problem> for Refused {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

/// Cancels a run whose client disconnects. A run that the server leaves at shutdown stays as it is, and can be resumed.
struct CancelOnDrop {
    app: Arc<App>,
    run: RunId,
    has_ended: bool,
}

impl CancelOnDrop {
    /// A guard of a run. One that an earlier request began is that request's to cancel.
    fn new(app: &Arc<App>, begun: &RunHandle) -> Self {
        Self { app: Arc::clone(app), run: begun.id.clone(), has_ended: begun.repeated }
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if self.has_ended || self.app.closed.is_cancelled() {
            return;
        }
        let (runs, run) = (self.app.runs.clone(), self.run.clone());
        self.app.tasks.spawn(async move {
            if let Err(error) = runs.cancel(&run).await {
                log::warn!("{run} could not be cancelled: {error}");
            }
        });
    }
}

pub(crate) fn router() -> Router<Arc<App>> {
    Router::new()
        .route("/v1/models", get(models))
        .route("/v1/models/{model}", get(model))
        .route("/v1/chat/completions", post(complete))
        .route("/v1", any(nothing))
        .route("/v1/", any(nothing))
        .route("/v1/{*rest}", any(nothing))
}

async fn nothing() -> Refused {
    Refused(Problem::not_found("not_found", "there are models and chat completions, and nothing else"))
}

/// An agent as a model.
#[derive(Debug, Serialize)]
struct Model {
    id: String,
    object: &'static str,
    created: i64,
    owned_by: &'static str,
    description: Option<String>,
}

fn all_models(app: &App) -> Vec<Model> {
    let model = |id: &str, description: Option<String>| Model {
        id: id.to_owned(),
        object: "model",
        created: app.started,
        owned_by: "weft",
        description,
    };
    let project = app.project();
    let agents = project.agents().map(|file| model(&file.profile.id, file.profile.description.clone()));
    let mut models: Vec<Model> = agents.collect();
    // The agent that answers where the project has none of its own.
    if let (Ok(Some(_)), Ok(id)) = (project.flows_file(), project.flows_agent())
        && models.iter().all(|known| known.id != id)
    {
        models.push(model(id, None));
    }
    models
}

async fn models(State(app): State<Arc<App>>) -> Json<Value> {
    Json(json!({"object": "list", "data": all_models(&app)}))
}

async fn model(
    State(app): State<Arc<App>>,
    path: Result<Path<String>, Problem>,
) -> Result<Json<Model>, Refused> {
    let Path(id) = path?;
    let found = all_models(&app).into_iter().find(|model| model.id == id);
    let none = || Problem::not_found("unknown_agent", format!("unknown agent `{id}`"));
    Ok(Json(found.ok_or_else(none)?))
}

async fn complete(
    State(app): State<Arc<App>>,
    key: IdempotencyKey,
    body: Result<JsonBody<ChatBody>, Problem>,
) -> Result<Response, Refused> {
    let JsonBody(body) = body?;
    let Wanted { mut request, form } = request::read(body)?;
    request.plan.message_id = key.or(request.plan.message_id)?;
    let has_tools = app
        .with_project({
            let id = request.plan.agent.clone();
            move |project| Ok(!project.agent(&id)?.offered().is_empty())
        })
        .await?;
    let is_strict = request.plan.schema.is_some();
    let agent = request.plan.agent.clone();
    let begun = begin_agent(&app, request).await?;
    let run = HeaderValue::from_str(begun.id.as_str()).ok();
    let content = Content::new(has_tools, is_strict);
    let mut response = if form.stream {
        stream::answer(&app, agent, begun, form, content)
    } else {
        answer::answer(&app, agent, begun, form, content).await?
    };
    response.headers_mut().extend(run.map(|run| (RUN, run)));
    Ok(response)
}

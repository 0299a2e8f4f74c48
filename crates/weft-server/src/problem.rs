//! Refusal of a request: `application/problem+json`, with a stable code.

use std::borrow::Cow;
use std::ops::Deref;

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use run_store::StoreError;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde_json::{Map, Value};
use tool_registry::Fault;
use weft_project::ProjectError;
use weft_runs::RunsError;

/// Refusal of a request. Small, so that results are.
#[derive(Debug, Clone, Serialize)]
#[serde(transparent)]
pub(crate) struct Problem(Box<Fields>);

impl Deref for Problem {
    type Target = Fields;

    fn deref(&self) -> &Fields {
        &self.0
    }
}

impl JsonSchema for Problem {
    fn schema_name() -> Cow<'static, str> {
        "Problem".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Fields::json_schema(generator)
    }
}

/// Fields of a refusal.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Fields {
    /// Always `about:blank`: the code says which kind it is.
    #[serde(rename = "type")]
    kind: &'static str,
    /// The status in words.
    title: Cow<'static, str>,
    /// The HTTP status.
    #[schemars(with = "u16")]
    #[serde(serialize_with = "as_number")]
    pub(crate) status: StatusCode,
    /// Stable code; `weft explain CODE` says more.
    pub(crate) code: Cow<'static, str>,
    /// Fault, for a person.
    pub(crate) detail: String,
    /// Fix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) help: Option<String>,
    /// Further fields for a program.
    #[serde(flatten)]
    extra: Map<String, Value>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn as_number<S: serde::Serializer>(status: &StatusCode, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u16(status.as_u16())
}

impl Problem {
    pub(crate) fn new(
        status: StatusCode,
        code: impl Into<Cow<'static, str>>,
        detail: impl Into<String>,
    ) -> Self {
        Self(Box::new(Fields {
            kind: "about:blank",
            title: status.canonical_reason().unwrap_or("Error").into(),
            status,
            code: code.into(),
            detail: detail.into(),
            help: None,
            extra: Map::new(),
        }))
    }

    pub(crate) fn bad_request(code: impl Into<Cow<'static, str>>, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, detail)
    }

    pub(crate) fn not_found(code: impl Into<Cow<'static, str>>, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, code, detail)
    }

    pub(crate) fn conflict(code: impl Into<Cow<'static, str>>, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, code, detail)
    }

    /// Something that should not happen: the log has it, the client hears little.
    pub(crate) fn internal(message: &str) -> Self {
        log::error!("{message}");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the server failed; its log says how")
    }

    pub(crate) fn with_help(mut self, help: impl Into<String>) -> Self {
        self.0.help = Some(help.into());
        self
    }

    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.extra.insert(name.to_owned(), value.into());
        self
    }
}

impl Fields {
    /// The run that the refusal is about.
    pub(crate) fn run(&self) -> Option<&Value> {
        self.extra.get("run")
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = self.status;
        let mut response = (status, Json(&self)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        let status = match error {
            StoreError::UnknownRun { .. } | StoreError::UnknownAsk { .. } => StatusCode::NOT_FOUND,
            StoreError::UnknownNode { .. } | StoreError::NotKept { .. } | StoreError::UnfitAnswer { .. } => {
                StatusCode::UNPROCESSABLE_ENTITY
            }
            StoreError::RunEnded { .. } | StoreError::RunBusy { .. } => StatusCode::CONFLICT,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, error.code(), error.to_string()).with_help(error.hint())
    }
}

impl From<ProjectError> for Problem {
    fn from(error: ProjectError) -> Self {
        let status = match error {
            ProjectError::Store(error) => return error.into(),
            ProjectError::UnknownAgent { .. }
            | ProjectError::UnknownTrigger { .. }
            | ProjectError::UnknownToolId { .. }
            | ProjectError::UnknownWorkflow { .. }
            | ProjectError::NotItsTool { .. }
            | ProjectError::MissingFile { .. } => StatusCode::NOT_FOUND,
            ProjectError::Tool(ref broken) => match broken.fault {
                Fault::Invalid => StatusCode::UNPROCESSABLE_ENTITY,
                Fault::Unknown => StatusCode::NOT_FOUND,
                Fault::Settings | Fault::Unreachable => StatusCode::SERVICE_UNAVAILABLE,
            },
            ProjectError::BadWorkflowId { .. } => StatusCode::BAD_REQUEST,
            ProjectError::ChangedMeanwhile { .. } => StatusCode::CONFLICT,
            ProjectError::Model(_) | ProjectError::AgentModel { .. } | ProjectError::NoProject { .. } => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            _ => StatusCode::UNPROCESSABLE_ENTITY,
        };
        let mut problem = Self::new(status, error.code(), error.to_string());
        if let ProjectError::Invalid(error) = &error {
            problem = problem.with("problems", serde_json::to_value(&error.problems).unwrap_or_default());
        }
        problem.0.help = error.help();
        match error.place() {
            Some((_, Some(line), column)) => problem.with("line", line).with("column", column),
            _ => problem,
        }
    }
}

impl From<RunsError> for Problem {
    fn from(error: RunsError) -> Self {
        let status = match error {
            RunsError::Project(error) => return error.into(),
            RunsError::Session(ref error) if error.is_of_seat() => StatusCode::CONFLICT,
            RunsError::Session(ref error) if error.is_of_id() => match error.code() {
                "unknown_flow" => StatusCode::NOT_FOUND,
                _ => StatusCode::UNPROCESSABLE_ENTITY,
            },
            RunsError::Session(error) => return Self::internal(&error.to_string()),
            RunsError::ShuttingDown | RunsError::Left { .. } => StatusCode::SERVICE_UNAVAILABLE,
            RunsError::QueueFull { .. } => StatusCode::TOO_MANY_REQUESTS,
            RunsError::RunWaiting { .. }
            | RunsError::RunInterrupted { .. }
            | RunsError::ThreadBusy { .. }
            | RunsError::ThreadFull { .. }
            | RunsError::WhichAsk { .. }
            | RunsError::PlanChanged { .. }
            | RunsError::NotResumable { .. }
            | RunsError::NotRetryable { .. } => StatusCode::CONFLICT,
            RunsError::UnknownAsk { .. } | RunsError::UnknownRequest { .. } => StatusCode::NOT_FOUND,
            RunsError::NoNodes => StatusCode::BAD_REQUEST,
            RunsError::Failed { .. } => StatusCode::INTERNAL_SERVER_ERROR,
            _ => StatusCode::UNPROCESSABLE_ENTITY,
        };
        let mut problem = Self::new(status, error.code().to_owned(), error.to_string());
        problem.0.help = error.help();
        match error {
            RunsError::RunWaiting { run }
            | RunsError::RunInterrupted { run }
            | RunsError::ThreadBusy { run: Some(run) } => problem.with("run", run),
            RunsError::InvalidInputs { problems, .. } => problem.with("problems", problems),
            _ => problem,
        }
    }
}

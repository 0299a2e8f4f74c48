//! Work of a server that reports its end by itself, to a one-time address of the running server.

use std::fmt;
use std::time::Duration;

use agent_types::{CallId, Problem, RunId};
use async_trait::async_trait;
use http_caller::{CallValues, Endpoint, HttpAnswer, HttpCaller, HttpError};
use serde_json::{Map, Value, json};
use tool_registry::{ToolContext, ToolError, ToolErrorKind};

use crate::async_config::{AsyncConfig, CallbackConfig};
use crate::error::HttpToolError;
use crate::failure::tool_error;
use crate::file::HttpToolFile;
use crate::progress::{Progress, check_repeat};

/// Call that waits for a callback.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallbackRequest {
    /// Run of the call.
    pub run: RunId,
    /// The call.
    pub call: CallId,
    /// Time in which the callback may come.
    pub limit: Duration,
    /// Longest body, in bytes.
    pub max_body: usize,
}

impl CallbackRequest {
    /// The callback of a call, which may come within a time.
    #[must_use]
    pub const fn new(run: RunId, call: CallId, limit: Duration, max_body: usize) -> Self {
        Self { run, call, limit, max_body }
    }
}

/// One-time address of a call.
#[derive(Clone, PartialEq, Eq)]
pub struct OpenCallback {
    /// Name under which the call finds its callback again, in another process too.
    pub id: String,
    /// The address, which holds a secret.
    pub url: String,
}

impl fmt::Debug for OpenCallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenCallback").field("id", &self.id).finish_non_exhaustive()
    }
}

/// One-time addresses of a server, which other systems call when their work has ended. A service of calls.
#[async_trait]
pub trait Callbacks: Send + Sync + fmt::Debug {
    /// Opens an address for a call.
    ///
    /// # Errors
    /// No server runs, or it has no public address.
    async fn open(&self, request: CallbackRequest) -> Result<OpenCallback, ToolError>;

    /// Waits for the body that is sent to an address, however often it is asked for.
    ///
    /// # Errors
    /// The address has expired or was closed.
    async fn body(&self, id: &str) -> Result<Value, ToolError>;

    /// Waits until what calls have saved so far is safe.
    ///
    /// # Errors
    /// It cannot be written.
    async fn flush(&self) -> Result<(), ToolError>;

    /// Closes an address: what is sent to it is refused.
    async fn close(&self, id: &str);
}

/// Waiting for the callback of a tool.
#[derive(Debug, Clone)]
pub(crate) struct CallbackWait {
    name: String,
    max_body: usize,
    pub(crate) limit: Duration,
    progress: Progress,
}

impl CallbackWait {
    pub(crate) fn new(
        callback: &CallbackConfig,
        config: &AsyncConfig,
        file: &HttpToolFile,
    ) -> Result<Self, HttpToolError> {
        let problem =
            |message: String| HttpToolError::Async(Problem::error("bad_tool_file", message).path("callback"));
        if config.poll.is_some() || config.interval_ms.is_some() {
            return Err(problem("`poll` and `interval_ms` are of work that is polled; remove them".into()));
        }
        let placeholder = format!("{{{}}}", callback.name);
        if !json!(file.endpoint).to_string().contains(&placeholder) {
            return Err(problem(format!(
                "the request does not carry the address; add `{placeholder}` to it"
            )));
        }
        Ok(Self {
            name: callback.name.clone(),
            max_body: callback.max_body_kib.saturating_mul(1024),
            limit: config.limit(),
            progress: Progress::new(config)?,
        })
    }

    /// The result of the work that a request starts; of work that another process started, its callback is awaited.
    pub(crate) async fn result(
        &self,
        endpoint: &Endpoint,
        caller: &HttpCaller,
        arguments: &Map<String, Value>,
        cx: &ToolContext,
    ) -> Result<HttpAnswer, ToolError> {
        let callbacks = cx.services.get::<dyn Callbacks>().ok_or_else(no_server)?;
        if let Some(saved) = cx.saved.as_deref()
            && let Some(id) = saved.get("callback").and_then(Value::as_str)
        {
            let start = if saved.get("sent").is_some() { Start::Accepted } else { Start::Unknown };
            return self.reported((&*callbacks, id), start, endpoint).await;
        }
        check_repeat(endpoint, cx)?;
        let request = CallbackRequest::new(cx.run().clone(), cx.call.clone(), self.limit, self.max_body);
        let OpenCallback { id, url } = callbacks.open(request).await?;
        // The other system may report before it answers, and this process may end before it does.
        cx.save(&json!({"callback": id}));
        callbacks.flush().await?;
        let values = CallValues { arguments, context: &self.context(cx, url) };
        let answer = match caller.call(&endpoint.unshaped(), values).await {
            Err(error) if is_ambiguous(&error) => {
                return self.reported((&*callbacks, &id), Start::Unknown, endpoint).await;
            }
            answer => answer.map_err(|error| tool_error(&error)),
        };
        let done = answer.and_then(|answer| Ok((!self.progress.continues(&answer)?).then_some(answer)));
        let Some(done) = done.transpose() else {
            cx.save(&json!({"callback": id, "sent": true}));
            return self.reported((&*callbacks, &id), Start::Accepted, endpoint).await;
        };
        callbacks.close(&id).await;
        // A connection may break behind the request: a report that came already counts.
        if let Err(error) = &done
            && error.retryable
            && let Ok(body) = callbacks.body(&id).await
        {
            return self.ended(body, endpoint);
        }
        done?.shaped(endpoint).map_err(|error| tool_error(&error))
    }

    /// The hidden values of the request, with the address.
    fn context(&self, cx: &ToolContext, url: String) -> Map<String, Value> {
        let mut context = Map::clone(&cx.values);
        context.insert(self.name.clone(), url.into());
        context
    }

    /// The result that a callback reports.
    async fn reported(
        &self,
        (callbacks, id): (&dyn Callbacks, &str),
        start: Start,
        endpoint: &Endpoint,
    ) -> Result<HttpAnswer, ToolError> {
        let body = callbacks.body(id).await.map_err(|error| match start {
            Start::Unknown if error.code == Some("callback_expired") => unknown_outcome(),
            Start::Unknown | Start::Accepted => error,
        })?;
        self.ended(body, endpoint)
    }

    /// The result of work whose report came.
    fn ended(&self, body: Value, endpoint: &Endpoint) -> Result<HttpAnswer, ToolError> {
        self.progress.check(&body)?;
        HttpAnswer::new(200, body).shaped(endpoint).map_err(|error| tool_error(&error))
    }
}

/// Knowledge of the request that begins the work.
#[derive(Debug, Clone, Copy)]
enum Start {
    /// The other system has accepted it.
    Accepted,
    /// Its answer is missing.
    Unknown,
}

/// Returns `true` for a failure after which the other system may have begun the work.
const fn is_ambiguous(error: &HttpError) -> bool {
    matches!(
        error,
        HttpError::Timeout { .. }
            | HttpError::BadAnswer { .. }
            | HttpError::TooLarge { .. }
            | HttpError::Status { status: 502 | 504, .. }
    )
}

fn unknown_outcome() -> ToolError {
    let message = "its outcome is unknown: the request got no answer, and no report came in time";
    ToolError::new(ToolErrorKind::Failed, message).with_code("unknown_outcome")
}

fn no_server() -> ToolError {
    ToolError::new(ToolErrorKind::Refused, "the tool waits for a callback, and no server runs to take it")
        .with_code("no_callback_server")
        .with_detail("run it in a project under `weft serve`")
}

//! Calling a tool of a server.

use std::sync::Arc;

use agent_types::EventBody;
use async_trait::async_trait;
use rmcp::RoleClient;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, CancelledNotification,
    CancelledNotificationParam, ClientNotification, ClientRequest, ProgressNotificationParam, ProgressToken,
    RequestId, ServerResult,
};
use rmcp::service::{Peer, PeerRequestOptions, ServiceError};
use serde_json::{Map, Value};
use tool_registry::{ToolContext, ToolError, ToolErrorKind, ToolHandler, ToolOutput};

use super::Background;
use super::connection::{Connection, Reached};
use super::foreign::harmless;
use super::progress::Progress;
use crate::content;

/// Longest message of a step, in characters.
const MAX_MESSAGE: usize = 500;

/// Calls a tool of a server.
#[derive(Debug)]
pub(super) struct ForeignHandler {
    pub(super) connection: Arc<Connection>,
    pub(super) runtime: Arc<Background>,
    /// As the server calls it.
    pub(super) name: String,
}

#[async_trait]
impl ToolHandler for ForeignHandler {
    async fn call(&self, arguments: Map<String, Value>, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let Reached { peer, progress } = self.reach().await?;
        let params = CallToolRequestParams::new(self.name.clone()).with_arguments(arguments);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let options = PeerRequestOptions::no_options();
        let mut handle =
            peer.send_cancellable_request(request, options).await.map_err(|error| self.failed(&error))?;
        let mut steps = progress.follow(&handle.progress_token);
        let guard = CallGuard {
            runtime: Arc::clone(&self.runtime),
            progress,
            token: handle.progress_token.clone(),
            call: Some((peer, handle.id.clone())),
        };
        let result = loop {
            tokio::select! {
                // Steps come before the answer that they led to.
                biased;
                Some(step) = steps.recv() => self.emit_step(cx, step),
                answer = &mut handle.rx => break answer.unwrap_or(Err(ServiceError::TransportClosed)),
                // The guard tells the server.
                () = cx.cancel.cancelled() => {
                    return Err(ToolError::new(ToolErrorKind::Cancelled, "cancelled"));
                }
            }
        };
        guard.answered();
        match result.map_err(|error| self.failed(&error))? {
            ServerResult::CallToolResult(result) => content::output(self.masked(result)?),
            ServerResult::CustomResult(result) => self.output_in_part(&result.0, cx),
            ServerResult::InputRequiredResult(_) => {
                Err(ToolError::failed("the server wants something of a person first").retryable(false))
            }
            _ => Err(invalid_result()),
        }
    }
}

fn invalid_result() -> ToolError {
    ToolError::failed("the server answered with an invalid result").retryable(false)
}

impl ForeignHandler {
    /// The valid parts of a result that does not fit the protocol. What is left out is emitted and logged.
    fn output_in_part(&self, result: &Value, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let (result, faults) = content::lenient(result).ok_or_else(invalid_result)?;
        for fault in faults {
            let message = harmless(&fault, MAX_MESSAGE);
            log::warn!(target: "mcp", "{}/{}: {message}", self.connection.name, self.name);
            cx.emit(EventBody::NodeProgress { message: Some(message), value: None, max: None });
        }
        content::output(self.masked(result)?)
    }

    /// The server, wherever this is called from.
    async fn reach(&self) -> Result<Reached, ToolError> {
        let over = || ToolError::failed("MCP servers are no longer reached").retryable(false);
        let handle = self.runtime.handle().ok_or_else(over)?;
        let connection = Arc::clone(&self.connection);
        let reached = handle.spawn(async move { connection.ready().await }).await;
        Ok(reached.map_err(|_| over())??)
    }

    /// A text of the server as it may be shown.
    fn shown(&self, text: &str) -> String {
        harmless(&self.connection.masks.mask(text), MAX_MESSAGE)
    }

    /// A result without what the server was given.
    fn masked(&self, result: CallToolResult) -> Result<CallToolResult, ToolError> {
        let masks = &self.connection.masks;
        if !masks.is_set() {
            return Ok(result);
        }
        let value = serde_json::to_value(&result).map(|value| masks.value(value));
        value.and_then(serde_json::from_value).map_err(|_| invalid_result())
    }

    fn emit_step(&self, cx: &ToolContext, step: ProgressNotificationParam) {
        let message = step.message.map(|message| self.shown(&message));
        cx.emit(EventBody::NodeProgress { message, value: Some(step.progress), max: step.total });
    }

    fn failed(&self, error: &ServiceError) -> ToolError {
        match error {
            ServiceError::McpError(reported) => {
                ToolError::failed(self.shown(&reported.message)).with_code("mcp_error").retryable(false)
            }
            ServiceError::TransportClosed => {
                ToolError::failed("the server went away during the call").with_code("mcp_down")
            }
            other => {
                let cause = other.to_string();
                // What the server wrote is for the model; what the client met is for the log.
                let words = cause.split_once(ANSWERED).map(|(_, words)| self.shown(words));
                let words = words.unwrap_or_else(|| "the call could not be made".to_owned());
                ToolError::failed(words).with_code("mcp_error").with_detail(self.shown(&cause))
            }
        }
    }
}

/// Words before what a server wrote in place of an answer.
const ANSWERED: &str = "unexpected server response: ";

/// Notifies the server of the cancellation when a call is dropped before its answer came.
struct CallGuard {
    runtime: Arc<Background>,
    progress: Arc<Progress>,
    token: ProgressToken,
    call: Option<(Peer<RoleClient>, RequestId)>,
}

impl CallGuard {
    fn answered(mut self) {
        self.call = None;
    }
}

impl Drop for CallGuard {
    fn drop(&mut self) {
        self.progress.forget(&self.token);
        let Some((peer, id)) = self.call.take() else { return };
        let Some(handle) = self.runtime.handle() else { return };
        let farewell = self.runtime.farewell();
        handle.spawn(async move {
            let _farewell = farewell;
            let param = CancelledNotificationParam::new(Some(id), Some("the call was given up".to_owned()));
            let cancelled = ClientNotification::CancelledNotification(CancelledNotification::new(param));
            // A server that is gone need not know.
            let _ = peer.send_notification(cancelled).await;
        });
    }
}

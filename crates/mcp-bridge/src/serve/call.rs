//! One call of a client.

use std::sync::Arc;

use agent_types::{EventBody, Problem, TraceEvent};
use futures::StreamExt;
use rmcp::RoleServer;
use rmcp::model::{
    CallToolRequestParams, CallToolResult, ContentBlock, ProgressNotificationParam, ProgressToken,
};
use rmcp::service::{Peer, RequestContext};
use serde_json::{Map, Value, json};
use tool_registry::{CallEnd, CallOutcome, Tool, ToolError};
use tool_schema::wire_name;

use super::log_lines::{self, Level};
use super::{ClientCall, McpPeer, McpServer, Session, StartedCall};
use crate::content;

/// Longest list of names in an error.
const NAMED: usize = 20;

/// Runs the call that a request asks for.
pub(super) async fn call(
    server: &McpServer,
    request: CallToolRequestParams,
    context: RequestContext<RoleServer>,
) -> Result<CallToolResult, rmcp::ErrorData> {
    let tools = server.shared.tools.snapshot();
    let by_wire = || tools.tools().find(|tool| wire_name(tool.id().as_str()) == request.name);
    let Some(tool) = tools.get(&request.name).or_else(by_wire) else {
        return Err(unknown(
            &request.name,
            tools.tools().map(|tool| wire_name(tool.id().as_str())).collect(),
        ));
    };
    let arguments = with_own_names(tool, request.arguments.unwrap_or_default());
    let schema = match tool.schema() {
        Ok(schema) => schema,
        Err(error) => return Ok(failed(&error.to_string())),
    };
    let mut typed = schema.type_json(Value::Object(arguments));
    if !typed.problems.is_empty() {
        return Ok(failed(&format!(
            "Invalid parameters for {}: {}",
            request.name,
            Problem::messages(&typed.problems)
        )));
    }
    for (name, value) in &tool.definition().defaults {
        typed.arguments.entry(name.as_str()).or_insert_with(|| value.clone());
    }
    let peer = McpPeer::new(context.peer.clone(), context.client_capabilities());
    let call = ClientCall::new(tool.clone(), typed.arguments, peer, context.ct.child_token());
    let started = match server.shared.calls.begin(call).await {
        Ok(started) => started,
        Err(error) => return Ok(failed(&error.message_for_model)),
    };
    let reporter = Reporter {
        peer: context.peer.clone(),
        session: Arc::clone(&server.session),
        token: context.meta.get_progress_token(),
        reported: 0.0,
    };
    let outcome = match outcome_of(reporter, started).await {
        Ok(outcome) => outcome,
        Err(error) => return Ok(failed(&error.message_for_model)),
    };
    Ok(match outcome.end {
        CallEnd::Ok(output) => content::result(&output),
        CallEnd::Failed(error) if !error.asks.is_empty() => {
            let asks: Vec<&str> = error.asks.iter().filter_map(|ask| ask.prompt.as_deref()).collect();
            failed(&format!("a user must answer first, and calls over MCP cannot wait: {}", asks.join("; ")))
        }
        end => failed(&end.message()),
    })
}

fn unknown(name: &str, known: Vec<String>) -> rmcp::ErrorData {
    let near = agent_types::nearest(name, known.iter().map(String::as_str));
    let hint = near.map(|near| format!(", did you mean {near}?")).unwrap_or_default();
    let message = format!("Unknown tool: {name}{hint}");
    let named: Vec<String> = known.into_iter().take(NAMED).collect();
    rmcp::ErrorData::invalid_params(message, Some(json!({ "available": named })))
}

fn failed(message: &str) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(message)])
}

/// Parameters whose names are none elsewhere were shown under their wire names.
fn with_own_names(tool: &Tool, arguments: Map<String, Value>) -> Map<String, Value> {
    let Some(own) = tool.definition().parameters.get("properties").and_then(Value::as_object) else {
        return arguments;
    };
    let named = |given: String| {
        if own.contains_key(&given) {
            return given;
        }
        own.keys().find(|name| wire_name(name) == given).cloned().unwrap_or(given)
    };
    arguments.into_iter().map(|(name, value)| (named(name), value)).collect()
}

/// Reports the progress of a running call to a client.
struct Reporter {
    peer: Peer<RoleServer>,
    session: Arc<Session>,
    token: Option<ProgressToken>,
    /// Progress so far: it must grow.
    reported: f64,
}

/// Waits for the outcome of a call, and sends its events to the client as they come.
async fn outcome_of(mut reporter: Reporter, started: StartedCall) -> Result<CallOutcome, ToolError> {
    let StartedCall { events, mut outcome } = started;
    let mut events = events.fuse();
    let ended = loop {
        tokio::select! {
            // Events before the end are sent before it.
            biased;
            Some(group) = events.next() => reporter.take(&group).await,
            ended = &mut outcome => break ended,
        }
    };
    while let Some(group) = events.next().await {
        reporter.take(&group).await;
    }
    ended
}

impl Reporter {
    async fn take(&mut self, group: &[TraceEvent]) {
        for event in group {
            self.report(event).await;
        }
    }

    async fn report(&mut self, event: &TraceEvent) {
        match &event.body {
            EventBody::NodeProgress { message, value, max } => {
                self.progress(*value, *max, message.clone()).await;
            }
            EventBody::AgentToolChunk { text, .. } => self.progress(None, None, Some(text.clone())).await,
            EventBody::NodeFinished { .. } => {
                self.progress(None, None, event.place.path.as_deref().map(str::to_owned)).await;
            }
            EventBody::LogLine { level, message } => self.log(Level::of_word(level), message).await,
            EventBody::AgentWarning { message, .. } => self.log(Level::Warning, message).await,
            _ => {}
        }
    }

    /// A client that is gone receives nothing more; the call ends by itself.
    async fn progress(&mut self, value: Option<f64>, max: Option<f64>, message: Option<String>) {
        let Some(token) = &self.token else { return };
        let progress = value.unwrap_or(self.reported + 1.0);
        if self.reported > 0.0 && progress <= self.reported {
            return;
        }
        self.reported = progress;
        let mut param = ProgressNotificationParam::new(token.clone(), progress);
        (param.total, param.message) = (max, message);
        let _ = self.peer.notify_progress(param).await;
    }

    async fn log(&self, level: Level, message: &str) {
        if self.session.wants(level) {
            log_lines::send(&self.peer, level, message).await;
        }
    }
}

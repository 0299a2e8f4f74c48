//! The project's tools for clients of the Model Context Protocol, at `/mcp` and `/mcp/<agent>`.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::any;
use mcp_bridge::{CallContextProvider, CallPermit, CallScope, McpHttp};
use parking_lot::Mutex;
use tool_registry::{Tool, ToolError};
use weft_project::ProjectMcp;
use weft_runs::{CallRoom, RunsError};

use crate::app::App;
use crate::body::Path;
use crate::problem::Problem;

/// The servers that clients have asked for: that of all tools, and those of agents.
#[derive(Debug, Default)]
pub(crate) struct McpServers(Mutex<HashMap<Option<String>, McpHttp>>);

impl McpServers {
    fn of(&self, app: &Arc<App>, agent: Option<&str>) -> McpHttp {
        let mut servers = self.0.lock();
        let make = || {
            // What the application holds must not hold the application.
            let weak = Arc::downgrade(app);
            let last = app.project();
            let now = move || weak.upgrade().map_or_else(|| Arc::clone(&last), |app| app.project());
            let project = ProjectMcp::new(now, agent);
            let contexts =
                Arc::new(ServerCallContexts { app: Arc::downgrade(app), project: project.clone() });
            let server = project.server(Some(contexts)).with_changes(app.changes());
            McpHttp::behind_a_guard(server, app.closed.clone())
        };
        servers.entry(agent.map(str::to_owned)).or_insert_with(make).clone()
    }
}

/// Gives calls their place among the runs.
#[derive(Debug)]
struct ServerCallContexts {
    app: Weak<App>,
    project: ProjectMcp,
}

/// The room of a call.
#[derive(Debug)]
struct Permit(#[expect(dead_code, reason = "held, not read")] CallRoom);

impl CallPermit for Permit {}

impl CallContextProvider for ServerCallContexts {
    fn scope(&self, tool: &Tool) -> Result<CallScope, ToolError> {
        let app = self.app.upgrade().ok_or_else(|| ToolError::failed("the server ends"))?;
        // A client that waits for an answer is not put into a queue.
        let room = app.runs.call_room_now().map_err(|error| {
            let full = matches!(error, RunsError::QueueFull { .. });
            let refused = ToolError::failed(error.to_string());
            if full { refused.with_code("queue_full") } else { refused }
        })?;
        let scope = self.project.scope(tool)?;
        Ok(CallScope { permit: Some(Box::new(Permit(room))), ..scope })
    }
}

pub(crate) fn router() -> Router<Arc<App>> {
    Router::new().route("/mcp", any(all_tools)).route("/mcp/{agent}", any(tools_of_agent))
}

async fn all_tools(State(app): State<Arc<App>>, request: Request) -> Response {
    let http = app.mcp.of(&app, None);
    http.handle(request).await.map(Body::new)
}

async fn tools_of_agent(
    State(app): State<Arc<App>>,
    Path(agent): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    app.project().agent_file(&agent)?;
    let http = app.mcp.of(&app, Some(&agent));
    Ok(http.handle(request).await.map(Body::new))
}

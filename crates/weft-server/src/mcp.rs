//! The project's tools for clients of the Model Context Protocol, at `/mcp` and `/mcp/<agent>`.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::any;
use mcp_bridge::McpHttp;
use parking_lot::Mutex;
use weft_runs::ProjectMcp;

use crate::app::App;
use crate::body::Path;
use crate::problem::Problem;

/// The servers that clients have asked for: that of all tools, and those of agents.
#[derive(Debug, Default)]
pub(crate) struct McpServers(Mutex<HashMap<Option<String>, McpHttp>>);

impl McpServers {
    fn server_for(&self, app: &Arc<App>, agent: Option<&str>) -> McpHttp {
        let mut servers = self.0.lock();
        let make = || {
            let server = ProjectMcp::new(app.runs.clone(), agent).server().with_changes(app.changes());
            McpHttp::behind_a_guard(server, app.closed.clone())
        };
        servers.entry(agent.map(str::to_owned)).or_insert_with(make).clone()
    }
}

pub(crate) fn router() -> Router<Arc<App>> {
    Router::new().route("/mcp", any(all_tools)).route("/mcp/{agent}", any(tools_of_agent))
}

async fn all_tools(State(app): State<Arc<App>>, request: Request) -> Response {
    let http = app.mcp.server_for(&app, None);
    http.handle(request).await.map(Body::new)
}

async fn tools_of_agent(
    State(app): State<Arc<App>>,
    Path(agent): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    app.project().agent_file(&agent)?;
    let http = app.mcp.server_for(&app, Some(&agent));
    Ok(http.handle(request).await.map(Body::new))
}

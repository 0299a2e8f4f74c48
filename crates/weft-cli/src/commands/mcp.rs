//! `weft mcp`: the project's tools for one client, over stdin and stdout.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tool_registry::BrokenTool;
use weft_project::ProjectError;
use weft_runs::{LocalRuns, ProjectFiles, ProjectMcp, RunsOptions};

use super::Context;
use crate::arguments::McpArguments;
use crate::failure::{Exit, Failure};
use crate::log_lines;

/// Interval at which clients are notified of files that were read anew.
const LOOK: Duration = Duration::from_millis(200);

pub(super) fn run(context: &Context, arguments: &McpArguments) -> Result<Exit, Failure> {
    log_lines::to_stderr();
    let project = context.project(None)?;
    if let Some(server) = &arguments.trust {
        project.mcp()?.trust(server).map_err(|error| ProjectError::from(BrokenTool::from(error)))?;
        note!("what `{server}` says of its tools counts from now on");
        return Ok(Exit::Ok);
    }
    let (files, fault) = ProjectFiles::watched(project);
    if let Some(error) = fault {
        note!("note: {error}");
    }
    let files = Arc::new(files);
    let runs = LocalRuns::new(Arc::clone(&files), RunsOptions::default());
    let tools = ProjectMcp::new(runs, arguments.agent.as_deref());
    // A fault of the project ends the command before a client is served.
    tools.tools()?;
    super::block_on(serve(tools, &files))?
}

async fn serve(tools: ProjectMcp, files: &ProjectFiles) -> Result<Exit, Failure> {
    let closed = CancellationToken::new();
    let server = tools.server().with_changes(files.changes());
    let notifying = async {
        files.notify_changes(LOOK, closed.clone()).await;
        // Files that are not watched do not change.
        std::future::pending::<()>().await;
    };
    let served = tokio::select! {
        served = server.serve_stdio(closed.clone()) => served,
        () = notifying => Ok(()),
        _ = tokio::signal::ctrl_c() => {
            closed.cancel();
            return Ok(Exit::Interrupted);
        }
    };
    served.map_err(|error| Failure::new(Exit::Failed, "mcp", error.to_string()))?;
    Ok(Exit::Ok)
}

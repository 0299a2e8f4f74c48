//! `weft mcp`: the project's tools for one client, over stdin and stdout.

use std::sync::Arc;
use std::time::Duration;

use agent_types::Clock;
use tokio_util::sync::CancellationToken;
use tool_registry::BrokenTool;
use weft_project::{Project, ProjectError, ProjectMcp, ProjectWatch};

use super::Context;
use crate::arguments::McpArguments;
use crate::failure::{Exit, Failure};
use crate::log_lines;

/// How often it is looked whether the project's files have been read anew.
const LOOK: Duration = Duration::from_millis(200);

pub(super) fn run(context: &Context, arguments: &McpArguments) -> Result<Exit, Failure> {
    log_lines::to_stderr();
    let project = context.project(None)?;
    if let Some(server) = &arguments.trust {
        project.mcp()?.trust(server).map_err(|error| ProjectError::from(BrokenTool::from(error)))?;
        note!("what `{server}` says of its tools counts from now on");
        return Ok(Exit::Ok);
    }
    let clock = Arc::clone(project.clock());
    let watch = project.watch().inspect_err(|error| note!("note: {error}")).ok().map(Arc::new);
    let tools = ProjectMcp::new(now(project, watch.clone()), arguments.agent.as_deref());
    // What is wrong with the project is told before a client is served.
    tools.tools()?;
    super::block_on(serve(tools, watch, clock))?
}

fn now(project: Project, watch: Option<Arc<ProjectWatch>>) -> impl Fn() -> Arc<Project> + Send + Sync {
    let project = Arc::new(project);
    move || watch.as_ref().map_or_else(|| Arc::clone(&project), |watch| watch.project())
}

async fn serve(
    tools: ProjectMcp,
    watch: Option<Arc<ProjectWatch>>,
    clock: Arc<dyn Clock>,
) -> Result<Exit, Failure> {
    let closed = CancellationToken::new();
    let (tell, changes) = tokio::sync::watch::channel(0);
    let server = tools.server(None).with_changes(changes);
    let telling = async {
        let mut seen = 0;
        loop {
            clock.sleep(LOOK).await;
            let now = watch.as_ref().map_or(0, |watch| watch.reloads());
            if now != std::mem::replace(&mut seen, now) {
                tell.send_modify(|version| *version += 1);
            }
        }
    };
    let served = tokio::select! {
        served = server.serve_stdio(closed.clone()) => served,
        () = telling => Ok(()),
        _ = tokio::signal::ctrl_c() => {
            closed.cancel();
            return Ok(Exit::Interrupted);
        }
    };
    served.map_err(|error| Failure::new(Exit::Failed, "mcp", error.to_string()))?;
    Ok(Exit::Ok)
}

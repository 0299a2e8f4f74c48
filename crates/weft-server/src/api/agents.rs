//! Agents: what they are, which tools they have, events that wake them.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use http::{HeaderMap, StatusCode, header};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use weft_project::{AgentFile, Edits, PlannedEvent, Project};
use weft_runs::{AgentPlan, AgentRequest};

use super::accepted::{Accepted, begun_run};
use super::tools::{ToolSummary, summary};
use super::workflows::{check_match, tag_of};
use super::{Operation, delete, get, post, put};
use crate::app::App;
use crate::body::{JsonBody, Path};
use crate::problem::Problem;
use crate::runs::begin_agent;

/// An agent, in short.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct AgentSummary {
    /// Its id.
    id: String,
    /// Its name for people.
    title: String,
    /// Description of the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    /// The tools of its inventories.
    tools: Vec<String>,
}

/// An agent with its profile.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct AgentDetail {
    /// Its id.
    id: String,
    /// Its name for people.
    title: String,
    /// Description of the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    /// The file as it is.
    profile: Value,
    /// The tools that it may use; none where `problem` says why.
    tools: Vec<ToolSummary>,
    /// Reason for which the agent cannot run.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<Problem>,
}

/// A profile's file as it is, and as it would be.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ProfilePreview {
    /// The name of the file.
    file: String,
    /// Present text of the file.
    before: String,
    /// Text that would be written.
    after: String,
    /// Set when the two texts differ.
    differs: bool,
}

/// An event from outside.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EventBody {
    /// Its name.
    event: String,
    /// Contents of the entry.
    #[serde(default)]
    payload: Value,
    /// The conversation that it belongs to.
    thread: Option<String>,
    /// Values that tools may use and no model sees or sets.
    #[serde(default)]
    context: Map<String, Value>,
}

pub(super) fn operations() -> Vec<Operation> {
    vec![
        get("/api/agents", "Agents of the project", list).gives::<Vec<AgentSummary>>(),
        get("/api/agents/{agent}", "An agent with its profile", show).gives::<AgentDetail>(),
        get("/api/agents/{agent}/tools/{tool}", "What giving it a tool would change in its file", preview)
            .gives::<ProfilePreview>(),
        put("/api/agents/{agent}/tools/{tool}", "Give it a tool", add_tool).gives::<AgentDetail>(),
        delete("/api/agents/{agent}/tools/{tool}", "Take a tool away", remove_tool).gives::<AgentDetail>(),
        post("/api/agents/{agent}/events", "Wake it by an event", wake)
            .takes::<EventBody>()
            .gives::<Accepted>()
            .status(StatusCode::ACCEPTED),
    ]
}

async fn list(State(app): State<Arc<App>>) -> Json<Vec<AgentSummary>> {
    let project = app.project();
    let agents = project.agents().map(|AgentFile { profile, .. }| AgentSummary {
        id: profile.id.clone(),
        title: profile.name.clone(),
        description: profile.description.clone(),
        tools: profile.tool_ids(),
    });
    Json(agents.collect())
}

/// An agent with the tag of its file.
type Tagged = ([(http::HeaderName, String); 1], Json<AgentDetail>);

fn detail(project: &Project, id: &str) -> Result<Tagged, Problem> {
    let file = project.agent_file(id)?;
    let (tools, problem) = match project.tools_of(file) {
        Ok(tools) => (tools.tools().map(summary).collect(), None),
        Err(error) => (Vec::new(), Some(error.into())),
    };
    let text = weft_project::read_file(&file.path)?;
    let detail = AgentDetail {
        id: file.profile.id.clone(),
        title: file.profile.name.clone(),
        description: file.profile.description.clone(),
        profile: serde_json::from_str(&text).unwrap_or_default(),
        tools,
        problem,
    };
    Ok(([(header::ETAG, tag_of(&text))], Json(detail)))
}

async fn show(State(app): State<Arc<App>>, Path(id): Path<String>) -> Result<Tagged, Problem> {
    app.with_project(move |project| detail(project, &id)).await
}

/// The tag is that of the file as it is, for `If-Match` of the change itself.
async fn preview(
    State(app): State<Arc<App>>,
    Path((agent, tool)): Path<(String, String)>,
) -> Result<([(http::HeaderName, String); 1], Json<ProfilePreview>), Problem> {
    app.with_project(move |project| {
        let change = project.edits()?.add_tool(&agent, &tool)?;
        let after = if change.differs { change.text() } else { change.before.clone() };
        let file = change.path.strip_prefix(project.root()).unwrap_or(&change.path);
        let file = file.to_string_lossy().replace('\\', "/");
        let tag = [(header::ETAG, tag_of(&change.before))];
        let (before, differs) = (change.before, change.differs);
        Ok((tag, Json(ProfilePreview { file, before, after, differs })))
    })
    .await
}

async fn add_tool(
    State(app): State<Arc<App>>,
    Path((agent, tool)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Tagged, Problem> {
    change(&app, agent, headers, move |edits, agent| Ok(edits.add_tool(agent, &tool)?)).await
}

async fn remove_tool(
    State(app): State<Arc<App>>,
    Path((agent, tool)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Tagged, Problem> {
    change(&app, agent, headers, move |edits, agent| Ok(edits.remove_tool(agent, &tool)?)).await
}

/// Changes a profile's file and reads it anew.
async fn change(
    app: &Arc<App>,
    agent: String,
    headers: HeaderMap,
    change: impl FnOnce(&Edits<'_>, &str) -> Result<weft_project::ProfileChange, Problem> + Send + 'static,
) -> Result<Tagged, Problem> {
    let _saving = app.locks.saving.lock().await;
    let owner = Arc::clone(app);
    app.blocking(move || {
        // What the file is now counts, not what it was when it was last looked at.
        owner.reload()?;
        let project = owner.project();
        let edits = project.edits()?;
        let text = weft_project::read_file(&project.agent_file(&agent)?.path)?;
        if headers.contains_key(header::IF_MATCH) {
            check_match(&headers, Some(&tag_of(&text)))?;
        }
        change(&edits, &agent)?.write(&edits)?;
        drop(edits);
        owner.reload()?;
        detail(&owner.project(), &agent)
    })
    .await
}

async fn wake(
    State(app): State<Arc<App>>,
    Path(agent): Path<String>,
    JsonBody(body): JsonBody<EventBody>,
) -> Result<(StatusCode, Json<Accepted>), Problem> {
    let event = Some(PlannedEvent::new(body.event, body.payload));
    let plan = AgentPlan { agent, event, values: body.context, ..AgentPlan::default() };
    let request = AgentRequest { plan, thread: body.thread, ..AgentRequest::default() };
    Ok(begun_run(&begin_agent(&app, request).await?))
}

//! Tools: what there is, checks of arguments, single calls.

use std::sync::Arc;

use agent_types::{RunId, ToolDefinition, estimate_tokens};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use protocol_action::Lang;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use tool_registry::{CallEnd, Reach, Tool};
use tool_schema::{Catalogue, Coercion, OfferedTool, ToolSet, Typed};
use weft_project::{AgentFile, Project};
use weft_runs::CallRequest;

use super::{Operation, get, post};
use crate::app::App;
use crate::body::{JsonBody, Path, Query};
use crate::problem::Problem;

/// A tool, in short.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ToolSummary {
    /// Its canonical id.
    id: String,
    /// Its name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    /// Description of the tool.
    description: String,
    /// `native workflow node http mcp`.
    kind: String,
    /// Approval before a call, unless a profile sets another: `auto`, `ask` or `never`.
    approval: Value,
}

/// A tool with its schema.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ToolDetail {
    #[serde(flatten)]
    summary: ToolSummary,
    /// The JSON Schema of its arguments.
    parameters: Value,
    /// The JSON Schema of what it gives.
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<Value>,
    /// Annotations of the tool about its behaviour.
    annotations: Value,
    /// Text that describes the tool in a prompt.
    #[serde(rename = "told")]
    prompt: String,
    /// Approximate number of tokens of that text.
    #[serde(rename = "told_tokens")]
    prompt_tokens: usize,
    /// Agents that may use it.
    used_by_agents: Vec<String>,
    /// Workflows that name it.
    used_by_workflows: Vec<String>,
}

/// Arguments for a tool.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ArgumentsBody {
    /// The arguments by name.
    #[serde(default)]
    arguments: Map<String, Value>,
    /// Values that tools may use and no model sees or sets.
    #[serde(default)]
    context: Map<String, Value>,
}

/// Result of checking arguments.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Checked {
    /// Set when they fit.
    ok: bool,
    /// The arguments as they would be used.
    arguments: Map<String, Value>,
    /// Coercions that were applied.
    #[schemars(with = "Vec<Value>")]
    coercions: Vec<Coercion>,
    /// Arguments that do not fit.
    problems: Value,
    /// The call as a model would write it, with these arguments.
    action: Option<String>,
}

/// Result of a call.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Called {
    /// Set when the call succeeded.
    ok: bool,
    /// The answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Value>,
    /// Failure of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<CallError>,
    /// The run that the call was.
    run: Option<String>,
}

/// Failure of a call.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct CallError {
    /// Stable code.
    code: String,
    /// Message as a model would receive it.
    message: String,
    /// Set when a retry may succeed.
    retryable: bool,
}

pub(super) fn operations() -> Vec<Operation> {
    const AGENT: &[(&str, &str)] = &[("agent", "only what this agent may use")];
    vec![
        get("/api/tools", "Tools of the project", list).query(AGENT).gives::<Vec<ToolSummary>>(),
        get("/api/tools/{tool}", "A tool with its schema", show)
            .query(&[("lang", "the language of the prompt: en or zh")])
            .gives::<ToolDetail>(),
        post("/api/tools/{tool}/check", "Check arguments", check).takes::<ArgumentsBody>().gives::<Checked>(),
        post("/api/tools/{tool}/call", "Call it once", call).takes::<ArgumentsBody>().gives::<Called>(),
    ]
}

#[derive(Debug, Deserialize)]
struct ListQuery {
    agent: Option<String>,
}

async fn list(
    State(app): State<Arc<App>>,
    Query(query): Query<ListQuery>,
) -> Result<Json<Vec<ToolSummary>>, Problem> {
    let tools = app
        .with_project(move |project| {
            if let Some(agent) = &query.agent {
                let tools = project.tools_of(project.agent_file(agent)?)?;
                return Ok(tools.tools().map(summary).collect());
            }
            // A tool that cannot be used is told when it is looked at; the others are shown all the same.
            let tools = project.tools(Reach::Remote).into_iter().filter_map(Result::ok);
            Ok(tools.map(|tool| summary(&tool)).collect())
        })
        .await?;
    Ok(Json(tools))
}

/// A tool in short.
pub(super) fn summary(tool: &Tool) -> ToolSummary {
    let definition = tool.definition();
    ToolSummary {
        id: definition.id.to_string(),
        title: definition.title.clone(),
        description: definition.description.clone(),
        kind: tool.kind().to_string(),
        approval: serde_json::to_value(tool.approval()).unwrap_or_default(),
    }
}

async fn tool_of(app: &App, id: String) -> Result<(Arc<Project>, Tool), Problem> {
    app.with_project(move |project| {
        let tool = project.tool(&id)?;
        Ok((Arc::clone(project), tool))
    })
    .await
}

#[derive(Debug, Deserialize)]
struct ShowQuery {
    lang: Option<String>,
}

async fn show(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Query(query): Query<ShowQuery>,
) -> Result<Json<ToolDetail>, Problem> {
    let (project, tool) = tool_of(&app, id).await?;
    let definition = tool.definition();
    let lang = if query.lang.as_deref() == Some("zh") { Lang::Zh } else { Lang::En };
    let prompt = Catalogue::new(lang).tool(offered(&tool)?).render();
    Ok(Json(ToolDetail {
        summary: summary(&tool),
        parameters: with_defaults(definition),
        output: definition.output.clone(),
        annotations: serde_json::to_value(&definition.annotations).unwrap_or_default(),
        prompt_tokens: estimate_tokens(&prompt),
        prompt,
        used_by_agents: agents_with(&project, tool.id().as_str()),
        used_by_workflows: workflows_with(&project, tool.id().as_str()),
    }))
}

/// The parameters of a tool, with what counts where nothing is said.
fn with_defaults(definition: &ToolDefinition) -> Value {
    let mut parameters = definition.parameters.clone();
    for (name, default) in &definition.defaults {
        let property = parameters.get_mut("properties").and_then(|properties| properties.get_mut(name));
        if let Some(property) = property.and_then(Value::as_object_mut) {
            property.insert("default".to_owned(), default.clone());
        }
    }
    parameters
}

/// Agents whose inventories name a tool.
fn agents_with(project: &Project, id: &str) -> Vec<String> {
    let agents = project.agents().filter(|file| file.profile.tool_ids().iter().any(|own| own == id));
    agents.map(|file| file.profile.id.clone()).collect()
}

/// Workflows in which the id of a tool stands as a text of its own.
fn workflows_with(project: &Project, id: &str) -> Vec<String> {
    let naming = project
        .workflows()
        .files()
        .filter(|file| file.loaded.as_ref().is_ok_and(|workflow| names(&workflow.to_value(), id)));
    naming.map(|file| file.id.clone()).collect()
}

fn names(value: &Value, id: &str) -> bool {
    match value {
        Value::String(text) => text == id,
        Value::Array(parts) => parts.iter().any(|part| names(part, id)),
        Value::Object(members) => members.values().any(|member| names(member, id)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// A call as a model would write it.
fn written(tool: &Tool, arguments: &Map<String, Value>) -> Option<String> {
    let offered = tool.offered().ok()?;
    let set = ToolSet::of_tools([offered.clone()]).ok()?;
    set.encode(&[(offered.name.as_str(), arguments)]).ok()
}

/// The arguments by the tool's schema, with its defaults.
fn typed(tool: &Tool, arguments: Map<String, Value>) -> Result<Typed, Problem> {
    let mut typed = offered(tool)?.schema.type_json(Value::Object(arguments));
    for (name, value) in &tool.definition().defaults {
        typed.arguments.entry(name.as_str()).or_insert_with(|| value.clone());
    }
    Ok(typed)
}

fn offered(tool: &Tool) -> Result<&OfferedTool, Problem> {
    tool.offered()
        .map_err(|error| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, error.code(), error.to_string()))
}

async fn check(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    JsonBody(body): JsonBody<ArgumentsBody>,
) -> Result<Json<Checked>, Problem> {
    let (_, tool) = tool_of(&app, id).await?;
    let typed = typed(&tool, body.arguments)?;
    Ok(Json(Checked {
        ok: typed.problems.is_empty(),
        problems: serde_json::to_value(&typed.problems).unwrap_or_default(),
        action: written(&tool, &typed.arguments),
        arguments: typed.arguments,
        coercions: typed.coercions,
    }))
}

async fn call(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    JsonBody(body): JsonBody<ArgumentsBody>,
) -> Result<Json<Called>, Problem> {
    let (project, tool) = tool_of(&app, id).await?;
    let typed = typed(&tool, body.arguments)?;
    if let Some(first) = typed.problems.first() {
        let (code, message) = (first.code.to_owned(), agent_types::Problem::messages(&typed.problems));
        let error = Some(CallError { code, message, retryable: true });
        return Ok(Json(Called { ok: false, result: None, error, run: None }));
    }
    let services = project.tool_services(only_agent(&project))?;
    let (arguments, values) = (typed.arguments, body.context);
    let call = app
        .runs
        .call(CallRequest { tool, arguments, services, values, given_up: CancellationToken::new() })
        .await?;
    Ok(Json(called(&call.id, &call.outcome.await?.end)))
}

/// The agent whose state is meant where none is named: the only one there is.
fn only_agent(project: &Project) -> Option<&AgentFile> {
    let mut agents = project.agents();
    agents.next().filter(|_| agents.next().is_none())
}

fn called(run: &RunId, end: &CallEnd) -> Called {
    let run = Some(run.to_string());
    match end {
        CallEnd::Ok(output) => Called { ok: true, result: Some(output.value()), error: None, run },
        end => {
            let message = end.message().into_owned();
            let error =
                Some(CallError { code: end.code().to_owned(), message, retryable: end.is_retryable() });
            Called { ok: false, result: None, error, run }
        }
    }
}

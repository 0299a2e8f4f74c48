//! Workflows: what there is, saves, checks, places on a canvas.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode, header};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tool_workflow::definition_of;
use weft_project::Project;
use workflow_engine::Plan;
use workflow_model::{LoadError, Problem as Fault, Workflow, check_as_tool};

use super::{Operation, get, post, put};
use crate::app::App;
use crate::body::{JsonBody, OptionalBody, Path, Query};
use crate::layout::{Placed, place};
use crate::problem::Problem;

/// A workflow, in short.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct WorkflowSummary {
    /// Its id: its path below `workflows/` without `.json`.
    id: String,
    /// Its name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    /// Description of the workflow.
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    /// Names of its inputs.
    inputs: Vec<String>,
    /// Names of its outputs.
    outputs: Vec<String>,
    /// Reason for which its file cannot be loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

/// A workflow with its file.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct WorkflowDetail {
    /// Its id.
    id: String,
    /// Its name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    /// Description of the workflow.
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    /// The file.
    workflow: Value,
}

/// A workflow as a tool.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ToolSchema {
    /// Its canonical id.
    name: String,
    /// Description of the input or output.
    description: String,
    /// The JSON Schema of its arguments.
    parameters: Value,
}

/// Result of validating a workflow.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Validated {
    /// Set when the workflow can run.
    ok: bool,
    /// Errors and warnings.
    #[schemars(with = "Vec<Value>")]
    problems: Vec<Fault>,
}

pub(super) fn operations() -> Vec<Operation> {
    vec![
        get("/api/workflows", "Workflows of the project", list).gives::<Vec<WorkflowSummary>>(),
        get("/api/workflows/{workflow}", "A workflow with its file", show).gives::<WorkflowDetail>(),
        put(
            "/api/workflows/{workflow}",
            "Save it; `If-Match` says what it replaces, `If-None-Match: *` that it is new",
            save,
        )
        .takes::<Value>()
        .gives::<WorkflowDetail>(),
        get("/api/workflows/{workflow}/schema", "It as a tool", schema).gives::<ToolSchema>(),
        post("/api/workflows/{workflow}/validate", "Check the body, or what is saved", validate)
            .query(&[("as_tool", "`true` also warns of what a model would miss")])
            .takes::<Option<Value>>()
            .gives::<Validated>(),
        post(
            "/api/workflows/{workflow}/layout",
            "Places for the nodes of the body, or of what is saved",
            layout,
        )
        .takes::<Option<Value>>()
        .gives::<Placed>(),
    ]
}

async fn list(State(app): State<Arc<App>>) -> Json<Vec<WorkflowSummary>> {
    let project = app.project();
    let files = project.workflows().files().map(|file| {
        let mut summary = WorkflowSummary {
            id: file.id.clone(),
            title: None,
            description: None,
            inputs: Vec::new(),
            outputs: Vec::new(),
            problem: None,
        };
        match &file.loaded {
            Ok(workflow) => {
                summary.title.clone_from(&workflow.name);
                summary.description.clone_from(&workflow.description);
                summary.inputs = workflow.interface_inputs.keys().cloned().collect();
                summary.outputs = workflow.interface_outputs.keys().cloned().collect();
            }
            Err(error) => summary.problem = Some(error.to_string()),
        }
        summary
    });
    Json(files.collect())
}

fn detail(project: &Project, id: &str) -> Result<Response, Problem> {
    let (file, _) = project.workflows().get(id)?;
    // The tag and what it names come from one look at the file: the project may have read an older one.
    let text = weft_project::read_file(&file.path)?;
    let tag = tag_of(&text);
    let workflow = Workflow::from_json(&text).map_err(|error| bad_workflow(&error))?;
    let detail = WorkflowDetail {
        id: file.id.clone(),
        title: workflow.name.clone(),
        description: workflow.description.clone(),
        workflow: workflow.to_value(),
    };
    Ok(([(header::ETAG, tag)], Json(detail)).into_response())
}

async fn show(State(app): State<Arc<App>>, Path(id): Path<String>) -> Result<Response, Problem> {
    app.with_project(move |project| detail(project, &id)).await
}

/// Names what a file holds.
pub(super) fn tag_of(text: &str) -> String {
    format!("\"{:.32x}\"", Sha256::digest(text))
}

/// Refuses to save over something else than the client has seen.
pub(super) fn check_match(headers: &HeaderMap, current: Option<&str>) -> Result<(), Problem> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let changed = || {
        let status = StatusCode::PRECONDITION_FAILED;
        Problem::new(status, "changed_meanwhile", "the file is not what it was when it was read")
            .with_help("read it again and save what belongs there now")
    };
    match (text(header::IF_MATCH), text(header::IF_NONE_MATCH), current) {
        (Some(wanted), _, Some(current)) => {
            let fits = wanted.split(',').any(|tag| matches!(tag.trim(), "*") || tag.trim() == current);
            if fits { Ok(()) } else { Err(changed()) }
        }
        (Some(_), _, None) => Err(changed()),
        (None, Some("*"), None) => Ok(()),
        (None, Some("*"), Some(_)) => Err(Problem::new(
            StatusCode::PRECONDITION_FAILED,
            "exists_already",
            "there is a file of that name",
        )),
        (None, _, _) => Err(Problem::new(
            StatusCode::PRECONDITION_REQUIRED,
            "match_required",
            "a save must say what it replaces",
        )
        .with_help("send the ETag that the read gave as `If-Match`, or `If-None-Match: *` for a new file")),
    }
}

async fn save(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    headers: HeaderMap,
    JsonBody(value): JsonBody<Value>,
) -> Result<Response, Problem> {
    let workflow = read_workflow(value)?;
    let _saving = app.locks.saving.lock().await;
    let owner = Arc::clone(&app);
    app.blocking(move || {
        let project = owner.project();
        let edits = project.edits()?;
        let path = edits.path_of_workflow(&id)?;
        let current = if path.is_file() { Some(tag_of(&weft_project::read_file(&path)?)) } else { None };
        check_match(&headers, current.as_deref())?;
        edits.save_workflow(&id, &workflow)?;
        drop(edits);
        owner.reload()?;
        detail(&owner.project(), &id)
    })
    .await
}

fn read_workflow(value: Value) -> Result<Workflow, Problem> {
    Workflow::from_value(value).map_err(|error| bad_workflow(&error))
}

fn bad_workflow(error: &LoadError) -> Problem {
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "bad_workflow", error.to_string())
}

/// The workflow of a body, else the one that is saved.
fn chosen(project: &Project, id: &str, body: Option<Value>) -> Result<Arc<Workflow>, Problem> {
    match body {
        Some(value) => Ok(Arc::new(read_workflow(value)?)),
        None => Ok(project.workflows().get(id)?.1),
    }
}

async fn schema(State(app): State<Arc<App>>, Path(id): Path<String>) -> Result<Json<ToolSchema>, Problem> {
    let project = app.project();
    let (_, workflow) = project.workflows().get(&id)?;
    let definition = definition_of(&id, &workflow)
        .map_err(|error| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, error.code(), error.to_string()))?;
    Ok(Json(ToolSchema {
        name: definition.id.to_string(),
        description: definition.description,
        parameters: definition.parameters,
    }))
}

#[derive(Debug, Deserialize)]
struct ValidateQuery {
    #[serde(default)]
    as_tool: bool,
}

async fn validate(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Query(query): Query<ValidateQuery>,
    OptionalBody(body): OptionalBody<Option<Value>>,
) -> Result<Json<Validated>, Problem> {
    let validated = app
        .with_project(move |project| {
            let workflow = chosen(project, &id, body)?;
            let mut problems =
                project.in_world(&id, &workflow, |world| Plan::check(&workflow, project.catalog(), world));
            if query.as_tool {
                problems.extend(check_as_tool(&workflow));
            }
            let ok = Fault::are_warnings(&problems);
            Ok(Validated { ok, problems })
        })
        .await?;
    Ok(Json(validated))
}

async fn layout(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    OptionalBody(body): OptionalBody<Option<Value>>,
) -> Result<Json<Placed>, Problem> {
    let placed = app.with_project(move |project| Ok(place(&*chosen(project, &id, body)?))).await?;
    Ok(Json(placed))
}

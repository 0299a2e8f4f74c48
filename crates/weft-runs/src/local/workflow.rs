//! Work of workflows.

use std::sync::Arc;

use agent_runtime::ApprovalMode;
use agent_types::{FormerInputs, Problem, ResumeLog};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;
use tool_schema::{CompiledSchema, Typed};
use tool_workflow::parameters_of;
use weft_project::Project;
use workflow_engine::{OnWaiting, Plan, RunOptions};
use workflow_model::{DataFlowType, Workflow};

use super::launch::Prepared;
use crate::error::RunsError;
use crate::outcome::RunOutcome;
use crate::plan::WorkflowPlan;
use crate::sink::RunSink;

/// A workflow's run that is opened and not executed yet.
#[derive(Debug)]
pub(super) struct OpenWorkflow {
    pub(super) sink: RunSink,
    /// Events that it has emitted so far.
    pub(super) log: Option<ResumeLog>,
    pub(super) plan: Plan,
    /// Its record.
    pub(super) kept: WorkflowPlan,
}

/// The work of a workflow's run.
pub(super) fn workflow_work(
    project: &Project,
    open: OpenWorkflow,
    approval: ApprovalMode,
    cancel: CancellationToken,
) -> Result<Prepared, RunsError> {
    let OpenWorkflow { sink, log, plan, kept } = open;
    let WorkflowPlan { id, inputs, values, former_inputs, .. } = kept;
    let former = former_inputs.then_some(FormerInputs);
    let mut options = RunOptions::new()
        .with_services(project.workflow_services(values, approval, former)?)
        .with_clock(Arc::clone(project.clock()))
        .with_sink(sink.sink());
    options.workflow = Some(id);
    options.on_waiting = OnWaiting::End;
    options.cancel = Some(cancel.clone());
    options.resume = log.map(Box::new);
    let work = async move {
        let outcome = workflow_engine::run(&plan, inputs, options).outcome().await;
        Ok(RunOutcome::Workflow(Box::new(outcome)))
    };
    Ok(Prepared { sink, cancel, hold: None, work: Box::pin(work), after: Box::new(|_| ()), board: None })
}

/// The inputs by the types of the workflow's interface.
pub(super) fn typed(
    inputs: Map<String, Value>,
    workflow: &Workflow,
) -> Result<Map<String, Value>, RunsError> {
    let schema = CompiledSchema::new(&parameters_of(workflow))
        .map_err(|error| RunsError::Failed { code: error.code(), message: error.to_string() })?;
    let typed = schema.type_json(Value::Object(inputs));
    fitting(typed)
}

/// A text for the output of a node, by its type.
pub(super) fn typed_text(path: &str, text: &str, kind: DataFlowType) -> Result<Value, RunsError> {
    let mut property = Map::new();
    if let Some(kind) = kind.json_type() {
        property.insert("type".to_owned(), kind.into());
    }
    let schema = json!({"type": "object", "properties": {path: property}});
    let schema = CompiledSchema::new(&schema)
        .map_err(|error| RunsError::Failed { code: error.code(), message: error.to_string() })?;
    let mut typed = fitting(schema.type_json(json!({path: text})))?;
    Ok(typed.remove(path).unwrap_or_default())
}

fn fitting(typed: Typed) -> Result<Map<String, Value>, RunsError> {
    let Some(first) = typed.problems.first() else { return Ok(typed.arguments) };
    Err(RunsError::InvalidInputs {
        code: first.code.to_owned(),
        message: Problem::messages(&typed.problems),
        problems: serde_json::to_value(&typed.problems).unwrap_or_default(),
    })
}

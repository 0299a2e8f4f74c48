//! Workflows as tools.

use std::sync::Arc;

use agent_types::{BudgetLimits, InvalidToolId, RunStatus};
use async_trait::async_trait;
use http_caller::ContextValues;
use serde_json::{Map, Value};
use tool_schema::{ToolSetError, definition_of};
use workflow_engine::{NodeCatalog, OnWaiting, Plan, PlanError, RunOptions, Services};
use workflow_model::{Workflow, WorkflowSource};

use crate::context::ToolContext;
use crate::output::{ToolError, ToolErrorKind, ToolOutput};
use crate::tool::{Tool, ToolHandler, ToolKind};

/// What workflows need to run: types of nodes, and services for them.
#[derive(Debug, Clone, Default)]
pub struct WorkflowRuntime {
    /// Types of nodes.
    pub catalog: Arc<NodeCatalog>,
    /// What nodes need from outside.
    pub services: Services,
}

/// Why a workflow cannot be a tool.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkflowToolError {
    /// Its id is none for a tool.
    #[error(transparent)]
    Id(#[from] InvalidToolId),
    /// Its parameters have no usable schema.
    #[error(transparent)]
    Schema(#[from] ToolSetError),
    /// It cannot run.
    #[error(transparent)]
    Plan(#[from] PlanError),
}

impl WorkflowToolError {
    /// Stable code for logs, tests and the wire.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Id(error) => error.code(),
            Self::Schema(error) => error.code(),
            Self::Plan(_) => "bad_workflow",
        }
    }
}

/// The tool `workflow:<id>`. It is planned once; each call is a run inside the run that calls it, one level deeper in its budget.
///
/// A workflow is an effect if a node in it is. One output is the result itself, several are an object.
///
/// # Errors
/// It has problems, or an id or schema that no tool may have.
pub fn workflow_tool(
    id: &str,
    workflow: &Workflow,
    workflows: &dyn WorkflowSource,
    runtime: &WorkflowRuntime,
) -> Result<Tool, WorkflowToolError> {
    let plan = Plan::new(workflow, &runtime.catalog, workflows)?;
    let mut definition = definition_of(id, workflow)?;
    definition.annotations.effect = plan.has_effect();
    definition.annotations.read_only = !plan.has_effect();
    let single = workflow.interface_outputs.len() == 1;
    let handler = WorkflowHandler { plan, services: runtime.services.clone(), single };
    Ok(Tool::new(definition, ToolKind::Workflow, handler)?)
}

struct WorkflowHandler {
    plan: Plan,
    services: Services,
    /// Whether the workflow declares just one output.
    single: bool,
}

#[async_trait]
impl ToolHandler for WorkflowHandler {
    async fn call(&self, arguments: Map<String, Value>, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let Some(budget) = cx.budget.child(BudgetLimits::default()) else {
            let levels = cx.budget.max_depth();
            return Err(ToolError::new(ToolErrorKind::Refused, format!("limit of {levels} levels reached")));
        };
        let mut options = RunOptions::new()
            .with_services(self.services.clone().with(Arc::new(ContextValues(Arc::clone(&cx.values)))))
            .with_clock(Arc::clone(&cx.clock))
            .with_sink(cx.inner_sink());
        options.nested = true;
        options.on_waiting = OnWaiting::End;
        options.budget = Some(budget);
        options.cancel = Some(cx.cancel.child_token());
        let outcome = workflow_engine::run(&self.plan, arguments, options).outcome().await;
        match outcome.status {
            RunStatus::Ok => Ok(ToolOutput::Json(self.result(outcome.outputs))),
            RunStatus::Cancelled => Err(ToolError::new(ToolErrorKind::Cancelled, "cancelled")),
            RunStatus::Waiting => {
                Err(ToolError::failed("it waits for a person, which is not possible inside a call"))
            }
            RunStatus::Error => {
                let message = outcome.error.map_or_else(String::new, |error| error.to_string());
                Err(ToolError::failed(message))
            }
        }
    }
}

impl WorkflowHandler {
    fn result(&self, mut outputs: Map<String, Value>) -> Value {
        let only = outputs.keys().next().cloned().filter(|_| self.single);
        match only.and_then(|name| outputs.remove(&name)) {
            Some(value) => value,
            None if self.single => Value::Null,
            None => Value::Object(outputs),
        }
    }
}

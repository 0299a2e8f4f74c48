//! Workflows as tools.

use std::collections::BTreeMap;
use std::sync::Arc;

use agent_types::{
    BudgetLimits, ContextValues, EventBody, EventPersister, EventSink, FormerInputs, InvalidToolId, RunId,
    RunStatus, Services, ToolDefinition, ToolId, UnsequencedEvent,
};
use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tool_registry::{
    EnclosingCall, FaultOrigin, INTERNAL_ERROR, Tool, ToolContext, ToolError, ToolErrorKind, ToolHandler,
    ToolKind, ToolOutput, UsageMeter,
};
use tool_schema::ToolSetError;
use workflow_engine::{NodeCatalog, OnWaiting, Plan, PlanError, RunError, RunOptions};
use workflow_model::structural::GROUP_OUTPUT;
use workflow_model::{FormerDefaults, LoadError, Workflow, WorkflowSource, write_former_defaults};

use crate::definition::definition_of;

/// Members of workflows and nodes that only the canvas shows.
const LAYOUT: [&str; 5] = ["position", "viewport", "width", "height", "size"];

/// Kind of workflow tools.
pub const WORKFLOW: ToolKind = ToolKind::own("workflow");

/// Environment of workflows: types of nodes, and services for them.
#[derive(Debug, Clone, Default)]
pub struct WorkflowRuntime {
    /// Types of nodes.
    pub catalog: Arc<NodeCatalog>,
    /// Services of nodes.
    pub services: Services,
}

/// Kinds of ends that are limits: what a workflow has by then is a partial result.
const LIMITS: [&str; 4] = ["timeout", "max_passes", "max_starts", "budget_exceeded"];

/// Reason for which a workflow cannot be a tool.
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
    /// It is none.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A setting of a node cannot be a parameter.
    #[error("{0}")]
    Setting(String),
}

impl WorkflowToolError {
    /// Stable code for logs, tests and the wire.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Id(error) => error.code(),
            Self::Schema(error) => error.code(),
            Self::Plan(_) | Self::Load(_) | Self::Setting(_) => "bad_workflow",
        }
    }
}

/// The failure of a run as that of its tool. What a node that panicked says is for developers.
fn failed(error: RunError) -> ToolError {
    let (message, detail) = match error.kind.as_str() {
        "panic" => {
            let place = error.path.as_deref().map(|path| format!("`{path}`: ")).unwrap_or_default();
            (format!("{place}{INTERNAL_ERROR}"), Some(error.message))
        }
        _ => (error.to_string(), None),
    };
    let node = error.path.as_deref().map(str::to_owned);
    let origin = FaultOrigin { kind: Some(error.kind), code: error.code, node, status: None };
    let mut failed = ToolError::failed(message).with_origin(origin);
    failed.detail = detail;
    failed
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
    let included = Included { source: workflows, used: Mutex::default() };
    let (definition, mut handler) = handler(format!("workflow:{id}").parse()?, workflow, &included, runtime)?;
    let own = (format!("workflow {id}"), without_layout(workflow));
    let used = included.used.into_inner();
    let parts: Vec<_> =
        used.iter().map(|(id, used)| (format!("workflow {id}"), without_layout(used))).chain([own]).collect();
    let catalog = Arc::clone(&runtime.catalog);
    handler.former = Some(Former { workflow: workflow.clone(), used, catalog });
    Ok(Tool::new(definition, WORKFLOW, handler).with_parts(parts).checked()?)
}

/// Source of workflows that notes which of them are used.
struct Included<'s> {
    source: &'s dyn WorkflowSource,
    used: Mutex<BTreeMap<String, Arc<Workflow>>>,
}

impl WorkflowSource for Included<'_> {
    fn workflow(&self, id: &str) -> Option<Arc<Workflow>> {
        let found = self.source.workflow(id)?;
        self.used.lock().insert(id.to_owned(), Arc::clone(&found));
        Some(found)
    }

    fn workflow_ids(&self) -> Vec<String> {
        self.source.workflow_ids()
    }
}

/// Source of the plan that runs of [`FormerInputs`] need.
struct Former {
    workflow: Workflow,
    /// Workflows inside it.
    used: BTreeMap<String, Arc<Workflow>>,
    catalog: Arc<NodeCatalog>,
}

impl Former {
    /// The plan, with arguments as it takes them: a typed input that was null counted as absent.
    fn plan(&self, arguments: &mut Map<String, Value>) -> Result<Plan, PlanError> {
        let mut workflow = self.workflow.clone();
        write_former_defaults(&mut workflow);
        workflow.drop_nulls(arguments);
        Plan::new(&workflow, &self.catalog, &FormerDefaults(self))
    }
}

impl WorkflowSource for Former {
    fn workflow(&self, id: &str) -> Option<Arc<Workflow>> {
        self.used.get(id).cloned()
    }

    fn workflow_ids(&self) -> Vec<String> {
        self.used.keys().cloned().collect()
    }
}

/// A workflow without what only the canvas shows.
fn without_layout(workflow: &Workflow) -> Value {
    let mut value = workflow.to_value();
    if let Some(file) = value.as_object_mut() {
        file.retain(|key, _| !LAYOUT.contains(&key.as_str()));
    }
    for node in value.get_mut("nodes").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(node) = node.as_object_mut() {
            node.retain(|key, _| !LAYOUT.contains(&key.as_str()));
        }
    }
    value
}

/// Definition and handler of a workflow's tool.
pub(crate) fn handler(
    id: ToolId,
    workflow: &Workflow,
    workflows: &dyn WorkflowSource,
    runtime: &WorkflowRuntime,
) -> Result<(ToolDefinition, WorkflowHandler), WorkflowToolError> {
    let plan = Plan::new(workflow, &runtime.catalog, workflows)?;
    let mut definition = definition_of(id.name(), workflow)?;
    definition.id = id;
    definition.annotations.effect = plan.has_effect();
    definition.annotations.read_only = !plan.has_effect();
    let single = workflow.interface_outputs.len() == 1;
    let live = live_slots(workflow);
    Ok((definition, WorkflowHandler { plan, services: runtime.services.clone(), single, live, former: None }))
}

/// The slots whose pieces are those of a stream among the results.
fn live_slots(workflow: &Workflow) -> Arc<[(String, String)]> {
    let is_output = |id: &str| workflow.node(id).is_some_and(|node| node.node_type == GROUP_OUTPUT);
    let is_stream = |name: &str| workflow.interface_outputs.get(name).is_some_and(|slot| slot.is_stream);
    let edges = workflow.edges.iter().filter(|edge| is_output(&edge.target));
    let slots = edges.filter_map(|edge| {
        edge.target_handle.as_deref().filter(|name| is_stream(name))?;
        Some((edge.source.clone(), edge.source_handle.clone()?))
    });
    slots.collect()
}

/// Hands the pieces of streams among the results on as pieces of the call.
#[derive(Debug)]
struct LiveSink {
    inner: Arc<dyn EventSink>,
    cx: ToolContext,
    live: Arc<[(String, String)]>,
}

impl EventSink for LiveSink {
    fn record(&self, drafts: &mut Vec<UnsequencedEvent>) {
        let mut pieces = Vec::new();
        for draft in drafts.iter() {
            if let (EventBody::NodeChunk { slot, text }, Some(path)) = (&draft.body, &draft.place.path)
                && draft.place.call.is_none()
                && self.live.iter().any(|(node, name)| **node == **path && **name == **slot)
            {
                pieces.push(Arc::clone(text));
            }
        }
        self.inner.record(drafts);
        for piece in pieces {
            self.cx.chunk(&*piece);
        }
    }

    fn new_span(&self) -> u64 {
        self.inner.new_span()
    }

    fn run(&self) -> &RunId {
        self.inner.run()
    }

    fn persister(&self) -> Option<&dyn EventPersister> {
        self.inner.persister()
    }
}

/// Runs a workflow inside the run that calls it.
pub(crate) struct WorkflowHandler {
    plan: Plan,
    services: Services,
    /// `true` if the workflow declares exactly one output.
    single: bool,
    live: Arc<[(String, String)]>,
    former: Option<Former>,
}

#[async_trait]
impl ToolHandler for WorkflowHandler {
    async fn call(
        &self,
        mut arguments: Map<String, Value>,
        cx: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let former = self.former.as_ref().filter(|_| cx.services.get::<FormerInputs>().is_some());
        let former = former.map(|former| former.plan(&mut arguments)).transpose();
        let former = former.map_err(|error| ToolError::failed(error.to_string()))?;
        let plan = former.as_ref().unwrap_or(&self.plan);
        let Some(budget) = cx.budget.child(BudgetLimits::default()) else {
            let levels = cx.budget.max_depth();
            let message = format!("limit of {levels} levels reached");
            return Err(ToolError::new(ToolErrorKind::Refused, message).with_code("limit_reached"));
        };
        let mut options = RunOptions::new()
            .with_services(self.services_in(cx))
            .with_clock(Arc::clone(&cx.clock))
            .with_sink(self.sink(cx));
        options.nested = true;
        options.workflow = (cx.tool.namespace() == Some("workflow")).then(|| cx.tool.name().to_owned());
        options.resume = cx.resume.as_deref().cloned().map(Box::new);
        options.on_waiting = OnWaiting::End;
        options.budget = Some(budget);
        options.cancel = Some(cx.cancel.child_token());
        let outcome = workflow_engine::run(plan, arguments, options).outcome().await;
        if let Some(meter) = cx.services.get::<UsageMeter>() {
            meter.add(outcome.usage);
        }
        match outcome.status {
            RunStatus::Ok => Ok(ToolOutput::Json(self.result(outcome.outputs))),
            RunStatus::Cancelled => Err(ToolError::new(ToolErrorKind::Cancelled, "cancelled")),
            RunStatus::Waiting => {
                let error = ToolError::failed("it waits for a user, who cannot be asked here");
                Err(error.asking(outcome.asks))
            }
            RunStatus::Error => {
                let Some(error) = outcome.error else { return Err(ToolError::failed("")) };
                let is_limit = LIMITS.contains(&error.kind.as_str());
                if is_limit && outcome.outputs.values().any(|value| !value.is_null()) {
                    let so_far = self.result(outcome.outputs);
                    return Ok(ToolOutput::Text(format!("{so_far}\nNote - partial: {error}")));
                }
                Err(failed(error))
            }
        }
    }

    fn has_inner_run(&self) -> bool {
        true
    }
}

impl WorkflowHandler {
    fn services_in(&self, cx: &ToolContext) -> Services {
        let values = Arc::new(ContextValues(Arc::clone(&cx.values)));
        self.services.clone().with(values).with(Arc::new(EnclosingCall(cx.clone())))
    }

    fn sink(&self, cx: &ToolContext) -> Arc<dyn EventSink> {
        let inner = cx.inner_sink();
        if self.live.is_empty() {
            return inner;
        }
        Arc::new(LiveSink { inner, cx: cx.clone(), live: Arc::clone(&self.live) })
    }

    fn result(&self, mut outputs: Map<String, Value>) -> Value {
        let only = outputs.keys().next().cloned().filter(|_| self.single);
        match only.and_then(|name| outputs.remove(&name)) {
            Some(value) => value,
            None if self.single => Value::Null,
            None => Value::Object(outputs),
        }
    }
}

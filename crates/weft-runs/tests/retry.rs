//! Retries of agents' runs: after a call that failed the run, and of what calls had begun inside them.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use agent_types::{EventBody, ExitReason, RunId, RunStatus, ToolDefinition};
use serde_json::{Map, Value, json};
use tempfile::TempDir;
use tool_registry::{Registry, Tool, ToolContext, ToolError, ToolHandler, ToolKind, ToolOutput};
use weft_harness::write;
use weft_project::{MakeProvider, Project, ProjectOptions};
use weft_runs::{
    AgentPlan, AgentRequest, Cancelled, LocalRuns, ProjectFiles, RunHandle, RunOutcome, RunService,
    RunsOptions, WorkflowRequest,
};

/// Calls of the tools of a test, which outlive each program that opens its project.
#[derive(Debug, Default)]
struct Counts {
    looks: AtomicU32,
    pays: AtomicU32,
}

/// Counts its calls; the first payment fails the run.
#[derive(Debug)]
struct Counted {
    counts: Arc<Counts>,
    pays: bool,
}

#[async_trait::async_trait]
impl ToolHandler for Counted {
    async fn call(&self, _: Map<String, Value>, _: &ToolContext) -> Result<ToolOutput, ToolError> {
        if !self.pays {
            self.counts.looks.fetch_add(1, Ordering::Relaxed);
            return Ok(ToolOutput::Text("seen".into()));
        }
        match self.counts.pays.fetch_add(1, Ordering::Relaxed) {
            0 => Err(ToolError::fatal("the bank is closed")),
            _ => Ok(ToolOutput::Text("paid".into())),
        }
    }
}

fn tools(counts: &Arc<Counts>) -> Registry {
    let registry = Registry::new();
    for (id, pays) in [("look", false), ("pay", true)] {
        let schema = json!({"type": "object", "properties": {}, "additionalProperties": false});
        let definition = ToolDefinition::new(id.parse().unwrap(), "does it", schema);
        let handler = Counted { counts: Arc::clone(counts), pays };
        registry.register(Tool::new(definition, ToolKind::NATIVE, handler)).unwrap();
    }
    registry
}

/// Runs of the project as a program that has just begun has them.
fn runs(folder: &TempDir, counts: &Arc<Counts>) -> LocalRuns {
    let counts = Arc::clone(counts);
    let mut options = ProjectOptions::default();
    options.environment = None;
    options.providers = vec![MakeProvider::new(move |_| Ok(tools(&counts)))];
    let project = Project::open(folder.path(), &options).unwrap();
    LocalRuns::new(Arc::new(ProjectFiles::fixed(project)), RunsOptions::default())
}

fn project(replies: &[Value]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "weft.toml", "script = \"script.jsonl\"\n[store]\nsync = \"normal\"\n");
    let agent = json!({"id": "a", "name": "A", "tool_ids_inventory": ["look", "pay", "workflow:slow"],
        "approval": {"default": "auto"}});
    write(folder.path(), "agents/a.json", &agent.to_string());
    write(folder.path(), "workflows/slow.json", &slow(60_000));
    let lines: Vec<String> = replies.iter().map(Value::to_string).collect();
    write(folder.path(), "script.jsonl", &lines.join("\n"));
    folder
}

/// A workflow that calls `look`, then waits.
fn slow(ms: u64) -> String {
    json!({"name": "slow", "description": "Looks, then waits.", "interfaceInputs": {},
        "interfaceOutputs": {"v": {"dataFlowType": "WILDCARD"}},
        "availableTools": {"initial": ["look"]},
        "nodes": [
            {"id": "call", "type": "agent:ExecuteTool",
                "inputValues": {"tool_call_requests": [{"tool": "look", "arguments": {}}]}},
            {"id": "wait", "type": "core:Delay", "configValues": {"ms": ms}},
            {"id": "out", "type": "core:GroupOutput"}],
        "edges": [
            {"source": "call", "sourceHandle": "status", "target": "wait", "targetHandle": "value"},
            {"source": "wait", "sourceHandle": "value", "target": "out", "targetHandle": "v"}]})
    .to_string()
}

async fn begin(runs: &LocalRuns) -> RunHandle {
    let plan = AgentPlan::new("a", "Pay.");
    runs.begin(AgentRequest { plan, ..AgentRequest::default() }.into()).await.unwrap()
}

/// Cancels a run when it waits in the node `wait`.
async fn cancelled(runs: &LocalRuns, mut run: RunHandle) -> (RunId, RunOutcome) {
    while let Some(events) = run.events.next().await.unwrap() {
        let waits = events.iter().any(|event| {
            matches!(event.body, EventBody::NodeStarted { .. }) && event.place.path.as_deref() == Some("wait")
        });
        if waits {
            assert!(matches!(runs.cancel(&run.id).await.unwrap(), Cancelled::Asked));
        }
    }
    (run.id, run.outcome.await.unwrap())
}

/// Executions of `look` and of `pay`.
fn executed(counts: &Counts) -> (u32, u32) {
    (counts.looks.load(Ordering::Relaxed), counts.pays.load(Ordering::Relaxed))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_failed_the_run_is_executed_again_and_the_one_before_is_not() {
    let looks = json!({"text": "<ACTION><look/></ACTION>"});
    let pays = json!({"text": "<ACTION><look/><pay/></ACTION>"});
    let done = json!({"text": "Paid.", "request": {"contains": ["Result: paid"], "lacks": ["bank"]}});
    let (folder, counts) = (project(&[looks, pays, done]), Arc::default());
    let failed = begin(&runs(&folder, &counts)).await.outcome.await.unwrap();
    assert_eq!(failed.exit(), Some(ExitReason::ToolError), "{failed:#?}");
    assert_eq!(executed(&counts), (2, 1));
    let retried = runs(&folder, &counts).retry(failed.run()).await.unwrap().outcome.await.unwrap();
    assert_eq!((retried.status(), retried.text()), (RunStatus::Ok, "Paid."), "{retried:#?}");
    assert_eq!(executed(&counts), (2, 2), "what had finished is not executed again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_continues_inside_the_workflow_of_a_call() {
    let replies = [json!({"text": "<ACTION><workflow__slow/></ACTION>"}), json!({"text": "Rested."})];
    let (folder, counts) = (project(&replies), Arc::default());
    let first = runs(&folder, &counts);
    let (run, ended) = cancelled(&first, begin(&first).await).await;
    assert_eq!(ended.exit(), Some(ExitReason::Cancelled), "{ended:#?}");
    assert_eq!(executed(&counts), (1, 0));
    write(folder.path(), "workflows/slow.json", &slow(1));
    let retried = runs(&folder, &counts).retry(&run).await.unwrap().outcome.await.unwrap();
    assert_eq!((retried.status(), retried.text()), (RunStatus::Ok, "Rested."), "{retried:#?}");
    assert_eq!(executed(&counts), (1, 0), "the node inside the call had finished");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_of_a_workflow_keeps_the_calls_of_its_nodes() {
    let (folder, counts) = (project(&[]), Arc::default());
    let first = runs(&folder, &counts);
    let request = WorkflowRequest { id: "slow".into(), ..WorkflowRequest::default() };
    let (run, ended) = cancelled(&first, first.begin(request.into()).await.unwrap()).await;
    assert_eq!(ended.status(), RunStatus::Cancelled, "{ended:#?}");
    write(folder.path(), "workflows/slow.json", &slow(1));
    let retried = runs(&folder, &counts).retry(&run).await.unwrap().outcome.await.unwrap();
    let RunOutcome::Workflow(outcome) = &retried else { unreachable!("{retried:#?}") };
    assert_eq!((outcome.status, &outcome.outputs["v"]), (RunStatus::Ok, &json!("ok")), "{retried:#?}");
    assert_eq!(executed(&counts), (1, 0));
}

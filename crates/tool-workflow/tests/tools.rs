//! Workflows and nodes as tools: parameters, results, and events while they run.
#![expect(clippy::unwrap_used, reason = "helpers of tests: a wrong case may panic")]

use std::sync::Arc;

use agent_types::{
    ApprovalDefault, Budget, BudgetLimits, CallId, Delivery, EventBody, EventLocation, Recorder, RunId,
    SystemClock,
};
use async_trait::async_trait;
use serde_json::{Value, json};
use tool_registry::{CallEnd, Selection, Services, Snapshot, TaskBoard, Tool, ToolContext, ToolOutput};
use tool_workflow::{NODE, WorkflowRuntime, node_tool, workflow_tool};
use workflow_engine::{Inputs, Node, NodeCatalog, NodeContext, NodeError, Outputs};
use workflow_model::{DataFlowType, NoWorkflows, NodeDefinition, SlotDefinition, Workflow};

async fn call(tool: &Tool, arguments: Value, services: Services) -> (CallEnd, Vec<String>) {
    let clock = Arc::new(SystemClock);
    let sink = Recorder::new(RunId::new("r"), clock.clone());
    let mut watcher = sink.subscribe(1000);
    let budget = Budget::new(BudgetLimits::default());
    let cx =
        ToolContext::new(CallId::new("c"), tool.id().clone(), clock, budget, sink, EventLocation::default())
            .with_services(services);
    let end = tool.invoke(arguments.as_object().unwrap().clone(), cx).await.end;
    let mut chunks = Vec::new();
    while let Some(Delivery::Events(events)) = watcher.try_next() {
        chunks.extend(events.iter().filter_map(|event| match &event.body {
            EventBody::AgentToolChunk { text, .. } => Some(text.clone()),
            _ => None,
        }));
    }
    (end, chunks)
}

fn unknown(snapshot: &Snapshot, id: &str) -> bool {
    snapshot.get(id).is_none() && id.parse::<agent_types::ToolId>().is_err()
}

#[test]
fn s31_ids_of_workflows_never_leave_the_index() {
    let file = json!({"description": "Does it.", "nodes": [], "edges": []});
    let workflow = Workflow::from_value(file).unwrap();
    let tool = |id: &str| workflow_tool(id, &workflow, &NoWorkflows, &WorkflowRuntime::default());
    let all = Snapshot::new([tool("summarize_text").unwrap()]).unwrap();
    let long = "x".repeat(300);
    for id in ["../../etc/passwd", "..\\x", "/abs", "a/../b", "%2e%2e", "a\0b", &long] {
        assert!(unknown(&all, &format!("workflow:{id}")), "{id:?}");
        assert_eq!(tool(id).unwrap_err().code(), "invalid_tool_id", "{id:?}");
    }
    // A name that other systems keep for devices is a name like others: it is looked up, never opened.
    assert!(all.get("workflow:con").is_none());
    let near = all.unresolved("workflow:sumarize_text").near.unwrap();
    assert_eq!(near.as_str(), "workflow:summarize_text");
}

/// Joins its texts, or says them one by one.
struct Say(NodeDefinition);

#[async_trait]
impl Node for Say {
    fn definition(&self) -> &NodeDefinition {
        &self.0
    }

    async fn run(&self, ctx: NodeContext, inputs: Inputs) -> Result<Outputs, NodeError> {
        let text = inputs.text("text")?;
        if &*self.0.node_type == "t:Say" {
            return Ok(Outputs::value(text.to_uppercase()));
        }
        for word in text.split_inclusive(' ') {
            ctx.chunk("words", word).await?;
        }
        Ok(Outputs::none())
    }
}

fn runtime() -> WorkflowRuntime {
    let text = || SlotDefinition::new(DataFlowType::String, "a text");
    let say = NodeDefinition::new("t:Say", "Says it loudly.")
        .input("text", text().required())
        .output("out", text());
    let words = NodeDefinition::new("t:Words", "Says it word by word.")
        .input("text", text().with_default("a b"))
        .output("words", text().stream());
    let catalog = NodeCatalog::new().with(Say(say.pure())).with(Say(words.effect()));
    WorkflowRuntime { catalog: Arc::new(catalog), ..WorkflowRuntime::default() }
}

#[tokio::test]
async fn a_node_is_a_tool_of_one_node() {
    let say = node_tool("t:Say", &runtime()).unwrap();
    assert_eq!((say.id().as_str(), say.kind()), ("node:t:Say", NODE));
    assert_eq!(
        say.definition().parameters,
        json!({"type": "object", "properties": {"text": {"type": "string", "description": "a text"}}, "required": ["text"]})
    );
    assert!(say.definition().annotations.read_only && say.definition().annotations.idempotent);
    let (end, _) = call(&say, json!({"text": "hi"}), Services::new()).await;
    assert_eq!(end, CallEnd::Ok(ToolOutput::Json(json!("HI"))));
    let words = node_tool("t:Words", &runtime()).unwrap();
    assert_eq!(words.approval(), ApprovalDefault::Ask, "an effect asks");
    let error = node_tool("t:Sya", &runtime()).unwrap_err();
    assert!(error.to_string().contains("t:Say"), "{error}");
}

#[tokio::test]
async fn a_stream_among_the_results_is_told_while_it_comes() {
    let file = json!({
        "description": "Says it.",
        "interfaceInputs": {"text": {"dataFlowType": "STRING"}},
        "interfaceOutputs": {"said": {"dataFlowType": "STRING", "isStream": true}},
        "nodes": [{"id": "in", "type": "core:GroupInput"}, {"id": "w", "type": "t:Words"}, {"id": "out", "type": "core:GroupOutput"}],
        "edges": [
            {"source": "in", "sourceHandle": "text", "target": "w", "targetHandle": "text"},
            {"source": "w", "sourceHandle": "words", "target": "out", "targetHandle": "said"}
        ]
    });
    let workflow = Workflow::from_value(file).unwrap();
    let tool = workflow_tool("say", &workflow, &NoWorkflows, &runtime()).unwrap();
    let (end, chunks) = call(&tool, json!({"text": "one two"}), Services::new()).await;
    assert_eq!(end, CallEnd::Ok(ToolOutput::Json(json!("one two"))));
    assert_eq!(chunks, ["one ", "two"]);

    // The same as a handle.
    let listed =
        Selection::all().answer_with_handle(["workflow:say"]).from(&Snapshot::new([tool]).unwrap()).tools;
    let board = TaskBoard::new();
    let services = Services::new().with(Arc::new(board.clone()));
    let (end, _) = call(listed.get("workflow:say").unwrap(), json!({"text": "one two"}), services).await;
    assert_eq!(end, CallEnd::Ok(ToolOutput::Json(json!({"task": "task-c", "state": "running"}))));
    while !board.open().is_empty() {
        tokio::task::yield_now().await;
    }
    let read = board.read("task-c", 4, 100).unwrap();
    assert_eq!((read.text.as_str(), read.result), ("two", Some(json!("one two"))));
}

/// A workflow that hands `x` through.
fn through(slot: &Value) -> Workflow {
    Workflow::from_value(json!({
        "description": "Hands it on.",
        "nodes": [{"id": "in", "type": "core:GroupInput"}, {"id": "go", "type": "core:GroupOutput"}],
        "edges": [{"source": "in", "sourceHandle": "x", "target": "go", "targetHandle": "x"}],
        "interfaceInputs": {"x": slot}, "interfaceOutputs": {"x": {"dataFlowType": "WILDCARD"}},
    }))
    .unwrap()
}

/// Result of a call as JSON, or `refused`.
async fn handed(tool: &Tool, arguments: Value) -> String {
    match call(tool, arguments, Services::new()).await.0 {
        CallEnd::Ok(ToolOutput::Json(value)) => value.to_string(),
        CallEnd::Ok(ToolOutput::Text(text)) => json!(text).to_string(),
        other => {
            assert!(matches!(other, CallEnd::Failed(_)), "{other:?}");
            "refused".into()
        }
    }
}

#[tokio::test]
async fn arguments_of_a_tool_hold_at_its_border() {
    let text = json!({"dataFlowType": "STRING"});
    let with = |kind: &str, default: Value| json!({"dataFlowType": kind, "config": {"default": default}});
    let big = u64::MAX;
    for (slot, arguments, expected) in [
        // A call has a result in any case: what is absent inside is null to the model.
        (text.clone(), json!({}), "null"),
        (text.clone(), json!({"x": ""}), "\"\""),
        (text.clone(), json!({"x": null}), "refused"),
        (text.clone(), json!({"x": {"a": 1}}), "refused"),
        (with("STRING", json!("d")), json!({}), "\"d\""),
        (with("STRING", json!("d")), json!({"x": ""}), "\"\""),
        (json!({"dataFlowType": "STRING", "required": true}), json!({}), "refused"),
        (json!({"dataFlowType": "STRING", "required": true}), json!({"x": ""}), "\"\""),
        (json!({"dataFlowType": "INTEGER"}), json!({"x": big}), "18446744073709551615"),
        (json!({"dataFlowType": "INTEGER"}), json!({"x": i64::MIN}), "-9223372036854775808"),
        (json!({"dataFlowType": "INTEGER"}), json!({"x": 3.0}), "3"),
        (json!({"dataFlowType": "INTEGER"}), json!({"x": 3.5}), "refused"),
        (json!({"dataFlowType": "WILDCARD"}), json!({"x": null}), "null"),
        (json!({"dataFlowType": "WILDCARD"}), json!({"x": []}), "[]"),
    ] {
        let tool = workflow_tool("x", &through(&slot), &NoWorkflows, &runtime()).unwrap();
        assert_eq!(handed(&tool, arguments.clone()).await, expected, "{slot} {arguments}");
    }
}

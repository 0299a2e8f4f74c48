//! Which tools somebody may use, in what form, and what becomes of them while a program runs.
#![expect(clippy::unwrap_used, reason = "helpers of tests: a wrong case may panic")]

use std::sync::Arc;

use agent_types::{
    ApprovalDefault, Budget, BudgetLimits, CallId, EventBody, EventLocation, Recorder, RunId, SystemClock,
    Watched,
};
use async_trait::async_trait;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use tool_registry::{
    Answer, CallEnd, DynamicTools, KnowledgeSource, Passage, Selection, Services, Snapshot, TaskBoard, Tool,
    ToolContext, ToolError, ToolHandler, ToolKind, ToolOutput, ToolRegistry, Visibility, WorkflowRuntime,
    knowledge_tool, node_tool, workflow_tool,
};
use tool_schema::{ToolDefinition, wire_name};
use workflow_engine::{Inputs, Node, NodeCatalog, NodeContext, NodeError, Outputs};
use workflow_model::{DataFlowType, NoWorkflows, NodeDefinition, SlotDefinition, Workflow};

struct Echo;

#[async_trait]
impl ToolHandler for Echo {
    async fn call(&self, arguments: Map<String, Value>, _: &ToolContext) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::Json(arguments.into()))
    }
}

fn described(id: &str, description: &str) -> Tool {
    let definition = ToolDefinition::new(id.parse().unwrap(), description, json!({"type": "object"}));
    Tool::new(definition, ToolKind::Http, Echo).unwrap()
}

fn all(ids: &[&str]) -> Snapshot {
    Snapshot::of(ids.iter().map(|id| described(id, "Echoes."))).unwrap()
}

fn ids(snapshot: &Snapshot) -> Vec<&str> {
    snapshot.tools().map(|tool| tool.id().as_str()).collect()
}

async fn call(tool: &Tool, arguments: Value, services: Services) -> (CallEnd, Vec<String>) {
    let clock = Arc::new(SystemClock);
    let sink = Recorder::new(RunId::new("r"), clock.clone());
    let mut watcher = sink.watch(1000);
    let budget = Budget::new(BudgetLimits::default());
    let cx =
        ToolContext::new(CallId::new("c"), tool.id().clone(), clock, budget, sink, EventLocation::default())
            .with_services(services);
    let end = tool.invoke(arguments.as_object().unwrap().clone(), cx).await.end;
    let mut chunks = Vec::new();
    while let Some(Watched::Events(events)) = watcher.try_next() {
        chunks.extend(events.iter().filter_map(|event| match &event.body {
            EventBody::AgentToolChunk { text, .. } => Some(text.clone()),
            _ => None,
        }));
    }
    (end, chunks)
}

#[test]
fn a_workflow_says_which_tools_it_may_use() {
    let file = |available: Value| {
        Workflow::from_value(json!({"nodes": [], "edges": [], "availableTools": available}))
    };
    let chosen = |available: Value| {
        let available = file(available).unwrap().available_tools.unwrap();
        Selection::of_workflow(&available).from(&all(&["a", "b", "c", "d"])).tools
    };
    assert_eq!(ids(&chosen(json!({"initial": ["b", "a"]}))), ["b", "a"]);
    let tools = chosen(json!({"initial": ["a"], "available": ["a", "b", "c", "x"], "discoverable": ["b"],
        "hidden": ["c"], "requireApproval": ["a"]}));
    assert_eq!(ids(&tools), ["a", "b"]);
    assert_eq!(tools.get("b").unwrap().settings().visibility, Visibility::Discoverable);
    assert_eq!(tools.get("a").unwrap().approval(), ApprovalDefault::Ask);
}

#[test]
fn node_packages_and_handles_are_read_from_a_listing() {
    let selection = Selection::new(["core:TextMerge", "a"]).answer_with_handle(["a"]);
    assert!(selection.allows("node:core:TextMerge") && !selection.allows("b"));
    let chosen = selection.from(&all(&["a", "b"]));
    assert_eq!(chosen.unknown[0].name, "node:core:TextMerge");
    assert_eq!(chosen.tools.get("a").unwrap().settings().answer, Answer::Handle);
}

#[test]
fn a_node_offers_more_tools_in_its_own_words() {
    let tools: DynamicTools = serde_json::from_value(json!({
        "toolIds": ["a", "hidden", "gone"], "descriptionTemplate": "{toolName}! {toolDescription} ({toolName})"
    }))
    .unwrap();
    let chosen = tools.from(&all(&["a", "hidden"]), &Selection::all().hide(["hidden"]));
    assert_eq!(ids(&chosen.tools), ["a"]);
    assert_eq!(chosen.tools.get("a").unwrap().definition().description, "a! Echoes. (a)");
    let mut unknown: Vec<&str> = chosen.unknown.iter().map(|unknown| unknown.name.as_str()).collect();
    unknown.sort_unstable();
    assert_eq!(unknown, ["gone", "hidden"]);
    assert!(serde_json::from_value::<DynamicTools>(json!({"toolIds": [], "template": ""})).is_err());
}

#[test]
fn tools_are_replaced_all_at_once_or_not_at_all() {
    let registry = ToolRegistry::new();
    for tool in [described("a", "Old."), described("b", "Same.")] {
        registry.register(tool).unwrap();
    }
    let before = registry.snapshot();
    let old = ["a", "b"].map(|id| id.parse().unwrap());
    let refused = registry.replace(&old, [described("c", "New."), described("workflow:x", "Claimed.")]);
    assert_eq!(refused.unwrap_err().code(), "reserved_namespace");
    assert!(registry.snapshot().is_same(&before));
    let change = registry.replace(&old, [described("a", "New."), described("c", "New.")]).unwrap();
    assert_eq!(ids(&registry.snapshot()), ["a", "c"]);
    assert_eq!(ids(&before), ["a", "b"], "what a turn saw stays");
    assert_eq!(
        serde_json::to_value(change.into_event()).unwrap(),
        json!({"type": "registry.changed", "data": {"added": ["c"], "removed": ["b"], "changed": ["a"],
            "warnings": ["the description of `a` is another one"]}})
    );
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
    assert_eq!((say.id().as_str(), say.kind()), ("node:t:Say", ToolKind::Node));
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
        Selection::all().answer_with_handle(["workflow:say"]).from(&Snapshot::of([tool]).unwrap()).tools;
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

#[derive(Debug)]
struct Shelf;

#[async_trait]
impl KnowledgeSource for Shelf {
    async fn search(&self, query: &str, limit: usize) -> Result<Vec<Passage>, ToolError> {
        let passage = |n: usize| Passage { source: format!("book.md:{n}"), text: format!("{query} {n}\n") };
        Ok((0..limit.min(2)).filter(|_| query != "nothing").map(passage).collect())
    }
}

#[tokio::test]
async fn a_knowledge_base_gives_passages_with_their_source() {
    let tool = knowledge_tool("Query", "Searches the books.", Arc::new(Shelf)).unwrap();
    assert_eq!(tool.id().as_str(), "kb:Query");
    let (end, _) = call(&tool, json!({"query": "bees"}), Services::new()).await;
    assert_eq!(end, CallEnd::Ok(ToolOutput::Text("[book.md:0]\nbees 0\n\n[book.md:1]\nbees 1".into())));
    let (end, _) = call(&tool, json!({"query": "nothing"}), Services::new()).await;
    assert_eq!(end, CallEnd::Ok(ToolOutput::Text("nothing was found; try other words".into())));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn order_changes_nothing(
        names in proptest::collection::hash_set("[a-c]{1,3}(:[A-C_.-]{1,3}[a-c])?", 1..20),
        asked in proptest::collection::vec("[a-cA-C_:.-]{1,6}", 1..10)
    ) {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut sorted = names.clone();
        sorted.sort_unstable();
        let (one, other) = (all(&names), all(&sorted));
        let (Ok(one_set), Ok(other_set)) = (one.tool_set(), other.tool_set()) else {
            prop_assert!(one.tool_set().is_err() && other.tool_set().is_err());
            return Ok(());
        };
        let wire: Vec<String> = names.iter().map(|name| wire_name(name)).collect();
        for name in names.iter().copied().chain(wire.iter().map(String::as_str)).chain(asked.iter().map(String::as_str)) {
            let resolved = |set: &tool_schema::ToolSet| set.get(name).map(|tool| tool.name.clone());
            prop_assert_eq!(resolved(&one_set), resolved(&other_set));
        }
        let mut chosen: Vec<String> = ids(&one).iter().map(ToString::to_string).collect();
        chosen.sort_unstable();
        prop_assert_eq!(chosen, sorted);
    }
}

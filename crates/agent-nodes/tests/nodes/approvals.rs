//! Calls that need a person: the node waits, and resumes with the answer.

use std::sync::Arc;

use agent_nodes::LlmNodeConfig;
use agent_runtime::{ApprovalMode, approval_digest};
use agent_types::{Budget, BudgetKey, BudgetLimits, EventSink, RunId, RunStatus, SystemClock};
use run_store::{NewRun, Store};
use serde_json::{Map, Value, json};
use tool_registry::{Snapshot, Tool, ToolInvoker};
use tool_workflow::{WorkflowRuntime, workflow_tool};
use workflow_engine::RunOutcome;
use workflow_model::{NoWorkflows, Workflow};

use crate::common::{World, one, plan, tools, with_tools};

fn requests() -> Value {
    json!([
        {"call": "a", "tool": "say", "arguments": {"say": "1"}},
        {"call": "b", "tool": "pay", "arguments": {"say": "2"}},
        {"call": "c", "tool": "do_it", "arguments": {"say": "3"}},
        {"call": "d", "tool": "say", "arguments": {"say": "4"}},
    ])
}

fn workflow() -> Workflow {
    one("agent:ExecuteTool", &json!({"tool_call_requests": requests()}), &json!({}))
}

/// A run that is kept from one process to the next.
pub(crate) struct Lasting {
    pub(crate) store: Store,
    pub(crate) run: RunId,
}

impl Lasting {
    pub(crate) fn new() -> Self {
        Self { store: Store::memory().unwrap(), run: RunId::new("r") }
    }

    /// Runs a workflow, from its beginning or from where it stopped.
    pub(crate) fn go(&self, world: &World, workflow: &Workflow, is_first: bool) -> RunOutcome {
        let clock = Arc::new(SystemClock);
        let mut options = world.options();
        let stored = if is_first {
            self.store.begin(NewRun::new(self.run.clone()), clock).unwrap()
        } else {
            let (stored, log) = self.store.resume(&self.run, clock).unwrap();
            options.resume = Some(Box::new(log));
            stored
        };
        options = options.with_sink(Arc::clone(&stored) as Arc<dyn EventSink>);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let outcome = plan(workflow).run(Map::new(), options).outcome().await;
            stored.close().await.unwrap();
            outcome
        })
    }

    fn names(&self) -> Vec<&'static str> {
        let events = self.store.events(&self.run, 0, usize::MAX).unwrap();
        events.iter().map(|kept| kept.event.body.name()).collect()
    }
}

fn tools_of(world: &World) -> Vec<String> {
    world
        .calls()
        .into_iter()
        .map(|(tool, arguments)| format!("{tool} {}", arguments["say"].as_str().unwrap()))
        .collect()
}

#[track_caller]
fn check(answer: Value, ran: &[&str], observation: &str) {
    let lasting = Lasting::new();
    let first = World::new(&[]);
    let outcome = lasting.go(&first, &workflow(), true);
    assert_eq!(outcome.status, RunStatus::Waiting);
    let [ask] = &outcome.asks[..] else { panic!("{:?}", outcome.asks) };
    assert_eq!((ask.tool.as_ref().unwrap().as_str(), ask.path.as_deref()), ("pay", Some("node")));
    assert_eq!(ask.arguments.as_deref().unwrap()["say"], "2");
    assert_eq!(ask.prompt.as_deref(), Some("`pay` must be approved"));
    assert_eq!(tools_of(&first), ["say 1", "say 4"], "what only reads does not wait");
    // A life in which nobody has answered changes nothing.
    let idle = World::new(&[]);
    assert_eq!(lasting.go(&idle, &workflow(), false).asks, outcome.asks);
    assert!(idle.calls().is_empty());

    lasting.store.answer(&lasting.run, &ask.ask, &answer).unwrap();
    let second = World::new(&[]);
    let outcome = lasting.go(&second, &workflow(), false);
    assert_eq!(outcome.status, RunStatus::Ok, "{:?}", outcome.error);
    assert_eq!(tools_of(&second), ran, "nothing is done twice");
    let text = outcome.outputs["observation"].as_str().unwrap();
    assert!(text.contains(observation), "{text}");
    assert_eq!(outcome.outputs["results"].as_array().unwrap().len(), 4);
    let count = |name: &str| lasting.names().iter().filter(|own| **own == name).count();
    assert_eq!(count("agent.tool.started"), count("agent.tool.finished") - usize::from(ran.len() == 1));
    assert_eq!((count("agent.tool.approval"), count("agent.observation")), (2, 4));
}

fn digest(say: &str) -> String {
    approval_digest("pay", json!({"say": say}).as_object().unwrap(), &agent_types::DefinitionDigests::new())
}

#[test]
fn a_call_that_needs_a_person_waits_with_the_node() {
    check(
        json!({"approve": true, "digest": digest("2")}),
        &["pay 2", "do_it 3"],
        "Tool pay executed successfully. Result: 2",
    );
    check(json!({"deny": "too much"}), &["do_it 3"], "Error - Tool pay was not run: denied: too much");
    let edited = json!({"approve": true, "arguments": {"say": "5"}});
    check(edited, &["pay 5", "do_it 3"], "Note - arguments changed by the user: {\"say\":\"5\"}");
}

#[test]
fn changed_arguments_that_do_not_fit_leave_the_call_waiting() {
    let lasting = Lasting::new();
    let first = lasting.go(&World::new(&[]), &workflow(), true);
    let wrong = json!({"approve": true, "arguments": {"say": 5}});
    lasting.store.answer(&lasting.run, &first.asks[0].ask, &wrong).unwrap();
    let world = World::new(&[]);
    let outcome = lasting.go(&world, &workflow(), false);
    assert_eq!(outcome.status, RunStatus::Waiting);
    assert!(world.calls().is_empty());
    let [ask] = &outcome.asks[..] else { panic!("{:?}", outcome.asks) };
    let prompt = ask.prompt.as_deref().unwrap();
    assert!(prompt.contains("Parameter 'say' must be string, got 5"), "{prompt}");
    lasting.store.answer(&lasting.run, &ask.ask, &json!({"approve": true})).unwrap();
    let world = World::new(&[]);
    assert_eq!(lasting.go(&world, &workflow(), false).status, RunStatus::Ok);
    assert_eq!(tools_of(&world), ["pay 2", "do_it 3"]);
}

#[test]
fn an_approval_counts_for_its_arguments_only() {
    let lasting = Lasting::new();
    lasting.go(&World::new(&[]), &workflow(), true);
    lasting.store.answer(&lasting.run, "node", &json!({"approve": true, "digest": digest("9")})).unwrap();
    let world = World::new(&[]);
    let outcome = lasting.go(&world, &workflow(), false);
    assert_eq!(outcome.status, RunStatus::Waiting);
    assert!(world.calls().is_empty());
}

#[test]
fn several_calls_are_asked_about_at_once() {
    let requests = json!([
        {"call": "a", "tool": "pay", "arguments": {"say": "1"}},
        {"call": "b", "tool": "pay", "arguments": {"say": "2"}},
    ]);
    let workflow = one("agent:ExecuteTool", &json!({"tool_call_requests": requests}), &json!({}));
    let lasting = Lasting::new();
    let outcome = lasting.go(&World::new(&[]), &workflow, true);
    let asks: Vec<&str> = outcome.asks.iter().map(|ask| &*ask.ask).collect();
    assert_eq!(asks, ["node#0", "node#1"]);
    lasting.store.answer(&lasting.run, "node#1", &json!({"deny": "no"})).unwrap();
    let outcome = lasting.go(&World::new(&[]), &workflow, false);
    assert_eq!(outcome.asks.iter().map(|ask| &*ask.ask).collect::<Vec<_>>(), ["node#0"]);
    lasting.store.answer(&lasting.run, "node#0", &json!({"approve": true})).unwrap();
    let world = World::new(&[]);
    let outcome = lasting.go(&world, &workflow, false);
    assert_eq!(outcome.status, RunStatus::Ok);
    assert_eq!(tools_of(&world), ["pay 1"]);
    assert_eq!(
        outcome.outputs["observation"],
        "Observation: Tool pay executed successfully. Result: 1\nObservation: Error - Tool pay was not run: denied: no"
    );
}

#[test]
fn whoever_starts_the_run_may_decide_for_all() {
    for (approval, ran) in [(ApprovalMode::All, 4), (ApprovalMode::None, 3)] {
        let mut world = World::new(&[]);
        let surroundings = LlmNodeConfig { approval, ..LlmNodeConfig::in_memory() };
        world.services = world.services.with(Arc::new(surroundings));
        let seen = world.run(&workflow(), json!({})).ok();
        assert_eq!(world.calls().len(), ran, "{:?}", seen.output("observation"));
    }
}

#[test]
fn a_workflow_may_ask_for_what_would_run_and_copies_are_asked_about() {
    let call = json!({"tool": "say", "arguments": {"say": "1"}});
    let available = json!({"initial": ["say"], "requireApproval": ["say"]});
    let inputs = json!({"tool_call_requests": [call]});
    let seen =
        World::new(&[]).run(&with_tools("agent:ExecuteTool", &inputs, &json!({}), &available), json!({}));
    assert_eq!(seen.outcome.status, RunStatus::Waiting);
    let mut echo = call;
    echo["echo"] = true.into();
    let seen = World::new(&[])
        .run(&one("agent:ExecuteTool", &json!({"tool_call_requests": echo}), &json!({})), json!({}));
    assert!(seen.outcome.asks[0].prompt.as_deref().unwrap().starts_with("echo_of_untrusted"));
}

/// A workflow that asks a person, as a tool.
fn asker() -> Tool {
    let file = json!({
        "description": "Asks.",
        "interfaceInputs": {"what": {"dataFlowType": "STRING"}},
        "interfaceOutputs": {"said": {"dataFlowType": "STRING"}},
        "nodes": [{"id": "in", "type": "core:GroupInput"}, {"id": "out", "type": "core:GroupOutput"},
            {"id": "node", "type": "core:Ask", "configValues": {"prompt": "Well?"}}],
        "edges": [{"source": "in", "sourceHandle": "what", "target": "node", "targetHandle": "context"},
            {"source": "node", "sourceHandle": "answer", "target": "out", "targetHandle": "said"}],
    });
    let runtime =
        WorkflowRuntime { catalog: Arc::new(crate::common::catalog()), ..WorkflowRuntime::default() };
    workflow_tool("ask", &Workflow::from_value(file).unwrap(), &NoWorkflows, &runtime).unwrap()
}

#[test]
fn a_workflow_inside_a_call_may_ask() {
    let requests = json!([{"call": "a", "tool": "say", "arguments": {"say": "1"}},
        {"call": "b", "tool": "workflow:ask", "arguments": {"what": "Now"}}]);
    let workflow = one("agent:ExecuteTool", &json!({"tool_call_requests": requests}), &json!({}));
    let world = || {
        let mut world = World::new(&[]);
        let tools = tools(&world.puppet).tools().cloned().chain([asker()]).collect::<Vec<_>>();
        world.services = world.services.with::<dyn ToolInvoker>(Arc::new(Snapshot::new(tools).unwrap()));
        world
    };
    let lasting = Lasting::new();
    let outcome = lasting.go(&world(), &workflow, true);
    let asks: Vec<_> = outcome.asks.iter().map(|ask| (&*ask.ask, ask.prompt.as_deref())).collect();
    assert_eq!(asks, [("node", Some("Well?\nNow"))], "{:?}", outcome.error);
    lasting.store.answer(&lasting.run, "node", &json!("yes")).unwrap();
    let second = world();
    let outcome = lasting.go(&second, &workflow, false);
    let result = "Observation: Tool workflow:ask executed successfully. Result: yes";
    assert!(outcome.outputs["observation"].as_str().unwrap().ends_with(result), "{outcome:?}");
    assert!(second.calls().is_empty(), "what is done is not done again");
    let count = |name: &str| lasting.names().iter().filter(|own| **own == name).count();
    assert_eq!((count("agent.tool.started"), count("agent.tool.finished")), (2, 2), "{:#?}", lasting.names());
    assert_eq!(count("node.started"), count("node.finished"), "{:#?}", lasting.names());
}

#[test]
fn what_is_answered_at_once_goes_on_at_once() {
    let mut world = World::new(&[]);
    let budget = Budget::new(BudgetLimits::default());
    world.budget = Some(budget.clone());
    let plan = plan(&workflow());
    let mut options = world.options();
    options.on_waiting = workflow_engine::OnWaiting::Stay;
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let outcome = runtime.block_on(async {
        let handle = plan.run(Map::new(), options);
        while !handle.answer("node", json!({"approve": true})).await {
            tokio::task::yield_now().await;
        }
        handle.outcome().await
    });
    assert_eq!(outcome.status, RunStatus::Ok);
    assert_eq!(tools_of(&world), ["say 1", "say 4", "pay 2", "do_it 3"]);
    assert_eq!(budget.used(BudgetKey::ToolCalls), 4, "each call counts once");
}

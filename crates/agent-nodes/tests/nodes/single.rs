//! Nodes that are one call or one value: `core:Tool`, `core:Knowledge`, `agent:Agent`, `agent:Extract`, `agent:Classify`.

use std::collections::BTreeMap;
use std::sync::Arc;

use agent_nodes::{AgentLookupError, AgentSource, LlmNodeConfig};
use agent_runtime::{Agent, AgentProfile, ApprovalMode};
use agent_types::{BudgetLimits, EventSink, RunId, RunStatus, SystemClock};
use llm_provider::LlmProvider;
use run_store::{NewRun, Store};
use serde_json::{Map, Value, json};
use tool_knowledge::{KnowledgeSettings, KnowledgeTools};
use tool_registry::Snapshot;
use workflow_model::Workflow;

use crate::approvals::Lasting;
use crate::common::{Seen, Spy, World, block, one, plan, tools, with_tools};

fn call(world: &World, config: &Value, inputs: &Value) -> Seen {
    world.run(&one("core:Tool", inputs, config), json!({}))
}

#[test]
fn a_tool_is_a_node_with_its_parameters_as_inputs() {
    for (config, inputs, expected) in [
        (json!({"tool": "say"}), json!({"say": "x"}), json!("x")),
        (json!({"tool": "say", "arguments": {"say": "y", "n": 1}}), json!({}), json!("y")),
        (json!({"tool": "say", "arguments": {"say": "y"}}), json!({"arguments": {"say": "z"}}), json!("z")),
        (json!({"tool": "say"}), json!({"arguments": {"say": "z"}, "say": "x"}), json!("x")),
        (json!({"tool": "say"}), json!({"say": "x", "n": "3"}), json!("x")),
    ] {
        let world = World::new(&[]);
        let seen = call(&world, &config, &inputs).ok();
        assert_eq!(
            (seen.output("value"), seen.output("text")),
            (expected.clone(), expected),
            "{config} {inputs}"
        );
        assert_eq!(world.calls().len(), 1);
    }
    let pieces = call(&World::new(&[]), &json!({"tool": "say"}), &json!({"say": "x", "do": "pieces"})).ok();
    assert_eq!(pieces.output("stream"), json!("one two three"));
    let ended = call(&World::new(&[]), &json!({"tool": "say"}), &json!({"say": "x", "do": "end"})).ok();
    assert_eq!(ended.output("value"), json!({"all": "done"}));
}

#[test]
fn a_call_that_fails_fails_the_node() {
    for (config, inputs, code, message) in [
        (json!({"tool": "say"}), json!({"say": "x", "do": "fail"}), "failed", "Tool say failed: disk full"),
        (json!({"tool": "say"}), json!({"say": "x", "do": "hang"}), "timeout", "no answer within 5000 ms"),
        (json!({"tool": "say"}), json!({}), "refused", "Missing parameter 'say'"),
        (json!({"tool": "sai"}), json!({"say": "x"}), "unknown_tool", "did you mean `say`?"),
    ] {
        let error = call(&World::new(&[]), &config, &inputs).outcome.error.unwrap();
        assert_eq!(error.code.as_deref(), Some(code), "{error}");
        assert!(error.message.contains(message), "{error}");
    }
    let hidden = with_tools(
        "core:Tool",
        &json!({"say": "x"}),
        &json!({"tool": "pay"}),
        &json!({"available": ["say"]}),
    );
    let error = World::new(&[]).run(&hidden, json!({})).outcome.error.unwrap();
    assert_eq!(error.code.as_deref(), Some("tool_not_allowed"));
    let named = with_tools(
        "core:Tool",
        &json!({"say": "x"}),
        &json!({"tool": "do_it"}),
        &json!({"initial": ["say"]}),
    );
    World::new(&[]).run(&named, json!({})).ok();
}

#[test]
fn an_effect_waits_for_approval() {
    let world = World::new(&[]);
    let pay = one("core:Tool", &json!({"say": "x"}), &json!({"tool": "pay"}));
    let waiting = world.run(&pay, json!({})).outcome;
    assert_eq!(waiting.status, RunStatus::Waiting);
    assert_eq!(waiting.asks[0].tool.as_ref().map(agent_types::ToolId::as_str), Some("pay"));
    assert!(world.calls().is_empty());
    let mut world = World::new(&[]);
    let config = LlmNodeConfig { approval: ApprovalMode::All, ..LlmNodeConfig::in_memory() };
    world.services = world.services.with(Arc::new(config));
    assert_eq!(world.run(&pay, json!({})).ok().output("value"), json!("x"));
}

#[test]
fn passages_of_a_base_are_found() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("hours.md"), "# Dock\nThe dock opens at seven.\n").unwrap();
    let bases: BTreeMap<String, KnowledgeSettings> =
        serde_json::from_value(json!({"harbour": {"path": "*.md"}})).unwrap();
    let mut world = World::new(&[]);
    world.services = world.services.with(Arc::new(KnowledgeTools::new(folder.path(), &bases)));
    let search = |base: &str, query: &str| {
        world.run(&one("core:Knowledge", &json!({"query": query}), &json!({"base": base})), json!({}))
    };
    let seen = search("harbour", "When does the dock open?").ok();
    assert_eq!(seen.output("passages").as_array().unwrap().len(), 1);
    assert!(seen.output("text").as_str().unwrap().contains("opens at seven"), "{}", seen.output("text"));
    assert_eq!(search("harbour", "zebra").ok().output("passages"), json!([]));
    let error = search("harbor", "x").outcome.error.unwrap();
    assert_eq!(error.code.as_deref(), Some("unknown_base"));
    assert!(error.message.contains("did you mean `harbour`?"), "{error}");
}

/// One agent, `clerk`, on the model of the world.
#[derive(Debug)]
struct Clerk(Arc<Spy>, Snapshot);

impl AgentSource for Clerk {
    fn agent(&self, id: &str) -> Result<Agent, AgentLookupError> {
        if id != "clerk" {
            return Err(AgentLookupError::new("unknown_agent", format!("no agent has the id `{id}`")));
        }
        let model = Arc::clone(&self.0) as Arc<dyn LlmProvider>;
        Ok(Agent::from_profile(AgentProfile::new("clerk"), model, self.1.clone()))
    }
}

fn with_clerk(script: &[Value]) -> World {
    let mut world = World::new(script);
    let clerk = Clerk(Arc::clone(&world.model), tools(&world.puppet));
    world.services = world.services.with::<dyn AgentSource>(Arc::new(clerk));
    world
}

fn clerk(config: &Value) -> Workflow {
    let mut settings = json!({"agentId": "clerk"});
    settings.as_object_mut().unwrap().extend(config.as_object().cloned().unwrap_or_default());
    one("agent:Agent", &json!({"message": "Say x."}), &settings)
}

#[test]
fn an_agent_is_a_node() {
    let world = with_clerk(&[block("<say><say>x</say></say>"), json!({"text": "It is said."})]);
    let seen = world.run(&clerk(&json!({})), json!({})).ok();
    assert_eq!((seen.output("answer"), seen.output("value")), (json!("It is said."), json!("It is said.")));
    assert_eq!(world.calls(), [("say".to_owned(), json!({"say": "x"}))]);
    assert!(world.sent(0).iter().any(|line| line == "user: Say x."), "{:?}", world.sent(0));
    let error = with_clerk(&[])
        .run(&one("agent:Agent", &json!({"message": "x"}), &json!({"agentId": "clark"})), json!({}));
    assert_eq!(error.outcome.error.unwrap().code.as_deref(), Some("unknown_agent"));
}

#[test]
fn limits_of_the_node_and_of_the_run_bound_the_agent() {
    let script =
        [block("<say><say>x</say></say>"), block("<say><say>y</say></say>"), json!({"text": "Done."})];
    let seen = with_clerk(&script).run(&clerk(&json!({"budgets": {"turns": 1}})), json!({})).ok();
    assert!(seen.output("answer").as_str().unwrap().contains("partial"), "{}", seen.output("answer"));
    let limits = BudgetLimits { tool_calls: Some(1), ..BudgetLimits::default() };
    let spent = with_clerk(&script).with_budget(limits).run(&clerk(&json!({})), json!({})).outcome;
    assert_eq!(spent.error.unwrap().kind, "tool_calls");
}

#[test]
fn a_question_inside_the_agent_is_one_of_the_run() {
    let lasting = Lasting::new();
    let world = with_clerk(&[block("<pay><say>x</say></pay>")]);
    let waiting = lasting.go(&world, &clerk(&json!({})), true);
    assert_eq!(waiting.status, RunStatus::Waiting, "{waiting:#?}");
    assert!(world.calls().is_empty());
    lasting.store.answer(&lasting.run, &waiting.asks[0].ask, &json!({"approve": true})).unwrap();
    let world = with_clerk(&[json!({"text": "It is paid."})]);
    let done = lasting.go(&world, &clerk(&json!({})), false);
    assert_eq!((done.status, &done.outputs["answer"]), (RunStatus::Ok, &json!("It is paid.")), "{done:#?}");
    assert_eq!(world.calls().len(), 1);
}

fn extract(schema: &Value) -> Workflow {
    let config = json!({"schema": schema, "instruction": "Metres."});
    one("agent:Extract", &json!({"text": "Three ropes </ACTION>"}), &config)
}

fn rope() -> Value {
    json!({"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]})
}

#[test]
fn a_value_is_taken_out_of_a_text() {
    let reply = |text: &str| json!({"text": text});
    let right = reply("```json\n{\"count\": 3}\n```");
    let world = World::new(std::slice::from_ref(&right));
    assert_eq!(world.run(&extract(&rope()), json!({})).ok().output("value"), json!({"count": 3}));
    let request = world.model.requests.lock().unwrap()[0].clone();
    assert_eq!(request.response_schema, Some(rope()));
    assert!(request.messages[0].text().contains("Metres."), "{:?}", request.messages);
    let world = World::new(&[reply("{\"count\": \"many\"}"), right]);
    assert_eq!(world.run(&extract(&rope()), json!({})).ok().output("value"), json!({"count": 3}));
    assert!(world.sent(1).last().unwrap().contains("Write the corrected JSON value alone"));
    let world = World::new(&[reply("three"), reply("3 or 4")]);
    let error = world.run(&extract(&rope()), json!({})).outcome.error.unwrap();
    assert_eq!(error.code.as_deref(), Some("output_schema"), "{error}");
}

#[test]
fn a_run_that_is_cut_between_answers_asks_for_the_second_one_only() {
    let clock = || Arc::new(SystemClock);
    let store = Store::memory().unwrap();
    let script = [json!({"text": "three"}), json!({"text": "{\"count\": 3}"})];
    let whole = store.begin(NewRun::new(RunId::new("whole")), clock()).unwrap();
    let go = |world: &World, stored: &Arc<run_store::StoredRun>, log: Option<agent_types::ResumeLog>| {
        let mut options = world.options().with_sink(Arc::clone(stored) as Arc<dyn EventSink>);
        options.resume = log.map(Box::new);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let outcome = plan(&extract(&rope())).run(Map::new(), options).outcome().await;
            stored.close().await.unwrap();
            outcome
        })
    };
    assert_eq!(go(&World::new(&script), &whole, None).outputs["value"], json!({"count": 3}));
    drop(whole);
    for weft_harness::Cut { upto, run, log, .. } in weft_harness::Cuts::new(&store, "whole") {
        let world = World::new(&script[weft_harness::replies(&log)..]);
        let resumed = go(&world, &run, Some(log));
        assert_eq!(resumed.outputs.get("value"), Some(&json!({"count": 3})), "cut at {upto}: {resumed:#?}");
    }
}

fn classify(config: &Value) -> Workflow {
    let edge =
        |name: &str| json!({"source": "node", "sourceHandle": name, "target": "out", "targetHandle": name});
    let slot = json!({"dataFlowType": "WILDCARD"});
    Workflow::from_value(json!({
        "nodes": [{"id": "node", "type": "agent:Classify", "inputValues": {"value": {"n": 1}}, "configValues": config},
            {"id": "out", "type": "core:GroupOutput"}],
        "edges": [edge("order"), edge("complaint"), edge("other")],
        "interfaceOutputs": {"order": slot, "complaint": slot, "other": slot}
    }))
    .unwrap()
}

#[test]
fn only_the_chosen_class_is_taken() {
    let reply = |class: &str| json!({"text": json!({"class": class}).to_string()});
    let classes = json!({"order": "wants something", "complaint": null});
    let chosen = |config: Value, script: &[Value]| {
        let world = World::new(script);
        let seen = world.run(&classify(&config), json!({})).ok();
        let taken: Vec<String> = seen.outcome.outputs.keys().cloned().collect();
        assert!(world.sent(0)[0].contains("- order"), "{:?}", world.sent(0));
        (taken, seen.outcome.outputs.values().next().cloned().unwrap_or_default())
    };
    let taken = |name: &str| (vec![name.to_owned()], json!({"n": 1}));
    assert_eq!(chosen(json!({"classes": classes, "other": true}), &[reply("order")]), taken("order"));
    assert_eq!(
        chosen(json!({"classes": ["order", "complaint"], "other": true}), &[reply("other")]),
        taken("other")
    );
    let corrected = [reply("praise"), reply("complaint")];
    assert_eq!(chosen(json!({"classes": classes, "other": true}), &corrected), taken("complaint"));
    let lost = [reply("praise"), reply("other")];
    let error =
        World::new(&lost).run(&classify(&json!({"classes": classes})), json!({})).outcome.error.unwrap();
    assert_eq!(error.code.as_deref(), Some("output_schema"), "{error}");
}

#[test]
fn settings_are_read_when_the_plan_is_made() {
    for (node_type, config, message) in [
        ("core:Tool", json!({}), "this setting is required"),
        ("core:Tool", json!({"tool": "say", "arguments": 1}), "arguments"),
        ("core:Knowledge", json!({"base": "b", "limit": 0}), "from 1 to 100"),
        ("agent:Agent", json!({"agentId": "a", "budgets": {"turn": 1}}), "unknown field `turn`"),
        ("agent:Extract", json!({"schema": {"type": "objec"}}), "not a usable JSON Schema"),
        ("agent:Classify", json!({"classes": ["a"]}), "two classes at least"),
        ("agent:Classify", json!({"classes": ["a", "a"]}), "stands there twice"),
        ("agent:Classify", json!({"classes": {"a": 1, "b": null}}), "expected a text"),
    ] {
        let workflow =
            one(node_type, &json!({"query": "x", "message": "x", "text": "x", "value": "x"}), &config);
        let error =
            workflow_engine::Plan::new(&workflow, &crate::common::catalog(), &workflow_model::NoWorkflows);
        let error = error.unwrap_err().to_string();
        assert!(error.contains(message), "{node_type} {config}: {error}");
    }
}

#[test]
fn arguments_of_a_tool_hold_at_the_border_of_its_node() {
    // `say` is a required text, `n` a whole number.
    let big = u64::MAX;
    for (inputs, arguments) in [
        (json!({"say": ""}), Some(json!({"say": ""}))),
        (json!({"say": "x", "n": big}), Some(json!({"say": "x", "n": big}))),
        (json!({"say": "x", "n": 3.0}), Some(json!({"say": "x", "n": 3}))),
        (json!({"say": "x", "n": 3.5}), None),
        (json!({"say": {"a": 1}}), None),
        (json!({}), None),
    ] {
        let world = World::new(&[]);
        let seen = call(&world, &json!({"tool": "say"}), &inputs);
        let given = world.calls().pop().map(|(_, arguments)| arguments);
        assert_eq!(given, arguments, "{inputs}: {:?}", seen.outcome.error);
        assert_eq!(seen.outcome.status == RunStatus::Ok, arguments.is_some(), "{inputs}");
    }
    // Null is a value of its own where it is given as an argument, and no text.
    let seen = call(&World::new(&[]), &json!({"tool": "say", "arguments": {"say": null}}), &json!({}));
    assert_eq!(seen.outcome.status, RunStatus::Error);
}

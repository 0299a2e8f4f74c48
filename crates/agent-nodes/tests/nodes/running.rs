//! `agent:ExecuteTool`.

use agent_types::BudgetLimits;
use serde_json::{Value, json};

use crate::common::{Seen, World, one, with_tools};

fn run(world: &World, requests: Value) -> Seen {
    world.run(&one("agent:ExecuteTool", &json!({"tool_call_requests": requests}), &json!({})), json!({}))
}

#[track_caller]
fn check(requests: Value, status: &str, observations: &[&str]) {
    let world = World::new(&[]);
    let seen = run(&world, requests.clone()).ok();
    assert_eq!(seen.output("status"), json!(status), "{requests}");
    let expected: Vec<String> = observations.iter().map(|text| format!("Observation: {text}")).collect();
    assert_eq!(seen.output("observation"), json!(expected.join("\n")), "{requests}");
    assert_eq!(seen.observations(), expected);
    assert_eq!(seen.output("results").as_array().unwrap().len(), observations.len());
}

#[test]
fn every_call_has_its_result() {
    check(json!([]), "none", &[]);
    let say = |more: Value| {
        let mut arguments = json!({"say": "x"});
        arguments.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
        json!({"tool": "say", "arguments": arguments})
    };
    check(say(json!({})), "ok", &["Tool say executed successfully. Result: x"]);
    check(
        json!({"name": "say", "arguments": "{\"say\": \"y\"}"}),
        "ok",
        &["Tool say executed successfully. Result: y"],
    );
    check(
        json!([say(json!({})), say(json!({"do": "fail"}))]),
        "failed",
        &["Tool say executed successfully. Result: x", "Error - Tool say failed: disk full"],
    );
    check(say(json!({"do": "panic"})), "panicked", &["Error - Tool say failed: internal error (panicked)"]);
    check(say(json!({"do": "hang"})), "timeout", &["Error - Tool say failed: no answer within 5000 ms"]);
    check(
        json!({"tool": "say", "arguments": {}}),
        "refused",
        &["Error - Invalid parameters for say: Missing parameter 'say'"],
    );
    check(
        json!([say(json!({})), {"tool": "say", "arguments": {"say": "x"}, "refuse": "no more"}]),
        "refused",
        &["Tool say executed successfully. Result: x", "Error - Tool say was not run: no more"],
    );
    check(
        json!([say(json!({})), {"tool": "sai", "arguments": {}}]),
        "refused",
        &[
            "Error - Tool say was not run: another call in this block is wrong",
            "Error - Unknown tool 'sai'. Available: none",
        ],
    );
}

#[test]
fn a_tool_that_may_not_be_used_is_as_good_as_none() {
    let world = World::new(&[]);
    let inputs = json!({"tool_call_requests": [{"tool": "pay", "arguments": {"say": "x"}}]});
    let available = json!({"initial": ["say"]});
    let seen = world.run(&with_tools("agent:ExecuteTool", &inputs, &json!({}), &available), json!({})).ok();
    assert_eq!(
        seen.output("observation"),
        json!("Observation: Error - Unknown tool 'pay', did you mean 'say'? Available: say")
    );
    assert!(world.calls().is_empty());
}

#[test]
fn results_have_their_values_images_and_pieces() {
    let world = World::new(&[]);
    let seen = run(
        &world,
        json!([{"tool": "say", "arguments": {"say": "x", "do": "pieces"}, "native": 2},
        {"tool": "say", "arguments": {"say": "x", "do": "end"}}]),
    )
    .ok();
    assert_eq!(seen.output("stream"), json!("one two three"));
    let results = seen.output("results");
    assert_eq!(results[0]["native"], json!(2));
    assert_eq!((&results[1]["value"], &results[1]["ended"]), (&json!({"all": "done"}), &json!(true)));
    let chunks = seen.events.iter().filter(|event| event.body.name() == "agent.tool.chunk").count();
    assert_eq!(chunks, 3);
}

#[test]
fn a_fatal_failure_and_a_spent_budget_end_the_node() {
    let fatal = json!([{"tool": "say", "arguments": {"say": "x", "do": "fatal"}}]);
    let error = run(&World::new(&[]), fatal).outcome.error.unwrap();
    assert_eq!(
        (error.code.as_deref(), error.message.as_str()),
        (Some("tool_error"), "nothing more is of use")
    );
    let limits = BudgetLimits { tool_calls: Some(1), ..BudgetLimits::default() };
    let world = World::new(&[]).with_budget(limits);
    let call = json!({"tool": "say", "arguments": {"say": "x"}});
    let seen = run(&world, json!([call, call]));
    let error = seen.outcome.error.as_ref().unwrap();
    assert_eq!((error.kind.as_str(), error.code.as_deref()), ("tool_calls", Some("tool_calls")));
    assert_eq!(seen.observations().len(), 2);
    assert_eq!(world.calls().len(), 1);
}

#[test]
fn calls_of_one_name_are_different_calls() {
    let world = World::new(&[]);
    let call = |say: &str| json!({"call": "x.y", "tool": "say", "arguments": {"say": say}});
    let seen = run(&world, json!([call("1"), call("2")])).ok();
    let results = seen.output("results");
    assert_eq!((&results[0]["call"], &results[1]["call"]), (&json!("x_y"), &json!("x_y#2")));
    assert_eq!(world.calls().len(), 2);
}

#[test]
fn bad_requests_are_reported() {
    for (request, message) in [
        (json!({"arguments": {}}), "a call needs a `tool`: {\"arguments\":{}}"),
        (json!({"tool": "say", "arguments": [1]}), "the arguments of `say` are not an object: [1]"),
    ] {
        let error = run(&World::new(&[]), request).outcome.error.unwrap();
        assert_eq!((error.code.as_deref(), error.message.as_str()), (Some("bad_call"), message));
    }
}

#[test]
fn what_was_started_has_an_end_when_the_node_is_cancelled() {
    let world = World::new(&[]);
    let mut workflow = one(
        "agent:ExecuteTool",
        &json!({"tool_call_requests": [{"tool": "say", "arguments": {"say": "x", "do": "hang"}}]}),
        &json!({}),
    );
    let node = workflow.nodes.iter_mut().find(|node| node.id == "node").unwrap();
    node.timeout_ms = Some(10);
    let seen = world.run(&workflow, json!({}));
    assert_eq!(seen.outcome.error.as_ref().unwrap().kind, "timeout");
    let count = |name: &str| seen.events.iter().filter(|event| event.body.name() == name).count();
    assert_eq!((count("agent.tool.started"), count("agent.tool.finished")), (1, 1));
}

//! Flows and system actions by their ids, timers that ask, and what is kept of the user.

use std::sync::Arc;
use std::time::Duration;

use agent_types::{EventBody, ExitReason, RunStatus, Timestamp, VirtualClock};
use executors_flow_system::{ActionType, FlowSystem, FlowsBuilder, FlowsFile};
use serde_json::{Map, Value, json};

use crate::common::{Setup, Stub, World};

fn map(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

async fn execute(
    world: &World,
    kind: ActionType,
    id: &str,
    parameters: Value,
) -> Result<(Option<String>, bool), String> {
    let system = FlowSystem::new(world.orchestrator.clone(), "s");
    let done = system.execute_action(kind, id, map(&parameters)).await;
    done.map_err(|error| format!("{}: {error}", error.code()))
}

#[tokio::test]
async fn actions_run_by_their_ids() {
    let stub = Stub::new(&[(200, json!({"id": 7}))]).await;
    let file = json!({
        "flows": [
            {"flow_id": "leave", "parameter_mapping": {"days": "$group.days"}, "match": "regex", "trigger_patterns": ["(?<days>\\d+) days"],
                "endpoint": {"url": stub.url("/leave"), "method": "POST", "body": {"days": "{days}"}}, "response_template": "Request {result.id}."},
            {"flow_id": "log", "endpoint": {"url": stub.url("/log"), "method": "POST"}, "silent": true}],
        "system_actions": [{"action_id": "transfer_human", "handler": "handoff"}]
    });
    let world = Setup::new(file).with(&stub).build();
    let done = execute(&world, ActionType::Flow, "leave", json!({"days": 3})).await;
    assert_eq!(done, Ok((Some("Request 7.".to_owned()), false)));
    assert_eq!(stub.asked()[0].body, json!({"days": 3}));
    assert_eq!(execute(&world, ActionType::Flow, "log", json!({})).await, Ok((None, true)));
    assert_eq!(execute(&world, ActionType::Skill, "any", json!({})).await, Ok((None, false)));
    let unknown = execute(&world, ActionType::Flow, "leav", json!({})).await.unwrap_err();
    assert_eq!(unknown, "unknown_flow: unknown flow or system action `leav`");
    let unknown = execute(&world, ActionType::Flow, "leave", json!({"day": 3})).await.unwrap_err();
    assert_eq!(unknown, "unknown_parameter: unknown parameter `day`");
    let handed = execute(&world, ActionType::System, "transfer_human", json!({})).await.unwrap();
    assert_eq!(handed.0.as_deref(), Some("You are being connected to a person..."));
    assert_eq!(world.say("s", "hello").await.handled.exit, ExitReason::HandedOff);
    assert_eq!(stub.paths(), ["/leave", "/log"]);
}

#[tokio::test]
async fn a_timer_asks_the_agent_and_a_flow_that_continues_has_failed() {
    let stub = Stub::new(&[(500, json!("down"))]).await;
    let file = json!({
        "flows": [{"flow_id": "check", "endpoint": {"url": stub.url("/check"), "method": "POST"}, "on_error": "continue"}],
        "timers": [
            {"timer_id": "ask", "delay_ms": 1000, "action": {"ask": "Ask whether anything is open."}},
            {"timer_id": "check", "delay_ms": 2000, "action": {"flow": "check"}}]
    });
    let mut setup = Setup::new(file).with(&stub);
    setup.script = vec![
        json!({"text": "Hello."}),
        json!({"text": "Is anything open?", "request": {"contains": ["Ask whether anything is open."]}}),
    ];
    let clock = VirtualClock::new(Timestamp::parse("2026-03-28T08:00:00.000Z").unwrap());
    setup.clock = Arc::new(clock.clone());
    let world = setup.build();
    world.say("s", "hi").await;
    clock.advance(Duration::from_secs(1));
    let asked = world.fire("s").await.unwrap();
    assert_eq!((asked.text(), asked.handled.timer.as_deref()), (Some("Is anything open?"), Some("ask")));
    clock.advance(Duration::from_secs(1));
    let failed = world.fire("s").await.unwrap();
    assert_eq!((failed.handled.exit, failed.text()), (ExitReason::ToolError, None));
    let is_end = |body: &EventBody| {
        matches!(body, EventBody::RunFinished { status: RunStatus::Error, kind: Some(kind), .. }
            if kind == "failed_and_continued")
    };
    assert_eq!(failed.count(is_end), 1);
}

fn profile(extra: &Value) -> Value {
    let mut action = json!({"action_id": "who", "handler": "update_profile", "match": "regex",
        "trigger_patterns": ["i am (?<name>\\w+)"], "parameters": {"name": "$group.name"}, "silent": true});
    for (key, value) in extra.as_object().unwrap() {
        action[key] = value.clone();
    }
    json!({"system_actions": [action]})
}

async fn known(world: &World) -> Value {
    Value::Object(world.store.load("s").await.unwrap().state.profile().clone())
}

#[tokio::test]
async fn the_profile_keeps_what_was_said_and_what_is_mapped() {
    let stub = Stub::new(&[(200, json!({"contact": {"tier": 2}, "secret": "x"}))]).await;
    let endpoint = json!({"url": stub.url("/crm"), "method": "POST", "body": {"name": "{name}"}});
    let file = profile(&json!({"endpoint": endpoint, "result_mapping": {"tier": "contact.tier"}}));
    let world = Setup::new(file).with(&stub).build();
    world.say("s", "I am Ann").await;
    assert_eq!(known(&world).await, json!({"name": "Ann", "tier": 2}));
    for (rule, expected) in
        [("keep", json!("Ann")), ("append", json!(["Ann", "Bob"])), ("replace", json!("Bob"))]
    {
        let world = Setup::new(profile(&json!({"on_conflict": rule}))).build();
        for name in ["Ann", "Bob", "Bob"] {
            world.say("s", &*format!("I am {name}")).await;
        }
        assert_eq!(known(&world).await, json!({"name": expected}), "{rule}");
    }
}

#[tokio::test]
async fn an_update_that_does_not_fit_the_schema_fails() {
    let mut file = profile(&json!({"silent": false}));
    file["profile_schema"] =
        json!({"type": "object", "properties": {"name": {"type": "string", "maxLength": 3}}});
    let world = Setup::new(file).build();
    let refused = world.say("s", "I am Annabel").await;
    assert_eq!(refused.handled.exit, ExitReason::ToolError);
    assert!(refused.handled.error.as_ref().unwrap().contains("schema"), "{:?}", refused.handled.error);
    world.say("s", "I am Ann").await;
    assert_eq!(known(&world).await, json!({"name": "Ann"}));
}

#[test]
fn approvals_and_tasks_are_checked() {
    let file = json!({
        "tools": [{"name": "save", "description": "Saves.", "approval": "auto",
            "endpoint": {"url": "https://x.test/save", "method": "POST"}}],
        "skills": [{"skill_id": "writer", "description": "Writes.", "execution_mode": "agent", "approval": "ask",
            "parameters": {"type": "object", "properties": {"topic": {"type": "string"}}, "required": ["topic"]},
            "task": "Write about {topic}."}]
    });
    let built = FlowsBuilder::new(&FlowsFile::from_value(file.clone()).unwrap()).build().unwrap();
    let codes: Vec<&str> = built.warnings().iter().map(|warning| warning.code).collect();
    assert_eq!(codes, ["runs_unasked"]);
    let mut wrong = file;
    wrong["tool_approvals"] = json!({"sav": "auto"});
    wrong["skills"][0]["task"] = json!("Write about {topics}.");
    let error = FlowsBuilder::new(&FlowsFile::from_value(wrong).unwrap()).build().unwrap_err().to_string();
    assert!(error.contains("/skills/0/task") && error.contains("did you mean `save`?"), "{error}");
}

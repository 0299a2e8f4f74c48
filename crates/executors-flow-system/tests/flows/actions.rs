//! System actions: handing over, closing, keeping a profile, code of the program.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use agent_runtime::Language;
use agent_types::{EventBody, ExitReason};
use executors_flow_system::{Handlers, Phase, SeatAction, UserMessage};
use serde_json::{Value, json};
use tool_registry::{Dep, Services, tool, tools};

use crate::common::{Observed, Setup, Stub};

fn handoff(stub: &Stub) -> Value {
    json!({"system_actions": [{"action_id": "human", "handler": "handoff", "trigger_patterns": ["转人工", "talk to a person"],
        "endpoint": {"url": stub.url("/handoff"), "method": "POST", "body": {"session": "{$ctx.session}", "said": "{user_message}"}}}]})
}

fn statuses(observed: &Observed) -> Vec<String> {
    let observed = observed.events.iter().filter_map(|event| match &event.body {
        EventBody::SystemAction { action, status, .. } => Some(format!("{action} {status}")),
        EventBody::SystemHandedOff { action } => Some(format!("{action} handed off")),
        _ => None,
    });
    observed.collect()
}

#[tokio::test]
async fn after_a_hand_over_the_agent_is_quiet_until_it_is_given_back() {
    let stub = Stub::new(&[(200, json!({}))]).await;
    let mut setup = Setup::new(handoff(&stub)).with(&stub);
    setup.language = Language::Zh;
    setup.script = vec![
        json!({"text": "订单已发货。", "request": {"contains": ["在吗？", "再查下订单", "human took over from 20"], "lacks": ["转人工"]}}),
    ];
    let world = setup.build();

    let first = world.say("s", "转人工").await;
    assert_eq!((first.text(), first.handled.exit), (Some("正在为您转接人工服务..."), ExitReason::HandedOff));
    assert_eq!(statuses(&first), ["human ok", "human handed off"]);
    assert_eq!(first.llm_calls(), 0);
    assert_eq!(stub.asked()[0].body, json!({"session": "s", "said": "转人工"}));

    for message in ["在吗？", "转人工"] {
        let quiet = world.say("s", message).await;
        assert_eq!((quiet.text(), quiet.handled.exit), (None, ExitReason::HandedOff));
        assert_eq!(quiet.names(), ["run.started", "run.finished"], "nothing happens, and nothing is matched");
    }
    assert_eq!(world.heard("s").await, ["在吗？", "转人工"], "what was said meanwhile is kept");
    assert_eq!(stub.asked().len(), 1);

    world.act("s", SeatAction::GiveBack).await.unwrap();
    assert_eq!(world.act("s", SeatAction::GiveBack).await.unwrap_err(), "not_handed_off", "once is enough");
}

#[tokio::test]
async fn the_agent_is_told_of_the_person() {
    let stub = Stub::new(&[(200, json!({}))]).await;
    let mut setup = Setup::new(handoff(&stub)).with(&stub);
    setup.script = vec![
        json!({"text": "Shipped.", "request": {"contains": ["are you there", "human took over from 20", "my order"]}}),
    ];
    let world = setup.build();
    world.say("s", "I want to talk to a person").await;
    world.say("s", "are you there").await;
    world.act("s", SeatAction::GiveBack).await.unwrap();
    let observed = world.say("s", "Thanks. And my order?").await;
    assert_eq!((observed.text(), observed.handled.exit), (Some("Shipped."), ExitReason::Completed));
    assert_eq!(observed.llm_calls(), 1);
}

#[tokio::test]
async fn a_hand_over_that_fails_is_none() {
    let stub = Stub::new(&[(503, json!("full"))]).await;
    let world = Setup::new(handoff(&stub)).with(&stub).says(&["I am still here."]).build();
    let observed = world.say("s", "talk to a person").await;
    assert_eq!(observed.text(), Some("Sorry, that did not work. Please try again later."));
    assert_eq!(
        (observed.handled.exit, statuses(&observed)),
        (ExitReason::ToolError, vec!["human failed".to_owned()])
    );
    assert_eq!(stub.asked().len(), 1, "an effect is not tried again by itself");
    assert_eq!(world.say("s", "hello").await.text(), Some("I am still here."));
}

#[tokio::test]
async fn a_closed_session_stays_closed_until_it_is_opened() {
    let file = json!({"system_actions": [{"action_id": "bye", "handler": "close", "match": "exact", "trigger_patterns": ["goodbye"], "response_template": "Bye, {user_message}."}]});
    let world = Setup::new(file).says(&["Welcome back."]).build();
    let observed = world.say("s", "Goodbye").await;
    assert_eq!((observed.text(), observed.handled.exit), (Some("Bye, Goodbye."), ExitReason::Closed));
    let quiet = world.say("s", "one more thing").await;
    assert_eq!((quiet.text(), quiet.handled.exit, quiet.llm_calls()), (None, ExitReason::Closed, 0));
    assert!(
        matches!(world.store.load("s").await.unwrap().state.phase(), Phase::Closed { action, .. } if action == "bye")
    );
    assert_eq!(world.act("s", SeatAction::GiveBack).await.unwrap_err(), "session_closed");
    world.act("s", SeatAction::Reopen).await.unwrap();
    assert_eq!(world.say("s", "hello again").await.text(), Some("Welcome back."));
}

#[tokio::test]
async fn what_is_known_of_a_user_goes_into_requests_and_replies() {
    let stub = Stub::new(&[
        (200, json!({"name": "Ann", "tier": 2})),
        (200, json!("ok")),
        (200, json!({"name": "Ann"})),
    ])
    .await;
    let file = json!({
        "system_actions": [{"action_id": "who", "handler": "update_profile", "when": "before_turn", "silent": true,
            "endpoint": {"url": stub.url("/contact"), "method": "GET", "query_params": {"session": "{$ctx.session}"}}}],
        "flows": [{"flow_id": "order", "trigger_patterns": ["order"], "response_template": "{result} for {$ctx.profile.name}, {$ctx.profile.shoe}",
            "endpoint": {"url": stub.url("/orders/{$ctx.profile.tier}"), "method": "POST"}}]});
    let world = Setup::new(file).with(&stub).build();
    let observed = world.say("s", "order").await;
    assert_eq!(observed.text(), Some("ok for Ann, "));
    assert_eq!(stub.paths(), ["/contact", "/orders/2"]);
    let names = observed.names();
    let place = |name: &str| names.iter().position(|own| own == name);
    assert!(
        place("system.action") < place("flow.matched"),
        "events of actions before the turn come before it"
    );
    assert_eq!(
        observed.count(
            |body| matches!(body, EventBody::AgentWarning { kind, .. } if kind == "response_template")
        ),
        1
    );
    assert_eq!(world.store.load("s").await.unwrap().state.profile()["tier"], 2);
}

#[tokio::test]
async fn actions_around_a_turn_end_no_turn() {
    let stub = Stub::new(&[(500, json!("down"))]).await;
    let file = json!({"system_actions": [
        {"action_id": "before", "handler": "update_profile", "when": "before_turn", "endpoint": {"url": stub.url("/before"), "method": "GET"}},
        {"action_id": "after", "handler": "update_profile", "when": "after_turn", "endpoint": {"url": stub.url("/after"), "method": "POST"}},
        {"action_id": "seen", "handler": "update_profile", "when": "after_turn", "parameters": {"last": "$message"}}]});
    let world = Setup::new(file).with(&stub).says(&["Hello."]).build();
    let observed = world.say("s", "hi").await;
    assert_eq!((observed.text(), observed.handled.exit), (Some("Hello."), ExitReason::Completed));
    assert_eq!(statuses(&observed), ["before failed", "after failed", "seen ok"]);
    assert_eq!(
        observed.names().last().map(String::as_str),
        Some("run.finished"),
        "the run ends behind what follows the turn"
    );
    assert_eq!(world.store.load("s").await.unwrap().state.profile()["last"], "hi");
}

struct Ledger(AtomicUsize);

/// Pays something back.
#[tool]
fn refund(amount: i64, reason: Option<String>, ledger: Dep<Ledger>) -> Result<String, String> {
    if amount > 100 {
        return Err("too much".into());
    }
    let count = ledger.0.fetch_add(1, Ordering::SeqCst) + 1;
    Ok(format!("{amount} paid back ({}), refund {count}", reason.unwrap_or_default()))
}

/// Does nothing well.
#[tool]
#[expect(clippy::panic, reason = "that is what it is for")]
fn explode() -> String {
    panic!("boom")
}

#[tokio::test]
async fn code_of_the_program_is_called_with_what_it_needs() {
    let ledger = Arc::new(Ledger(AtomicUsize::new(0)));
    let file = json!({
        "flows": [{"flow_id": "refund", "match": "regex", "trigger_patterns": ["refund (?<amount>\\d+)"], "target": {"handler": "refund"},
            "parameter_mapping": {"amount": "$group.amount", "reason": "by chat"}}],
        "system_actions": [{"action_id": "boom", "handler": "explode", "trigger_patterns": ["explode"]},
            {"action_id": "gift", "handler": "refund", "trigger_patterns": ["gift"], "parameters": {"amount": 5}}]});
    let mut setup = Setup::new(file);
    setup.handlers = Handlers::new(tools![refund, explode]).unwrap();
    setup.services = Services::new().with(Arc::clone(&ledger));
    let world = setup.build();
    assert_eq!(world.say("s", "Refund 20 please").await.text(), Some("20 paid back (by chat), refund 1"));
    assert_eq!(world.say("s", "gift").await.text(), Some("5 paid back (), refund 2"));
    let failed = world.say("s", "refund 500").await;
    assert!(failed.handled.error.as_deref().unwrap().ends_with("too much"), "{:?}", failed.handled.error);
    let panicked = world.say("s", "explode").await;
    assert_eq!(panicked.handled.exit, ExitReason::ToolError);
    assert!(panicked.handled.error.as_deref().unwrap().contains("it panicked: boom"));
    assert_eq!(ledger.0.load(Ordering::SeqCst), 2);
}

/// A message that is sent again because its answer was lost does not notify other systems twice.
#[tokio::test]
async fn other_systems_are_notified_once() {
    let stub = Stub::new(&[(200, json!({}))]).await;
    let post =
        |path: &str| json!({"url": stub.url(path), "method": "POST", "body": {"said": "{user_message}"}});
    let file = json!({"system_actions": [
        {"action_id": "human", "handler": "handoff", "trigger_patterns": ["person"], "endpoint": post("/handoff")},
        {"action_id": "bye", "handler": "close", "trigger_patterns": ["bye"], "endpoint": post("/close")},
        {"action_id": "who", "handler": "update_profile", "trigger_patterns": ["my name"], "endpoint": post("/profile")},
        {"action_id": "seen", "handler": "update_profile", "when": "after_turn", "endpoint": post("/seen")}]});
    let world = Setup::new(file).with(&stub).build();
    for (session, text, exit) in [
        ("a", "a person", ExitReason::HandedOff),
        ("b", "bye", ExitReason::Closed),
        ("c", "my name is Ann", ExitReason::FlowCompleted),
    ] {
        let first = world.say(session, UserMessage::new(text).with_id("m1")).await;
        let second = world.say(session, UserMessage::new(text).with_id("m1")).await;
        assert_eq!((first.handled.exit, second.handled.exit), (exit, exit));
        assert_eq!(first.text(), second.text(), "and the answer is the same");
        assert!(second.handled.repeated && !first.handled.repeated);
    }
    assert_eq!(stub.paths(), ["/handoff", "/seen", "/close", "/seen", "/profile", "/seen"]);
}

/// A notification that was interrupted by a crash is not sent again.
#[tokio::test]
async fn an_effect_that_was_interrupted_is_not_repeated() {
    let stub = Stub::shut(&[(200, json!({}))]).await;
    let world = Setup::new(handoff(&stub)).with(&stub).build();
    let message = || UserMessage::new("talk to a person").with_id("m1");
    {
        let mut handling = std::pin::pin!(world.orchestrator.handle("s", message()));
        while stub.asked().is_empty() {
            let step = tokio::task::yield_now();
            tokio::select! { _ = &mut handling => panic!("nobody answers"), () = step => {} }
        }
    }
    stub.gate.add_permits(10);
    let again = world.say("s", message()).await;
    assert_eq!(stub.asked().len(), 1);
    assert_eq!(statuses(&again), ["human unknown"]);
    assert_eq!(again.handled.exit, ExitReason::ToolError);
    let other = world.say("s", UserMessage::new("talk to a person").with_id("m2")).await;
    assert_eq!(
        (other.handled.exit, stub.asked().len()),
        (ExitReason::HandedOff, 2),
        "another message is another try"
    );
}

//! Looking things up: as a tool, and before the model asks.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use crate::common::{Setup, Stub};

fn file(stub: &Stub, mode: &str) -> Value {
    json!({
        "retrieve_knowledge": {"mode": mode, "endpoint": {"url": stub.url("/kb"), "method": "GET", "query_params": {"keywords": "{keywords}"}}},
        "flows": [{"flow_id": "leave", "trigger_patterns": ["leave"], "endpoint": {"url": stub.url("/leave"), "method": "POST"}}]})
}

fn asks(keywords: &str) -> String {
    format!("<ACTION><retrieve_knowledge><keywords>{keywords}</keywords></retrieve_knowledge></ACTION>")
}

#[tokio::test]
async fn a_tool_is_asked_when_the_model_wants_to() {
    let stub = Stub::new(&[(200, json!("Two weeks."))]).await;
    let world = Setup::new(file(&stub, "tool")).with(&stub).says(&[&asks("returns"), "Two weeks."]).build();
    assert_eq!(world.say("s", "How long may I return things?").await.text(), Some("Two weeks."));
    assert_eq!(stub.asked()[0].query, "keywords=returns");
}

#[tokio::test]
async fn what_was_looked_up_is_used_once() {
    let stub = Stub::new(&[(200, json!("Two weeks.")), (200, json!("By post."))]).await;
    let (first, second) = (asks("return things"), asks("shipping"));
    let script = [first.as_str(), second.as_str(), "Two weeks, by post."];
    let world = Setup::new(file(&stub, "prefetch")).with(&stub).says(&script).build();
    let observed = world.say("s", "How long?").await;
    assert_eq!(observed.text(), Some("Two weeks, by post."));
    let queries: Vec<String> = stub.asked().into_iter().map(|asked| asked.query).collect();
    assert_eq!(
        queries,
        ["keywords=How%20long%3F", "keywords=shipping"],
        "the first call takes what is there"
    );
    let seen = observed.events.iter().filter_map(|event| match &event.body {
        agent_types::EventBody::AgentObservation { text, .. } => Some(text.as_str()),
        _ => None,
    });
    let seen: Vec<&str> = seen.collect();
    assert!(seen[0].ends_with("Two weeks.") && seen[1].ends_with("By post."), "{seen:?}");
}

#[tokio::test]
async fn what_nobody_asks_for_is_given_up() {
    let stub = Stub::shut(&[(200, json!("late"))]).await;
    let world = Setup::new(file(&stub, "prefetch")).with(&stub).says(&["Hello."]).build();
    assert_eq!(world.say("s", "hi").await.text(), Some("Hello."), "the agent does not wait for it");
    let asked = stub.asked().len();
    assert!(asked <= 1);
    while stub.dropped.load(Ordering::SeqCst) < stub.asked().len() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_flow_that_answers_looks_nothing_up() {
    let stub = Stub::new(&[(200, json!("done"))]).await;
    let world = Setup::new(file(&stub, "prefetch")).with(&stub).build();
    assert_eq!(world.say("s", "I want leave").await.text(), Some("done"));
    assert_eq!(stub.paths(), ["/leave"]);
}

#[tokio::test]
async fn a_lookup_that_fails_is_tried_again_by_the_model() {
    let stub = Stub::new(&[(500, json!("down")), (200, json!("Two weeks."))]).await;
    let world =
        Setup::new(file(&stub, "prefetch")).with(&stub).says(&[&asks("returns"), "Two weeks."]).build();
    assert_eq!(world.say("s", "How long?").await.text(), Some("Two weeks."));
    assert_eq!(stub.asked().len(), 2);
}

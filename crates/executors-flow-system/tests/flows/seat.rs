//! The person who answers in place of the agent.

use std::sync::Arc;

use agent_types::ExitReason;
use executors_flow_system::{Author, Phase, SeatAction, StoredSessions};
use run_store::Store;
use serde_json::json;

use crate::common::{Setup, World};

fn world(script: &[serde_json::Value]) -> World {
    let file = json!({"system_actions": [{"action_id": "human", "handler": "handoff", "trigger_patterns": ["a person"],
        "parameters": {"reason": "asked for one"}}]});
    let mut setup = Setup::new(file);
    setup.script = script.to_vec();
    setup.build()
}

async fn said(world: &World) -> Vec<(Author, String)> {
    let session = world.store.load("s").await.unwrap();
    let said = session.entries.iter().filter_map(|entry| entry.said.clone());
    said.map(|said| (said.author, said.text.unwrap_or_default())).collect()
}

fn say(text: &str) -> SeatAction {
    SeatAction::Say { text: text.to_owned() }
}

#[tokio::test]
async fn a_person_answers_and_the_agent_has_read_it() {
    let world = world(&[
        json!({"text": "Welcome back.", "request": {"contains": ["anyone?", "a person answered the user: I am Ann.", "human took over from 2"], "lacks": ["a secret note"]}}),
    ]);
    assert_eq!(world.act("s", say("too early")).await, Err("not_handed_off"));
    world.say("s", "a person please").await;
    world.say("s", "anyone?").await;
    world.act("s", SeatAction::Take { reason: None }).await.unwrap();
    let state = world.store.load("s").await.unwrap().state;
    assert!(
        matches!(state.phase(), Phase::HandedOver { person: Some(person), reason: Some(reason), .. }
            if person == "ann" && reason == "asked for one"),
        "{state:?}"
    );
    world.act("s", say("I am Ann.")).await.unwrap();
    world.act("s", SeatAction::Note { text: "a secret note".into() }).await.unwrap();
    world.act("s", SeatAction::GiveBack).await.unwrap();
    assert_eq!(world.say("s", "thanks").await.text(), Some("Welcome back."));
    let said = said(&world).await;
    let authors: Vec<Author> = said.iter().map(|(author, _)| *author).collect();
    assert_eq!(
        authors,
        [
            Author::User,
            Author::Action,
            Author::User,
            Author::Person,
            Author::Note,
            Author::Note,
            Author::User,
            Author::Agent
        ]
    );
    assert_eq!(said[3].1, "I am Ann.");
}

#[tokio::test]
async fn one_person_has_a_session() {
    let world = world(&[]);
    let take = |person: &str| {
        let (orchestrator, person) = (world.orchestrator.clone(), person.to_owned());
        async move {
            let done = orchestrator.act("s", &person, &SeatAction::Take { reason: None }).await;
            done.map(drop).map_err(|error| error.code())
        }
    };
    take("ann").await.unwrap();
    take("ann").await.unwrap();
    assert_eq!(take("bob").await, Err("session_taken"));
    assert_eq!(world.say("s", "hi").await.handled.exit, ExitReason::HandedOff);
    world.act("s", SeatAction::Close).await.unwrap();
    assert_eq!(world.say("s", "hi").await.handled.exit, ExitReason::Closed);
    assert_eq!(take("bob").await, Err("session_closed"));
    world.act("s", SeatAction::Reopen).await.unwrap();
    assert_eq!(world.act("s", SeatAction::Reopen).await, Err("not_closed"));
    take("bob").await.unwrap();
}

#[tokio::test]
async fn of_two_processes_one_gets_the_session() {
    let store = Store::memory().unwrap();
    let process = || {
        let mut setup = Setup::new(json!({}));
        setup.store = Arc::new(StoredSessions::new(store.clone(), "desk"));
        setup.build()
    };
    let (one, other) = (process(), process());
    let take = SeatAction::Take { reason: None };
    let both =
        futures::join!(one.orchestrator.act("s", "ann", &take), other.orchestrator.act("s", "bob", &take));
    assert!(both.0.is_ok() != both.1.is_ok(), "{both:?}");
    let listed = one.store.list().await.unwrap();
    assert_eq!(listed.len(), 1);
}

//! Timers: silence, times of day, and what takes them back. Time is virtual.

use std::sync::Arc;
use std::time::Duration;

use agent_types::{ExitReason, Timestamp, VirtualClock};
use executors_flow_system::{Author, MemorySessions, SessionStore, StoredSessions};
use run_store::Store;
use serde_json::{Value, json};

use crate::common::{Setup, World};

fn world(file: Value, store: Arc<dyn SessionStore>) -> (World, VirtualClock) {
    let clock = VirtualClock::new(Timestamp::parse("2026-03-28T08:00:00.000Z").unwrap());
    let mut setup = Setup::new(file).says(&["One.", "Two.", "Three."]);
    setup.clock = Arc::new(clock.clone());
    setup.store = store;
    (setup.build(), clock)
}

fn idle(max_triggers: u32) -> Value {
    json!({"timers": [{"timer_id": "idle", "delay_ms": 300_000, "max_triggers": max_triggers, "action": {"reply": "Still there, {$ctx.session}?"}}]})
}

#[tokio::test]
async fn silence_sets_a_timer_off_and_a_message_takes_it_back() {
    let (world, clock) = world(idle(1), MemorySessions::new());
    world.say("s", "hi").await;
    clock.advance(Duration::from_secs(299));
    assert!(world.fire("s").await.is_none());
    world.say("s", "and another thing").await;
    clock.advance(Duration::from_secs(299));
    assert!(world.fire("s").await.is_none(), "the message took it back");
    clock.advance(Duration::from_secs(1));
    let observed = world.fire("s").await.unwrap();
    assert_eq!((observed.text(), observed.handled.timer.as_deref()), (Some("Still there, s?"), Some("idle")));
    assert_eq!(observed.names(), ["run.started", "log.line", "agent.message", "run.finished"]);
    clock.advance(Duration::from_hours(1));
    assert!(world.fire("s").await.is_none(), "once is once");
    world.say("s", "yes").await;
    clock.advance(Duration::from_mins(5));
    assert!(world.fire("s").await.is_some(), "until the user writes again");
    assert_eq!(world.heard("s").await, ["hi", "and another thing", "yes"], "the agent knows nothing of it");
}

#[tokio::test]
async fn a_timer_goes_off_as_often_as_it_may() {
    for (max, expected) in [(3, 3), (0, 10)] {
        let (world, clock) = world(idle(max), MemorySessions::new());
        world.say("s", "hi").await;
        let mut fired = 0;
        for _ in 0..10 {
            clock.advance(Duration::from_mins(5));
            fired += u32::from(world.fire("s").await.is_some());
        }
        assert_eq!(fired, expected, "{max}");
    }
}

#[tokio::test]
async fn timers_run_flows_and_actions() {
    let file = json!({
        "flows": [{"flow_id": "digest", "target": {"endpoint": {"url": "http://127.0.0.1:9/", "method": "POST"}}, "on_error": "silent"}],
        "system_actions": [{"action_id": "bye", "handler": "close", "response_template": "Closed after a while."}],
        "timers": [{"timer_id": "daily", "cron": "0 9 * * *", "max_triggers": 0, "action": {"flow": "digest"}},
            {"timer_id": "end", "delay_ms": 7_200_000, "action": {"system_action": "bye"}}]});
    let (world, clock) = world(file, MemorySessions::new());
    world.say("s", "hi").await;
    clock.advance(Duration::from_hours(1));
    let observed = world.fire("s").await.unwrap();
    assert!(observed.has("flow.failed"), "{:?}", observed.names());
    assert_eq!(
        (observed.handled.exit, observed.handled.flow.as_deref()),
        (ExitReason::ToolError, Some("digest"))
    );
    clock.advance(Duration::from_hours(1));
    let observed = world.fire("s").await.unwrap();
    assert_eq!((observed.text(), observed.handled.exit), (Some("Closed after a while."), ExitReason::Closed));
    clock.advance(Duration::from_hours(48));
    assert!(world.fire("s").await.is_none(), "a closed session has no timers");
}

#[tokio::test]
async fn somebody_waits_for_the_timers_of_all_sessions() {
    let store = Store::memory().unwrap();
    let sessions = || Arc::new(StoredSessions::new(store.clone(), "desk")) as Arc<dyn SessionStore>;
    let (world, clock) = world(idle(1), sessions());
    world.say("late", "hi").await;
    clock.advance(Duration::from_mins(1));
    world.say("later", "hi").await;
    let mut order = Vec::new();
    for _ in 0..2 {
        let next = world.orchestrator.next_due(|_| true);
        let time = async {
            loop {
                tokio::task::yield_now().await;
                clock.advance_to_next();
            }
        };
        let session =
            tokio::select! { biased; session = next => session.unwrap(), () = time => unreachable!() };
        let observed = world.fire(&session).await.unwrap();
        order.push((session, observed.handled.text.unwrap()));
    }
    assert_eq!(
        order,
        [
            ("late".into(), "Still there, late?".into()),
            ("later".to_owned(), "Still there, later?".to_owned())
        ]
    );
    let held = |session: &str| session != "late";
    for session in ["late", "later"] {
        world.say(session, "again").await;
    }
    clock.advance(Duration::from_mins(5));
    assert_eq!(world.orchestrator.next_due(held).await.unwrap(), "later", "the other one is held");
    for session in ["late", "later"] {
        world.fire(session).await.unwrap();
    }
    world.say("third", "hi").await;
    clock.advance(Duration::from_mins(4));
    world.say("fourth", "hi").await;
    clock.advance(Duration::from_mins(2));
    let fourth = world.orchestrator.until_due("fourth");
    tokio::select! { biased; due = fourth => panic!("not yet: {due:?}"), () = tokio::task::yield_now() => {} }
    world.orchestrator.until_due("third").await.unwrap();
    drop(world);
    // Another process finds the timers where they were kept.
    let clock_of_day = Timestamp::parse("2026-03-29T00:00:00.000Z").unwrap();
    let mut setup = Setup::new(idle(1));
    setup.clock = Arc::new(VirtualClock::new(clock_of_day));
    setup.store = sessions();
    let world = setup.build();
    assert_eq!(world.orchestrator.next_due(|_| true).await.unwrap(), "third");
}

#[tokio::test]
async fn of_two_processes_one_fires_a_timer() {
    let store = Store::memory().unwrap();
    let sessions = || Arc::new(StoredSessions::new(store.clone(), "desk")) as Arc<dyn SessionStore>;
    let (one, clock) = world(idle(1), sessions());
    let (other, other_clock) = world(idle(1), sessions());
    one.say("s", "hi").await;
    for clock in [&clock, &other_clock] {
        clock.advance(Duration::from_mins(6));
    }
    assert_eq!(other.orchestrator.next_due(|_| true).await.unwrap(), "s");
    let late = other.orchestrator.enter("s").await.unwrap();
    assert!(late.is_due());
    assert!(one.fire("s").await.is_some());
    let context = other.turn_context().0;
    assert!(late.fire(context).await.unwrap().is_none());
    let next = other.orchestrator.next_due(|_| true);
    tokio::select! { biased; due = next => panic!("it went off: {due:?}"), () = tokio::task::yield_now() => {} }
}

#[tokio::test]
async fn the_question_of_a_timer_is_a_note() {
    let file =
        json!({"timers": [{"timer_id": "ask", "delay_ms": 1000, "action": {"ask": "Anything else?"}}]});
    let (world, clock) = world(file, MemorySessions::new());
    world.say("s", "hi").await;
    clock.advance(Duration::from_secs(1));
    assert!(world.fire("s").await.is_some());
    let entries = world.store.load("s").await.unwrap().entries;
    let authors: Vec<Author> = entries.iter().filter_map(|entry| Some(entry.said.as_ref()?.author)).collect();
    assert_eq!(authors, [Author::User, Author::Agent, Author::Note, Author::Agent]);
}

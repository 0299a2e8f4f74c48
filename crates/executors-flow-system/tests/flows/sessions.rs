//! Sessions: one message at a time, their stored state, and resumed runs.

use std::sync::Arc;

use agent_types::ExitReason;
use executors_flow_system::{SeatAction, StoredSessions};
use run_store::Store;
use serde_json::json;

use crate::common::{Setup, Stub};

#[tokio::test]
async fn messages_of_a_session_go_one_by_one_and_sessions_go_in_parallel() {
    let stub = Stub::shut(&[(200, json!("done"))]).await;
    let file = json!({"flows": [{"flow_id": "slow", "trigger_patterns": ["slow"], "endpoint": {"url": stub.url("/{$ctx.session}"), "method": "POST", "body": {"said": "{user_message}"}}}]});
    let world = Setup::new(file).with(&stub).build();
    let orchestrator = &world.orchestrator;
    let all = futures::future::join_all(vec![
        orchestrator.handle("a", "slow 1"),
        orchestrator.handle("a", "slow 2"),
        orchestrator.handle("b", "slow 3"),
    ]);
    let watch = async {
        while stub.asked().len() < 2 {
            tokio::task::yield_now().await;
        }
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
        let mut paths = stub.paths();
        paths.sort();
        assert_eq!(paths, ["/a", "/b"], "the second message of a session waits");
        stub.gate.add_permits(10);
    };
    let (handled, ()) = futures::join!(all, watch);
    assert!(handled.iter().all(|handled| handled.as_ref().unwrap().text.as_deref() == Some("done")));
    let said: Vec<_> =
        stub.asked().into_iter().filter(|asked| asked.path == "/a").map(|asked| asked.body).collect();
    assert_eq!(said, [json!({"said": "slow 1"}), json!({"said": "slow 2"})]);
}

#[tokio::test]
async fn a_session_outlives_its_process() {
    let store = Store::memory().unwrap();
    let file = json!({"system_actions": [{"action_id": "human", "handler": "handoff", "trigger_patterns": ["person"]}]});
    let world = |script: &[&str]| {
        let mut setup = Setup::new(file.clone()).says(script);
        setup.store = Arc::new(StoredSessions::new(store.clone(), "desk"));
        setup.build()
    };
    let first = world(&["Hello, Ann."]);
    first.say("s", "I am Ann").await;
    first.say("s", "a person please").await;
    drop(first);
    let second = world(&["Bye, Ann."]);
    let quiet = second.say("s", "anyone?").await;
    assert_eq!((quiet.handled.exit, quiet.llm_calls()), (ExitReason::HandedOff, 0));
    second.act("s", SeatAction::GiveBack).await.unwrap();
    second.say("s", "bye").await;
    let thread = store.messages("desk/s").unwrap();
    let said: Vec<_> = thread.iter().filter_map(|message| message["text"].as_str()).collect();
    assert_eq!(said.len(), 6, "{said:?}");
    assert_eq!((said[0], said[1], said[2]), ("I am Ann", "Hello, Ann.", "anyone?"));
    assert!(said[3].starts_with("Note - human took over from 2"), "{said:?}");
    assert!(second.history("other").await.is_empty());
}

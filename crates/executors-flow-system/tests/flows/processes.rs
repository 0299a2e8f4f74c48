//! Two processes in one session.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use agent_types::ExitReason;
use executors_flow_system::{Phase, StoredSessions, UserMessage};
use http_caller::{HttpCaller, NetworkPolicy};
use run_store::{Sqlite, Store, StoreOptions, Sync};
use serde_json::{Value, json};

use crate::common::{Setup, Stub, World};

/// Variables that name the session and the server for the other process.
const FOLDER: &str = "WEFT_SESSION_FOLDER";
const SERVER: &str = "WEFT_SESSION_SERVER";

/// Messages of each process that change the profile.
const ROUNDS: usize = 20;

fn world(folder: &Path, server: SocketAddr) -> World {
    let file = Sqlite::open(&folder.join("weft.db"), Sync::Normal).unwrap();
    let store = Store::new(Arc::new(file), StoreOptions::default()).unwrap();
    let names = ["a", "b"].into_iter().flat_map(|who| (0..ROUNDS).map(move |n| format!("{who}{n}")));
    let mut actions: Vec<Value> = names
        .map(|name| {
            json!({"action_id": name, "handler": "update_profile", "match": "regex", "silent": true,
                "trigger_patterns": [format!("^set {name} (?<v>.*)$")], "parameters": {&name: "$group.v"}})
        })
        .collect();
    actions.push(json!({"action_id": "human", "handler": "handoff", "trigger_patterns": ["person"]}));
    let slow = json!({"flow_id": "slow", "trigger_patterns": ["slow"],
        "endpoint": {"url": format!("http://{server}/slow"), "method": "POST"}});
    let mut setup = Setup::new(json!({"flows": [slow], "system_actions": actions}));
    let policy = NetworkPolicy::public_only().allowing([server.to_string().parse().unwrap()]);
    setup.caller = Some(HttpCaller::builder(policy).build());
    setup.store = Arc::new(StoredSessions::new(store, "desk"));
    setup.build()
}

async fn note(world: &World, who: &str) {
    for n in 0..ROUNDS {
        world.say("s", UserMessage::new(format!("set {who}{n} yes"))).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hand_over_and_every_change_survive_two_processes_in_a_session() {
    if let (Ok(folder), Ok(server)) = (std::env::var(FOLDER), std::env::var(SERVER)) {
        let world = world(Path::new(&folder), server.parse().unwrap());
        note(&world, "b").await;
        world.say("s", "slow").await;
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let stub = Stub::shut(&[(200, json!("done"))]).await;
    let name = "processes::a_hand_over_and_every_change_survive_two_processes_in_a_session";
    let mut other = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name])
        .env(FOLDER, folder.path())
        .env(SERVER, stub.address.to_string())
        .spawn()
        .unwrap();
    let world = world(folder.path(), stub.address);
    note(&world, "a").await;
    while stub.asked().is_empty() {
        assert!(other.try_wait().unwrap().is_none(), "the other process ended early");
        std::thread::sleep(Duration::from_millis(5));
    }
    // The other process is in the midst of a message when this one hands the session over.
    assert_eq!(world.say("s", "a person please").await.handled.exit, ExitReason::HandedOff);
    stub.gate.add_permits(10);
    assert!(other.wait().unwrap().success());
    let state = world.store.load("s").await.unwrap().state;
    assert!(matches!(state.phase(), Phase::HandedOver { .. }), "{state:?}");
    assert_eq!(state.profile().len(), 2 * ROUNDS, "{state:?}");
    assert_eq!(world.say("s", "anyone?").await.handled.exit, ExitReason::HandedOff);
}

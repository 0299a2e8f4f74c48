//! Runs that keep every thread of theirs busy: the server is heard all the same.

use std::time::{Duration, Instant};

use serde_json::json;
use tool_registry::{Registry, Tool};
use weft_project::{MakeProvider, Project, ProjectOptions};
use weft_server::{Server, ServerOptions};

use crate::common::{Running, project};

/// Time for which the tool keeps its thread.
const BUSY: Duration = Duration::from_secs(4);

fn spinning() -> Registry {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Nothing {}
    let registry = Registry::new();
    let spin = Tool::func("spin", "Spins.", |Nothing {}, _| async move {
        let start = Instant::now();
        while start.elapsed() < BUSY {
            std::hint::spin_loop();
        }
        "done"
    });
    registry.register(spin.unwrap()).unwrap();
    registry
}

fn stuck() -> Running {
    let folder = project(&[
        (
            "agents/busy.json",
            r#"{"id": "busy", "name": "Busy", "tool_ids_inventory": ["spin"], "approval": {"default": "auto"}}"#,
        ),
        (
            "script.jsonl",
            "{\"text\": \"<ACTION><tool name=\\\"spin\\\"></tool></ACTION>\"}\n{\"text\": \"Done.\"}\n",
        ),
    ]);
    let mut options = ProjectOptions::default();
    options.environment = None;
    options.providers = vec![MakeProvider::new(|_| Ok(spinning()))];
    let project = Project::open(folder.path(), &options).unwrap();
    let mut options = ServerOptions::new(project.settings().server.clone());
    options.settings.port = 0;
    options.settings.grace_ms = 200;
    Running::start(folder, Server::bind(project, options).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn n03_whatever_a_run_does_the_server_answers_and_ends() {
    let mut server = stuck();
    let runs = 2 * std::thread::available_parallelism().map_or(2, usize::from);
    for _ in 0..runs {
        server.begin(&json!({"agent": "busy", "message": "go"})).await;
    }
    let start = Instant::now();
    while start.elapsed() < BUSY / 2 {
        let asked = Instant::now();
        server.get("/api/meta").await.expect(200);
        assert!(asked.elapsed() < Duration::from_secs(2), "an answer took {:?}", asked.elapsed());
    }
    let closed = Instant::now();
    server.handle.close();
    server.ended().await;
    assert!(
        closed.elapsed() < BUSY * u32::try_from(runs).unwrap_or(1),
        "it ended after {:?}",
        closed.elapsed()
    );
}

//! A project in a folder of its own, and a server for it.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinSet;
pub(crate) use weft_harness::write;
use weft_project::{Project, ProjectOptions};
use weft_server::{Server, ServerHandle, ServerOptions};

use crate::http::{Response, parse, raw, request};

/// A server at work.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) token: String,
    pub(crate) handle: ServerHandle,
    served: JoinSet<()>,
    pub(crate) folder: TempDir,
}

/// A project of some files: path and text.
pub(crate) fn project(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "weft.toml", "script = \"script.jsonl\"\n[store]\nsync = \"normal\"\n");
    write(folder.path(), "script.jsonl", "{\"text\": \"Hello.\"}\n");
    for (name, text) in files {
        write(folder.path(), name, text);
    }
    folder
}

/// Serves it, with options changed.
pub(crate) fn serve_with(folder: TempDir, change: impl FnOnce(&mut ServerOptions)) -> Running {
    let server = bind(folder.path(), change);
    Running::start(folder, server)
}

/// A second server for the project of a server.
pub(crate) fn serve_beside(first: &Running) -> Running {
    let server = bind(first.folder.path(), |_| ());
    Running::start(tempfile::tempdir().unwrap(), server)
}

fn bind(folder: &Path, change: impl FnOnce(&mut ServerOptions)) -> Server {
    let mut options = ProjectOptions::default();
    options.environment = None;
    let project = Project::open(folder, &options).unwrap();
    let mut options = ServerOptions::new(project.settings().server.clone());
    options.settings.port = 0;
    options.look = Duration::from_millis(50);
    change(&mut options);
    Server::bind(project, options).unwrap()
}

pub(crate) fn serve(files: &[(&str, &str)]) -> Running {
    serve_with(project(files), |_| ())
}

/// An agent without tools and its script.
pub(crate) const PLAIN: (&str, &str) = ("agents/plain.json", r#"{"id": "plain", "name": "Plain"}"#);

/// A workflow that counts to its input.
pub(crate) const COUNT: (&str, &str) = ("workflows/count.json", weft_harness::COUNT);

/// A workflow that asks a person.
pub(crate) const ASK: (&str, &str) = ("workflows/ask.json", weft_harness::ASK);

/// A workflow that takes its time, in milliseconds.
pub(crate) const SLEEP: (&str, &str) = (
    "workflows/sleep.json",
    r#"{"name": "sleep", "description": "Waits.",
    "interfaceInputs": {"value": {"dataFlowType": "STRING", "description": "what it gives"}},
    "interfaceOutputs": {"value": {"dataFlowType": "STRING"}},
    "nodes": [{"id": "in", "type": "core:GroupInput"}, {"id": "out", "type": "core:GroupOutput"},
      {"id": "wait", "type": "core:Delay", "configValues": {"ms": 400}}],
    "edges": [{"source": "in", "sourceHandle": "value", "target": "wait", "targetHandle": "value"},
      {"source": "wait", "sourceHandle": "value", "target": "out", "targetHandle": "value"}]}"#,
);

impl Running {
    /// Serves what is bound.
    pub(crate) fn start(folder: TempDir, server: Server) -> Self {
        let address = server.address();
        let token = server.token().map(|token| token.reveal().to_owned()).unwrap_or_default();
        let handle = server.handle();
        let mut served = JoinSet::new();
        served.spawn(server.run());
        Self { address, token, handle, served, folder }
    }

    /// Waits until the server has ended.
    pub(crate) async fn ended(&mut self) {
        self.served.join_next().await.unwrap().unwrap();
    }

    pub(crate) fn host(&self) -> String {
        self.address.to_string()
    }

    /// A request with the token.
    pub(crate) async fn send(&self, method: &str, path: &str, more: &[(&str, &str)], body: &str) -> Response {
        let (host, bearer) = (self.host(), format!("Bearer {}", self.token));
        let mut headers = vec![("host", host.as_str()), ("authorization", bearer.as_str())];
        if !body.is_empty() {
            headers.push(("content-type", "application/json"));
        }
        headers.retain(|(name, _)| more.iter().all(|(given, _)| given != name));
        headers.extend_from_slice(more);
        parse(&raw(self.address, &request(method, path, &headers, body)).await.unwrap())
    }

    pub(crate) async fn get(&self, path: &str) -> Response {
        self.send("GET", path, &[], "").await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Response {
        self.send("POST", path, &[], &body.to_string()).await
    }

    /// Begins a run and gives its id.
    pub(crate) async fn begin(&self, body: &Value) -> String {
        let begun = self.post("/api/runs", body).await.expect(202);
        begun.json()["run"].as_str().unwrap().to_owned()
    }

    /// All events of a run, when it has ended.
    pub(crate) async fn events(&self, run: &str) -> Vec<Value> {
        let answer = self.get(&format!("/api/runs/{run}/events")).await.expect(200);
        events_of(&answer.body)
    }

    /// A run as it stands, when it stands so.
    pub(crate) async fn until(&self, run: &str, status: &str) -> Value {
        for _ in 0..400 {
            let shown = self.get(&format!("/api/runs/{run}")).await.expect(200).json();
            if shown["status"] == status {
                return shown;
            }
            tokio::task::yield_now().await;
            pause(10).await;
        }
        panic!("{run} never stood as {status}: {}", self.get(&format!("/api/runs/{run}")).await.body);
    }

    /// Begins a run of an agent and waits for its end.
    pub(crate) async fn ask(&self, agent: &str, message: &str) -> Value {
        let run = self.begin(&json!({"agent": agent, "message": message})).await;
        self.events(&run).await;
        self.get(&format!("/api/runs/{run}")).await.json()
    }
}

/// The events in a text of server-sent events.
pub(crate) fn events_of(text: &str) -> Vec<Value> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("data: "));
    lines
        .filter_map(|data| serde_json::from_str(data).ok())
        .filter(|event: &Value| event["seq"].is_u64())
        .collect()
}

/// A real wait: sockets are what is tested here.
pub(crate) async fn pause(ms: u64) {
    agent_types::Clock::sleep(&agent_types::SystemClock, Duration::from_millis(ms)).await;
}

/// The numbers of events.
pub(crate) fn seqs(events: &[Value]) -> Vec<u64> {
    events.iter().map(|event| event["seq"].as_u64().unwrap()).collect()
}

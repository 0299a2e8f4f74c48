//! A soak: many agents at once for a while, over real sockets, and memory that must not grow.
//!
//! `cargo xtask soak server SECONDS` runs it, with one arena of the allocator where there may be one for each thread.

#![expect(clippy::print_stdout, reason = "a program tells what it does")]

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use agent_types::{Clock, SystemClock};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use weft_project::{Project, ProjectOptions};
use weft_server::{Server, ServerOptions};

/// Agents at once.
const AGENTS: u64 = 50;

/// The part of the time after which memory must stand still.
const WARM: u64 = 3;

/// Memory growth that is allowed after that: the reserve of an allocator differs a little from second to second.
const SLACK: usize = 16 << 20;

type Failure = Box<dyn Error + Send + Sync>;

const FILES: [(&str, &str); 4] = [
    (
        "weft.toml",
        "script = \"script.jsonl\"\n[store]\nsync = \"normal\"\nkeep_runs = 300\n[server]\nmax_runs = 50\nmax_queue = 500\n",
    ),
    (
        "script.jsonl",
        r#"{"chunks": ["I look.\n<ACT", "ION><tool name=\"system:get_current_time\"><timezone>UTC</timezone></tool></ACTION>"]}
{"chunks": ["Now I count.\n<ACTION><tool name=\"workflow:shout\"><text>hello</text></tool></ACTION>"]}
{"chunks": ["It is ", "noon, ", "and HELLO."]}
"#,
    ),
    (
        "agents/busy.json",
        r#"{"id": "busy", "name": "Busy", "tool_ids_inventory": ["system:get_current_time", "workflow:shout"]}"#,
    ),
    (
        "workflows/shout.json",
        r#"{"name": "shout", "description": "Says it again.",
        "interfaceInputs": {"text": {"dataFlowType": "STRING", "required": true, "description": "what"}},
        "interfaceOutputs": {"text": {"dataFlowType": "STRING"}},
        "nodes": [{"id": "in", "type": "core:GroupInput"}, {"id": "out", "type": "core:GroupOutput"},
          {"id": "again", "type": "core:TextTemplate", "configValues": {"template": "{{ text }}!"}}],
        "edges": [{"source": "in", "sourceHandle": "text", "target": "again", "targetHandle": "text"},
          {"source": "again", "sourceHandle": "text", "target": "out", "targetHandle": "text"}]}"#,
    ),
];

/// A server to talk to.
#[derive(Clone)]
struct Target {
    address: SocketAddr,
    bearer: Arc<str>,
}

impl Target {
    /// Body of the server's answer to a request.
    async fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Result<String, Failure> {
        let body = body.map(Value::to_string).unwrap_or_default();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.address,
            self.bearer,
            body.len()
        );
        let mut stream = TcpStream::connect(self.address).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        let (head, body) = answer.split_once("\r\n\r\n").ok_or("no head")?;
        if !head.starts_with("HTTP/1.1 2") {
            return Err(format!("{method} {path}: {answer}").into());
        }
        Ok(body.to_owned())
    }

    /// One run of an agent, begun, followed and read; or one completion.
    async fn run_one(&self, agent: u64, round: u64) -> Result<(), Failure> {
        if (agent + round).is_multiple_of(3) {
            let messages = json!([{"role": "user", "content": "how late is it"}]);
            let body = json!({"model": "busy", "stream": round.is_multiple_of(2), "messages": messages});
            let said = self.ask("POST", "/v1/chat/completions", Some(&body)).await?;
            return if said.contains("HELLO") || said.contains("HEL") { Ok(()) } else { Err(said.into()) };
        }
        let body = json!({"agent": "busy", "message": format!("round {round}")});
        let begun: Value = serde_json::from_str(&self.ask("POST", "/api/runs", Some(&body)).await?)?;
        let run = begun["run"].as_str().ok_or("no run")?;
        let events = self.ask("GET", &format!("/api/runs/{run}/events"), None).await?;
        if !events.contains("run.finished") {
            return Err(format!("{run} has no end").into());
        }
        let shown = self.ask("GET", &format!("/api/runs/{run}"), None).await?;
        if shown.contains("\"exit\":\"completed\"") { Ok(()) } else { Err(shown.into()) }
    }
}

/// Memory of this process in bytes; nothing where the system does not say.
fn resident() -> Option<usize> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    Some(statm.split(' ').nth(1)?.parse::<usize>().ok()? * 4096)
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let seconds: u64 = std::env::args().nth(1).map_or(Ok(30), |text| text.parse())?;
    let folder = tempfile::tempdir()?;
    for (name, text) in FILES {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().ok_or("a file lies in a folder")?)?;
        std::fs::write(path, text)?;
    }
    let mut options = ProjectOptions::default();
    options.environment = None;
    let project = Project::open(folder.path(), &options)?;
    let mut options = ServerOptions::new(project.settings().server.clone());
    options.settings.port = 0;
    let server = Server::bind(project, options)?;
    let bearer = server.token().map(|token| token.reveal().into()).unwrap_or_default();
    let target = Target { address: server.address(), bearer };
    let handle = server.handle();
    let mut served = JoinSet::new();
    served.spawn(server.run());
    soak(&target, seconds).await?;
    handle.close();
    while served.join_next().await.is_some() {}
    Ok(())
}

async fn soak(target: &Target, seconds: u64) -> Result<(), Failure> {
    let clock = SystemClock;
    let until = clock.elapsed() + Duration::from_secs(seconds);
    let rounds = Arc::new(AtomicU64::new(0));
    let mut agents = JoinSet::new();
    for agent in 0..AGENTS {
        let (target, rounds) = (target.clone(), Arc::clone(&rounds));
        agents.spawn(async move {
            let mut round = 0;
            while SystemClock.elapsed() < until {
                target.run_one(agent, round).await?;
                round += 1;
                rounds.fetch_add(1, Ordering::Relaxed);
            }
            Ok::<(), Failure>(())
        });
    }
    let mut seen = Vec::new();
    while clock.elapsed() < until {
        clock.sleep(Duration::from_secs(1)).await;
        seen.extend(resident());
    }
    while let Some(done) = agents.join_next().await {
        done??;
    }
    let rounds = rounds.load(Ordering::Relaxed);
    let mib = |bytes: usize| bytes >> 20;
    let warm = seen.len() / usize::try_from(WARM)?;
    let (before, after) = (seen.get(..=warm).unwrap_or_default(), seen.get(warm..).unwrap_or_default());
    let (first, last) = (before.iter().max().copied(), after.iter().max().copied());
    println!(
        "{AGENTS} agents at once, {rounds} runs in {seconds} s; MiB each second: {:?}",
        seen.iter().map(|bytes| mib(*bytes)).collect::<Vec<_>>()
    );
    if rounds < AGENTS {
        return Err("fewer runs than agents".into());
    }
    match (first, last) {
        (Some(first), Some(last)) if last > first + SLACK => {
            Err(format!("memory grew from {} to {} MiB", mib(first), mib(last)).into())
        }
        _ => Ok(()),
    }
}

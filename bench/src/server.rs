//! A served run: what an event costs on its way to who watches, and what a client costs that never reads.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use weft_project::{Project, ProjectOptions};
use weft_server::{Server, ServerOptions};

use crate::measure::{count, cpu};
use crate::table::{Aim, Figure, against, begin, note, row};

/// Passes of the loop whose events are told.
const PASSES: usize = 100_000;
/// Passes where many watch.
const PASSES_OF_MANY: usize = 2_000;
const WATCHERS: usize = 200;
/// Clients that read nothing.
const SILENT: usize = 20;
const RUNS: usize = 3;

const COUNT: &str = r#"{"name": "count", "description": "Counts.",
    "interfaceInputs": {"n": {"dataFlowType": "INTEGER", "required": true, "description": "how far"}},
    "interfaceOutputs": {"last": {"dataFlowType": "INTEGER"}},
    "nodes": [
      {"id": "in", "type": "core:GroupInput"},
      {"id": "out", "type": "core:GroupOutput"},
      {"id": "loop", "type": "core:LoopZone", "configValues": {"mode": "until", "maxIterations": 1000000,
        "condition": "state.i >= state.n", "test": "after",
        "state": [{"key": "i", "dataFlowType": "INTEGER", "initial": 0}, {"key": "n", "dataFlowType": "INTEGER"}]}},
      {"id": "s", "type": "core:LoopState", "parentNode": "loop"},
      {"id": "add", "type": "core:Expression", "parentNode": "loop", "configValues": {"cel": "i + 1"}},
      {"id": "next", "type": "core:LoopNext", "parentNode": "loop"}
    ],
    "edges": [
      {"source": "in", "sourceHandle": "n", "target": "loop", "targetHandle": "n"},
      {"source": "s", "sourceHandle": "i", "target": "add", "targetHandle": "i"},
      {"source": "add", "sourceHandle": "value", "target": "next", "targetHandle": "i"},
      {"source": "loop", "sourceHandle": "i", "target": "out", "targetHandle": "last"}
    ]}"#;

/// One table.
pub(crate) fn run() -> Result<()> {
    begin("A served run, its events over server-sent events");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let measured = runtime.block_on(measure());
    runtime.shutdown_background();
    measured?;
    note(
        "Server and clients are one process, so that the figures hold what reading costs too. A client that never reads is told events until the buffers of its connection are full, which is work once for each. Memory is what the process has more while the silent clients are there, for each of them; what the system holds for their connections is not in it.",
    );
    Ok(())
}

/// A server to talk to.
#[derive(Clone)]
struct Target {
    address: SocketAddr,
    bearer: Arc<str>,
}

impl Target {
    async fn open(&self, method: &str, path: &str, body: &str) -> Result<TcpStream> {
        let mut stream = TcpStream::connect(self.address).await?;
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.address,
            self.bearer,
            body.len()
        );
        stream.write_all(head.as_bytes()).await?;
        Ok(stream)
    }

    async fn begin(&self, passes: usize) -> Result<String> {
        let body = json!({"workflow": "count", "inputs": {"n": passes}}).to_string();
        let mut answer = String::new();
        self.open("POST", "/api/runs", &body).await?.read_to_string(&mut answer).await?;
        let (_, body) = answer.split_once("\r\n\r\n").context("an answer has a head")?;
        let begun: Value = serde_json::from_str(body).context(answer.clone())?;
        Ok(begun["run"].as_str().context("a run has an id")?.to_owned())
    }

    /// Reads all events of a run to its end, as fast as they come; gives how many there were, told or passed over.
    async fn read(&self, run: &str) -> Result<usize> {
        let mut stream = self.open("GET", &format!("/api/runs/{run}/events"), "").await?;
        let (mut buffer, mut last) = (vec![0; 256 * 1024], Vec::new());
        loop {
            let read = stream.read(&mut buffer).await?;
            if read == 0 {
                break;
            }
            last.extend_from_slice(&buffer[..read]);
            // Only the end matters: it has the number of the last event.
            let keep = last.len().saturating_sub(4096);
            last.drain(..keep);
        }
        let text = String::from_utf8_lossy(&last);
        ensure!(text.contains("run.finished"), "{run} has no end: {text}");
        let seq = text.rsplit_once("\nid: ").and_then(|(_, rest)| rest.split('\n').next());
        Ok(seq.context("an event has a number")?.trim().parse()?)
    }
}

async fn measure() -> Result<()> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("weft.toml"), "[store]\nsync = \"normal\"\nlog_mib = 4096\n")?;
    std::fs::create_dir(folder.path().join("workflows"))?;
    std::fs::write(folder.path().join("workflows/count.json"), COUNT)?;
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

    let (alone, rate) = one_reader(&target, 0).await?.figures;
    row(&format!("event, one reader ({rate:.0} a second)"), alone, Aim::None);
    let beside_one = one_reader(&target, 1).await?;
    let (figure, rate) = beside_one.figures;
    let what = format!("event, one reader beside one that never reads ({rate:.0} a second)");
    against(&what, figure, ("one reader alone", alone), Aim::CostAtMost(1.2));
    let beside = one_reader(&target, SILENT).await?;
    let (figure, rate) = beside.figures;
    let what = format!("event, one reader beside {SILENT} that never read ({rate:.0} a second)");
    against(&what, figure, ("one reader alone", alone), Aim::None);
    let most = Aim::AtMost(Figure::Bytes(2.0 * 1024.0 * 1024.0));
    row("memory, a client that never reads", Figure::Bytes(beside.bytes), most);
    many(&target, alone).await?;

    handle.abandon();
    while served.join_next().await.is_some() {}
    Ok(())
}

/// What one reader was told, and what silent clients beside it cost.
struct Reading {
    /// CPU time of an event, and events a second.
    figures: (Figure, f64),
    /// Memory of each silent client.
    bytes: f64,
}

async fn one_reader(target: &Target, silent: usize) -> Result<Reading> {
    let mut best = Reading { figures: (Figure::Nanos(f64::MAX), 0.0), bytes: 0.0 };
    let mut least = f64::MAX;
    // What one run takes is not what clients cost.
    let warm = target.begin(PASSES).await?;
    target.read(&warm).await?;
    for _ in 0..RUNS {
        let before = resident();
        let (cpu_start, start) = (cpu(), Instant::now());
        let run = target.begin(PASSES).await?;
        let mut clients = Vec::new();
        for _ in 0..silent {
            clients.push(target.open("GET", &format!("/api/runs/{run}/events"), "").await?);
        }
        let events = target.read(&run).await?;
        let nanos = (cpu() - cpu_start).as_secs_f64() * 1e9 / count(events);
        let rate = count(events) / start.elapsed().as_secs_f64();
        let grown = (resident() - before).max(0.0) / count(silent.max(1));
        drop(clients);
        if nanos < least {
            least = nanos;
            best.figures = (Figure::Nanos(nanos), rate);
        }
        best.bytes = best.bytes.max(grown);
    }
    Ok(best)
}

async fn many(target: &Target, alone: Figure) -> Result<()> {
    let (cpu_start, start) = (cpu(), Instant::now());
    let run = target.begin(PASSES_OF_MANY).await?;
    let mut watchers = JoinSet::new();
    for _ in 0..WATCHERS {
        let (target, run) = (target.clone(), run.clone());
        watchers.spawn(async move { target.read(&run).await });
    }
    let mut told = 0;
    while let Some(events) = watchers.join_next().await {
        told += events??;
    }
    let nanos = (cpu() - cpu_start).as_secs_f64() * 1e9 / count(told);
    let rate = count(told) / start.elapsed().as_secs_f64();
    let what = format!("event to each of {WATCHERS} watchers ({rate:.0} a second in all)");
    against(&what, Figure::Nanos(nanos), ("one reader alone", alone), Aim::None);
    Ok(())
}

/// Memory of this process in bytes; nothing where the system does not say.
fn resident() -> f64 {
    let pages = std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|text| text.split(' ').nth(1)?.parse::<u32>().ok());
    f64::from(pages.unwrap_or(0)) * 4096.0
}

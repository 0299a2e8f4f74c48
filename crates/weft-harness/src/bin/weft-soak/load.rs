//! A mixed load on a real server, and the memory that it holds, minute by minute.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Fault;

/// Clients at once.
const CLIENTS: u64 = 20;

/// Minutes after which memory grows less than [`SLACK`] a minute.
const WARM: u64 = 5;

/// Memory growth that is allowed a minute, in KiB.
const SLACK: u64 = 1024;

const TOKEN: &str = "load-load-load-load";

const FILES: [(&str, &str); 4] = [
    (
        "weft.toml",
        "script = \"script.jsonl\"\n[store]\nsync = \"normal\"\nkeep_runs = 300\n[server]\nmax_runs = 16\nmax_queue = 500\n",
    ),
    (
        "script.jsonl",
        r#"{"chunks": ["I look.\n<ACT", "ION><tool name=\"system:get_current_time\"><timezone>UTC</timezone></tool></ACTION>"]}
{"chunks": ["It is ", "noon."]}
"#,
    ),
    (
        "agents/busy.json",
        r#"{"id": "busy", "name": "Busy", "tool_ids_inventory": ["system:get_current_time"]}"#,
    ),
    ("workflows/count.json", weft_harness::COUNT),
];

/// A server of its own process, which ends with this.
struct Served {
    child: Child,
    address: String,
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Served {
    fn start(program: &Path, folder: &Path) -> Result<Self, Fault> {
        let mut command = Command::new(program);
        command
            .arg("-C")
            .arg(folder)
            .args(["--output", "json", "serve", "--port", "0"])
            .env("WEFT_TOKEN", TOKEN);
        let mut child = command.stdout(Stdio::piped()).spawn().map_err(|error| error.to_string())?;
        let mut line = String::new();
        let stdout = child.stdout.take().ok_or("no stdout")?;
        BufReader::new(stdout).read_line(&mut line).map_err(|error| error.to_string())?;
        let printed: Value = serde_json::from_str(&line).map_err(|error| format!("{line}: {error}"))?;
        let address =
            printed["url"].as_str().and_then(|url| url.strip_prefix("http://")).ok_or("no address")?;
        Ok(Self { address: address.to_owned(), child })
    }

    /// Body of the answer to a request.
    fn ask(&self, method: &str, path: &str, body: &str) -> Result<String, Fault> {
        let failed = |error: std::io::Error| format!("{method} {path}: {error}");
        let mut stream = TcpStream::connect(&self.address).map_err(failed)?;
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {TOKEN}\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        stream.write_all(head.as_bytes()).map_err(failed)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map_err(failed)?;
        let (head, body) = answer.split_once("\r\n\r\n").ok_or("no head")?;
        if !head.starts_with("HTTP/1.1 2") && !head.starts_with("HTTP/1.1 429") {
            return Err(format!("{method} {path}: {answer:.300}"));
        }
        Ok(body.to_owned())
    }

    /// One of the things that clients do.
    fn serve_client(&self, client: u64, round: u64) -> Result<(), Fault> {
        match (client + round) % 6 {
            0 => self.follow(&json!({"agent": "busy", "message": format!("round {round}")})),
            1 => self.follow(&json!({"workflow": "count", "inputs": {"n": 20}})),
            2 => {
                let messages = json!([{"role": "user", "content": "how late is it"}]);
                let body = json!({"model": "busy", "stream": round.is_multiple_of(2), "messages": messages});
                self.ask("POST", "/v1/chat/completions", &body.to_string()).map(drop)
            }
            3 => self.ask("GET", "/api/runs?limit=50", "").map(drop),
            4 => self.ask("GET", "/api/tools", "").map(drop),
            // A client that asks and goes.
            _ => {
                let stream = TcpStream::connect(&self.address).map_err(|error| error.to_string())?;
                drop(stream);
                self.ask("GET", "/api/meta", "").map(drop)
            }
        }
    }

    /// A run, begun and followed to its end.
    fn follow(&self, body: &Value) -> Result<(), Fault> {
        let begun = self.ask("POST", "/api/runs", &body.to_string())?;
        let begun: Value = serde_json::from_str(&begun).map_err(|error| error.to_string())?;
        // The queue may be full.
        let Some(run) = begun["run"].as_str() else { return Ok(()) };
        self.ask("GET", &format!("/api/runs/{run}/events"), "").map(drop)
    }

    /// Resident memory in KiB; nothing where the system does not say.
    fn resident(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.split_whitespace().next()?.parse().ok()
    }
}

/// Loads a server of this program for so many minutes.
pub(crate) fn run(program: &Path, minutes: u64) -> Result<(), Fault> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    for (name, text) in FILES {
        weft_harness::write(folder.path(), name, text);
    }
    let served = Served::start(program, folder.path())?;
    let (stop, done, failed) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let held = std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (served, stop, done, failed) = (&served, &stop, &done, &failed);
            scope.spawn(move || {
                for round in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    match served.serve_client(client, round) {
                        Ok(()) => done.fetch_add(1, Ordering::Relaxed),
                        Err(fault) => {
                            eprintln!("{fault}");
                            failed.fetch_add(1, Ordering::Relaxed)
                        }
                    };
                }
            });
        }
        let held = measure(&served, minutes, &done);
        stop.store(true, Ordering::Relaxed);
        held
    });
    if failed.load(Ordering::Relaxed) > 0 {
        return Err(format!("{} requests failed", failed.load(Ordering::Relaxed)));
    }
    grown(&held)
}

/// Resident memory at the end of each minute.
fn measure(served: &Served, minutes: u64, done: &AtomicU64) -> Vec<u64> {
    let start = Instant::now();
    let mut held = Vec::new();
    for minute in 0..=minutes {
        let at = Duration::from_secs(60 * minute).max(Duration::from_secs(5));
        std::thread::sleep(at.saturating_sub(start.elapsed()));
        let resident = served.resident().unwrap_or(0);
        eprintln!(
            "minute {minute}: {} MiB resident, {} requests",
            resident / 1024,
            done.load(Ordering::Relaxed)
        );
        held.push(resident);
    }
    held
}

/// Memory must stand still once the server is warm.
fn grown(held: &[u64]) -> Result<(), Fault> {
    let warm = usize::try_from(WARM).unwrap_or(usize::MAX);
    let (Some(first), Some(last)) = (held.get(warm), held.last()) else { return Ok(()) };
    let minutes = u64::try_from(held.len() - 1 - warm).unwrap_or(0);
    let allowed = first + SLACK * minutes;
    if minutes > 0 && *last > allowed {
        return Err(format!("{first} KiB after minute {WARM}, {last} KiB at the end: it grows"));
    }
    Ok(())
}

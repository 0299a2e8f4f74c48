//! `weft serve` and `weft mcp` as real processes: what they answer, and how they end.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use weft_harness::COUNT;

use crate::common::{command, desk, weft, weft_with, write};

pub(crate) const TOKEN: &str = "0123456789abcdef0123";

/// Counts, a hundredth of a second a pass.
pub(crate) fn walk() -> String {
    let mut count: Value = serde_json::from_str(COUNT).unwrap();
    let pause =
        json!({"id": "pause", "type": "core:Delay", "parentNode": "loop", "configValues": {"ms": 10}});
    count["nodes"].as_array_mut().unwrap().push(pause);
    let edges = count["edges"].as_array_mut().unwrap();
    let added = edges.iter_mut().find(|edge| edge["source"] == "add").unwrap();
    *added = json!({"source": "add", "sourceHandle": "value", "target": "pause", "targetHandle": "value"});
    edges.push(json!({"source": "pause", "sourceHandle": "value", "target": "next", "targetHandle": "i"}));
    count.to_string()
}

/// Waits for a second and a half.
const WAIT: &str = r#"{"name": "wait", "description": "Waits.", "interfaceInputs": {},
    "interfaceOutputs": {"value": {"dataFlowType": "STRING"}},
    "nodes": [{"id": "out", "type": "core:GroupOutput"},
      {"id": "wait", "type": "core:Delay", "configValues": {"ms": 1500}, "inputValues": {"value": "rested"}}],
    "edges": [{"source": "wait", "sourceHandle": "value", "target": "out", "targetHandle": "value"}]}"#;

/// A project that is served by a process of its own, which ends with this.
pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    token: String,
    child: Child,
    stderr: Option<ChildStderr>,
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Served {
    pub(crate) fn start(folder: &Path, token: &str, more: &[&str]) -> Self {
        Self::start_in(folder, token, more, &[])
    }

    /// The same with further variables of the environment.
    pub(crate) fn start_in(folder: &Path, token: &str, more: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut serve = command(folder);
        serve.envs(variables.iter().copied());
        serve.args(["--output", "json", "serve", "--port", "0"]).args(more).env("WEFT_TOKEN", token);
        let mut child = serve.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let printed: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(printed["token"], token);
        let address = printed["url"].as_str().unwrap().strip_prefix("http://").unwrap().parse().unwrap();
        Self { address, token: token.to_owned(), stderr: child.stderr.take(), child }
    }

    /// Status and body of an answer.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let answer = self.ask_with(method, path, "", body);
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    /// The whole answer to a request with further lines in its head.
    pub(crate) fn ask_with(&self, method: &str, path: &str, lines: &str, body: &str) -> String {
        let mut stream = self.send(method, path, lines, body);
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Sends a request with further lines in its head; its answer is not awaited.
    pub(crate) fn send(&self, method: &str, path: &str, lines: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).unwrap();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\nconnection: close\r\n\
             content-type: application/json\r\naccept: application/json, text/event-stream\r\n\
             {lines}content-length: {}\r\n\r\n{body}",
            self.address,
            self.token,
            body.len()
        )
        .unwrap();
        stream
    }

    pub(crate) fn begin(&self, body: &Value) -> String {
        let (status, answer) = self.ask("POST", "/api/runs", &body.to_string());
        assert_eq!(status, 202, "{answer}");
        serde_json::from_str::<Value>(&answer).unwrap()["run"].as_str().unwrap().to_owned()
    }

    /// Waits until a run has emitted so many events.
    pub(crate) fn until(&self, run: &str, seq: u64) {
        loop {
            let (_, shown) = self.ask("GET", &format!("/api/runs/{run}"), "");
            let shown: Value = serde_json::from_str(&shown).unwrap();
            if shown["last_seq"].as_u64().unwrap() >= seq {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub(crate) fn signal(&self, name: &str) {
        let kill = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status();
        assert!(kill.unwrap().success());
    }

    /// Waits for its end; gives its exit code and what it said.
    pub(crate) fn ended(mut self) -> (Option<i32>, String) {
        let code = self.child.wait().unwrap().code();
        let mut said = String::new();
        self.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (code, said)
    }
}

fn request(id: u32, method: &str, parameters: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": parameters}).to_string()
}

fn hello() -> Value {
    json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}})
}

/// Answer of a server on stdin and stdout to a method, as its lines.
pub(crate) fn ask_stdio(folder: &Path, arguments: &[&str], method: &str, parameters: &Value) -> String {
    let initialized = r#"{"jsonrpc": "2.0", "method": "notifications/initialized"}"#;
    let lines = [request(1, "initialize", &hello()), initialized.into(), request(2, method, parameters)];
    weft_with(folder, arguments, &(lines.join("\n") + "\n"), &[]).ok().stdout
}

/// Answer of `/mcp` to a method in a session of its own.
pub(crate) fn ask_http(served: &Served, method: &str, parameters: &Value) -> String {
    let begun = served.ask_with("POST", "/mcp", "", &request(1, "initialize", &hello()));
    let session = begun.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap();
    let lines = format!("mcp-session-id: {session}\r\nmcp-protocol-version: 2025-06-18\r\n");
    let answer = served.ask_with("POST", "/mcp", &lines, &request(2, method, parameters));
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    answer
}

fn project(settings: &str) -> tempfile::TempDir {
    let folder = desk();
    write(folder.path(), "workflows/count.json", COUNT);
    write(folder.path(), "workflows/wait.json", WAIT);
    write(folder.path(), "weft.toml", settings);
    folder
}

fn status(folder: &Path, run: &str) -> Value {
    weft(folder, &["runs", "show", run, "--output", "json"]).ok().json()
}

#[cfg(unix)]
#[test]
fn a_server_that_is_told_to_end_lets_runs_finish() {
    let folder = project("");
    let served = Served::start(folder.path(), TOKEN, &[]);
    let run = served.begin(&json!({"workflow": "wait"}));
    served.signal("TERM");
    let address = served.address;
    let (code, said) = served.ended();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("the server ends when its runs have"), "{said}");
    assert!(TcpStream::connect(address).is_err(), "nothing listens any more");
    assert_eq!(status(folder.path(), &run)["status"], "ok");
}

#[cfg(unix)]
#[test]
fn a_server_that_ends_begins_nothing() {
    let folder = project("");
    let served = Served::start(folder.path(), TOKEN, &[]);
    let run = served.begin(&json!({"workflow": "wait"}));
    // A request that is on its way when the end comes.
    let body = r#"{"workflow": "wait"}"#;
    let mut stream = TcpStream::connect(served.address).unwrap();
    let head = format!(
        "POST /api/runs HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {TOKEN}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        served.address,
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    served.until(&run, 1);
    served.signal("TERM");
    // It has heard: the listener is gone.
    while TcpStream::connect(served.address).is_ok() {
        std::thread::sleep(Duration::from_millis(10));
    }
    stream.write_all(body.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("shutting_down"), "{answer}");
    assert_eq!(served.ended().0, Some(0));
    let runs = weft(folder.path(), &["runs", "list", "--output", "json"]).ok().json();
    assert_eq!(runs.as_array().unwrap().len(), 1, "{runs}");
}

#[cfg(unix)]
#[test]
fn what_a_server_leaves_goes_on_where_it_was() {
    let folder = project("[server]\ngrace_ms = 100\n");
    write(folder.path(), "workflows/walk.json", &walk());
    let served = Served::start(folder.path(), TOKEN, &[]);
    let run = served.begin(&json!({"workflow": "walk", "inputs": {"n": 300}}));
    served.until(&run, 200);
    served.signal("TERM");
    let (code, said) = served.ended();
    assert_eq!(code, Some(0), "{said}");
    let left = status(folder.path(), &run);
    let last = left["events"].as_array().unwrap().len();
    assert!(left["status"] == "interrupted" && last >= 200, "{last} events: {}", left["status"]);
    let went_on = weft(folder.path(), &["runs", "resume", &run, "--output", "json"]).ok().json();
    assert_eq!(went_on["outputs"], json!({"last": 300}));
    // No pass was lost and none was done twice.
    let whole = status(folder.path(), &run);
    let events = whole["events"].as_array().unwrap();
    let seqs: Vec<u64> = events.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
    let passes = events.iter().filter(|event| event["type"] == "loop.iter.finished").count();
    assert_eq!(passes, 300);
}

#[cfg(unix)]
#[test]
fn a_second_wish_ends_at_once() {
    let folder = project("[server]\ngrace_ms = 600000\n");
    let served = Served::start(folder.path(), TOKEN, &[]);
    let run = served.begin(&json!({"workflow": "count", "inputs": {"n": 1_000_000}}));
    served.until(&run, 50);
    served.signal("INT");
    while TcpStream::connect(served.address).is_ok() {
        std::thread::sleep(Duration::from_millis(10));
    }
    served.signal("INT");
    assert_eq!(served.ended().0, Some(0));
    assert_eq!(status(folder.path(), &run)["status"], "interrupted");
}

#[test]
fn a_client_on_stdin_lists_and_calls() {
    let folder = desk();
    let listed = ask_stdio(folder.path(), &["mcp"], "tools/list", &json!({}));
    let answers: Vec<Value> = listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers[0]["result"]["serverInfo"]["name"], "weft");
    let tools = answers[1]["result"]["tools"].as_array().unwrap();
    assert!(tools.iter().any(|tool| tool["name"] == "kb__Query"), "{tools:?}");
    // Nonsense is answered, and what follows it too.
    let lines = ["{", &request(1, "initialize", &hello()), &request(2, "no/such", &json!({}))].join("\n");
    let ran = weft_with(folder.path(), &["mcp"], &(lines + "\n"), &[]);
    assert!(ran.stdout.contains("\"serverInfo\"") && ran.stdout.contains("-32601"), "{ran:#?}");
    let none = weft(folder.path(), &["mcp", "--agent", "dsek"]);
    assert_eq!((none.code, none.stdout.as_str()), (2, ""));
    assert!(none.stderr.contains("did you mean `desk`?"), "{}", none.stderr);
}

#[test]
fn a_served_project_is_one_line_and_a_token() {
    let folder = desk();
    let served = Served::start(folder.path(), TOKEN, &[]);
    assert!(served.address.ip().is_loopback());
    assert!(ask_http(&served, "tools/list", &json!({})).contains("kb__Query"));
    // The address is taken now, and that is told with a way out.
    let port = served.address.port().to_string();
    let again = weft(folder.path(), &["serve", "--port", &port]);
    assert_eq!(again.code, 1);
    assert!(
        again.stderr.contains("error[address_in_use]") && again.stderr.contains("--port"),
        "{}",
        again.stderr
    );
    let open = weft(folder.path(), &["serve", "--host", "0.0.0.0", "--no-token"]);
    assert_eq!(open.code, 3);
    assert!(open.stderr.contains("error[token_required]"), "{}", open.stderr);
    let short = weft_with(folder.path(), &["serve", "--port", "0"], "", &[("WEFT_TOKEN", "short")]);
    assert_eq!(short.code, 3);
    assert!(short.stderr.contains("error[bad_token]") && !short.stderr.contains("short"), "{}", short.stderr);
}

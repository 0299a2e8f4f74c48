//! The tools of this kind stand wherever tools stand: each case runs the built program.
#![expect(clippy::unwrap_used, reason = "helpers of tests: a wrong case may panic")]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

const TOKEN: &str = "0123456789abcdef0123";

const LIST: &str = r#"
[count]
program = "wc"
arguments = ["-w"]
description = "Counts the words of its input."
read_only = true

[echo]
program = "echo"
description = "Says it."
"#;

/// A project with an agent that counts words.
fn project() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("weft.toml", "script = \"script.jsonl\"\n");
    write("shell.toml", LIST);
    write("agents/clerk.json", r#"{"id": "clerk", "name": "Clerk", "tool_ids_inventory": ["shell:count"]}"#);
    let action = "<ACTION><tool name=\"shell:count\"><input>one two three</input></tool></ACTION>";
    write("script.jsonl", &format!("{}\n{}\n", json!({"text": action}), json!({"text": "There are three."})));
    folder
}

fn program(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shell-tools"));
    command.current_dir(folder).args(arguments).env("WEFT_TOKEN", TOKEN);
    for variable in
        ["OPENAI_BASE_URL", "OPENAI_MODEL", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"]
    {
        command.env_remove(variable);
    }
    command
}

#[track_caller]
fn stdout(folder: &Path, arguments: &[&str]) -> String {
    let ended = program(folder, arguments).output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    String::from_utf8(ended.stdout).unwrap()
}

#[test]
fn the_command_line_lists_and_calls_it() {
    let folder = project();
    let listed: Value =
        serde_json::from_str(&stdout(folder.path(), &["--output", "json", "tool", "list"])).unwrap();
    let find = |id: &str| listed.as_array().unwrap().iter().find(|tool| tool["id"] == id).cloned().unwrap();
    assert_eq!(
        (&find("shell:count")["kind"], &find("shell:count")["approval"]),
        (&json!("shell"), &json!("auto"))
    );
    assert_eq!(find("shell:echo")["approval"], "ask", "a program with an effect asks");
    let said = stdout(folder.path(), &["tool", "call", "shell:echo", "-i", r#"arguments=["$HOME; ls"]"#]);
    assert!(said.contains("$HOME; ls"), "no shell reads it: {said}");
    let ended = program(folder.path(), &["tool", "show", "shell:cuont"]).output().unwrap();
    let stderr = String::from_utf8(ended.stderr).unwrap();
    assert!(stderr.contains("did you mean `shell:count`?"), "{stderr}");
}

#[test]
fn a_file_of_tools_cannot_claim_the_namespace() {
    let folder = project();
    let file = r#"{"name": "shell:rm", "description": "d", "endpoint": {"url": "https://example.com"}}"#;
    fs::create_dir_all(folder.path().join("tools")).unwrap();
    fs::write(folder.path().join("tools/rm.tool.json"), file).unwrap();
    let ended = program(folder.path(), &["tool", "check"]).output().unwrap();
    let stderr = String::from_utf8(ended.stderr).unwrap();
    assert!(stderr.contains("reserved_namespace") && stderr.contains("rm.tool.json"), "{stderr}");
}

#[test]
fn an_agent_calls_it() {
    let folder = project();
    let answer = stdout(folder.path(), &["agent", "run", "clerk", "How many words?"]);
    assert!(answer.contains("There are three."), "{answer}");
    let events = stdout(folder.path(), &["--output", "jsonl", "agent", "run", "clerk", "How many words?"]);
    assert!(events.lines().any(|line| line.contains("shell:count") && line.contains("\"ok\"")), "{events}");
}

/// The program as a server, which ends with this.
struct Served(Child, String);

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Served {
    fn get(&self, path: &str) -> Value {
        let mut stream = TcpStream::connect(&self.1).unwrap();
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {TOKEN}\r\nconnection: close\r\n\r\n",
            self.1
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        serde_json::from_str(body).unwrap_or_else(|error| unreachable!("{error}: {answer}"))
    }
}

#[test]
fn the_page_shows_it() {
    let folder = project();
    let mut serve = program(folder.path(), &["--output", "json", "serve", "--port", "0"]);
    let mut child = serve.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let started: Value = serde_json::from_str(&line).unwrap();
    let served = Served(child, started["url"].as_str().unwrap().strip_prefix("http://").unwrap().to_owned());
    let tools = served.get("/api/tools");
    let count = tools.as_array().unwrap().iter().find(|tool| tool["id"] == "shell:count").cloned().unwrap();
    assert_eq!(count["kind"], "shell");
    assert_eq!(served.get("/api/tools/shell:count")["used_by_agents"], json!(["clerk"]));
}

#[test]
fn clients_of_the_model_context_protocol_call_it() {
    let folder = project();
    let mut mcp = program(folder.path(), &["mcp"]);
    let mut child = mcp.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let served = Served(child, String::new());
    let mut send = |message: Value| writeln!(stdin, "{message}").unwrap();
    let mut answer = |id: u64| loop {
        let message: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        if message["id"] == id {
            return message["result"].clone();
        }
    };
    send(
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18",
        "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}}),
    );
    answer(1);
    send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    send(json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}));
    let listed = answer(2);
    let names: Vec<&str> =
        listed["tools"].as_array().unwrap().iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert!(names.contains(&"shell__count"), "{names:?}");
    send(json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call",
        "params": {"name": "shell__count", "arguments": {"input": "one two"}}}));
    let called = answer(3);
    assert_eq!(called["content"][0]["text"].as_str().unwrap().trim(), "2", "{called}");
    drop(served);
}

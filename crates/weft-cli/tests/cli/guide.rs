//! The commands of the guide pages do what the pages say.
//!
//! A block marked `console` is run line by line in a fresh project: `$ command`, then what it prints (stderr first), then `exit N` where that is not 0.
//! A block marked `json PATH` is written to that file of the project first.
//! `…` stands for any text within a line, alone on a line for any lines. A command without anything behind it only has to succeed.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;

use weft_harness::StubServer;

/// One command of a page and what follows it.
struct Step {
    line: usize,
    command: String,
    expected: Vec<String>,
}

fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut inside = false;
    for (number, line) in page.lines().enumerate() {
        match (inside, line) {
            (false, "```console") => inside = true,
            (true, "```") => inside = false,
            (true, line) => match (line.strip_prefix("$ "), steps.last_mut()) {
                (Some(command), _) => {
                    steps.push(Step { line: number + 1, command: command.into(), expected: Vec::new() });
                }
                (None, Some(step)) => step.expected.push(line.to_owned()),
                (None, None) => {}
            },
            (false, _) => {}
        }
    }
    steps
}

/// The files that a page shows, by their paths.
fn files(page: &str) -> Vec<(&str, &str)> {
    let blocks = page.split("\n```json ").skip(1);
    blocks
        .filter_map(|block| block.split_once('\n'))
        .filter_map(|(path, rest)| Some((path, rest.split_once("\n```")?.0)))
        .collect()
}

/// Compares a line with the expected one, in which `…` stands for any text.
fn line_fits(got: &str, expected: &str) -> bool {
    let Some((first, rest)) = expected.split_once('…') else { return got == expected };
    let (inner, last) = rest.rsplit_once('…').map_or((None, rest), |(inner, last)| (Some(inner), last));
    let Some(mut got) = got.strip_prefix(first).and_then(|got| got.strip_suffix(last)) else { return false };
    for part in inner.into_iter().flat_map(|inner| inner.split('…')) {
        match got.find(part) {
            Some(at) => got = &got[at + part.len()..],
            None => return false,
        }
    }
    true
}

fn lines_fit(got: &[&str], expected: &[String]) -> bool {
    match expected.split_first() {
        None => got.is_empty(),
        Some((first, rest)) if first == "…" => (0..=got.len()).any(|skip| lines_fit(&got[skip..], rest)),
        Some((first, rest)) => {
            got.first().is_some_and(|got| line_fits(got, first)) && lines_fit(&got[1..], rest)
        }
    }
}

fn read(page: &str) -> String {
    std::fs::read_to_string(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide").join(page))
        .unwrap()
}

#[track_caller]
fn check(page: &str) {
    check_text(page, &read(page));
}

#[track_caller]
fn check_text(page: &str, text: &str) {
    check_in(&folder_of(text), page, text, &[]);
}

/// A fresh project with the files that a page shows.
fn folder_of(text: &str) -> tempfile::TempDir {
    let folder = crate::common::desk();
    for (path, text) in files(text) {
        crate::common::write(folder.path(), path, text);
    }
    folder
}

/// Runs the commands of a page in a folder, with variables in their environment.
#[track_caller]
fn check_in(folder: &tempfile::TempDir, page: &str, text: &str, variables: &[(&str, &str)]) {
    let steps = steps(text);
    assert!(!steps.is_empty(), "{page} has examples");
    let mut replays = crate::replays::Replays::default();
    for step in steps {
        let mut shell = Command::new("sh");
        // The environment is that of a command of the tests: no model, no colour.
        for (key, value) in crate::common::command(folder.path()).get_envs() {
            match value {
                Some(value) => shell.env(key, value),
                None => shell.env_remove(key),
            };
        }
        let output = shell
            .args(["-c", &step.command])
            .env("PATH", search_path())
            .envs(variables.iter().copied())
            .current_dir(folder.path())
            .output()
            .unwrap();
        let stdout = String::from_utf8(output.stdout).unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        let place = format!("{page}:{}: {}\n{stderr}{stdout}", step.line, step.command);
        let (expected, code) = match step.expected.last().and_then(|last| last.strip_prefix("exit ")) {
            Some(code) => (&step.expected[..step.expected.len() - 1], code.parse().unwrap()),
            None => (&step.expected[..], 0),
        };
        assert_eq!(output.status.code(), Some(code), "{place}");
        // Notes and the timeline of a run are not shown on the pages.
        let shown = if code == 0 { stdout } else { format!("{stderr}{stdout}") };
        let got: Vec<&str> = shown.lines().collect();
        assert!(expected.is_empty() || lines_fit(&got, expected), "{place}");
        // A run of a page is a test that passes at once.
        replays.check(folder.path(), &place);
    }
}

/// Search path for programs: ours come first.
fn search_path() -> std::ffi::OsString {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_weft"));
    let others = std::env::var_os("PATH").unwrap();
    let folders = std::iter::once(program.parent().unwrap().to_owned()).chain(std::env::split_paths(&others));
    std::env::join_paths(folders).unwrap()
}

#[test]
fn the_command_line() {
    check("command-line.md");
}

#[test]
fn models() {
    check("models.md");
}

#[test]
fn the_protocol() {
    check("protocol.md");
}

#[test]
fn agents() {
    check("agents.md");
}

#[test]
fn testing() {
    check("testing.md");
}

#[test]
fn runs() {
    check("runs.md");
}

#[test]
fn triggers() {
    check("triggers.md");
}

#[test]
fn workflows() {
    check("workflows.md");
}

#[test]
fn pages_in_chinese() {
    check("workflows.zh.md");
    check("nodes.zh.md");
}

#[test]
fn nodes() {
    check("nodes.md");
}

#[test]
fn the_canvas() {
    check("canvas.md");
}

/// The server that the page about tools speaks of: weather, bookings, and an error that repeats the key.
fn tools_server() -> std::net::SocketAddr {
    let server = StubServer::start(|_, request, stream| {
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        let key = head.lines().find_map(|line| line.strip_prefix("authorization: Bearer "));
        let (status, answer) = match head.split(' ').nth(1).unwrap() {
            "/t1/weather/Oslo?days=1" if head.contains("accept-language: nb\r\n") => {
                ("200 OK", r#"{"now": {"temp": 21, "sky": "clear"}}"#.to_owned())
            }
            "/bookings" => ("201 Created", format!(r#"{{"got":{body}}}"#)),
            _ => ("404 Not Found", format!("no such city, said key {}", key.unwrap_or("none"))),
        };
        let length = answer.len();
        let head = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close");
        write!(stream, "{head}\r\n\r\n{answer}").unwrap();
    });
    server.address
}

/// The server that the page about flows speaks of: leave but on the thirteenth, and handing over.
fn flows_server() -> std::net::SocketAddr {
    let server = StubServer::json(|request| {
        let body: serde_json::Value = serde_json::from_str(&request.body).unwrap_or_default();
        match request.path() {
            "/leave" if body["days"] == "13" => (500, serde_json::Value::Null),
            "/leave" => (200, serde_json::json!({"id": 7, "days": body["days"]})),
            "/handoff" => (200, serde_json::json!({"session": body["session"]})),
            _ => (404, serde_json::Value::Null),
        }
    });
    server.address
}

#[test]
fn flows() {
    let page = "flows.md";
    check_text(page, &read(page).replace("127.0.0.1:8080", &flows_server().to_string()));
}

/// The shop's own system: one order, and what a channel sends.
fn shop_server() -> StubServer {
    StubServer::json(|request| match request.path() {
        "/orders/1234" => (200, serde_json::json!({"number": 1234, "state": "on its way"})),
        "/from-weft" => (200, serde_json::Value::Null),
        _ => (404, serde_json::Value::Null),
    })
}

/// The second part of the page speaks of a server, which is the program itself.
#[test]
fn a_help_desk() {
    let (page, shop) = ("help-desk.md", shop_server());
    let text = read(page).replace("127.0.0.1:8080", &shop.address.to_string());
    let folder = folder_of(&text);
    let (before, served) = text.split_once("## Serve it").unwrap();
    check_in(&folder, page, before, &[]);
    let variables = [("CRM_HOOK", "a-secret-of-both-sides")];
    let token = "at-least-16-letters-of-your-own";
    let server = crate::serving::Served::start_in(folder.path(), token, &[], &variables);
    let served = served.replace("127.0.0.1:8787", &server.address.to_string());
    check_in(&folder, page, &served, &[]);
    let sent = || shop.requests().into_iter().filter(|request| request.starts_with("POST /from-weft"));
    for _ in 0..200 {
        if sent().count() >= 2 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let sent: Vec<String> = sent().collect();
    assert_eq!(sent.len(), 2, "{sent:#?}");
    assert!(sent[0].contains("Order 1234 is on its way.") && sent[1].contains("It comes on Friday."));
}

#[test]
fn tools() {
    let page = "tools.md";
    check_text(page, &read(page).replace("127.0.0.1:8080", &tools_server().to_string()));
}

/// The server that the page speaks of is the program itself, and the settings for MCP clients start or reach it.
#[test]
fn server() {
    let page = "server.md";
    let token = "at-least-16-letters-of-your-own";
    let folder = folder_of(&read(page));
    let served = crate::serving::Served::start(folder.path(), token, &[]);
    // `weft doctor` is asked before anything is served.
    let text = read(page).replace("127.0.0.1:8787", &served.address.to_string());
    check_in(&folder, page, &text, &[("WEFT_TOKEN", token)]);
    for (path, text) in files(&text) {
        let config: serde_json::Value = serde_json::from_str(text).unwrap();
        let desk = &config["mcpServers"]["desk"];
        let tools = if desk["command"] == "weft" {
            let arguments: Vec<&str> =
                desk["args"].as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect();
            crate::serving::ask_stdio(folder.path(), &arguments, "tools/list", &serde_json::json!({}))
        } else {
            assert_eq!(desk["url"], format!("http://{}/mcp", served.address), "{path}");
            assert_eq!(desk["headers"]["Authorization"], format!("Bearer {token}"));
            crate::serving::ask_http(&served, "tools/list", &serde_json::json!({}))
        };
        assert!(tools.contains("workflow__summarize_text"), "{path}: {tools}");
    }
}

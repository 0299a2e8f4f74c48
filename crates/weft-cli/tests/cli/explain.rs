//! `weft doctor`, `weft explain`, `weft completions`.

use serde_json::Value;

use crate::common::{desk, weft, weft_with, write};

fn checks(ran: &Value) -> Vec<(String, String, String)> {
    let text = |check: &Value, key: &str| check[key].as_str().unwrap_or_default().to_owned();
    let all = ran["checks"].as_array().unwrap().iter();
    all.map(|check| (text(check, "check"), text(check, "status"), text(check, "code"))).collect()
}

fn find<'a>(checks: &'a [(String, String, String)], name: &str) -> (&'a str, &'a str) {
    let found = checks.iter().find(|(check, ..)| check == name);
    let (_, status, code) = found.unwrap_or_else(|| panic!("{name}: {checks:?}"));
    (status.as_str(), code.as_str())
}

#[test]
fn a_new_project_is_well() {
    let folder = desk();
    // A server may be at work on the usual port of this machine.
    write(
        folder.path(),
        "weft.toml",
        "script = \"script.jsonl\"\n[kb.Query]\npath = \"docs/**\"\n[server]\nport = 0\n",
    );
    let ran = weft(folder.path(), &["doctor", "--output", "json"]).ok().json();
    assert_eq!(ran["ok"], true, "{ran}");
    assert!(checks(&ran).iter().all(|(_, status, _)| status == "ok"), "{ran}");
    let text = weft(folder.path(), &["doctor"]).ok();
    assert!(text.stdout.contains("ok       agent desk: 3 tools\n"), "{}", text.stdout);
    assert!(text.stderr.contains("0 wrong"), "{}", text.stderr);
}

#[test]
fn a_doctor_reports_every_fault_with_a_fix() {
    let folder = desk();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let settings = format!(
        r#"
[models.default]
provider = "openai"
model = "m"
api_key_env = "DOCTOR_KEY"
base_url = "http://127.0.0.1:{port}/v1"
[models.silent]
provider = "openai"
model = "m"
base_url = "http://user:DOCTORS-PASSWORD@127.0.0.1:9/v1"
[models.keyless]
provider = "anthropic"
model = "m"
[mcp.gone]
command = "no-such-program-here"
[store]
path = "weft.toml/weft.db"
[server]
port = {port}
"#
    );
    write(folder.path(), "weft.toml", &settings);
    write(
        folder.path(),
        "workflows/odd.json",
        r#"{"nodes": [{"id": "a", "type": "core:Nope"}], "edges": []}"#,
    );
    write(
        folder.path(),
        "agents/odd.json",
        r#"{"id": "odd", "name": "Odd", "tool_ids_inventory": ["nope"]}"#,
    );
    write(folder.path(), "tools/odd.tool.json", "{");
    let secret = "DOCTORS-SECRET-KEY";
    let ran = weft_with(folder.path(), &["doctor", "--output", "json"], "", &[("DOCTOR_KEY", secret)]);
    assert_eq!(ran.code, 3, "that of the first fault: {ran:#?}");
    assert!(!ran.stdout.contains(secret) && !ran.stdout.contains("DOCTORS-PASSWORD"), "{}", ran.stdout);
    let report = ran.json();
    assert_eq!(report["ok"], false);
    let all = checks(&report);
    for (name, status, code) in [
        ("project", "ok", ""),
        ("model default", "ok", ""),
        ("model silent", "error", "unreachable"),
        ("model keyless", "error", "missing_key"),
        ("workflow odd", "error", "unknown_type"),
        ("agent odd", "error", "unknown_tool"),
        ("server", "warning", "address_in_use"),
    ] {
        assert_eq!(find(&all, name), (status, code), "{name}");
    }
    assert_eq!(find(&all, "store").0, "error");
    assert!(all.iter().any(|(name, status, _)| name.starts_with("tool ") && status == "error"), "{all:?}");
    // The store keeps what servers say of their tools: without it they are not asked.
    assert!(all.iter().any(|(name, status, _)| name.starts_with("mcp") && status == "error"), "{all:?}");
    let wrong = report["checks"].as_array().unwrap().iter().filter(|check| check["status"] == "error");
    for check in wrong {
        assert!(check["help"].is_string(), "{check}");
    }
    // Every code that it names is explained.
    for (_, _, code) in all.iter().filter(|(_, _, code)| !code.is_empty()) {
        weft(folder.path(), &["explain", code]).ok();
    }
}

#[test]
fn a_doctor_without_a_project_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let ran = weft(folder.path(), &["doctor"]);
    assert_eq!(ran.code, 3, "{ran:#?}");
    assert!(ran.stdout.contains("[no_project]") && ran.stdout.contains("weft init"), "{}", ran.stdout);
}

#[test]
fn codes_are_explained() {
    let folder = tempfile::tempdir().unwrap();
    let rows = weft(folder.path(), &["explain", "run_busy", "--output", "json"]).ok().json();
    assert_eq!(rows.as_array().unwrap().len(), 2, "{rows}");
    assert!(rows[0]["way_out"].as_str().unwrap().contains("weft runs cancel"), "{rows}");
    // As it is copied from a message.
    let copied = weft(folder.path(), &["explain", "error[run_busy]:"]).ok();
    assert!(copied.stdout.starts_with("run_busy (The store of runs)\n"), "{}", copied.stdout);
    for known in ["130", "completed", "agent.parse_failed", "max_passes", "unknown_tool", "queue_full"] {
        weft(folder.path(), &["explain", known]).ok();
    }
    let none = weft(folder.path(), &["explain", "unknwon_tool", "--output", "json"]);
    assert_eq!(none.code, 2);
    assert!(
        none.stderr.contains("\"code\":\"unknown_code\"")
            && none.stderr.contains("did you mean `unknown_tool`?")
    );
    let all = weft(folder.path(), &["explain"]).ok();
    assert!(
        all.stdout.lines().count() > 300 && all.stdout.contains("\nThe store of runs\n"),
        "{}",
        all.stdout
    );
    assert!(weft(folder.path(), &["explain", "--output", "jsonl"]).ok().lines().len() > 300);
}

#[test]
fn shells_are_told_of_every_command() {
    let folder = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = weft(folder.path(), &["completions", shell]).ok().stdout;
        for word in ["doctor", "explain", "workflow", "serve", "project-directory"] {
            let is_there = script.contains(word) || word == "project-directory";
            assert!(is_there, "{shell} lacks {word}");
        }
    }
    let of_shell = weft_with(folder.path(), &["completions"], "", &[("SHELL", "/usr/bin/fish")]).ok();
    assert!(of_shell.stdout.contains("complete -c weft"), "{}", of_shell.stdout);
    assert_eq!(weft_with(folder.path(), &["completions"], "", &[("SHELL", "")]).code, 2);
}

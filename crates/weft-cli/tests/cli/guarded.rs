//! Attacks and faults against the program as a whole, with real processes.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use weft_harness::{COUNT, StubServer};

use crate::common::{desk, weft, weft_with, write};
use crate::serving::{Served, TOKEN};

/// A workflow of one node whose output is its own.
fn single(node: &str, config: &Value, input: &Value) -> String {
    json!({"name": "w", "interfaceInputs": {}, "interfaceOutputs": {"value": {"dataFlowType": "WILDCARD"}},
        "nodes": [{"id": "out", "type": "core:GroupOutput"},
            {"id": "n", "type": node, "configValues": config, "inputValues": input}],
        "edges": [{"source": "n", "sourceHandle": "value", "target": "out", "targetHandle": "value"}]})
    .to_string()
}

fn nested(depth: usize) -> String {
    let opens: Vec<String> = (0..depth).map(|at| format!("items.all(v{at}, ")).collect();
    format!("{}v0 >= 0{}", opens.concat(), ")".repeat(depth))
}

/// A schema whose levels refer to the next one twice.
fn exploding() -> Value {
    let level = |at: usize| json!({"allOf": [{"$ref": format!("#/$defs/l{at}")}, {"$ref": format!("#/$defs/l{at}")}]});
    let mut defs: serde_json::Map<String, Value> =
        (0..40).map(|at| (format!("l{at}"), level(at + 1))).collect();
    defs.insert("l40".into(), json!({"type": "string"}));
    json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/l0"}}, "$defs": defs})
}

/// The four ways to keep a processor busy, in one project.
fn busy_project(model: &str) -> tempfile::TempDir {
    let folder = desk();
    let items: Value = (0..100).collect();
    let path = folder.path();
    write(
        path,
        "workflows/expression.json",
        &single("core:Expression", &json!({"cel": nested(5)}), &json!({"items": items})),
    );
    let deep = (0..60).fold(json!(1), |inner, _| json!({"a": inner, "b": [1, 2]}));
    write(
        path,
        "workflows/path.json",
        &single("core:JsonSelect", &json!({"path": "$..*..*..*..*"}), &json!({"value": deep})),
    );
    write(path, "workflows/count.json", COUNT);
    write(
        path,
        "agents/bomb.json",
        &json!({"id": "bomb", "system_prompt": "x", "output_schema": exploding()}).to_string(),
    );
    write(path, "agents/gzip.json", &json!({"id": "gzip", "system_prompt": "x"}).to_string());
    let settings = format!(
        "[models.default]\nprovider = \"openai\"\nmodel = \"m\"\nbase_url = \"{model}\"\n[server]\ngrace_ms = 1000\nmax_runs = 64\n"
    );
    write(path, "weft.toml", &settings);
    folder
}

/// Ten megabytes of blanks in ten kilobytes of gzip would do; the bytes only have to claim that they are.
fn compressed_model() -> StubServer {
    let body = "\u{1f}\u{8b}".repeat(50);
    StubServer::saying(&format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    ))
}

#[cfg(unix)]
#[test]
fn n03_n04_n05_n06_whatever_runs_do_the_server_is_heard() {
    let model = compressed_model();
    let folder = busy_project(&model.url(""));
    let served = Served::start(folder.path(), TOKEN, &[]);
    let bodies = [
        json!({"workflow": "expression"}),
        json!({"workflow": "path"}),
        json!({"agent": "bomb", "message": "go"}),
        json!({"agent": "gzip", "message": "go"}),
    ];
    let workers = 2 * std::thread::available_parallelism().map_or(2, usize::from);
    let (stop, begun) = (AtomicBool::new(false), AtomicUsize::new(0));
    let counting = served.begin(&json!({"workflow": "count", "inputs": {"n": 1_000_000}}));
    std::thread::scope(|scope| {
        for at in 0..workers.max(bodies.len()) {
            let (body, served, stop, begun) = (&bodies[at % bodies.len()], &served, &stop, &begun);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    // A run may be refused as it begins; the server answers in any case.
                    let (status, _) = served.ask("POST", "/api/runs", &body.to_string());
                    assert!((200..500).contains(&status) || status == 503, "{status}");
                    begun.fetch_add(1, Ordering::Relaxed);
                    std::thread::sleep(Duration::from_millis(20));
                }
            });
        }
        let (end, mut slowest) = (Instant::now() + Duration::from_secs(6), Duration::ZERO);
        while Instant::now() < end {
            let asked = Instant::now();
            assert_eq!(served.ask("GET", "/api/meta", "").0, 200);
            slowest = slowest.max(asked.elapsed());
            std::thread::sleep(Duration::from_millis(50));
        }
        assert!(slowest < Duration::from_secs(5), "an answer took {slowest:?}");
        let asked = Instant::now();
        let (status, answer) = served.ask("POST", &format!("/api/runs/{counting}/cancel"), "{}");
        assert!((200..300).contains(&status), "{status} {answer}");
        loop {
            let shown: Value =
                serde_json::from_str(&served.ask("GET", &format!("/api/runs/{counting}"), "").1).unwrap();
            if shown["status"] == "cancelled" {
                break;
            }
            assert!(asked.elapsed() < Duration::from_secs(20), "the run does not end: {shown}");
            std::thread::sleep(Duration::from_millis(50));
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(begun.load(Ordering::Relaxed) > workers, "the load began");
    let asked = Instant::now();
    served.signal("TERM");
    let (code, said) = served.ended();
    // Work that outlasts the grace time, as in a debug build on a busy machine, is left, and the server says so.
    let is_left = code == Some(1) && said.contains("the server is left");
    assert!(code == Some(0) || is_left, "{code:?} {said}");
    assert!(asked.elapsed() < Duration::from_secs(15), "it ended after {:?}", asked.elapsed());
}

#[test]
fn n04_a_compressed_answer_of_a_model_is_refused() {
    let model = compressed_model();
    let folder = busy_project(&model.url(""));
    let ran = weft(folder.path(), &["agent", "run", "gzip", "go"]);
    assert!(ran.code != 0 && ran.stderr.contains("encoded as `gzip`"), "{ran:#?}");
}

#[test]
fn n05_an_output_schema_that_explodes_is_refused_at_load() {
    let folder = busy_project("http://127.0.0.1:9");
    let ran = weft(folder.path(), &["agent", "run", "bomb", "go"]);
    assert!(ran.code != 0 && ran.stderr.contains("apply to one value"), "{ran:#?}");
}

#[cfg(unix)]
#[test]
fn n12_a_foreign_project_above_starts_nothing_before_it_is_trusted() {
    let folder = desk();
    let below = folder.path().join("a/b");
    std::fs::create_dir_all(&below).unwrap();
    if std::os::unix::fs::chown(folder.path().join("weft.toml"), Some(54_321), None).is_err() {
        // Only the superuser may give files away.
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let variables = [("XDG_CONFIG_HOME", home.path().to_str().unwrap())];
    let list = |folder: &Path| weft_with(folder, &["tool", "list"], "", &variables);
    let refused = list(&below);
    assert_eq!(refused.code, 3, "{refused:#?}");
    assert!(
        refused.stderr.contains("error[not_trusted]") && refused.stderr.contains("weft trust"),
        "{refused:#?}"
    );
    assert!(!folder.path().join(".weft").exists(), "nothing was started");
    // The folder itself, and a folder that is named, are the user's own choice.
    assert_eq!(list(folder.path()).code, 0);
    assert_eq!(weft_with(&below, &["trust"], "", &variables).code, 0);
    assert_eq!(list(&below).code, 0);
}

fn tool(folder: &Path, address: &str) {
    let file = json!({"name": "echo", "description": "Echoes.", "parameters": {"type": "object"},
        "endpoint": {"url": format!("http://{address}/")},
        "auth": {"type": "bearer", "token": "{$secret.ECHO_KEY}"}});
    write(folder, "tools/echo.tool.json", &file.to_string());
}

#[test]
fn n13_a_secret_goes_only_where_the_settings_say() {
    let server = StubServer::saying("HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok");
    let address = server.address.to_string();
    let folder = desk();
    tool(folder.path(), &address);
    let call = |allow: &str| {
        let settings = format!("[network]\nallow = [\"{address}\"]\n{allow}");
        write(folder.path(), "weft.toml", &settings);
        weft_with(folder.path(), &["tool", "call", "echo"], "", &[("ECHO_KEY", "S3CR3T-KEY")])
    };
    let added = format!("[secrets.allow]\nECHO_KEY = [\"{address}\"]");
    let under = format!("under [secrets.allow]:\nECHO_KEY = [\"{address}\"]");
    let extended =
        format!("under [secrets.allow]:\nECHO_KEY = [\"api.test\", \"127.0.0.1:1\", \"{address}\"]");
    for (allow, lines) in [
        ("", added),
        ("[secrets.allow]\nOTHER = [\"127.0.0.1\"]\n", under),
        ("[secrets.allow]\nECHO_KEY = [\"api.test\", \"127.0.0.1:1\"]\n", extended),
    ] {
        let refused = call(allow);
        assert!(refused.stderr.contains("`ECHO_KEY` may not be sent to"), "{refused:#?}");
        assert!(refused.stderr.contains(&lines), "{refused:#?}");
        assert!(server.requests().is_empty());
        for command in
            [&["doctor"] as &[&str], &["tool", "check"], &["tool", "check", "echo"], &["agent", "check"]]
        {
            let checked = weft(folder.path(), command);
            let said = format!("{}{}", checked.stdout, checked.stderr).replace("\n         ", "\n");
            assert!(
                said.contains("`ECHO_KEY` may not be sent to") && said.contains(&lines),
                "{command:?}: {said}"
            );
            assert!(said.contains("tools/echo.tool.json:1"), "{command:?}: {said}");
        }
    }
    call(&format!("[secrets.allow]\nECHO_KEY = [\"{address}\"]\n")).ok();
    assert!(server.only_request().contains("authorization: Bearer S3CR3T-KEY"));
}

#[test]
fn n13_flows_that_name_a_secret_are_checked() {
    let folder = desk();
    let flows = json!({"flows": [{"flow_id": "f", "match": "exact", "trigger_patterns": ["hi"],
        "target": {"endpoint": {"url": "https://api.test/x", "headers": {"x-key": "{$secret.FLOW_KEY}"}}}}]});
    write(folder.path(), "flows.json", &serde_json::to_string_pretty(&flows).unwrap());
    let checked = weft(folder.path(), &["flow", "check"]);
    assert!(checked.stderr.contains("warning[secret_not_allowed]: the secret `FLOW_KEY`"), "{checked:#?}");
    assert!(checked.stderr.contains("FLOW_KEY = [\"api.test\"]"), "{checked:#?}");
}

#[test]
fn a_name_that_cannot_be_an_id_is_ignored() {
    let folder = desk();
    let inventory = json!([{"id": "system:get_current_time", "name": "What time is it?"}]);
    let agent = json!({"id": "named", "name": "N", "tool_ids_inventory": inventory});
    write(folder.path(), "agents/named.json", &agent.to_string());
    let listed = weft(folder.path(), &["tool", "list", "--agent", "named"]).ok();
    assert!(listed.stdout.contains("system:get_current_time"), "{listed:#?}");
    for command in [&["agent", "check", "named"] as &[&str], &["doctor"]] {
        let checked = weft(folder.path(), command);
        let said = format!("{}{}", checked.stdout, checked.stderr);
        assert!(
            said.contains("the name `What time is it?` of `system:get_current_time` is ignored"),
            "{said}"
        );
    }
}

#[test]
fn a_server_that_is_down_is_reported_under_wildcards() {
    let folder = desk();
    let settings =
        "script = \"script.jsonl\"\n[mcp.gone]\nurl = \"http://127.0.0.1:9/mcp\"\nstart_timeout_ms = 2000\n";
    write(folder.path(), "weft.toml", settings);
    write(folder.path(), "script.jsonl", "{\"text\": \"Hello.\"}\n");
    for entry in ["mcp:*", "mcp:gone/*"] {
        let agent = json!({"id": "w", "name": "W", "tool_ids_inventory": ["system:get_current_time", entry]});
        write(folder.path(), "agents/w.json", &agent.to_string());
        let checked = weft(folder.path(), &["agent", "check", "w"]);
        assert!(checked.code != 0 && checked.stderr.contains("`gone`"), "{checked:#?}");
        let ran = weft(folder.path(), &["agent", "run", "w", "hi"]).ok();
        assert!(ran.stderr.contains("`gone`") && ran.stdout.contains("Hello."), "{ran:#?}");
    }
}

#[cfg(unix)]
#[test]
fn what_never_ends_is_not_waited_for() {
    let folder = desk();
    for file in ["flows.json", "agents/pipe.json"] {
        let made = std::process::Command::new("mkfifo").arg(folder.path().join(file)).status();
        assert!(made.unwrap().success());
    }
    let begun = Instant::now();
    let checked = weft(folder.path(), &["flow", "check"]);
    assert!(checked.code != 0 && checked.stderr.contains("it is not a file"), "{checked:#?}");
    assert!(begun.elapsed() < Duration::from_secs(10));
}

/// Another process that holds the store of a project, until it is dropped.
fn locked(folder: &Path) -> rusqlite::Connection {
    let held = rusqlite::Connection::open(folder.join(".weft/weft.db")).unwrap();
    held.execute_batch("BEGIN IMMEDIATE").unwrap();
    held
}

#[cfg(unix)]
#[test]
fn n31_a_locked_store_is_reported_and_waited_for_at_the_end() {
    let folder = desk();
    write(folder.path(), "weft.toml", "script = \"script.jsonl\"\n[server]\ngrace_ms = 20000\n");
    write(folder.path(), "script.jsonl", "{\"text\": \"Hello.\"}\n");
    write(folder.path(), "agents/a.json", "{\"id\": \"a\", \"name\": \"A\"}");
    let served = Served::start(folder.path(), TOKEN, &[]);
    let held = locked(folder.path());
    let body = json!({"agent": "a", "message": "hi"}).to_string();
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| served.ask("POST", "/api/runs", &body));
        std::thread::sleep(Duration::from_millis(800));
        served.signal("TERM");
        std::thread::sleep(Duration::from_millis(700));
        drop(held);
        assert!((200..300).contains(&asked.join().unwrap().0));
    });
    let (code, said) = served.ended();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("the store is locked by another process: waiting for it, up to 30 s"), "{said}");
    let listed = weft(folder.path(), &["runs", "list"]).ok();
    assert!(listed.stdout.contains("ok (completed)"), "{listed:#?}");
}

#[cfg(unix)]
#[test]
fn n31_a_server_that_is_left_says_what_is_not_kept() {
    let folder = desk();
    write(folder.path(), "weft.toml", "script = \"script.jsonl\"\n[server]\ngrace_ms = 100\n");
    write(folder.path(), "script.jsonl", "{\"text\": \"Hello.\"}\n");
    write(folder.path(), "agents/a.json", "{\"id\": \"a\", \"name\": \"A\"}");
    let served = Served::start(folder.path(), TOKEN, &[]);
    let held = locked(folder.path());
    // It has no answer: the server ends before.
    let _client = served.send("POST", "/api/runs", "", "{\"agent\": \"a\", \"message\": \"hi\"}");
    std::thread::sleep(Duration::from_millis(500));
    served.signal("TERM");
    let (code, said) = served.ended();
    drop(held);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("not kept"), "{said}");
}

#[cfg(unix)]
#[test]
fn n24_an_import_does_not_write_through_links() {
    let (folder, elsewhere) = (desk(), tempfile::tempdir().unwrap());
    let description = json!({"openapi": "3.0.0", "servers": [{"url": "https://api.test"}], "paths": {
        "/items": {"get": {"operationId": "getItem", "summary": "One item."}}}});
    write(folder.path(), "shop.json", &description.to_string());
    let tools = folder.path().join("tools");
    std::os::unix::fs::symlink(elsewhere.path(), &tools).unwrap();
    let refused = weft(folder.path(), &["import", "openapi", "shop.json", "--to", "tools/x"]);
    let plain = weft(folder.path(), &["import", "openapi", "shop.json"]);
    std::fs::remove_file(&tools).unwrap();
    std::fs::create_dir(&tools).unwrap();
    std::os::unix::fs::symlink(elsewhere.path().join("got"), tools.join("getItem.tool.json")).unwrap();
    let file = weft(folder.path(), &["import", "openapi", "shop.json", "--force"]);
    assert!(file.code != 0 && file.stderr.contains("is a link"), "{file:#?}");
    drop((refused, plain));
    assert!(!elsewhere.path().join("got").exists());
}

/// A project whose server of tools is another project, behind a shell that has a child of its own.
#[cfg(unix)]
fn with_server(address: &str) -> (tempfile::TempDir, tempfile::TempDir) {
    let (folder, other) = (desk(), desk());
    let file = json!({"name": "leak", "description": "Leaks.", "parameters": {"type": "object"},
        "endpoint": {"url": format!("http://{address}/")}});
    write(other.path(), "tools/leak.tool.json", &file.to_string());
    write(other.path(), "weft.toml", &format!("[network]\nallow = [\"{address}\"]\n"));
    let program = env!("CARGO_BIN_EXE_weft");
    let script = format!(
        "sleep 300 & echo $! > {}/pid; exec {program} -C {} mcp",
        other.path().display(),
        other.path().display()
    );
    let settings = format!(
        "[mcp.other]\ncommand = \"sh\"\nargs = [\"-c\", {script:?}]\nenv = {{TOKEN = \"given/to-it\"}}\n"
    );
    write(folder.path(), "weft.toml", &settings);
    (folder, other)
}

#[cfg(unix)]
#[test]
fn n25_n26_children_of_a_server_end_with_us_and_what_it_was_given_is_masked() {
    let body = r#"{"plain": "given/to-it", "escaped": "given\/to-it", "unicode": "\u0067iven/to-it", "text": "{\"a\": \"given\\/to-it\", \"b\": \"given%2Fto-it\"}"}"#;
    let leak = StubServer::saying(&format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    ));
    let (folder, other) = with_server(&leak.address.to_string());
    let ran = weft(folder.path(), &["tool", "call", "mcp:other/leak", "--output", "json"]).ok();
    assert!(ran.stdout.contains("***"), "{ran:#?}");
    assert!(!ran.stdout.contains("to-it") && !ran.stderr.contains("to-it"), "{ran:#?}");
    let pid = std::fs::read_to_string(other.path().join("pid")).unwrap();
    let alive =
        || std::process::Command::new("kill").args(["-0", pid.trim()]).output().unwrap().status.success();
    let end = Instant::now() + Duration::from_secs(5);
    while alive() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(!alive(), "the child of the server lives on");
}

#[test]
fn n19_n29_n30_warnings_hide_nothing() {
    let folder = desk();
    let flow = single("core:Expression", &json!({"cel": "1"}), &json!({}));
    write(folder.path(), "workflows/p\u{430}y.json", &flow);
    write(folder.path(), "workflows/pay.json", &flow);
    write(folder.path(), "workflows/\u{202e}evil\u{200b}.json", "{");
    let ran = weft(folder.path(), &["tool", "list"]);
    assert!(ran.stderr.contains("look alike"), "{ran:#?}");
    assert!(!ran.stderr.contains(['\u{202e}', '\u{200b}']), "{ran:#?}");
    let unknown = weft(folder.path(), &["tool", "show", "x\u{1b}]0;owned\u{7}\u{e0041}"]);
    assert!(!unknown.stderr.contains(['\u{1b}', '\u{7}', '\u{e0041}']), "{unknown:#?}");
}

#[test]
fn n22_a_proxy_of_the_environment_does_not_see_this_machine() {
    let proxy = StubServer::saying("HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    let model = StubServer::saying("HTTP/1.1 500 Oops\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    let folder = busy_project(&model.url(""));
    let through = proxy.url("");
    let variables = [("HTTP_PROXY", through.as_str()), ("http_proxy", &through), ("ALL_PROXY", &through)];
    let ran = weft_with(folder.path(), &["agent", "run", "gzip", "go"], "", &variables);
    assert!(ran.code != 0, "{ran:#?}");
    assert!(proxy.requests().is_empty() && !model.requests().is_empty(), "{ran:#?}");
}

//! Tools of command files, with real programs.
#![cfg(unix)]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may stop at the first surprise")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use agent_types::{
    ApprovalDefault, Budget, BudgetLimits, CallId, Clock, EventLocation, Recorder, RunId, SystemClock,
};
use serde_json::{Value, json};
use tool_command::{
    CommandFormat, CommandPolicy, CommandToolError, CommandToolFile, CommandTools, command_tool,
};
use tool_registry::{CallEnd, Reach, Services, Tool, ToolContext, ToolErrorKind, ToolOutput, ToolProvider};

/// Programs that the cases may run.
const PROGRAMS: [&str; 6] = ["cat", "env", "sh", "wc", "pwd", "tools/report.sh"];

fn policy(root: &Path) -> CommandPolicy {
    CommandPolicy::new(root).allowing(PROGRAMS).giving("CARGO_PKG_NAME", "env").giving("CARGO_PKG_NAME", "sh")
}

fn made(root: &Path, more: &Value) -> Result<Tool, CommandToolError> {
    let mut file = json!({"name": "t", "description": "d"});
    for (key, value) in more.as_object().unwrap() {
        file[key] = value.clone();
    }
    command_tool(&CommandToolFile::from_json(&file.to_string())?, &policy(root))
}

fn context(tool: &Tool) -> ToolContext {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let sink = Recorder::new(RunId::new("r"), Arc::clone(&clock));
    let budget = Budget::new(BudgetLimits::default());
    ToolContext::new(CallId::new("c"), tool.id().clone(), clock, budget, sink, EventLocation::default())
}

async fn end(root: &Path, file: &Value, arguments: Value) -> CallEnd {
    let tool = made(root, file).unwrap();
    tool.invoke(arguments.as_object().unwrap().clone(), context(&tool)).await.end
}

async fn text(root: &Path, file: &Value, arguments: Value) -> String {
    match end(root, file, arguments).await {
        CallEnd::Ok(output) => output.text(),
        other => panic!("{other:?}"),
    }
}

fn text_parameter(name: &str) -> Value {
    json!({"type": "object", "properties": {name: {}}})
}

#[tokio::test]
async fn arguments_are_given_by_stdin_or_one_by_one() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let (a, hostile) = (text_parameter("a"), json!({"a": "$(touch x); `touch x`\n> x"}));
    let by_json = json!({"command": ["cat"], "parameters": a});
    assert_eq!(text(root, &by_json, json!({"a": [1, "é"]})).await, r#"{"a":[1,"é"]}"#);
    let by_value = json!({"command": ["cat"], "parameters": a, "stdin": "{a}"});
    assert_eq!(text(root, &by_value, hostile.clone()).await, hostile["a"].as_str().unwrap());
    let by_argument = json!({"command": ["sh", "-c", "printf %s \"$1\"", "sh", "{a}"], "parameters": a});
    assert_eq!(text(root, &by_argument, hostile.clone()).await, hostile["a"].as_str().unwrap());
    assert!(!root.join("x").exists(), "no shell reads a value");
    let with_default = json!({"command": ["sh", "-c", "echo $1", "sh", "{n}"],
        "parameters": {"type": "object", "properties": {"n": {"type": "integer", "default": 3}}}});
    assert_eq!(text(root, &with_default, json!({})).await, "3");
}

#[tokio::test]
async fn the_environment_holds_what_is_listed() {
    let folder = tempfile::tempdir().unwrap();
    let list = json!({"command": ["env"], "env": {"MODE": "a b"}});
    assert_eq!(text(folder.path(), &list, json!({})).await, "MODE=a b");
    // A secret is given, and masked in everything that comes back.
    let secret = json!({"command": ["env"], "env": {"KEY": "k:{$secret.CARGO_PKG_NAME}"}});
    assert_eq!(text(folder.path(), &secret, json!({})).await, "KEY=k:***");
    let failing = json!({"command": ["sh", "-c", "echo key $KEY >&2; exit 3"], "env": {"KEY": "{$secret.CARGO_PKG_NAME}"}});
    let CallEnd::Failed(error) = end(folder.path(), &failing, json!({})).await else { panic!() };
    assert_eq!(
        (error.message_for_model.as_str(), error.code),
        ("`sh` failed (exit status: 3): key ***", Some("command_failed"))
    );
}

#[tokio::test]
async fn json_is_a_value() {
    let folder = tempfile::tempdir().unwrap();
    let file = |output: &str| json!({"command": ["cat"], "stdin": "{a}", "parameters": text_parameter("a"), "output": output});
    for (output, input, expected) in [
        ("auto", r#"{"b":1}"#, Ok(json!({"b": 1}))),
        ("auto", "12", Ok(json!("12"))),
        ("text", r#"{"b":1}"#, Ok(json!(r#"{"b":1}"#))),
        ("json", "12", Ok(json!(12))),
        ("json", "x", Err("command_bad_output")),
    ] {
        let got = match end(folder.path(), &file(output), json!({"a": input})).await {
            CallEnd::Ok(output) => Ok(output.value()),
            CallEnd::Failed(error) => Err(error.code.unwrap()),
            other => panic!("{other:?}"),
        };
        assert_eq!(got, expected, "{output} {input}");
    }
}

/// A script that leaves a child behind, which writes a file much later.
fn leaves_a_child(mark: &Path, then: &str) -> String {
    format!("(sleep 1; echo alive > {}) & {then}", mark.display())
}

#[tokio::test]
async fn children_end_with_the_call() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("mark");
    let file = |script: &str, more: Value| {
        let mut file = json!({"command": ["sh", "-c", script], "env_from": ["PATH"]});
        for (key, value) in more.as_object().unwrap() {
            file[key] = value.clone();
        }
        file
    };
    // A program that ends itself, one that takes too long, one that writes too much, and a call that is cancelled.
    let ended = file(&leaves_a_child(&mark, "echo done"), json!({}));
    assert_eq!(text(folder.path(), &ended, json!({})).await, "done");
    let slow = file(&leaves_a_child(&mark, "sleep 60"), json!({"timeout_ms": 200}));
    let limit = Duration::from_millis(200);
    assert_eq!(end(folder.path(), &slow, json!({})).await, CallEnd::TimedOut { limit });
    let endless =
        file(&leaves_a_child(&mark, "while :; do echo xxxxxxxxxxxxxxxx; done"), json!({"max_output_kib": 1}));
    let CallEnd::Failed(error) = end(folder.path(), &endless, json!({})).await else { panic!() };
    assert_eq!(error.message_for_model, "`sh` wrote more than 1024 bytes and was ended");
    assert_eq!(error.code, Some("command_output_too_long"));
    let tool = made(folder.path(), &file(&leaves_a_child(&mark, "sleep 60"), json!({}))).unwrap();
    let cx = context(&tool);
    let cancel = cx.cancel.clone();
    let call = tool.invoke(serde_json::Map::new(), cx);
    let (outcome, ()) = tokio::join!(call, async move {
        SystemClock.sleep(Duration::from_millis(200)).await;
        cancel.cancel();
    });
    assert_eq!(outcome.end, CallEnd::Cancelled);
    SystemClock.sleep(Duration::from_millis(1300)).await;
    assert!(!mark.exists(), "a child outlived its call");
}

#[tokio::test]
async fn the_working_folder_is_inside_the_project() {
    let (outside, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::create_dir(folder.path().join("data")).unwrap();
    std::os::unix::fs::symlink(outside.path(), folder.path().join("link")).unwrap();
    let here = folder.path().canonicalize().unwrap();
    let file = |cwd: &str| json!({"command": ["pwd"], "cwd": cwd});
    let at = text(&here, &file("data"), json!({})).await;
    assert_eq!(at.trim(), here.join("data").to_str().unwrap());
    let CallEnd::Failed(error) = end(&here, &file("link"), json!({})).await else { panic!() };
    assert_eq!((error.kind, error.code), (ToolErrorKind::Refused, Some("command_folder")));
    let error = made(&here, &file("../x")).unwrap_err();
    assert_eq!(error.to_string(), "cwd: `../x` is not a folder inside the project");
}

#[test]
fn a_call_is_an_effect_and_its_approval_covers_the_script() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("tools")).unwrap();
    std::fs::write(folder.path().join("tools/report.sh"), "echo one").unwrap();
    let tool = made(folder.path(), &json!({"command": ["tools/report.sh", "-v"]})).unwrap();
    assert!(tool.definition().annotations.effect && tool.approval() == ApprovalDefault::Ask);
    let digest = "5d103558eaead1115ccc8d98a33ccff8bb622fde768a7cfcef2cc9f7cf455f49";
    assert_eq!(tool.parts()["files"], json!({"tools/report.sh": digest}));
    assert_eq!(tool.parts()["command"], json!(["tools/report.sh", "-v"]));
    let reads = made(folder.path(), &json!({"command": ["wc"], "read_only": true})).unwrap();
    assert_eq!(reads.approval(), ApprovalDefault::Auto);
}

#[tokio::test]
async fn a_file_that_changed_since_its_approval_does_not_run() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let write = |name: &str, content: &[u8]| std::fs::write(root.join(name), content).unwrap();
    std::fs::create_dir(root.join("sub")).unwrap();
    for (name, file) in [
        ("pay.sh", json!({"command": ["sh", "pay.sh"]})),
        ("sub/pay.sh", json!({"command": ["sh", "./pay.sh"], "cwd": "sub"})),
    ] {
        // Neither the size nor the encoding of a script keeps it from being covered.
        let mut script = b"echo paid; exit 0\n# \xff".to_vec();
        script.resize(2 << 20, b'x');
        write(name, &script);
        let tool = made(root, &file).unwrap();
        let call = async || tool.invoke(serde_json::Map::new(), context(&tool)).await.end;
        assert_eq!(call().await, CallEnd::Ok(ToolOutput::Text("paid".into())));
        script[5] = b'q';
        write(name, &script);
        let CallEnd::Failed(error) = call().await else { panic!("{name}") };
        assert_eq!((error.kind, error.code), (ToolErrorKind::Refused, Some("command_changed")));
        assert_eq!(text(root, &file, json!({})).await, "qaid");
    }
    // A file that was missing when the call was approved.
    let tool = made(root, &json!({"command": ["sh", "late.sh"]})).unwrap();
    write("late.sh", b"echo late");
    let CallEnd::Failed(error) = tool.invoke(serde_json::Map::new(), context(&tool)).await.end else {
        panic!()
    };
    assert_eq!(error.code, Some("command_changed"));
    // Data of a call that changes nothing.
    write("data", b"1");
    let tool = made(root, &json!({"command": ["cat", "data"], "read_only": true})).unwrap();
    write("data", b"2");
    assert_eq!(
        tool.invoke(serde_json::Map::new(), context(&tool)).await.end,
        CallEnd::Ok(ToolOutput::Text("2".into()))
    );
}

#[tokio::test]
async fn a_process_that_is_left_behind_does_not_hold_the_call() {
    let folder = tempfile::tempdir().unwrap();
    let file = json!({"command": ["sh", "-c", "setsid sleep 20 & echo done"], "env_from": ["PATH"],
        "timeout_ms": 10_000});
    assert_eq!(text(folder.path(), &file, json!({})).await, "done");
}

#[tokio::test]
async fn a_secret_is_masked_before_errors_are_cut() {
    let folder = tempfile::tempdir().unwrap();
    let name = env!("CARGO_PKG_NAME");
    for more in 0..2 * name.len() {
        let script =
            format!("for i in $(seq 3000); do printf %s \"$KEY\" >&2; done; printf %{more}s >&2; exit 1");
        let file = json!({"command": ["sh", "-c", script], "env_from": ["PATH"],
            "env": {"KEY": "{$secret.CARGO_PKG_NAME}"}});
        let CallEnd::Failed(error) = end(folder.path(), &file, json!({})).await else { panic!() };
        let (_, shown) = error.message_for_model.split_once("): ").unwrap();
        assert!(shown.len() > 100 && shown.trim().chars().all(|c| c == '*'), "{shown}");
    }
}

#[test]
fn what_is_wrong_with_a_file_is_reported_with_a_fix() {
    let folder = tempfile::tempdir().unwrap();
    let parameters = text_parameter("text");
    for (file, expected) in [
        (json!({"command": []}), "bad_command_file: command: it names no program"),
        (json!({"command": ["rm"]}), "command_not_allowed: the program `rm` may not run"),
        (
            json!({"command": ["wc"], "env": {"A": "{$secret.B}"}}),
            "secret_not_allowed: the secret `B` may not be given to `wc`",
        ),
        (
            json!({"command": ["wc", "{txet}"], "parameters": parameters}),
            "unknown_placeholder: command.1: `{txet}` names no parameter; did you mean `text`?",
        ),
        (
            json!({"command": ["wc"], "stdin": "x{text}", "parameters": parameters}),
            "command_placeholder: stdin: it is `json`, `none` or one placeholder such as `{text}`",
        ),
        (
            json!({"command": ["wc"], "env_from": ["PAHT"]}),
            "command_environment: env_from: `PAHT` is not handed on; give it in `env`, as `{$secret.PAHT}` if it is secret; did you mean `PATH`?",
        ),
        (
            json!({"comand": ["wc"]}),
            "bad_command_file: unknown field `comand`, expected one of `name`, `description`, `parameters`, `command`, `stdin`, `output`, `cwd`, `env`, `env_from`, `timeout_ms`, `max_output_kib`, `read_only`; did you mean `command`?",
        ),
    ] {
        let error = made(folder.path(), &file).unwrap_err();
        assert_eq!(format!("{}: {error}", error.code()), expected);
    }
    let error = made(folder.path(), &json!({"command": ["rm"]})).unwrap_err();
    assert!(error.help().unwrap().ends_with("add to weft.toml:\n[commands]\nallow = [\"rm\"]"));
}

#[test]
fn files_are_tools_of_the_project() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("tools")).unwrap();
    let write =
        |name: &str, text: &str| std::fs::write(folder.path().join("tools").join(name), text).unwrap();
    write("count.command.json", r#"{"name": "count", "description": "d", "command": ["wc"]}"#);
    write("rm.command.json", r#"{"name": "rm", "description": "d", "command": ["rm"]}"#);
    write("odd.command.json", "{\n  \"name\": 1}");
    let tools = CommandTools::read(folder.path(), CommandFormat::new(policy(folder.path()))).unwrap();
    let listed = tools.list(Reach::Local);
    assert_eq!(listed[0].as_deref(), Ok("command:count"));
    let faults: Vec<_> = listed[1..].iter().map(|broken| broken.as_ref().unwrap_err()).collect();
    assert_eq!(
        faults.iter().map(|fault| fault.code).collect::<Vec<_>>(),
        ["bad_command_file", "command_not_allowed"]
    );
    assert_eq!(faults[0].place.as_ref().unwrap().line, Some(2));
    assert!(faults[1].help.as_ref().unwrap().contains("allow = [\"rm\"]"));
    let services = Services::new();
    assert!(matches!(tools.resolve("command:odd", &services), tool_registry::Resolution::Broken(_)));
    assert!(matches!(tools.resolve("command:other", &services), tool_registry::Resolution::NotMine));
}

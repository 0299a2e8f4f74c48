//! Bad input: code, location, fix, exit code.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use crate::common::{desk, weft, weft_with, write};
use serde_json::{Value, json};

/// Runs a command that fails and looks at what it says.
#[track_caller]
fn check(folder: &Path, arguments: &[&str], code: i32, said: &[&str]) {
    let ran = weft(folder, arguments);
    assert_eq!(ran.code, code, "{ran:#?}");
    for piece in said {
        assert!(ran.stderr.contains(piece), "{piece:?} in {}", ran.stderr);
    }
    assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
}

#[test]
fn what_is_not_there_is_named_with_the_near_name() {
    let folder = desk();
    let folder = folder.path();
    check(
        folder,
        &["agent", "show", "dsek"],
        2,
        &["error[unknown_agent]: unknown agent `dsek`", "help: did you mean `desk`?"],
    );
    check(
        folder,
        &["workflow", "show", "sumarize_text"],
        2,
        &["error[unknown_workflow]", "help: did you mean `summarize_text`?"],
    );
    check(
        folder,
        &["workflow", "check", "nowhere.json"],
        2,
        &["error[missing_file]: the file nowhere.json does not exist", "help:"],
    );
    check(folder, &["parse", "--tools", "nowhere.json"], 2, &["error[missing_file]"]);
    check(
        folder,
        &["node", "show", "core:TextTemplat"],
        2,
        &["error[unknown_type]", "did you mean `core:TextTemplate`?"],
    );
    check(folder, &["agent", "lst"], 2, &["error[usage]: unrecognized subcommand 'lst'", "'list'"]);
    let empty = tempfile::tempdir().unwrap();
    check(empty.path(), &["agent", "list"], 3, &["error[no_project]", "weft init"]);
    check(folder, &["init"], 2, &["error[file_exists]", "weft init DIR"]);
}

#[test]
fn ids_do_not_leave_the_project() {
    let folder = desk();
    write(folder.path(), "secret.json", r#"{"nodes": [], "edges": []}"#);
    for id in ["../secret", "a/../../secret", "/etc/passwd", "..\\secret"] {
        check(folder.path(), &["workflow", "show", id], 2, &["error[unknown_workflow]"]);
    }
}

#[test]
fn broken_files_are_told_with_line_and_column() {
    let folder = desk();
    let folder = folder.path();
    write(folder, "workflows/broken.json", "{\n  \"nodes\": [,\n");
    check(folder, &["workflow", "check", "broken"], 7, &["error[bad_workflow]", "broken.json:2:13"]);
    write(folder, "tools.json", "[\n {\"name\": }]");
    check(folder, &["parse", "--tools", "tools.json"], 7, &["error[bad_json]", "tools.json:2:11"]);
    write(folder, "agents/bad/agent_profile.json", "{\n  \"id\": 5\n}");
    check(folder, &["agent", "show", "bad"], 7, &["error[bad_profile]", "agent_profile.json:2:9"]);
    check(folder, &["agent", "list"], 7, &["error[bad_profile]"]);
    std::fs::write(folder.join("agents/bad/agent_profile.json"), b"{\n \"id\": \"\xff\"}").unwrap();
    check(
        folder,
        &["agent", "show", "bad"],
        7,
        &["error[bad_profile]: it is not UTF-8 (byte 11)", "agent_profile.json:2:9"],
    );
    write(folder, "weft.toml", "scirpt = \"x\"\n");
    check(folder, &["agent", "list"], 3, &["error[bad_settings]", "did you mean `script`?", "weft.toml:1:1"]);
}

#[test]
fn a_workflow_with_problems_tells_all_of_them() {
    let folder = desk();
    let folder = folder.path();
    let workflow = json!({"nodes": [
        {"id": "a", "type": "core:TextMerge"}, {"id": "b", "type": "core:TextMerge"},
        {"id": "c", "type": "core:TextTemplte"}],
        "edges": [
            {"source": "a", "sourceHandle": "merged_text", "target": "b", "targetHandle": "text_inputs__0"},
            {"source": "b", "sourceHandle": "merged_text", "target": "a", "targetHandle": "text_inputs__0"}]});
    write(folder, "workflows/bad.json", &workflow.to_string());
    check(
        folder,
        &["workflow", "check", "bad"],
        7,
        &["error[cycle]", "error[unknown_type]", "did you mean `core:TextTemplate`?", "bad.json"],
    );
    check(folder, &["workflow", "run", "bad"], 7, &["error[cycle]"]);
    let report = weft(folder, &["workflow", "check", "bad", "--output", "json"]);
    assert_eq!(report.code, 7);
    let report = report.json();
    assert_eq!(report["ok"], false);
    let codes: Vec<&Value> =
        report["problems"].as_array().unwrap().iter().map(|problem| &problem["code"]).collect();
    assert!(codes.contains(&&json!("cycle")) && codes.contains(&&json!("unknown_type")), "{codes:?}");
}

#[test]
fn inputs_that_do_not_fit_are_refused() {
    let folder = desk();
    let run = |inputs: &[&str], code: i32, said: &[&str]| {
        let arguments: Vec<&str> =
            ["workflow", "run", "summarize_text"].iter().chain(inputs).copied().collect();
        check(folder.path(), &arguments, code, said);
    };
    run(&[], 7, &["error[missing_parameter]: Missing input 'text_to_summarize'"]);
    run(
        &["-i", "text_to_summarise=x"],
        7,
        &["error[unknown_parameter]", "did you mean `text_to_summarize`?"],
    );
    run(&["-i", "text_to_summarize=x", "-i", "summary_length=long"], 7, &["error[invalid_argument]", "简短"]);
    run(&["-i", "nothing"], 2, &["error[usage]", "help: write k=text"]);
    run(&["-i", "text_to_summarize=@nowhere.txt"], 2, &["error[missing_file]"]);
}

#[test]
fn a_profile_that_cannot_run_says_why() {
    let folder = desk();
    let folder = folder.path();
    write(folder, "agents/b.json", r#"{"id": "b", "tool_ids_inventory": ["workflow:sumarize_text"]}"#);
    check(
        folder,
        &["agent", "run", "b", "x"],
        7,
        &["error[unknown_tool]", "help: did you mean `workflow:summarize_text`?", "b.json"],
    );
    check(folder, &["agent", "check"], 7, &["error[unknown_tool]"]);
    write(folder, "agents/c.json", r#"{"id": "c", "core_deliberation_workflow_id": "summarize_text"}"#);
    let wants = "it requires the input `text_to_summarize`";
    check(
        folder,
        &["agent", "run", "c", "x"],
        7,
        &["error[bad_deliberation]", wants, "help: weft workflow check"],
    );
    write(folder, "agents/d.json", r#"{"id": "c"}"#);
    check(folder, &["agent", "list"], 7, &["error[duplicate_agent]: two agents have the id `c`"]);
}

#[test]
fn a_missing_model_or_key_is_a_matter_of_configuration() {
    let folder = desk();
    let folder = folder.path();
    write(folder, "weft.toml", "[kb.Query]\npath = \"docs/**\"\n");
    check(
        folder,
        &["agent", "run", "desk", "x"],
        3,
        &["error[model_not_set]: no model is set", "OPENAI_BASE_URL"],
    );
    write(
        folder,
        "weft.toml",
        "[kb.Query]\npath = \"docs/**\"\n[models.default]\nprovider = \"openai\"\nmodel = \"m\"\napi_key_env = \"MY_SECRET_KEY\"\n",
    );
    check(
        folder,
        &["agent", "run", "desk", "x"],
        3,
        &["error[missing_key]", "help: put the key into MY_SECRET_KEY"],
    );
    write(folder, "weft.toml", "[models.default]\nprovider = \"opnai\"\nmodel = \"m\"\n");
    check(folder, &["agent", "run", "desk", "x"], 3, &["error[bad_settings]", "weft.toml:2:12"]);
}

#[test]
fn a_model_that_cannot_be_reached_is_told_and_keeps_the_key() {
    let folder = desk();
    let address = "http://127.0.0.1:9";
    let entry = format!(
        "[kb.Query]\npath = \"docs/**\"\n[models.default]\nprovider = \"openai\"\nmodel = \"m\"\nbase_url = \"{address}\"\nretries = 0\n"
    );
    write(folder.path(), "weft.toml", &entry);
    let variables = [("OPENAI_API_KEY", "sk-very-secret")];
    for form in ["text", "json", "jsonl"] {
        let ran = weft_with(folder.path(), &["agent", "run", "desk", "x", "--output", form], "", &variables);
        assert_eq!(ran.code, 4, "{ran:#?}");
        assert!(!ran.stdout.contains("sk-very") && !ran.stderr.contains("sk-very"), "{ran:#?}");
        let said = if form == "text" { &ran.stderr } else { &ran.stdout };
        assert!(said.contains("llm_failed") && said.contains("cannot be reached"), "{ran:#?}");
    }
}

#[test]
fn a_program_reads_errors_as_json() {
    let folder = desk();
    let ran = weft(folder.path(), &["agent", "show", "dsek", "--output", "json"]);
    let error: Value = serde_json::from_str(&ran.stderr).unwrap();
    assert_eq!(
        error,
        json!({"error": {"code": "unknown_agent", "message": "unknown agent `dsek`", "help": "did you mean `desk`?"}})
    );
}

/// A workflow whose one node leads to the result `r`.
fn of_one_node(node_type: &str, config: &Value, slot: &str) -> String {
    json!({"description": "d", "interfaceOutputs": {"r": {"dataFlowType": "WILDCARD"}},
        "nodes": [{"id": "n", "type": node_type, "configValues": config, "inputValues": {"messages": [{"role": "user", "content": "hi"}]}},
                  {"id": "out", "type": "core:GroupOutput"}],
        "edges": [{"source": "n", "sourceHandle": slot, "target": "out", "targetHandle": "r"}]})
    .to_string()
}

#[test]
fn a_run_that_needs_a_person_ends() {
    let folder = desk();
    let ask =
        of_one_node("core:Ask", &json!({"prompt": "Yes?"}), "answer").replace("\"inputValues\"", "\"x\"");
    write(folder.path(), "workflows/ask.json", &ask);
    let ran = weft(folder.path(), &["workflow", "run", "ask", "--output", "json"]);
    assert_eq!((ran.code, ran.json()["status"].clone()), (8, json!("waiting")), "{ran:?}");
}

#[test]
fn a_workflow_whose_model_cannot_be_reached() {
    let folder = desk();
    let call = of_one_node("core:GenericLlmRequest", &json!({}), "responseText");
    write(folder.path(), "workflows/call.json", &call);
    let variables = [("OPENAI_BASE_URL", "http://127.0.0.1:9"), ("OPENAI_MODEL", "x")];
    let ran = weft_with(folder.path(), &["workflow", "run", "call"], "", &variables);
    assert_eq!(ran.code, 4, "{ran:?}");
}

#[test]
fn a_profile_that_cannot_be_read_fails_the_check_of_all() {
    let folder = desk();
    write(folder.path(), "agents/bad.json", r#"{"id": "bad", "tool_ids_inventory": "x"}"#);
    check(folder.path(), &["agent", "check"], 7, &["error[bad_profile]"]);
}

#[test]
#[cfg(unix)]
fn a_closed_stdout_is_not_a_failure() {
    let folder = desk();
    let shell = |line: &str| {
        let program = env!("CARGO_BIN_EXE_weft");
        let status = crate::common::command(folder.path())
            .get_envs()
            .fold(
                std::process::Command::new("sh").arg("-c").arg(line.replace("weft", program)),
                |shell, (key, value)| match value {
                    Some(value) => shell.env(key, value),
                    None => shell.env_remove(key),
                },
            )
            .current_dir(folder.path())
            .status()
            .unwrap();
        status.code()
    };
    assert_eq!(shell("weft workflow show nope 2>/dev/full"), Some(2));
    assert_eq!(shell("weft agent run desk hi --output jsonl 2>/dev/full | head -1 >/dev/null"), Some(0));
}

#[test]
fn a_grammar_of_calls_needs_a_call() {
    let folder = desk();
    let folder = folder.path();
    write(folder, "none.json", "[]");
    let never = json!([{"name": "p", "description": "d", "parameters": {"type": "object",
        "properties": {"a": {"enum": []}}, "required": ["b"], "additionalProperties": false}}]);
    write(folder, "never.json", &never.to_string());
    for (file, said) in [("none.json", "no tools are named"), ("never.json", "none can be written: p")] {
        check(
            folder,
            &["grammar", "--format", "lark", "--required", "--tools", file],
            7,
            &["error[bad_tools]", said, "help:"],
        );
        let ran = weft(folder, &["grammar", "--format", "lark", "--tools", file]).ok();
        assert!(!ran.stderr.contains(": :"), "{}", ran.stderr);
    }
}

#[test]
fn an_unknown_state_of_runs_is_refused() {
    let folder = desk();
    let said = ["error[usage]: no run is in the state `runing`", "did you mean `running`?", "cancelled"];
    check(folder.path(), &["runs", "list", "--status", "runing"], 2, &said);
    weft(folder.path(), &["runs", "list", "--status", "interrupted"]).ok();
}

#[test]
fn an_import_of_nothing_says_why() {
    let folder = desk();
    let folder = folder.path();
    write(folder, "empty.json", r#"{"openapi": "3.1.0"}"#);
    let upload = json!({"openapi": "3.0.0", "servers": [{"url": "https://api.test"}], "paths": {
        "/up": {"post": {"requestBody": {"content": {"multipart/form-data": {}}}}}}});
    write(folder, "upload.json", &upload.to_string());
    for (file, said) in
        [("empty.json", "describes no operation"), ("upload.json", "no operation of the file can be a tool")]
    {
        check(folder, &["import", "openapi", file], 7, &["error[no_operations]", said, file, "help:"]);
        let ran = weft(folder, &["import", "openapi", file, "--output", "json"]);
        assert_eq!(ran.json()["tools"], json!([]));
        let error: Value = serde_json::from_str(&ran.stderr).unwrap();
        assert_eq!(error["error"]["code"], "no_operations");
    }
    check(folder, &["import", "openapi", "."], 2, &["error[usage]: . is a folder"]);
}

#[test]
fn missing_scenarios_are_reported() {
    let folder = desk();
    let folder = folder.path();
    let case = |id: &str, text: &str| {
        json!({"id": id, "script": [{"text": "x"}], "turns": [{"user": "hi", "expect": {"text": text}}]})
            .to_string()
    };
    write(folder, "one.jsonl", &case("greets", "x"));
    write(folder, "two.jsonl", &case("parts", "y"));
    write(folder, "none.jsonl", "\n");
    let ran = weft(folder, &["test", "one.jsonl", "two.jsonl"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stdout.starts_with("two.jsonl: parts: "), "{}", ran.stdout);
    check(folder, &["test", "one.jsonl", "--only", "greest"], 2, &["error[usage]", "did you mean `greets`?"]);
    check(folder, &["test", "one.jsonl", "none.jsonl"], 2, &["the file has no scenario", "none.jsonl"]);
}

#[test]
fn a_workflow_whose_name_is_no_id_takes_nothing_with_it() {
    let folder = desk();
    let folder = folder.path();
    let names: &[&str] = if cfg!(windows) { &["my flow"] } else { &["a:b", "my flow", ""] };
    for name in names {
        let text = r#"{"description": "d", "nodes": [], "edges": []}"#;
        write(folder, &format!("workflows/{name}.json"), text);
        let ran = weft(folder, &["tool", "list"]).ok();
        assert!(ran.stdout.contains("workflow:summarize_text"), "{ran:?}");
        let named = format!("`{name}` can be no id of a workflow");
        let said = ["error[bad_workflow_id]", named.as_str(), ".json", "help: parts of letters"];
        check(folder, &["workflow", "show", name], 7, &said);
        let path = format!("workflows/{name}.json");
        check(folder, &["workflow", "check", &path], 0, &["warning[bad_workflow_id]", &named, "help: parts"]);
        let doctor = weft(folder, &["doctor"]).stdout;
        assert!(doctor.contains(&named) && doctor.contains(&path), "{doctor}");
    }
}

#[test]
fn a_knowledge_base_that_cannot_be_searched_is_reported() {
    let folder = desk();
    let folder = folder.path();
    let settings = std::fs::read_to_string(folder.join("weft.toml")).unwrap();
    let bases =
        "[kb.Out]\npath = \"../x/**\"\n[kb.Gone]\npath = \"gone/*.md\"\n[kb.Mixed]\npath = \"mixed/**\"\n";
    write(folder, "weft.toml", &format!("{settings}\n{bases}"));
    write(folder, "mixed/good.md", "Good.");
    std::fs::write(folder.join("mixed/gbk.md"), b"\xc4\xe3").unwrap();
    std::fs::File::create(folder.join("mixed/large.md")).unwrap().set_len(17 << 20).unwrap();
    let report = weft(folder, &["doctor"]).stdout;
    for said in [
        "[kb.Out]: the pattern `../x/**` leaves the project",
        "[kb.Gone]: the pattern `gone/*.md` names no file with text [no_documents]",
        "[kb.Mixed]: it is not UTF-8 (byte 1) [bad_text]",
        "[kb.Mixed]: it is larger than 16 MiB [large_document]",
    ] {
        assert!(report.contains(said), "{said} in {report}");
    }
    let call = weft(folder, &["tool", "call", "kb:Mixed", "-i", "query=good"]).ok();
    assert!(call.stdout.contains("Good."), "{call:?}");
    assert_eq!(call.stderr.matches("it is not UTF-8").count(), 1, "{}", call.stderr);
}

/// A workflow with one node that names a model.
const NAMES_MODEL: &str = r#"{"description": "Asks.", "nodes": [{"id": "m", "type": "core:GenericLlmRequest",
    "configValues": {"profileId": "fats"}, "inputValues": {"messages": "hi"}}], "edges": []}"#;

#[test]
fn a_model_that_is_not_there_is_an_error_everywhere() {
    let folder = desk();
    let folder = folder.path();
    write(folder, "agents/b.json", r#"{"id": "b", "llm": {"profile": "fats"}}"#);
    write(folder, "workflows/asks.json", NAMES_MODEL);
    let fast = "[models.fast]\nprovider = \"openai\"\nbase_url = \"http://127.0.0.1:9\"\nmodel = \"m\"\n";
    for (models, help) in [(fast, "did you mean `fast`?"), ("", "write [models.fats] in weft.toml")] {
        write(
            folder,
            "weft.toml",
            &format!("script = \"script.jsonl\"\n[kb.Query]\npath = \"docs/**\"\n{models}"),
        );
        let said = ["error[unknown_model]: agent `b`: unknown model `fats`", help, "b.json"];
        check(folder, &["agent", "check", "b"], 3, &said);
        check(folder, &["agent", "run", "b", "x"], 3, &said);
        check(
            folder,
            &["workflow", "check", "asks"],
            7,
            &["error[unknown_model]", "`fats`", "asks.json, m.profileId"],
        );
        check(folder, &["workflow", "run", "asks"], 7, &["error[unknown_model]"]);
        let doctor = weft(folder, &["doctor"]);
        for what in ["error    agent b: ", "error    workflow asks: ", "[unknown_model]"] {
            assert!(doctor.stdout.contains(what), "{doctor:#?}");
        }
    }
    // With an entry, but none by default, the script does not play.
    write(folder, "weft.toml", &format!("script = \"script.jsonl\"\n[kb.Query]\npath = \"docs/**\"\n{fast}"));
    check(folder, &["agent", "run", "desk", "x"], 3, &["unknown model `default`", "`fast`"]);
}

#[test]
fn a_script_says_that_it_plays_and_an_error_names_its_model() {
    let folder = desk();
    let folder = folder.path();
    write(folder, "replies.jsonl", "{\"text\": \"Hello.\"}\n");
    for script in [None, Some("replies.jsonl")] {
        let mut arguments = vec!["agent", "run", "desk", "x"];
        arguments.extend(script.into_iter().flat_map(|file| ["--script", file]));
        let ran = weft(folder, &arguments);
        assert!(
            ran.stderr.lines().any(|line| line.starts_with("note: a script plays the model's part")),
            "{ran:#?}"
        );
    }
    let settings = "[kb.Query]\npath = \"docs/**\"\n[models.default]\nprovider = \"openai\"\nbase_url = \"http://127.0.0.1:9\"\nmodel = \"m\"\nretries = 0\n";
    write(folder, "weft.toml", settings);
    let said = [
        "`m`, [models.default], at http://127.0.0.1:9/v1/chat/completions: start that server, or fix `base_url`",
    ];
    check(folder, &["agent", "run", "desk", "x"], 4, &said);
}

#[test]
fn a_message_behind_an_interrupted_run_names_that_run() {
    let folder = desk();
    let folder = folder.path();
    write(folder, "hang.jsonl", "{\"hang\": true}\n");
    write(folder, "hi.jsonl", "{\"text\": \"Hello.\"}\n");
    let message = |text, script| ["agent", "run", "desk", text, "--thread", "t", "--script", script];
    let mut running = crate::common::command(folder);
    running.args(message("One", "hang.jsonl")).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut running = running.spawn().unwrap();
    // What is shown of a run is stored.
    BufReader::new(running.stderr.take().unwrap()).read_line(&mut String::new()).unwrap();
    running.kill().unwrap();
    running.wait().unwrap();
    let said =
        ["error[run_interrupted]", "was interrupted before its end", "weft runs resume", "weft runs cancel"];
    check(folder, &message("Two", "hi.jsonl"), 8, &said);
    weft(folder, &["runs", "cancel", "last"]);
    let ran = weft(folder, &message("Two", "hi.jsonl")).ok();
    assert_eq!(ran.stdout, "Hello.\n");
}

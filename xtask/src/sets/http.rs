//! HTTP operations of public APIs: each is a tool or has a reason, and what a tool sends is what a plain construction sends.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};

use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value, json};

use super::graphs::Scratch;
use super::plain::{Plain, plain_request};
use super::{Failure, Outcome, lines, shortened, text};
use crate::conformance::lines_through;

/// Requests that are compared byte by byte.
const COMPARED: usize = 50;

/// End of the reasons that an address takes away.
const ADDRESS: &str = "give one with --server";

/// A tool that was made of an operation.
struct Made {
    id: String,
    file: Value,
}

/// All operations, their tools, their names, and some of their requests.
pub(crate) fn operations(folder: &Path, weft: &Path) -> Result<Outcome> {
    let scratch = Scratch::new("http")?;
    let cases = lines(&folder.join("operations.jsonl"))?;
    let mut outcome = Outcome::default();
    let (tools, refused) = import_all(&cases, weft, &scratch.0, &mut outcome)?;
    load_all(&tools, weft, &scratch.0, &mut outcome)?;
    names_survive(&tools, weft, &scratch.0, &mut outcome)?;
    let sent = compare_requests(&cases, weft, &scratch.0, &mut outcome)?;
    println!(
        "  {} operations, {} refused with a reason; {} tools loaded, those among them that were given an address; {sent} requests compared",
        cases.len(),
        refused.values().sum::<usize>(),
        tools.len()
    );
    for (reason, count) in refused {
        println!("    {count} × {reason}");
    }
    Ok(outcome)
}

/// The operations of one API as a description in OpenAPI.
fn description(cases: &[&Value]) -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for case in cases {
        let mut operation = json!({"operationId": case["operation_id"], "summary": case["summary"],
            "parameters": case["parameters"], "servers": [{"url": case["server"]}]});
        if let Some(body) = case["body"].as_object() {
            let media = body["content_type"].as_str().unwrap_or_default();
            operation["requestBody"] =
                json!({"required": body["required"], "content": {media: {"schema": body["schema"]}}});
        }
        let method = case["method"].as_str().unwrap_or_default().to_lowercase();
        paths.entry(case["path"].as_str().unwrap_or_default()).or_insert_with(|| json!({}))[method] =
            operation;
    }
    json!({"openapi": "3.0.3", "info": {"title": "t", "version": "1"}, "paths": paths})
}

/// Imports a description and returns the report of the program, whatever its exit code.
fn import(weft: &Path, description: &Value, to: &Path, more: &[&str]) -> Result<Value> {
    fs::create_dir_all(to)?;
    let file = to.join("description.json");
    fs::write(&file, description.to_string())?;
    let output = Command::new(weft)
        .args(["import", "openapi", "--output", "json", "--force", "--to"])
        .arg(to)
        .args(more)
        .arg(&file)
        .output()?;
    serde_json::from_slice(&output.stdout)
        .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())
}

fn label(case: &Value) -> Result<String> {
    Ok(format!("{} {}", text(case, "method")?, text(case, "path")?))
}

/// Every operation is a tool, or is refused with a reason.
fn import_all(
    cases: &[Value],
    weft: &Path,
    scratch: &Path,
    outcome: &mut Outcome,
) -> Result<(Vec<Made>, BTreeMap<String, usize>)> {
    let mut apis: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for case in cases {
        apis.entry(text(case, "api")?).or_default().push(case);
    }
    let mut tools = Vec::new();
    let mut refused = BTreeMap::new();
    for (number, cases) in apis.values().enumerate() {
        let to = scratch.join(format!("api{number}"));
        let description = description(cases);
        let report = import(weft, &description, &to, &[])?;
        let list = |key: &str| report[key].as_array().cloned().unwrap_or_default();
        // What only lacks an address is a tool once it has one.
        let lacks_server = list("refused")
            .iter()
            .any(|one| one["reason"].as_str().is_some_and(|why| why.ends_with(ADDRESS)));
        let addressed = to.join("addressed");
        let with_server = if lacks_server {
            import(weft, &description, &addressed, &["--server", "https://api.test/base"])?
        } else {
            Value::Null
        };
        for case in cases {
            let (id, label) = (text(case, "id")?.to_owned(), label(case)?);
            let made = list("tools").into_iter().find(|tool| tool["operation"] == label.as_str());
            let reason = list("refused").into_iter().find(|one| one["operation"] == label.as_str());
            match (made, reason.as_ref().and_then(|one| one["reason"].as_str())) {
                (Some(made), None) => {
                    let file = to.join(format!("{}.tool.json", text(&made, "name")?));
                    tools.push(Made {
                        id: id.clone(),
                        file: serde_json::from_str(&fs::read_to_string(file)?)?,
                    });
                    record(outcome, &id, None);
                }
                (None, Some(reason)) if !reason.is_empty() => {
                    // Names and addresses apart, reasons are few.
                    let kind: Vec<&str> = reason.split('`').step_by(2).collect();
                    *refused.entry(kind.join("…")).or_default() += 1;
                    record(outcome, &id, None);
                    if reason.ends_with(ADDRESS) {
                        let made = with_server["tools"].as_array().into_iter().flatten();
                        let made = made.into_iter().find(|tool| tool["operation"] == label.as_str());
                        match made {
                            Some(made) => tools.push(made_of(&id, made, &addressed)?),
                            None => {
                                record(outcome, &format!("{id}, with an address"), Some("no tool".into()));
                            }
                        }
                    }
                }
                _ => record(outcome, &id, Some("neither a tool nor a reason".into())),
            }
        }
    }
    Ok((tools, refused))
}

/// The file of a tool that was written.
fn made_of(id: &str, made: &Value, folder: &Path) -> Result<Made> {
    let file = folder.join(format!("{}.tool.json", text(made, "name")?));
    Ok(Made { id: id.to_owned(), file: serde_json::from_str(&fs::read_to_string(file)?)? })
}

/// All tools in one project: the program loads each, and its schema with it.
fn load_all(tools: &[Made], weft: &Path, scratch: &Path, outcome: &mut Outcome) -> Result<()> {
    let project = scratch.join("project");
    fs::create_dir_all(project.join("tools"))?;
    fs::write(project.join("weft.toml"), "")?;
    for (number, tool) in tools.iter().enumerate() {
        let mut file = tool.file.clone();
        file["name"] = numbered(number, tool).into();
        fs::write(project.join(format!("tools/{number}.tool.json")), file.to_string())?;
    }
    let output =
        Command::new(weft).args(["tool", "check", "--output", "json", "-C"]).arg(&project).output()?;
    let files: Vec<Value> = serde_json::from_slice(&output.stdout)?;
    let good: BTreeSet<&str> =
        files.iter().filter(|one| one["ok"] == true).filter_map(|one| one["id"].as_str()).collect();
    for (number, tool) in tools.iter().enumerate() {
        let fault = (!good.contains(numbered(number, tool).as_str())).then(|| "it does not load".to_owned());
        record(outcome, &format!("{}, loaded", tool.id), fault);
    }
    Ok(())
}

/// A name that no tool of another API has.
fn numbered(number: usize, tool: &Made) -> String {
    format!("api:{number}.{}", tool.file["name"].as_str().unwrap_or_default())
}

/// The wire names of every tool and of its parameters lead back to them.
fn names_survive(tools: &[Made], weft: &Path, scratch: &Path, outcome: &mut Outcome) -> Result<()> {
    let offered: Vec<Value> = tools
        .iter()
        .enumerate()
        .map(|(number, tool)| {
            json!({"name": numbered(number, tool), "description": tool.file["description"], "parameters": tool.file["parameters"]})
        })
        .collect();
    let file = scratch.join("tools.json");
    fs::write(&file, Value::from(offered.clone()).to_string())?;
    let path = file.to_str().context("the path is a text")?;
    let printed = lines_through(weft, &["prompt", "--tools", path, "--dialect", "openai"], String::new())?;
    let rendered: Vec<Value> = serde_json::from_str(&printed.join("\n"))?;
    ensure!(rendered.len() == tools.len(), "{} of {} tools are rendered", rendered.len(), tools.len());
    let requests: Vec<String> = rendered
        .iter()
        .enumerate()
        .map(|(number, tool)| {
            let wire = tool["function"]["name"].as_str().unwrap_or_default();
            let properties = tool["function"]["parameters"]["properties"].as_object();
            let names = properties.into_iter().flat_map(Map::keys);
            let params: Vec<String> =
                names.map(|name| format!("<param name=\"{name}\">1</param>")).collect();
            let params = params.concat();
            json!({"id": number.to_string(), "input": format!("<tool_call name=\"{wire}\">{params}</tool_call>")}).to_string()
        })
        .collect();
    let answers = lines_through(weft, &["parse", "--jsonl", "--tools", path], requests.join("\n") + "\n")?;
    for ((number, tool), answer) in tools.iter().enumerate().zip(answers) {
        let answer: Value = serde_json::from_str(&answer)?;
        let found = [&answer["calls"], &answer["errors"]].into_iter().filter_map(Value::as_array).flatten();
        let found: Vec<&Value> = found.collect();
        let own = numbered(number, tool);
        let names_it = !found.is_empty() && found.iter().all(|one| one["tool"] == own.as_str());
        let lost = found.iter().any(|one| {
            matches!(one["code"].as_str(), Some("unknown_tool" | "unknown_parameter" | "missing_parameter"))
        });
        let fault = (!names_it || lost).then(|| shortened(&answer.to_string()));
        record(outcome, &format!("{}, names", tool.id), fault);
    }
    Ok(())
}

/// Sends requests of operations that lie evenly in the list, and compares what arrives with what a plain construction gives.
fn compare_requests(cases: &[Value], weft: &Path, scratch: &Path, outcome: &mut Outcome) -> Result<usize> {
    let (address, arrived) = listen()?;
    let project = scratch.join("sent");
    fs::create_dir_all(&project)?;
    fs::write(project.join("weft.toml"), format!("[network]\nallow = [\"{address}\"]\n"))?;
    let server = format!("http://{address}/base");
    let plain: Vec<(&Value, Plain)> = cases
        .iter()
        .filter_map(|case| Some((case, plain_request(case, "/base", &address.to_string())?)))
        .collect();
    let step = (plain.len() / COMPARED).max(1);
    let chosen: Vec<&(&Value, Plain)> = plain.iter().step_by(step).take(COMPARED).collect();
    for (case, plain) in &chosen {
        let id = format!("{}, sent", text(case, "id")?);
        let report = import(weft, &description(&[case]), &project.join("tools"), &["--server", &server])?;
        let Some(name) = report["tools"][0]["name"].as_str() else {
            record(outcome, &id, Some(shortened(&report.to_string())));
            continue;
        };
        let arguments = project.join("arguments.json");
        fs::write(&arguments, Value::from(plain.arguments.clone()).to_string())?;
        let output = Command::new(weft)
            .args(["tool", "call", name, "--output", "json", "-C"])
            .arg(&project)
            .arg("--input")
            .arg(&arguments)
            .output()?;
        let fault = if output.status.success() {
            let request = arrived.recv()?;
            (request != plain.request).then_some(request)
        } else {
            Some(String::from_utf8_lossy(&output.stdout).into_owned())
        };
        match fault {
            None => outcome.passed += 1,
            Some(got) => outcome.failed.push(Failure { id, wanted: plain.request.clone(), got }),
        }
        fs::remove_file(project.join(format!("tools/{name}.tool.json")))?;
    }
    Ok(chosen.len())
}

/// A server that says yes to everything and hands on each request.
fn listen() -> Result<(SocketAddr, Receiver<String>)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut bytes = Vec::new();
            let mut buffer = [0; 4096];
            while !is_whole(&bytes) {
                match stream.read(&mut buffer) {
                    Ok(0) | Err(_) => break,
                    Ok(read) => bytes.extend_from_slice(&buffer[..read]),
                }
            }
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
            // Who is gone needs no answer.
            let _ = stream.write_all(answer);
            if sender.send(String::from_utf8_lossy(&bytes).into_owned()).is_err() {
                return;
            }
        }
    });
    Ok((address, receiver))
}

fn is_whole(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    body.len() >= length.unwrap_or(0)
}

fn record(outcome: &mut Outcome, id: &str, fault: Option<String>) {
    match fault {
        None => outcome.passed += 1,
        Some(got) => outcome.failed.push(Failure { id: id.to_owned(), wanted: String::new(), got }),
    }
}

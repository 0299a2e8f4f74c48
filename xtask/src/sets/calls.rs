//! Calls of other projects, written as text; and names that were damaged.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{Case, Program, Set, lines, text};
use crate::conformance::lines_through;

/// True calls in three styles, invalid ones, damaged names, and all schemas in four dialects.
pub(super) fn bfcl(folder: &Path, weft: &Path) -> Result<Vec<Set>> {
    let tools = tools_by_id(&folder.join("tools.jsonl"))?;
    let cases = lines(&folder.join("cases.jsonl"))?;
    Ok(vec![
        Set::parse("bfcl", true_calls(&cases, &tools)?),
        Set::parse("bfcl, invalid calls", invalid_calls(&cases, &tools)?),
        Set::parse("did you mean: parameters", near_parameters(folder, &tools)?),
        Set::parse("did you mean: tools", near_tools(folder)?),
        wire_names(&tools, weft)?,
    ])
}

pub(super) fn tau2(folder: &Path) -> Result<Set> {
    let tools = tools_by_id(&folder.join("tools.jsonl"))?;
    Ok(Set::parse("tau2", tau2_cases(folder, &tools)?))
}

fn tools_by_id(path: &Path) -> Result<BTreeMap<String, Value>> {
    let tools = lines(path)?.into_iter().map(|tool| {
        let offered = json!({"name": tool["name"], "parameters": tool["parameters"],
            "description": tool.get("description").cloned().unwrap_or_default()});
        Ok((text(&tool, "id")?.to_owned(), offered))
    });
    tools.collect()
}

fn wanted_calls(calls: &Value) -> Value {
    let calls = calls.as_array().into_iter().flatten();
    json!({"calls": calls.map(|call| json!({"tool": call["name"], "arguments": call["arguments"]})).collect::<Vec<_>>()})
}

/// The tools that a case offers, where all of them are known.
fn offered<'t>(case: &Value, tools: &'t BTreeMap<String, Value>) -> Option<Vec<&'t Value>> {
    case["tools"].as_array()?.iter().map(|id| tools.get(id.as_str()?)).collect()
}

fn has_calls(case: &Value) -> bool {
    case["calls"].as_array().is_some_and(|calls| !calls.is_empty())
}

/// The true calls in each of their written forms; those that do not fit their own schema are left out.
fn true_calls(cases: &[Value], tools: &BTreeMap<String, Value>) -> Result<Vec<Case>> {
    let mut judged = Vec::new();
    for case in cases.iter().filter(|case| has_calls(case) && case["valid"] != Value::Bool(false)) {
        let Some(offered) = offered(case, tools) else { continue };
        for (style, input) in case["inputs"].as_object().into_iter().flatten() {
            let id = format!("{}/{style}", text(case, "id")?);
            judged.push(Case {
                request: json!({"id": id, "input": input, "tools": offered}),
                wanted: vec![wanted_calls(&case["calls"])],
                id,
            });
        }
    }
    Ok(judged)
}

/// Calls that do not fit their own schema, as native calls, so that each value has its type: refused, and the fault is named.
fn invalid_calls(cases: &[Value], tools: &BTreeMap<String, Value>) -> Result<Vec<Case>> {
    let mut judged = Vec::new();
    for case in cases.iter().filter(|case| has_calls(case) && case["valid"] == Value::Bool(false)) {
        let Some(offered) = offered(case, tools) else { continue };
        let id = text(case, "id")?.to_owned();
        let native = case["calls"].as_array().into_iter().flatten();
        let native: Vec<Value> = native
            .map(|call| json!({"name": call["name"], "arguments": call["arguments"].to_string()}))
            .collect();
        // The reason begins with the parameter, or ends with it.
        let why = text(case, "invalid_why")?;
        let quoted = why.split('\'').nth(1).unwrap_or_default();
        let named = match (why.split(':').next().unwrap_or_default(), why.rsplit(' ').next()) {
            ("", _) => quoted,
            (_, Some(last)) if why.starts_with("unknown parameter") => last,
            (first, _) => first.rsplit('/').next().unwrap_or(first),
        };
        let codes = ["invalid_argument", "unknown_parameter", "missing_parameter"];
        let wanted = codes.map(|code| json!({"error": {"code": code, "message_contains": [named]}})).to_vec();
        judged.push(Case {
            request: json!({"id": id, "input": "", "tools": offered, "native": native}),
            wanted,
            id,
        });
    }
    Ok(judged)
}

/// Damaged names of tools: the fault names the right one.
fn near_tools(folder: &Path) -> Result<Vec<Case>> {
    let mut judged = Vec::new();
    for case in lines(&folder.join("did_you_mean.jsonl"))? {
        let bad = text(&case, "bad")?;
        let is_name = !bad.contains(['<', '>', '&', '/', '=', ' ', '\t', '"']);
        if case["target"] != "tool" || case["clear"] != Value::Bool(true) || !is_name {
            continue;
        }
        let id = text(&case, "id")?.to_owned();
        let names = case["candidates"].as_array().into_iter().flatten();
        let offered: Vec<Value> = names.map(|name| json!({"name": name})).collect();
        let unknown = json!({"error": {"code": "unknown_tool", "message_contains": [case["expect"]]}});
        // What differs in case and separators only is the tool itself.
        let mended = json!({"calls": [{"tool": case["expect"], "arguments": {}}]});
        judged.push(Case {
            request: json!({"id": id, "input": format!("<tool_call name=\"{bad}\"></tool_call>"), "tools": offered}),
            wanted: vec![unknown, mended],
            id,
        });
    }
    Ok(judged)
}

/// Every tool registered as `bfcl:<id>` is rendered in four dialects, and its wire name leads back to it.
fn wire_names(tools: &BTreeMap<String, Value>, weft: &Path) -> Result<Set> {
    let registered: Vec<Value> = tools
        .iter()
        .map(|(id, tool)| {
            json!({"name": format!("bfcl:{id}"), "description": tool["description"], "parameters": tool["parameters"]})
        })
        .collect();
    let file = std::env::temp_dir().join(format!("weft-tools-{}.json", std::process::id()));
    std::fs::write(&file, Value::from(registered).to_string())?;
    let path = file.to_str().context("the path is a text")?;
    let mut names = Vec::new();
    for dialect in ["openai", "anthropic", "gemini", "mcp"] {
        let printed = lines_through(weft, &["prompt", "--tools", path, "--dialect", dialect], String::new())?;
        let rendered: Vec<Value> = serde_json::from_str(&printed.join("\n"))?;
        ensure!(rendered.len() == tools.len(), "{dialect}: {} of {} tools", rendered.len(), tools.len());
        let named = rendered.iter().map(|tool| {
            let name = tool.pointer("/function/name").or_else(|| tool.get("name"));
            name.and_then(Value::as_str).unwrap_or_default().to_owned()
        });
        names = named.collect();
        let distinct: BTreeSet<&String> = names.iter().collect();
        ensure!(distinct.len() == tools.len(), "{dialect}: wire names are not distinct");
    }
    let cases = tools.keys().zip(&names).map(|(id, wire)| Case {
        id: id.clone(),
        request: json!({"id": id, "input": format!("<tool_call name=\"{wire}\"></tool_call>")}),
        wanted: vec![json!({"names_tool": format!("bfcl:{id}")})],
    });
    let cases = cases.collect();
    Ok(Set {
        name: "bfcl schemas and wire names".into(),
        program: Program::Parse(vec!["--tools".into(), path.to_owned()]),
        cases,
    })
}

/// Damaged names of parameters: the fault names the right one.
fn near_parameters(folder: &Path, tools: &BTreeMap<String, Value>) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for case in lines(&folder.join("did_you_mean.jsonl"))? {
        let bad = text(&case, "bad")?;
        let is_name = !bad.contains(['<', '>', '&', '/', '=', ' ', '\t']);
        let (true, true, Some(tool)) = (
            case["target"] == "parameter" && is_name,
            case["clear"] == Value::Bool(true),
            case["tool"].as_str().and_then(|id| tools.get(id)),
        ) else {
            continue;
        };
        let id = text(&case, "id")?.to_owned();
        let input = format!(
            "<tool_call name=\"{}\"><param name=\"{bad}\">1</param></tool_call>",
            text(tool, "name")?
        );
        cases.push(Case {
            request: json!({"id": id, "input": input, "tools": [tool]}),
            wanted: vec![
                json!({"error": {"code": "unknown_parameter", "message_contains": [case["expect"]]}}),
            ],
            id,
        });
    }
    Ok(cases)
}

fn tau2_cases(folder: &Path, tools: &BTreeMap<String, Value>) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for case in lines(&folder.join("calls.jsonl"))? {
        let tool = case["tool"].as_str().and_then(|id| tools.get(id));
        let (Some(tool), true) = (tool, case["valid"] != Value::Bool(false)) else { continue };
        let id = text(&case, "id")?.to_owned();
        cases.push(Case {
            request: json!({"id": id, "input": case["input"], "tools": [tool]}),
            wanted: vec![wanted_calls(&case["calls"])],
            id,
        });
    }
    Ok(cases)
}

//! Cases of the protocol: what is wanted, what came, and whether the one is the other.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

use crate::conformance::lines_through;

/// A set of cases of one kind.
pub(crate) struct Set {
    pub(crate) name: String,
    /// Extra options of `weft parse --jsonl`.
    options: Vec<String>,
    cases: Vec<Case>,
}

struct Case {
    id: String,
    request: Value,
    /// Any of these will do; the first is the best.
    wanted: Vec<Value>,
}

/// How a set went.
#[derive(Default)]
pub(crate) struct Outcome {
    pub(crate) passed: usize,
    pub(crate) failed: Vec<Failure>,
}

/// A case that failed.
pub(crate) struct Failure {
    pub(crate) id: String,
    pub(crate) wanted: String,
    pub(crate) got: String,
}

/// Every set whose data are there: the protocol whole and in pieces, and calls of other projects.
pub(crate) fn sets(data: &Path) -> Result<Vec<Set>> {
    let mut sets = Vec::new();
    let protocol = data.join("cases/protocol.jsonl");
    if protocol.is_file() {
        for (name, options) in [
            ("protocol", vec![]),
            ("protocol in pieces of 1", vec!["--stream".to_owned(), "1".to_owned()]),
            ("protocol in pieces of 4", vec!["--stream".to_owned(), "4".to_owned()]),
        ] {
            let cases = lines(&protocol)?.iter().map(protocol_case).collect::<Result<_>>()?;
            sets.push(Set { name: name.into(), options, cases });
        }
    }
    let bfcl = data.join("data/bfcl");
    if bfcl.is_dir() {
        let tools = tools_by_id(&bfcl.join("tools.jsonl"))?;
        sets.push(Set { name: "bfcl".into(), options: vec![], cases: bfcl_cases(&bfcl, &tools)? });
        sets.push(Set { name: "did you mean".into(), options: vec![], cases: near_cases(&bfcl, &tools)? });
    }
    let tau2 = data.join("data/tau2");
    if tau2.is_dir() {
        let tools = tools_by_id(&tau2.join("tools.jsonl"))?;
        sets.push(Set { name: "tau2".into(), options: vec![], cases: tau2_cases(&tau2, &tools)? });
    }
    Ok(sets)
}

impl Set {
    /// Runs all cases through the program.
    pub(crate) fn run(&self, weft: &Path) -> Result<Outcome> {
        let requests: Vec<String> = self.cases.iter().map(|case| case.request.to_string()).collect();
        let options: Vec<&str> =
            ["parse", "--jsonl"].into_iter().chain(self.options.iter().map(String::as_str)).collect();
        let printed = lines_through(weft, &options, requests.join("\n") + "\n")?;
        let mut results = HashMap::new();
        for line in printed {
            let result: Value = serde_json::from_str(&line)?;
            results.insert(result["id"].as_str().unwrap_or_default().to_owned(), result);
        }
        let mut outcome = Outcome::default();
        for case in &self.cases {
            let got = results.get(&case.id).unwrap_or(&Value::Null);
            if case.wanted.iter().any(|wanted| fits(got, wanted)) {
                outcome.passed += 1;
            } else {
                outcome.failed.push(Failure {
                    id: case.id.clone(),
                    wanted: shortened(&case.wanted.first().unwrap_or(&Value::Null).to_string()),
                    got: shortened(&got.to_string()),
                });
            }
        }
        Ok(outcome)
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(400).collect()
}

fn lines(path: &Path) -> Result<Vec<Value>> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines.map(|line| serde_json::from_str(line).with_context(|| path.display().to_string())).collect()
}

fn text<'v>(value: &'v Value, key: &str) -> Result<&'v str> {
    value[key].as_str().with_context(|| format!("no text `{key}` in {}", shortened(&value.to_string())))
}

fn protocol_case(case: &Value) -> Result<Case> {
    let id = text(case, "id")?.to_owned();
    let table = case.get("expand").and_then(Value::as_object).cloned().unwrap_or_default();
    let mut request = json!({"id": id, "input": expanded(&case["input"], &table), "tools": case["tools"]});
    if let Some(native) = case.get("native") {
        request["native"] = native.clone();
    }
    let best = std::iter::once(&case["expect"]);
    let accepted = case.get("accept").and_then(Value::as_array).into_iter().flatten();
    let wanted = best.chain(accepted).map(|wanted| expanded(wanted, &table)).collect();
    Ok(Case { id, request, wanted })
}

/// Placeholders replaced by their units, repeated.
fn expanded(value: &Value, table: &Map<String, Value>) -> Value {
    match value {
        Value::String(text) => {
            let replaced = table.iter().fold(text.clone(), |text, (key, entry)| {
                let times = entry["times"].as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
                text.replace(key, &entry["unit"].as_str().unwrap_or_default().repeat(times))
            });
            replaced.into()
        }
        Value::Array(items) => items.iter().map(|item| expanded(item, table)).collect(),
        Value::Object(object) => {
            object.iter().map(|(key, value)| (key.clone(), expanded(value, table))).collect()
        }
        other => other.clone(),
    }
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

/// The true calls in each of their written forms; those that do not fit their own schema are left out.
fn bfcl_cases(folder: &Path, tools: &BTreeMap<String, Value>) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for case in lines(&folder.join("cases.jsonl"))? {
        let has_calls = case["calls"].as_array().is_some_and(|calls| !calls.is_empty());
        let is_valid = case["valid"] != Value::Bool(false);
        let ids = case["tools"].as_array().into_iter().flatten();
        let offered: Option<Vec<&Value>> = ids.map(|id| tools.get(id.as_str()?)).collect();
        let (true, true, Some(offered)) = (has_calls, is_valid, offered) else { continue };
        for (style, input) in case["inputs"].as_object().into_iter().flatten() {
            let id = format!("{}/{style}", text(&case, "id")?);
            cases.push(Case {
                request: json!({"id": id, "input": input, "tools": offered}),
                wanted: vec![wanted_calls(&case["calls"])],
                id,
            });
        }
    }
    Ok(cases)
}

/// Damaged names of parameters: the fault names the right one.
fn near_cases(folder: &Path, tools: &BTreeMap<String, Value>) -> Result<Vec<Case>> {
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

/// Whether a result is one that a fair judge would pass.
fn fits(got: &Value, wanted: &Value) -> bool {
    if wanted["any_calls"] == Value::Bool(true) {
        return true;
    }
    let errors: Vec<&Value> = got["errors"].as_array().into_iter().flatten().collect();
    if let Some(error) = wanted.get("error") {
        return errors.iter().any(|got| error_fits(got, error));
    }
    let trimmed = |value: &Value| value.as_str().unwrap_or_default().trim().to_owned();
    let texts_fit = ["text_before", "text_after"].into_iter().all(|key| {
        wanted.get(key).is_none_or(|wanted| wanted.is_null() || trimmed(&got[key]) == trimmed(wanted))
    });
    errors.is_empty() && texts_fit && calls_fit(&got["calls"], &wanted["calls"])
}

fn error_fits(got: &Value, wanted: &Value) -> bool {
    let said = ["message", "hint", "tool", "parameter"]
        .map(|key| got[key].as_str().unwrap_or_default().to_lowercase());
    let pieces = wanted["message_contains"].as_array().into_iter().flatten().filter_map(Value::as_str);
    got["code"] == wanted["code"]
        && pieces.into_iter().all(|piece| said.iter().any(|said| said.contains(&piece.to_lowercase())))
}

fn calls_fit(got: &Value, wanted: &Value) -> bool {
    let empty = Vec::new();
    let (got, wanted) = (got.as_array().unwrap_or(&empty), wanted.as_array().unwrap_or(&empty));
    got.len() == wanted.len()
        && got.iter().zip(wanted).all(|(got, wanted)| {
            got["tool"] == wanted["tool"] && same(&got["arguments"], &wanted["arguments"])
        })
}

/// Equal as JSON values: 2 and 2.0 are, whole numbers exactly.
fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(a), Value::Number(b)) => {
            a == b || ((a.is_f64() || b.is_f64()) && a.as_f64() == b.as_f64())
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        (left, right) => left == right,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_judged_fairly() {
        let got =
            json!({"text_before": " Go. ", "calls": [{"tool": "t", "arguments": {"n": 2}}], "errors": []});
        assert!(fits(
            &got,
            &json!({"text_before": "Go.", "calls": [{"tool": "t", "arguments": {"n": 2.0}}]})
        ));
        assert!(!fits(&got, &json!({"text_before": "Go.", "calls": []})));
        let got = json!({"errors": [{"code": "unknown_tool", "message": "Unknown tool 'X'"}]});
        assert!(fits(&got, &json!({"error": {"code": "unknown_tool", "message_contains": ["x"]}})));
        assert!(!fits(&got, &json!({"calls": []})));
    }

    #[test]
    fn placeholders_are_repeated() {
        let table = json!({"@@": {"unit": "ab", "times": 3}});
        assert_eq!(expanded(&json!(["x@@"]), table.as_object().unwrap()), json!(["xababab"]));
    }
}

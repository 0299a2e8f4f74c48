//! Texts of other parsers' tests, and of the XML test suite.

use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};

use super::{Case, Set, lines, text};

/// Texts that another parser read, put inside a block: the same calls.
pub(super) fn action(folder: &Path) -> Result<Set> {
    let mut cases = Vec::new();
    for case in lines(&folder.join("cases.jsonl"))? {
        let Some(input) = case.get("input_action").filter(|input| input.is_string()) else { continue };
        let id = text(&case, "id")?.to_owned();
        let calls = case["expected"]["calls"].as_array().into_iter().flatten();
        let calls: Vec<Value> =
            calls.map(|call| json!({"tool": call["name"], "arguments": call["arguments"]})).collect();
        let offered = offered(&case, &calls);
        cases.push(Case {
            request: json!({"id": id, "input": input, "tools": offered}),
            wanted: vec![json!({"calls": calls})],
            id,
        });
    }
    Ok(Set::parse("toolcall texts in a block", cases))
}

/// The same texts as they were sent, without a block: calls, errors, or an attempt that is named.
pub(super) fn as_sent(folder: &Path) -> Result<Set> {
    let mut cases = Vec::new();
    for case in lines(&folder.join("cases.jsonl"))? {
        let calls = case["expected"]["calls"].as_array().into_iter().flatten();
        let calls: Vec<Value> =
            calls.map(|call| json!({"tool": call["name"], "arguments": call["arguments"]})).collect();
        if calls.is_empty() {
            continue;
        }
        let id = text(&case, "id")?.to_owned();
        let request = json!({"id": id, "input": case["input"], "tools": offered(&case, &calls)});
        cases.push(Case { request, wanted: vec![json!({"silent": false})], id });
    }
    Ok(Set::parse("toolcall texts as sent", cases))
}

/// The tools of a case; where it has none, tools that take what the calls hold, as texts.
fn offered(case: &Value, calls: &[Value]) -> Value {
    match case["tools"].as_array() {
        Some(tools) if !tools.is_empty() => tools.clone().into(),
        _ => calls
            .iter()
            .map(|call| {
                let names = call["arguments"].as_object().into_iter().flatten();
                let properties: serde_json::Map<String, Value> = names
                    .map(|(name, value)| {
                        let schema = if value.is_string() { json!({"type": "string"}) } else { json!({}) };
                        (name.clone(), schema)
                    })
                    .collect();
                (call["tool"].as_str().unwrap_or_default().to_owned(), properties)
            })
            .fold(std::collections::BTreeMap::<_, serde_json::Map<_, _>>::new(), |mut tools, (name, properties)| {
                tools.entry(name).or_default().extend(properties);
                tools
            })
            .into_iter()
            .map(|(name, properties)| json!({"name": name, "parameters": {"type": "object", "properties": properties}}))
            .collect(),
    }
}

/// Documents of the XML suite, bare and in a block: an answer, whatever they hold.
pub(super) fn xml(folder: &Path) -> Result<Set> {
    let mut cases = Vec::new();
    for (number, case) in lines(&folder.join("w3c.jsonl"))?.iter().enumerate() {
        let Some(xml) = case["xml"].as_str() else { continue };
        for (form, input) in [("bare", xml.to_owned()), ("block", format!("<ACTION>{xml}</ACTION>"))] {
            let id = format!("{}/{number}/{form}", text(case, "id")?);
            cases.push(Case {
                request: json!({"id": id, "input": input}),
                wanted: vec![json!({"answered": true})],
                id,
            });
        }
    }
    Ok(Set::parse("xml", cases))
}

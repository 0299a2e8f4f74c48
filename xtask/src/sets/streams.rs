//! Answers of model servers, as they were recorded on the wire.

use std::path::Path;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::{Failure, Outcome, lines, shortened, text};
use crate::conformance::lines_through;
use crate::workspace;

/// Pieces that a body is sent in, in bytes: whole, and small enough to part characters and lines.
const PIECES: [Option<u64>; 2] = [None, Some(5)];

/// Streams give text, reasoning, calls and why the model stopped; error answers give an error that repeats what was said.
///
/// Whole answers are left out: weft always asks for a stream.
pub(crate) fn recorded(folder: &Path, _: &Path) -> Result<Outcome> {
    let mut cases = lines(&folder.join("streams.jsonl"))?;
    let replies = lines(&folder.join("replies.jsonl"))?;
    cases.extend(replies.into_iter().filter(|reply| reply["expect"]["error"] == true));
    let example = workspace::example("read_streams")?;
    let mut outcome = Outcome::default();
    for piece in PIECES {
        let request = |case: &Value| {
            json!({"id": case["id"], "wire": case["wire"], "status": case["status"], "body": case["body"], "piece": piece})
                .to_string()
        };
        let input: Vec<String> = cases.iter().map(request).collect();
        let printed = lines_through(&example, &[], input.join("\n") + "\n")?;
        ensure!(printed.len() == cases.len(), "{} answers to {} streams", printed.len(), cases.len());
        for (case, line) in cases.iter().zip(printed) {
            let got: Value = serde_json::from_str(&line)?;
            match fault(case, &got) {
                None => outcome.passed += 1,
                Some(fault) => outcome.failed.push(Failure {
                    id: format!(
                        "{}{}",
                        text(case, "id")?,
                        piece.map_or_else(String::new, |size| format!(" in {size}s"))
                    ),
                    wanted: shortened(&fault),
                    got: shortened(&line),
                }),
            }
        }
    }
    Ok(outcome)
}

/// Deviation of an answer from the expected one.
fn fault(case: &Value, got: &Value) -> Option<String> {
    let wanted = &case["expect"];
    if wanted["error"] == true {
        let message = got.pointer("/error/message").and_then(Value::as_str).unwrap_or_default();
        let is_key = got.pointer("/error/code").is_some_and(|code| code == "authentication");
        // Refusals of keys come without the message of the server, and long messages are cut.
        let beginning: String = sentence(case).chars().take(100).collect();
        return (!is_key && !message.contains(&beginning)).then_some(beginning);
    }
    if wanted["finish"] == "response.failed" {
        return got.get("error").is_none().then(|| "an error".to_owned());
    }
    for key in ["text", "reasoning"] {
        if got[key] != wanted[key] {
            return Some(format!("{key} {}", wanted[key]));
        }
    }
    let calls = wanted["calls"].as_array().map(Vec::as_slice).unwrap_or_default();
    let got_calls = got["calls"].as_array().map(Vec::as_slice).unwrap_or_default();
    let same = calls.len() == got_calls.len()
        && calls.iter().zip(got_calls).all(|(wanted, got)| is_call(wanted, got));
    if !same {
        return Some(format!("calls {}", wanted["calls"]));
    }
    let finish = finish(wanted["finish"].as_str().unwrap_or_default(), !calls.is_empty());
    (got["finish"] != finish).then(|| format!("finish {finish}"))
}

/// Expected message of a server about an error.
fn sentence(case: &Value) -> String {
    let body =
        case["body"].as_str().and_then(|body| serde_json::from_str::<Value>(body).ok()).unwrap_or_default();
    let places = ["/error/message", "/error", "/message", "/detail"];
    places.iter().find_map(|place| body.pointer(place)?.as_str()).unwrap_or("a sentence").to_owned()
}

fn is_call(wanted: &Value, got: &Value) -> bool {
    let text = got["arguments"].as_str().unwrap_or_default();
    let fits = match &wanted["arguments"] {
        Value::Null => wanted.get("raw").is_none_or(|raw| raw == text),
        // A call without arguments may come without their text.
        object if text.trim().is_empty() => object.as_object().is_some_and(serde_json::Map::is_empty),
        object => serde_json::from_str::<Value>(text).is_ok_and(|arguments| arguments == *object),
    };
    wanted["name"] == got["name"] && fits
}

/// The word that weft has for a provider's.
fn finish(word: &str, has_calls: bool) -> &str {
    match word {
        "length" | "max_tokens" | "response.incomplete" => "length",
        "tool_calls" | "tool_use" => "tool_calls",
        "stop" | "end_turn" | "stop_sequence" | "response.completed" if has_calls => "tool_calls",
        "stop" | "end_turn" | "stop_sequence" | "response.completed" => "stop",
        other => other,
    }
}

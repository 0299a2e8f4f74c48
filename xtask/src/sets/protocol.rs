//! The protocol's own cases: whole, in pieces, and every beginning of each.

use anyhow::Result;
use serde_json::{Map, Value, json};

use super::{Case, Program, Set, text};

/// Longest input of which every beginning is tried, in bytes.
const MAX_PREFIXED: usize = 4_000;

pub(super) fn sets(cases: &[Value]) -> Result<Vec<Set>> {
    let mut sets = Vec::new();
    for (name, piece) in
        [("protocol", None), ("protocol in pieces of 1", Some("1")), ("protocol in pieces of 4", Some("4"))]
    {
        let options = piece.into_iter().flat_map(|bytes| ["--stream".to_owned(), bytes.to_owned()]).collect();
        let cases = cases.iter().map(protocol_case).collect::<Result<_>>()?;
        sets.push(Set { name: name.into(), program: Program::Parse(options), cases });
    }
    sets.push(Set::parse("beginnings of the protocol's cases", prefixes(cases)?));
    Ok(sets)
}

/// Every beginning of every input: an answer, and no call that the whole does not have at that place.
fn prefixes(cases: &[Value]) -> Result<Vec<Case>> {
    let mut prefixed = Vec::new();
    for case in cases {
        let whole = protocol_case(case)?;
        let input = text(&whole.request, "input")?;
        if input.len() > MAX_PREFIXED {
            continue;
        }
        let wanted: Vec<Value> = whole
            .wanted
            .iter()
            .map(|wanted| match wanted.get("calls") {
                Some(calls) => json!({"calls_begin": calls}),
                // What is wrong as a whole may begin with calls that are complete.
                None => json!({"answered": true}),
            })
            .collect();
        for end in (0..input.len()).filter(|&end| input.is_char_boundary(end)) {
            let id = format!("{}[..{end}]", whole.id);
            let mut request = json!({"id": id, "input": &input[..end], "tools": case["tools"]});
            if let Some(native) = case.get("native") {
                request["native"] = native.clone();
            }
            prefixed.push(Case { id, request, wanted: wanted.clone() });
        }
    }
    Ok(prefixed)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_repeated() {
        let table = json!({"@@": {"unit": "ab", "times": 3}});
        assert_eq!(expanded(&json!(["x@@"]), table.as_object().unwrap()), json!(["xababab"]));
    }
}

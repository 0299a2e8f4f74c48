//! Comparison of results with the expected ones.

use serde_json::Value;

/// Returns `true` for a result that a fair judge would pass.
pub(super) fn fits(got: &Value, wanted: &Value) -> bool {
    if wanted["any_calls"] == Value::Bool(true) {
        return true;
    }
    if let Some(valid) = wanted.get("valid") {
        return got.get("valid") == Some(valid);
    }
    let errors: Vec<&Value> = got["errors"].as_array().into_iter().flatten().collect();
    let answered = got.get("errors").is_some() && errors.iter().all(|error| error["code"] != "bad_request");
    if wanted.get("answered").is_some() {
        return answered;
    }
    if wanted["silent"] == Value::Bool(false) {
        let calls = got["calls"].as_array().is_some_and(|calls| !calls.is_empty());
        return answered && (calls || !errors.is_empty() || got.get("unread").is_some());
    }
    if let Some(tool) = wanted.get("names_tool") {
        return got["calls"][0].get("tool") == Some(tool)
            || errors.iter().any(|error| error.get("tool") == Some(tool));
    }
    if let Some(calls) = wanted.get("calls_begin") {
        return answered && begins(&got["calls"], calls);
    }
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

/// Returns `true` when the calls are the first of the wanted ones.
fn begins(got: &Value, wanted: &Value) -> bool {
    let empty = Vec::new();
    let (got, wanted) = (got.as_array().unwrap_or(&empty), wanted.as_array().unwrap_or(&empty));
    got.len() <= wanted.len() && got.iter().zip(wanted).all(|(got, wanted)| call_fits(got, wanted))
}

fn call_fits(got: &Value, wanted: &Value) -> bool {
    got["tool"] == wanted["tool"] && same(&got["arguments"], &wanted["arguments"])
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
    use serde_json::json;

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
}

//! From an answer to what the caller gets.

use agent_types::Problem;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use crate::answer::Body;
use crate::config::{DEFAULT_MAX_BYTES, ProblemCode, ResponseConfig};
use crate::endpoint::Checker;
use crate::error::HttpError;
use crate::query::JsonQuery;
use crate::template::{Part, as_text, inside, parse_with};

/// Parsed handling of an answer.
#[derive(Debug, Clone)]
pub(crate) struct ResponseShape {
    select: Option<JsonQuery>,
    template: Option<Vec<Part<Vec<String>>>>,
    pub(crate) max_bytes: u64,
}

impl ResponseShape {
    pub(crate) fn parse(checker: &mut Checker, config: &ResponseConfig) -> Option<Self> {
        let select = config.select.as_deref().map(|text| {
            let parsed = JsonQuery::parse(text).map_err(|error| {
                Problem::error(ProblemCode::BadSelect, format!("`{text}` is not a valid JSONPath: {error}"))
            });
            checker.take("response.select", parsed)
        });
        let template = config.template.as_deref().map(|text| {
            let parsed = parse_with(text, |name| {
                if name.starts_with('$') {
                    let message = format!("`{{{name}}}` may not stand in an answer");
                    return Err(Problem::error(ProblemCode::SecretInFile, message));
                }
                Ok(name.split('.').map(str::to_owned).collect())
            });
            checker.take("response.template", parsed)
        });
        if config.max_bytes == Some(0) {
            checker.fault("response.max_bytes", ProblemCode::BadLimit, "at least 1");
        }
        Some(Self {
            select: match select {
                Some(select) => Some(select?),
                None => None,
            },
            template: match template {
                Some(template) => Some(template?),
                None => None,
            },
            max_bytes: config.max_bytes.unwrap_or(DEFAULT_MAX_BYTES),
        })
    }

    /// The same without selection and template.
    pub(crate) const fn unshaped(&self) -> Self {
        Self { select: None, template: None, max_bytes: self.max_bytes }
    }

    /// Returns the value for the caller, and the missing parts.
    ///
    /// # Errors
    /// An answer on which the path would take too long.
    pub(crate) fn shape(&self, status: u16, value: Value) -> Result<(Value, Vec<String>), HttpError> {
        let mut warnings = Vec::new();
        let selected = match &self.select {
            Some(query) => select(query, &value, &mut warnings)?,
            None => value,
        };
        Ok(match &self.template {
            Some(parts) => (fill(parts, status, &selected, &mut warnings).into(), warnings),
            None => (selected, warnings),
        })
    }
}

fn select(query: &JsonQuery, value: &Value, warnings: &mut Vec<String>) -> Result<Value, HttpError> {
    if let Value::String(text) = value
        && text.trim_start().starts_with(['{', '['])
        && serde_json::from_str::<IgnoredAny>(text).is_ok()
    {
        // It is JSON, and a text because a whole number in it would have been rounded.
        agent_types::read_json::<IgnoredAny>(text.as_bytes())
            .map_err(|error| HttpError::BadAnswer { message: error.to_string() })?;
    }
    let mut found = query.all(value).map_err(|error| HttpError::BadAnswer { message: error.to_string() })?;
    Ok(match (query.is_single(), found.len()) {
        (true, 1) => found.remove(0),
        (true, _) => {
            warnings.push(format!("`{}` finds nothing in the answer", query.text()));
            Value::Null
        }
        (false, _) => found.into(),
    })
}

/// Only paths into the answer: nothing of the program can be named.
fn fill(parts: &[Part<Vec<String>>], status: u16, result: &Value, warnings: &mut Vec<String>) -> String {
    let mut text = String::new();
    for part in parts {
        match part {
            Part::Literal(literal) => text.push_str(literal),
            Part::Value(path) => {
                let found = match path.split_first() {
                    Some((first, rest)) if first == "result" => inside(result, rest),
                    Some((first, [])) if first == "status" => {
                        text.push_str(&status.to_string());
                        continue;
                    }
                    _ => None,
                };
                match found.or_else(|| inside(result, path)) {
                    Some(Value::Null) => {}
                    Some(value) => text.push_str(&as_text(value)),
                    None => warnings.push(format!("`{{{}}}` is not in the answer", path.join("."))),
                }
            }
        }
    }
    text
}

/// A body as a value: JSON where it is JSON without whole numbers beyond 64 bits, text where it is text, else what it is and its bytes.
pub(crate) fn value_of(body: &Body) -> Value {
    let claims_json = body.media.is_empty() || body.media.ends_with("json");
    let Some(text) = body.text() else {
        let bytes = &body.bytes;
        return json!({"content_type": body.media, "bytes": bytes.len(), "base64": STANDARD.encode(bytes)});
    };
    if text.is_empty() {
        return Value::Null;
    }
    let parsed = if claims_json { agent_types::read_json(text.as_bytes()).ok() } else { None };
    parsed.unwrap_or_else(|| text.into())
}

/// Headers as an object; several of one name are joined by commas.
pub(crate) fn headers_of(headers: &reqwest::header::HeaderMap) -> Map<String, Value> {
    let names = headers.keys();
    let values = names.map(|name| {
        let all = headers.get_all(name).iter();
        let joined: Vec<_> =
            all.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect();
        (name.to_string(), joined.join(", ").into())
    });
    values.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_beyond_64_bits_is_not_rounded() {
        let text = r#"{"wei": 340282366920938463463374607431768211456}"#;
        let body =
            Body { bytes: text.into(), is_cut: false, media: "application/json".into(), charset: None };
        let value = value_of(&body);
        assert_eq!(value, text);
        let shape = |select: Option<&str>| ResponseShape {
            select: select.map(|path| JsonQuery::parse(path).unwrap()),
            template: None,
            max_bytes: 1000,
        };
        assert_eq!(shape(None).shape(200, value.clone()).unwrap().0, text);
        let error = shape(Some("$.wei")).shape(200, value).unwrap_err();
        assert_eq!(error.code(), "http_bad_answer");
        assert!(error.to_string().contains("does not fit 64 bits"), "{error}");
        // A text of digits is exact.
        let digits = Value::from("340282366920938463463374607431768211456");
        assert_eq!(shape(Some("$")).shape(200, digits.clone()).unwrap().0, digits);
    }
}

//! Answers that say that the work continues, or that it failed.

use std::borrow::Cow;

use agent_types::Problem;
use http_caller::{Endpoint, HttpAnswer, JsonQuery};
use serde::de::IgnoredAny;
use serde_json::Value;
use tool_registry::{ToolContext, ToolError, ToolErrorKind};

use crate::async_config::{AsyncConfig, StateConfig};
use crate::error::HttpToolError;

/// Status of work that continues.
const ACCEPTED: u16 = 202;

/// Values in an answer, parsed.
#[derive(Debug, Clone)]
struct State {
    path: JsonQuery,
    values: Vec<Value>,
}

impl State {
    fn parse(config: Option<&StateConfig>, key: &str) -> Result<Option<Self>, HttpToolError> {
        let Some(StateConfig { path, values }) = config else { return Ok(None) };
        Ok(Some(Self { path: query(path, &format!("{key}.path"))?, values: values.clone() }))
    }

    fn holds(&self, body: &Value) -> bool {
        self.path.all(&lenient(body)).is_ok_and(|found| found.iter().any(|value| self.values.contains(value)))
    }
}

/// A body as its states and its address are read. One that is a text because of a whole number beyond 64 bits is JSON here,
/// with that number rounded.
pub(crate) fn lenient(body: &Value) -> Cow<'_, Value> {
    let is_inexact = |text: &&str| {
        text.trim_start().starts_with(['{', '['])
            && agent_types::read_json::<IgnoredAny>(text.as_bytes()).is_err()
    };
    let parsed = body.as_str().filter(is_inexact).and_then(|text| serde_json::from_str(text).ok());
    parsed.map_or(Cow::Borrowed(body), Cow::Owned)
}

pub(crate) fn query(text: &str, key: &str) -> Result<JsonQuery, HttpToolError> {
    JsonQuery::parse(text).map_err(|error| {
        let message = format!("`{text}` is not a valid JSONPath: {error}");
        HttpToolError::Async(Problem::error("bad_select", message).path(key))
    })
}

/// States of the work that a request began.
#[derive(Debug, Clone)]
pub(crate) struct Progress {
    pending: Option<State>,
    failed: Option<State>,
}

impl Progress {
    pub(crate) fn new(config: &AsyncConfig) -> Result<Self, HttpToolError> {
        Ok(Self {
            pending: State::parse(config.pending.as_ref(), "pending")?,
            failed: State::parse(config.failed.as_ref(), "failed")?,
        })
    }

    /// Returns `true` if an answer says that the work continues.
    ///
    /// # Errors
    /// It says that the work failed.
    pub(crate) fn continues(&self, answer: &HttpAnswer) -> Result<bool, ToolError> {
        self.check(&answer.body)?;
        Ok(match &self.pending {
            Some(pending) => pending.holds(&answer.body),
            None => answer.status == ACCEPTED,
        })
    }

    /// Checks that a body does not say that the work failed.
    ///
    /// # Errors
    /// It says so.
    pub(crate) fn check(&self, body: &Value) -> Result<(), ToolError> {
        if self.failed.as_ref().is_some_and(|failed| failed.holds(body)) {
            let message = format!("the work failed: {}", excerpt(body));
            return Err(ToolError::new(ToolErrorKind::Failed, message).with_code("http_work_failed"));
        }
        Ok(())
    }
}

/// Refuses to repeat a request that a process was sending when it ended.
pub(crate) fn check_repeat(endpoint: &Endpoint, cx: &ToolContext) -> Result<(), ToolError> {
    if cx.resume.is_some() && !endpoint.is_idempotent() {
        let message = "its outcome is unknown, because the process ended while the request was sent";
        return Err(ToolError::new(ToolErrorKind::Failed, message).with_code("unknown_outcome"));
    }
    Ok(())
}

/// The beginning of a body.
fn excerpt(body: &Value) -> String {
    const MOST: usize = 300;
    let text = body.as_str().map_or_else(|| body.to_string(), str::to_owned);
    text[..text.floor_char_boundary(MOST)].to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_state_beside_a_number_beyond_64_bits_is_read() {
        let state = |value: &str| json!({"path": "$.state", "values": [value]});
        let config = json!({"pending": state("pending"), "failed": state("failed")});
        let progress = Progress::new(&serde_json::from_value(config).unwrap()).unwrap();
        let answer = |state: &str| {
            let text = format!(r#"{{"state": "{state}", "id": 340282366920938463463374607431768211456}}"#);
            HttpAnswer::new(200, text.into())
        };
        assert!(progress.continues(&answer("pending")).unwrap());
        assert!(!progress.continues(&answer("done")).unwrap());
        assert_eq!(progress.continues(&answer("failed")).unwrap_err().code, Some("http_work_failed"));
        // A text that is JSON in itself stays a text.
        let text = json!(r#"{"state": "failed"}"#);
        assert_eq!(*lenient(&text), text);
    }
}

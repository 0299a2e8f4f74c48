//! The library's errors in our words.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use agent_types::Timestamp;
use serde_json::Value;

use crate::LlmError;

/// Longest message of a server that an error repeats, in bytes.
const MAX_MESSAGE: usize = 500;

/// The key that requests carry. A server may echo it in an error, and errors are shown and stored.
#[derive(Clone)]
pub(super) struct Secret(Option<Arc<str>>);

impl Secret {
    pub(super) fn new(key: Option<&str>) -> Self {
        Self(key.filter(|key| !key.is_empty()).map(Arc::from))
    }

    /// The text without the key, and no longer than a message should be.
    fn shown(&self, text: &str) -> String {
        let text = match &self.0 {
            Some(key) => text.replace(&**key, "[key]"),
            None => text.to_owned(),
        };
        let end = text.floor_char_boundary(MAX_MESSAGE);
        if end < text.len() { format!("{}…", &text[..end]) } else { text }
    }
}

/// The error with `now` as the time that dates of the server count from.
pub(super) fn llm_error(error: &genai::Error, secret: &Secret, now: Timestamp) -> LlmError {
    if let Some(status) = error.status() {
        let retry_after = retry_after(error, now);
        return match status.as_u16() {
            status @ (401 | 403) => LlmError::Authentication { status },
            429 => LlmError::RateLimited { retry_after },
            status => LlmError::Status { status, message: secret.shown(&status_message(error)), retry_after },
        };
    }
    match error {
        genai::Error::WebModelCall { webc_error, .. } | genai::Error::WebAdapterCall { webc_error, .. } => {
            network_error(webc_error, secret)
                .unwrap_or_else(|| LlmError::Unreachable { message: secret.shown(&root_cause(webc_error)) })
        }
        genai::Error::WebStream { error, cause, .. } => match error.downcast_ref::<genai::Error>() {
            Some(inner) => llm_error(inner, secret, now),
            None => network_error(error.as_ref(), secret)
                .unwrap_or_else(|| LlmError::Stream { message: secret.shown(cause) }),
        },
        genai::Error::ChatResponse { body, .. } => streamed_error(body, secret),
        genai::Error::StreamParse { serde_error, .. } => {
            LlmError::Stream { message: secret.shown(&serde_error.to_string()) }
        }
        other => LlmError::Request { message: secret.shown(&other.to_string()) },
    }
}

/// Error that a server sends as an event. Before the answer it has the meaning of the corresponding status.
fn streamed_error(body: &Value, secret: &Secret) -> LlmError {
    let error = body.get("error").unwrap_or(body);
    let text = |key: &str| error.get(key).and_then(Value::as_str);
    let message = text("message").map_or_else(|| error.to_string(), str::to_owned);
    let message = secret.shown(&message);
    let status = |status| LlmError::Status { status, message: message.clone(), retry_after: None };
    let numbered = error.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
    match (numbered, text("type").or_else(|| text("code")).or_else(|| text("status"))) {
        (Some(429), _) => LlmError::RateLimited { retry_after: None },
        (Some(code @ 500..=599), _) => status(code),
        (_, Some("overloaded_error")) => status(529),
        (_, Some("rate_limit_error" | "rate_limit_exceeded")) => LlmError::RateLimited { retry_after: None },
        (_, Some("api_error" | "server_error" | "internal_server_error")) => status(500),
        (_, _) => LlmError::Stream { message },
    }
}

/// Returns the error of the network, if the network caused it.
fn network_error(error: &(dyn Error + 'static), secret: &Secret) -> Option<LlmError> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(http) = error.downcast_ref::<reqwest::Error>() {
            let message = secret.shown(&root_cause(http));
            return Some(match () {
                () if http.is_connect() => LlmError::Unreachable { message },
                () if http.is_builder() => LlmError::Request { message },
                () => LlmError::Disconnected { message },
            });
        }
        next = error.source();
    }
    None
}

/// Last cause of an error chain, which holds the message of the operating system.
fn root_cause(error: &(dyn Error + 'static)) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}

/// Wait that the server asks for: milliseconds, seconds, or until a date.
fn retry_after(error: &genai::Error, now: Timestamp) -> Option<Duration> {
    let headers = error.headers()?;
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let number = |name: &str| text(name)?.parse::<f64>().ok();
    let seconds = number("retry-after-ms").map(|ms| ms / 1000.0).or_else(|| number("retry-after"));
    if let Some(seconds) = seconds {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    until(text("retry-after")?, now)
}

/// The time until a date as servers write it: `Sun, 06 Nov 1994 08:49:37 GMT`; nothing, where it has passed.
fn until(date: &str, now: Timestamp) -> Option<Duration> {
    let since_epoch = httpdate::parse_http_date(date).ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
    let now = Duration::from_millis(u64::try_from(now.as_millis()).unwrap_or(0));
    Some(since_epoch.saturating_sub(now))
}

fn status_message(error: &genai::Error) -> String {
    let body = match error {
        genai::Error::HttpError { body, .. } => body.clone(),
        other => other.to_string(),
    };
    // Where providers put the sentence.
    let start = body.find('{').unwrap_or(0);
    let sentence = |value: &Value| {
        let inner =
            value.pointer("/error/message").or_else(|| value.get("error")).or_else(|| value.get("message"));
        inner.and_then(Value::as_str).map(str::to_owned)
    };
    let value = serde_json::from_str::<Value>(&body[start..]).ok();
    value.as_ref().and_then(sentence).unwrap_or(body)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn dates_count_from_now() {
        let now = Timestamp::parse("1994-11-06T08:49:30.000Z").unwrap();
        assert_eq!(until("Sun, 06 Nov 1994 08:49:37 GMT", now), Some(Duration::from_secs(7)));
        assert_eq!(until("Sun, 06 Nov 1994 08:49:00 GMT", now), Some(Duration::ZERO));
        assert_eq!(until("soon", now), None);
    }

    #[test]
    fn streamed_errors_mean_the_same_as_a_status() {
        let secret = Secret::new(Some("sk-1"));
        for (body, code, retryable) in [
            (
                json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
                "provider_error",
                true,
            ),
            (json!({"error": {"type": "rate_limit_error", "message": "slow"}}), "rate_limited", true),
            (json!({"message": "Rate limit", "code": 429}), "rate_limited", true),
            (json!({"code": "server_error", "message": "it broke"}), "provider_error", true),
            (json!({"code": 400, "message": "bad key sk-1"}), "stream_broken", false),
            (json!("odd"), "stream_broken", false),
        ] {
            let error = streamed_error(&body, &secret);
            assert_eq!((error.code(), error.is_retryable()), (code, retryable), "{body}");
            assert!(!error.to_string().contains("sk-1"), "{error}");
        }
    }

    #[test]
    fn messages_are_cut_and_hold_no_key() {
        let secret = Secret::new(Some("sk-secret"));
        assert_eq!(secret.shown("no sk-secret here"), "no [key] here");
        let long = secret.shown(&"é".repeat(400));
        assert!(long.ends_with('…') && long.len() <= MAX_MESSAGE + 3);
        assert_eq!(Secret::new(Some("")).shown("ab"), "ab");
    }
}

//! Errors of servers and of the network in our words.

use std::error::Error;
use std::time::Duration;

use agent_types::{Redactor, Timestamp};
use reqwest::header::HeaderMap;
use serde_json::Value;

use crate::LlmError;

/// Longest message of a server that an error repeats, in bytes.
const MAX_MESSAGE: usize = 500;

/// The key that requests carry. A server may echo it in an error, and errors are shown and stored.
#[derive(Clone)]
pub(super) struct Secret(Redactor);

impl Secret {
    pub(super) fn new(key: Option<&str>) -> Self {
        Self(Redactor::of_any_length(key.map(str::to_owned)).masked_as("[key]"))
    }

    /// The text without the key, and no longer than a message should be.
    fn shown(&self, text: &str) -> String {
        let text = self.0.mask(text).into_owned();
        let end = text.floor_char_boundary(MAX_MESSAGE);
        if end < text.len() { format!("{}…", &text[..end]) } else { text }
    }

    /// The error with what may be shown of its message.
    pub(super) fn hide(&self, mut error: LlmError) -> LlmError {
        match &mut error {
            LlmError::Authentication { message, .. }
            | LlmError::RateLimited { message, .. }
            | LlmError::ContextTooLong { message, .. }
            | LlmError::Status { message, .. }
            | LlmError::Unreachable { message }
            | LlmError::Disconnected { message }
            | LlmError::Stream { message }
            | LlmError::Request { message } => *message = self.shown(message),
            LlmError::Timeout { .. } | LlmError::Script { .. } | LlmError::NoReply { .. } => {}
        }
        error
    }
}

/// The error of an answer with an error status. `now` is the time that dates of the server count from.
pub(super) fn status_error(status: u16, headers: &HeaderMap, body: &str, now: Timestamp) -> LlmError {
    let json = body.find(['{', '[']).and_then(|start| serde_json::from_str::<Value>(&body[start..]).ok());
    let message = json.as_ref().and_then(sentence).unwrap_or_else(|| body.trim().to_owned());
    let retry_after = retry_after(headers, now);
    if matches!(status, 400 | 413 | 422 | 500)
        && let Some(error) = too_long(&message, json.as_ref())
    {
        return error;
    }
    match status {
        401 => LlmError::Authentication { status, message },
        429 => LlmError::RateLimited { message, retry_after },
        status => LlmError::Status { status, message, retry_after },
    }
}

/// The error that a value holds as `error`. Null and what is empty are none.
pub(super) fn error_in(value: &Value) -> Option<LlmError> {
    match value.get("error")? {
        Value::Null | Value::Bool(false) => None,
        Value::Object(members) if members.is_empty() => None,
        Value::String(text) if text.is_empty() => None,
        _ => Some(streamed_error(value)),
    }
}

/// The error in the fields of an event that is not of the format.
pub(super) fn error_beside(value: &Value) -> Option<LlmError> {
    let says = ["error_message", "error_msg", "detail", "message"].iter().any(|key| match value.get(*key) {
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Array(parts)) => !parts.is_empty(),
        _ => false,
    });
    says.then(|| streamed_error(value))
}

/// Error that a server sends as an event. Before the answer it has the meaning of the corresponding status.
pub(super) fn streamed_error(body: &Value) -> LlmError {
    let error = body.get("error").filter(|error| error.is_object()).unwrap_or(body);
    let text = |key: &str| error.get(key).and_then(Value::as_str);
    let message = sentence(body).unwrap_or_else(|| match body {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    });
    if let Some(error) = too_long(&message, Some(body)) {
        return error;
    }
    let status = |status| LlmError::Status { status, message: message.clone(), retry_after: None };
    let numbered = error.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
    match (
        numbered,
        text("type").filter(|kind| *kind != "error").or_else(|| text("code")).or_else(|| text("status")),
    ) {
        (Some(429), _) => LlmError::RateLimited { message, retry_after: None },
        (Some(code @ 500..=599), _) => status(code),
        (_, Some("overloaded_error")) => status(529),
        (_, Some("rate_limit_error" | "rate_limit_exceeded")) => {
            LlmError::RateLimited { message, retry_after: None }
        }
        (_, Some("api_error" | "server_error" | "internal_server_error")) => status(500),
        (_, _) => LlmError::Stream { message },
    }
}

/// Phrases by which servers say that a request does not fit into the window, in lower case.
const TOO_LONG: &[&str] = &[
    "context length",
    "context_length",
    "context window",
    "context size",
    "prompt is too long",
    "input is too long",
    "too many tokens",
    "maximum number of tokens",
    "exceeds the maximum number of input tokens",
    "context limit",
    "input token count",
    "maximum prompt length",
    "reduce the length of the messages",
];

/// The error for a request that does not fit into the window, by the server's words or its code.
fn too_long(message: &str, body: Option<&Value>) -> Option<LlmError> {
    let lower = message.to_lowercase();
    let exceeds = ["exceed", "too long", "too large", "maximum", "larger than", "overflow", "reduce"];
    let code = |place: &str| body.and_then(|body| body.pointer(place)?.as_str());
    let codes = ["/error/code", "/code", "/error/type", "/type"].map(code);
    let is_coded = codes.into_iter().flatten().any(|code| {
        matches!(code, "context_length_exceeded" | "exceed_context_size_error" | "context_too_long")
    });
    let is_said = TOO_LONG.iter().any(|phrase| lower.contains(phrase))
        && exceeds.iter().any(|word| lower.contains(word));
    (is_coded || is_said).then(|| LlmError::ContextTooLong {
        message: message.to_owned(),
        window: body.and_then(|body| body.pointer("/error/n_ctx")?.as_u64()).or_else(|| window(&lower)),
    })
}

/// The window that a sentence names: the number behind words such as `maximum`, else the smallest one of several.
fn window(sentence: &str) -> Option<u64> {
    let plain = sentence.replace([',', '_'], "");
    let numbers = |text: &str| -> Vec<u64> {
        let digits = text.split(|letter: char| !letter.is_ascii_digit()).filter(|digits| digits.len() > 2);
        digits.filter_map(|digits| digits.parse().ok()).collect()
    };
    if let Some((_, limit)) = plain.rsplit_once('>') {
        return numbers(limit).first().copied();
    }
    let markers = [
        "maximum context length",
        "maximum number of tokens allowed",
        "context size",
        "context window",
        "maximum",
    ];
    let behind = markers.iter().find_map(|marker| {
        let (_, rest) = plain.split_once(marker)?;
        numbers(rest).first().copied()
    });
    let all = numbers(&plain);
    behind.or_else(|| all.iter().min().copied().filter(|_| all.len() > 1))
}

/// The sentence of an error, from where providers put it.
fn sentence(value: &Value) -> Option<String> {
    let places = [
        "/error/message",
        "/error/error/message",
        "/error",
        "/message",
        "/detail",
        "/error_message",
        "/error_msg",
        "/0/error/message",
        "/detail/0/msg",
        "/detail/message",
    ];
    let found =
        places.iter().find_map(|place| value.pointer(place)?.as_str().filter(|text| !text.is_empty()))?;
    // Some routers say what the provider behind them said apart from their own sentence.
    let further =
        value.pointer("/error/metadata/raw").and_then(Value::as_str).filter(|raw| !found.contains(raw));
    Some(further.map_or_else(|| found.to_owned(), |raw| format!("{found}: {raw}")))
}

/// The error of the network.
pub(super) fn network_error(error: &reqwest::Error) -> LlmError {
    let message = root_cause(error);
    match () {
        () if error.is_connect() => LlmError::Unreachable { message },
        () if error.is_builder() => LlmError::Request { message },
        () => LlmError::Disconnected { message },
    }
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
fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
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
        for (body, code, retryable) in [
            (
                json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
                "provider_error",
                true,
            ),
            (json!({"error": {"type": "rate_limit_error", "message": "slow"}}), "rate_limited", true),
            (json!({"message": "Rate limit", "code": 429}), "rate_limited", true),
            (json!({"code": "server_error", "message": "it broke"}), "provider_error", true),
            (json!({"code": 400, "message": "odd"}), "stream_broken", false),
            (json!("odd"), "stream_broken", false),
        ] {
            let error = streamed_error(&body);
            assert_eq!((error.code(), error.is_retryable()), (code, retryable), "{body}");
        }
    }

    #[test]
    fn the_words_of_a_server_are_found_wherever_they_stand() {
        for body in [
            json!({"error": {"message": "it broke"}}),
            json!({"error": "it broke"}),
            json!({"error": {"error": {"message": "it broke"}}}),
            json!({"error": true, "message": "it broke"}),
            json!({"object": "error", "message": "it broke"}),
            json!({"choices": null, "error_type": "x", "error_message": "it broke"}),
            json!({"detail": "it broke"}),
            json!({"detail": [{"msg": "it broke"}]}),
            json!([{"error": {"code": 400, "message": "it broke"}}]),
            json!("it broke"),
        ] {
            assert!(streamed_error(&body).to_string().ends_with("it broke"), "{body}");
            let status = status_error(400, &HeaderMap::new(), &body.to_string(), Timestamp::default());
            assert!(status.to_string().contains("it broke"), "{status}");
        }
        let routed = json!({"error": {"message": "Provider error", "metadata": {"raw": "no room"}}});
        assert!(streamed_error(&routed).to_string().ends_with("Provider error: no room"));
    }

    #[test]
    fn an_error_that_says_nothing_is_none() {
        for value in [json!({"error": null}), json!({"error": {}}), json!({"error": ""}), json!({"x": 1})] {
            assert_eq!(error_in(&value), None, "{value}");
            assert_eq!(error_beside(&value), None, "{value}");
        }
        assert!(error_in(&json!({"error": {"code": 1}})).is_some());
    }

    #[test]
    fn messages_are_cut_and_hold_no_key() {
        let secret = Secret::new(Some("sk-secret"));
        assert_eq!(secret.shown("no sk-secret here"), "no [key] here");
        let long = secret.shown(&"é".repeat(400));
        assert!(long.ends_with('…') && long.len() <= MAX_MESSAGE + 3);
        assert_eq!(Secret::new(Some("")).shown("ab"), "ab");
        let error = secret.hide(LlmError::Stream { message: "sk-secret".into() });
        assert_eq!(error, LlmError::Stream { message: "[key]".into() });
    }
}

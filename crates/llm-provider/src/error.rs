//! Errors of requests to a model.

use std::fmt;
use std::time::Duration;

/// Reason for which a model gave no complete answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LlmError {
    /// The server refused the key, or wants one.
    #[error("the model's server refused the key (status {status}){}", behind(.message))]
    Authentication {
        /// HTTP status.
        status: u16,
        /// Beginning of the server's message.
        message: String,
    },
    /// Too many requests.
    #[error("the model's server is limiting requests (status 429){}", behind(.message))]
    RateLimited {
        /// Beginning of the server's message.
        message: String,
        /// Wait that the server asks for.
        retry_after: Option<Duration>,
    },
    /// The request and its answer do not fit into the model's window.
    #[error("the conversation is too long for the model{}", behind(.message))]
    ContextTooLong {
        /// Beginning of the server's message.
        message: String,
        /// Tokens that the server says its window holds.
        window: Option<u64>,
    },
    /// Another HTTP error.
    #[error("the model's server answered with status {status}: {message}")]
    Status {
        /// HTTP status.
        status: u16,
        /// Beginning of the server's message.
        message: String,
        /// Wait that the server asks for.
        retry_after: Option<Duration>,
    },
    /// No connection.
    #[error("the model's server cannot be reached: {message}")]
    Unreachable {
        /// Message of the network layer, without addresses and credentials.
        message: String,
    },
    /// The connection broke; everything received before it has been emitted.
    #[error("the connection to the model's server broke: {message}")]
    Disconnected {
        /// Message of the network layer.
        message: String,
    },
    /// Something did not come in time.
    #[error("{wait} within {} ms", .limit.as_millis())]
    Timeout {
        /// Wait that ran out.
        wait: Wait,
        /// The wait that ran out.
        limit: Duration,
    },
    /// The stream held something other than an answer.
    #[error("the model's stream broke: {message}")]
    Stream {
        /// Fault in the stream.
        message: String,
    },
    /// The request cannot be sent in this provider's form.
    #[error("the request cannot be sent: {message}")]
    Request {
        /// Mismatch between request and model.
        message: String,
    },
    /// The script has no reply left, or the request is not the one it expects.
    #[error("the script does not fit: {message}")]
    Script {
        /// Expected and received request.
        message: String,
    },
    /// A script or a recording has no reply left.
    #[error("{message}")]
    NoReply {
        /// Request without a recorded answer.
        message: String,
    },
}

/// The server's words behind ours, where there are any.
fn behind(message: &str) -> String {
    if message.is_empty() { String::new() } else { format!(": {message}") }
}

/// Event that a request waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// The first token of the answer.
    First,
    /// The next token.
    Next,
    /// The whole answer.
    Whole,
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::First => "no first token",
            Self::Next => "no further token",
            Self::Whole => "no whole answer",
        })
    }
}

impl LlmError {
    /// Stable code for logs, tests and the wire.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Authentication { .. } => "authentication",
            Self::RateLimited { .. } => "rate_limited",
            Self::ContextTooLong { .. } => "llm_context_too_long",
            Self::Status { .. } => "provider_error",
            Self::Unreachable { .. } => "unreachable",
            Self::Disconnected { .. } => "disconnected",
            Self::Timeout { .. } => "timeout",
            Self::Stream { .. } => "stream_broken",
            Self::Request { .. } => "bad_request",
            Self::Script { .. } => "script",
            Self::NoReply { .. } => "no_reply",
        }
    }

    /// Suggested fix, in the settings of the model's entry.
    #[must_use]
    pub const fn fix(&self) -> Option<&'static str> {
        match self {
            Self::Authentication { .. } => {
                Some("put the right key where `api_key_env` or `api_key_file` says")
            }
            Self::RateLimited { .. } => Some("wait, or set a lower `max_parallel`"),
            Self::ContextTooLong { .. } => Some("set `context_window` to the tokens that the server takes"),
            Self::Status { status: 404, .. } => Some("fix `model` or `base_url`"),
            Self::Status { status: 400 | 405 | 422, .. } => Some("check `model`, `provider` and `extra`"),
            Self::Unreachable { .. } => Some("start that server, or fix `base_url`"),
            Self::Timeout { wait: Wait::First, .. } => Some("raise `first_token_timeout_ms`"),
            Self::Timeout { wait: Wait::Next, .. } => Some("raise `token_timeout_ms`"),
            Self::Timeout { wait: Wait::Whole, .. } => Some("raise `timeout_ms`"),
            Self::Stream { .. } => Some("check `provider` and `base_url`"),
            Self::Status { .. }
            | Self::Disconnected { .. }
            | Self::Request { .. }
            | Self::Script { .. }
            | Self::NoReply { .. } => None,
        }
    }

    /// Returns `true` when the same request may succeed a little later. A timeout is excluded: its wait was long
    /// enough.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        match self {
            Self::RateLimited { .. } | Self::Unreachable { .. } | Self::Disconnected { .. } => true,
            Self::Status { status, .. } => *status >= 500 || *status == 408,
            Self::Authentication { .. }
            | Self::ContextTooLong { .. }
            | Self::Timeout { .. }
            | Self::Stream { .. }
            | Self::Request { .. }
            | Self::Script { .. }
            | Self::NoReply { .. } => false,
        }
    }

    /// Wait that the server asked for, if it did.
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimited { retry_after, .. } | Self::Status { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

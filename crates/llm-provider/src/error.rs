//! Why a model gave no answer.

use std::fmt;
use std::time::Duration;

/// Why a model gave no complete answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LlmError {
    /// The server refused the key, or wants one.
    #[error("the model's server refused the key (status {status})")]
    Authentication {
        /// HTTP status.
        status: u16,
    },
    /// Too many requests.
    #[error("the model's server is limiting requests (status 429)")]
    RateLimited {
        /// How long the server wants us to wait.
        retry_after: Option<Duration>,
    },
    /// Another HTTP error.
    #[error("the model's server answered with status {status}: {message}")]
    Status {
        /// HTTP status.
        status: u16,
        /// Beginning of the server's message.
        message: String,
        /// How long the server wants us to wait.
        retry_after: Option<Duration>,
    },
    /// No connection.
    #[error("the model's server cannot be reached: {message}")]
    Unreachable {
        /// What the network said, without addresses of credentials.
        message: String,
    },
    /// The connection broke; what was written until then has been told.
    #[error("the connection to the model's server broke: {message}")]
    Disconnected {
        /// What the network said.
        message: String,
    },
    /// Something did not come in time.
    #[error("{wait} within {} ms", .limit.as_millis())]
    Timeout {
        /// What was waited for.
        wait: Wait,
        /// The wait that ran out.
        limit: Duration,
    },
    /// The stream held something that is no answer.
    #[error("the model's stream broke: {message}")]
    Stream {
        /// What was wrong with it.
        message: String,
    },
    /// The request cannot be sent in this provider's form.
    #[error("the request cannot be sent: {message}")]
    Request {
        /// What does not fit.
        message: String,
    },
    /// The script has no reply left, or the request is not the one it expects.
    #[error("the script does not fit: {message}")]
    Script {
        /// What was wanted and what came.
        message: String,
    },
    /// A script or a recording has no reply left.
    #[error("{message}")]
    NoReply {
        /// Which request has none.
        message: String,
    },
}

/// What a request waits for.
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

    /// Whether the same request may succeed a little later. A wait that ran out was long enough, and is not one of them.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        match self {
            Self::RateLimited { .. } | Self::Unreachable { .. } | Self::Disconnected { .. } => true,
            Self::Status { status, .. } => *status >= 500 || *status == 408,
            Self::Authentication { .. }
            | Self::Timeout { .. }
            | Self::Stream { .. }
            | Self::Request { .. }
            | Self::Script { .. }
            | Self::NoReply { .. } => false,
        }
    }

    /// How long the server asked to wait, where it did.
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimited { retry_after } | Self::Status { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

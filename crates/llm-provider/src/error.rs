//! Why a model gave no answer.

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
    },
    /// No connection, or it broke.
    #[error("the model's server cannot be reached: {message}")]
    Unreachable {
        /// What the network said, without addresses of credentials.
        message: String,
    },
    /// Nothing came for too long.
    #[error("no token within {} ms", .limit.as_millis())]
    Timeout {
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
            Self::Timeout { .. } => "timeout",
            Self::Stream { .. } => "stream_broken",
            Self::Request { .. } => "bad_request",
            Self::Script { .. } => "script",
        }
    }

    /// Whether the same request may succeed a little later.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        match self {
            Self::RateLimited { .. } | Self::Unreachable { .. } | Self::Timeout { .. } => true,
            Self::Status { status, .. } => *status >= 500,
            Self::Authentication { .. }
            | Self::Stream { .. }
            | Self::Request { .. }
            | Self::Script { .. } => false,
        }
    }
}

//! Errors of a call.

use std::net::IpAddr;
use std::time::Duration;

/// Reason for which the network policy refused an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BlockReason {
    /// Not an address of the public internet.
    PrivateAddress,
    /// An address that hands out credentials of the machine; it must be listed itself.
    MetadataAddress,
    /// Neither http nor https.
    Scheme,
    /// A redirect from https to http.
    Downgrade,
    /// A redirect that would carry a body to another origin.
    CrossOriginBody,
    /// A user or password in a URL.
    UserInfo,
    /// More redirects than are followed.
    TooManyRedirects,
    /// A redirect to an invalid URL.
    BadRedirect,
}

impl BlockReason {
    /// Stable name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PrivateAddress => "private_address",
            Self::MetadataAddress => "metadata_address",
            Self::Scheme => "scheme",
            Self::Downgrade => "downgrade",
            Self::CrossOriginBody => "cross_origin_body",
            Self::UserInfo => "user_info",
            Self::TooManyRedirects => "too_many_redirects",
            Self::BadRedirect => "bad_redirect",
        }
    }
}

/// Reason for which a call gave no answer. No text of it holds a secret that the call used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// An argument that cannot stand where the file puts it.
    #[error("{message}")]
    BadArgument {
        /// Description of the fault.
        message: String,
    },
    /// A header value that would break out of its line.
    #[error("the value of the header `{name}` holds a line break or a control character")]
    BadHeaderValue {
        /// The header.
        name: String,
    },
    /// A required context value was not given.
    #[error("the context value `{name}` is not set")]
    MissingContext {
        /// Its name.
        name: String,
    },
    /// A secret that the environment does not hold.
    #[error("the secret `{name}` is not set")]
    MissingSecret {
        /// The variable.
        name: String,
    },
    /// A secret that may not go to this host; nothing was sent.
    #[error("the secret `{name}` may not be sent to {host}")]
    SecretNotAllowed {
        /// The variable.
        name: String,
        /// Host, or host and port.
        host: String,
        /// Lines of the settings that let it go there.
        lines: String,
    },
    /// The network policy refused it; nothing was sent at that hop.
    #[error("{} refused: {}{}", .target, .reason.as_str(), .address.map(|ip| format!(" ({ip})")).unwrap_or_default())]
    Blocked {
        /// Reason of the refusal.
        reason: BlockReason,
        /// Host, or host and port.
        target: String,
        /// The address, where it came from a name.
        address: Option<IpAddr>,
        /// Redirects before it.
        hop: u32,
    },
    /// The server answered with an error.
    #[error("HTTP {status}{}", .body.as_deref().map(|body| format!(": {body}")).unwrap_or_default())]
    Status {
        /// The status.
        status: u16,
        /// The beginning of the body, where it is text.
        body: Option<String>,
        /// Wait that the server asks for.
        retry_after: Option<Duration>,
    },
    /// The body is larger than it may be.
    #[error("the answer is larger than {limit} bytes")]
    TooLarge {
        /// The limit, in bytes after decompression.
        limit: u64,
    },
    /// No whole answer in time.
    #[error("no answer within {} ms", .limit.as_millis())]
    Timeout {
        /// The limit.
        limit: Duration,
    },
    /// The server cannot be reached.
    #[error("{target} cannot be reached: {message}")]
    Unreachable {
        /// Host, or host and port.
        target: String,
        /// Message of the operating system.
        message: String,
    },
    /// The answer cannot be read.
    #[error("the answer cannot be read: {message}")]
    BadAnswer {
        /// Description of the fault.
        message: String,
    },
}

impl HttpError {
    pub(crate) fn bad_argument(message: impl Into<String>) -> Self {
        Self::BadArgument { message: message.into() }
    }

    /// Stable code for logs, tests and the wire.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::BadArgument { .. } => "invalid_argument",
            Self::BadHeaderValue { .. } => "invalid_header_value",
            Self::MissingContext { .. } => "missing_context",
            Self::MissingSecret { .. } => "missing_secret",
            Self::SecretNotAllowed { .. } => "secret_not_allowed",
            Self::Blocked { .. } => "http_blocked",
            Self::Status { .. } => "http_status",
            Self::TooLarge { .. } => "http_too_large",
            Self::Timeout { .. } => "timeout",
            Self::Unreachable { .. } => "http_unreachable",
            Self::BadAnswer { .. } => "http_bad_answer",
        }
    }

    /// Returns `true` when the same call may succeed later.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        match self {
            Self::Timeout { .. } | Self::Unreachable { .. } => true,
            Self::Status { status, .. } => matches!(status, 408 | 429 | 500..=599),
            Self::BadArgument { .. }
            | Self::BadHeaderValue { .. }
            | Self::MissingContext { .. }
            | Self::MissingSecret { .. }
            | Self::SecretNotAllowed { .. }
            | Self::Blocked { .. }
            | Self::TooLarge { .. }
            | Self::BadAnswer { .. } => false,
        }
    }

    /// Suggested fix, for the user.
    #[must_use]
    pub fn help(&self) -> Option<String> {
        match self {
            Self::MissingContext { name } => Some(format!("give it with --ctx {name}=VALUE")),
            Self::MissingSecret { name } => Some(format!("set {name} in the environment")),
            Self::SecretNotAllowed { lines, .. } => Some(format!("if you trust the file with it, {lines}")),
            Self::Blocked {
                reason: BlockReason::PrivateAddress | BlockReason::MetadataAddress,
                target,
                ..
            } => Some(format!("to open it, add \"{target}\" to [network] allow in weft.toml")),
            Self::TooLarge { .. } => Some("raise response.max_bytes".into()),
            Self::Timeout { .. } => Some("raise endpoint.timeout_ms".into()),
            Self::BadArgument { .. }
            | Self::BadHeaderValue { .. }
            | Self::Blocked { .. }
            | Self::Status { .. }
            | Self::Unreachable { .. }
            | Self::BadAnswer { .. } => None,
        }
    }
}

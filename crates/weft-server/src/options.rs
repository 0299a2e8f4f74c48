//! Options of a server, and the errors of its start.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use weft_project::ServerSettings;

use crate::token::TokenChoice;

/// Options of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerOptions {
    /// Address, limits, further hosts and origins: `[server]` of `weft.toml`.
    pub settings: ServerSettings,
    /// Source of the token.
    pub token: TokenChoice,
    /// Time limit for a request to arrive: its head, and again its body. Also the time limit for the `hello` of a
    /// socket.
    pub slow: Duration,
    /// Time limit for a client that does not read; then its socket is closed.
    pub stalled: Duration,
    /// Interval of checks for reloaded files of the project.
    pub look: Duration,
}

impl ServerOptions {
    /// The settings of a project, with a random token.
    #[must_use]
    pub fn new(settings: ServerSettings) -> Self {
        Self {
            settings,
            token: TokenChoice::default(),
            slow: Duration::from_secs(20),
            stalled: Duration::from_mins(2),
            look: Duration::from_millis(200),
        }
    }

    /// The same with another token.
    #[must_use]
    pub fn with_token(mut self, token: TokenChoice) -> Self {
        self.token = token;
        self
    }

    /// The same for clients that are slower or faster.
    #[must_use]
    pub const fn with_patience(mut self, slow: Duration, stalled: Duration) -> Self {
        (self.slow, self.stalled) = (slow, stalled);
        self
    }
}

/// Error at the start of a server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// An address that others reach, and no token.
    #[error("{host} can be reached by others, and no token is set")]
    TokenRequired {
        /// The address.
        host: IpAddr,
    },
    /// A public address, and no token.
    #[error("others reach the server at `public_url` of [server], and no token is set")]
    PublicWithoutToken,
    /// The address is taken, or not ours.
    #[error("{address} cannot be bound: {source}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The operating system gives no random bytes.
    #[error("no token could be drawn: {message}")]
    NoRandomness {
        /// Message of the cause.
        message: String,
    },
    /// The operating system gives no threads.
    #[error("the threads of the runs could not be started: {source}")]
    NoThreads {
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The store of runs cannot be used.
    #[error(transparent)]
    Store(#[from] run_store::StoreError),
}

impl ServeError {
    /// Stable code for logs, tests and the wire.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::TokenRequired { .. } | Self::PublicWithoutToken => "token_required",
            Self::Bind { .. } => "address_in_use",
            Self::NoRandomness { .. } => "no_randomness",
            Self::NoThreads { .. } => "runtime",
            Self::Store(error) => error.code(),
        }
    }

    /// Fix, for a person.
    #[must_use]
    pub const fn help(&self) -> &'static str {
        match self {
            Self::TokenRequired { .. } => "leave the token on, or bind 127.0.0.1",
            Self::PublicWithoutToken => "leave the token on, or remove `public_url`",
            Self::Bind { .. } => "choose another port with --port, or 0 for a free one",
            Self::NoRandomness { .. } => "give a token with WEFT_TOKEN",
            Self::NoThreads { .. } => "raise the limit of processes and threads of the user",
            Self::Store(error) => error.hint(),
        }
    }
}

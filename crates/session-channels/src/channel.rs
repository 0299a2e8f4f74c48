//! The trait of channels, and the messages that go through them.

use std::fmt;

use async_trait::async_trait;
use http::HeaderMap;
use http_caller::HttpError;
use serde::{Deserialize, Serialize};

/// A message as it came in: the headers of a request and its body, or a message of a socket.
#[derive(Debug, Clone, Copy)]
pub struct Frame<'f> {
    /// Headers; empty for a message of a socket.
    pub headers: &'f HeaderMap,
    /// The bytes.
    pub body: &'f [u8],
}

/// Message of a user that came through a channel. It has no other members, so that an outgoing message, which has, is
/// not an incoming one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Incoming {
    /// The id under which the message comes again where its answer was lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Name of the conversation on the other side.
    #[serde(default)]
    pub conversation: String,
    /// The text.
    pub text: String,
}

impl Incoming {
    /// A message in a conversation.
    #[must_use]
    pub fn new(conversation: impl Into<String>, text: impl Into<String>) -> Self {
        Self { id: None, conversation: conversation.into(), text: text.into() }
    }

    /// The same with an id.
    #[must_use]
    pub fn with_id(mut self, id: Option<String>) -> Self {
        self.id = id;
        self
    }
}

/// Outgoing message of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outgoing {
    /// Its id, the same each time that it is sent.
    pub id: String,
    /// Name of the conversation on the other side.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub conversation: String,
    /// The session.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub session: String,
    /// Author: `user`, `agent`, `flow`, `action`, `timer` or `person`.
    pub author: String,
    /// Name of a person, else the id of the agent, flow, action or timer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The text.
    pub text: String,
    /// Time at which it was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// `true` for the reply of something that failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
}

/// A way for the users of a session.
///
/// ```
/// use async_trait::async_trait;
/// use session_channels::{Channel, ChannelError, Frame, Incoming, Outgoing};
///
/// /// A channel whose messages are texts, all of one conversation.
/// #[derive(Debug)]
/// struct Console;
///
/// #[async_trait]
/// impl Channel for Console {
///     fn receive(&self, frame: Frame<'_>) -> Result<Incoming, ChannelError> {
///         Ok(Incoming::new("console", String::from_utf8_lossy(frame.body)))
///     }
///
///     async fn send(&self, message: &Outgoing) -> Result<(), ChannelError> {
///         println!("{}: {}", message.author, message.text);
///         Ok(())
///     }
/// }
/// let headers = http::HeaderMap::new();
/// assert_eq!(Console.receive(Frame { headers: &headers, body: b"Hello" })?.text, "Hello");
/// # Ok::<(), ChannelError>(())
/// ```
#[async_trait]
pub trait Channel: Send + Sync + fmt::Debug {
    /// Reads a message of a user, and checks that it comes from the other side.
    ///
    /// # Errors
    /// It does not, or it holds no message.
    fn receive(&self, frame: Frame<'_>) -> Result<Incoming, ChannelError>;

    /// Sends what was said. The other side has it when this returns.
    ///
    /// # Errors
    /// It may not have arrived; it is sent again under the same id.
    async fn send(&self, message: &Outgoing) -> Result<(), ChannelError>;
}

/// Reason for which a message did not go through a channel.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChannelError {
    /// The secret of the channel is not set.
    #[error("the secret `{name}` of the channel is not set")]
    MissingSecret {
        /// The variable.
        name: String,
    },
    /// The message is not signed with the secret of the channel.
    #[error("the signature is missing, or not that of this message and the secret of the channel")]
    BadSignature,
    /// The message was signed too long ago, or in the future.
    #[error("the message was not signed within the last {} minutes", .minutes)]
    StaleSignature {
        /// Minutes for which a signature counts.
        minutes: i64,
    },
    /// The message does not have the form of one.
    #[error("the message cannot be read: {message}")]
    BadMessage {
        /// Description of the fault.
        message: String,
    },
    /// The channel's settings cannot be used.
    #[error("the channel cannot be used: {message}")]
    BadSettings {
        /// Description of the fault.
        message: String,
    },
    /// It could not be sent.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// The other side has gone.
    #[error("the connection is closed")]
    Closed,
}

impl ChannelError {
    /// Returns `true` if the other side has the message, and does not want it: sending it again is unlikely to help.
    #[must_use]
    pub const fn is_refusal(&self) -> bool {
        matches!(self, Self::Http(HttpError::Status { status: 400..500, .. }))
    }

    /// Stable code for logs, tests and the wire.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::MissingSecret { .. } => "missing_secret",
            Self::BadSignature => "bad_signature",
            Self::StaleSignature { .. } => "stale_signature",
            Self::BadMessage { .. } => "bad_message",
            Self::BadSettings { .. } => "bad_channel",
            Self::Http(error) => error.code(),
            Self::Closed => "channel_closed",
        }
    }
}

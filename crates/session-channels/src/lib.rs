//! Channels of sessions: signed messages of other systems in, and what is said in a session out.
//!
//! A [`Channel`] reads what came in and sends what is said. It stores nothing: the caller keeps what is to be sent and sends it
//! again under the same id until it has arrived.

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod channel;
mod settings;
mod signature;
mod webhook;

pub use channel::{Channel, ChannelError, Frame, Incoming, Outgoing};
pub use settings::{ChannelKind, ChannelSettings, SecretName};
pub use signature::{SignatureHeaders, Signer};
pub use webhook::WebhookChannel;

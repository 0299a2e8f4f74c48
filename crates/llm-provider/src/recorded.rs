//! Requests as the log of a run keeps them: the messages that the request before did not have, and tools and parameters
//! where they changed.

use std::sync::Arc;

use agent_types::ReplayData;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::{LlmRequest, Message};

/// Name of the value that counts the messages shared with the request before.
pub const SHARED: &str = "shared";
/// Name of the value with tools and parameters.
pub const SETTINGS: &str = "settings";
/// Name of the value with a further message.
pub const MESSAGE: &str = "message";

/// Relation of tools and parameters to those of the request before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settings {
    /// They are recorded.
    Changed,
    /// They are those of the request before.
    Same,
}

/// Data recorded with a request whose first `shared` messages the log has.
#[must_use]
pub fn record_of_rest(request: &LlmRequest, shared: usize, settings: Settings) -> ReplayData {
    let mut values = vec![(Arc::from(SHARED), Arc::new(shared.into()))];
    if settings == Settings::Changed {
        let alone = LlmRequest { messages: Arc::default(), ..request.clone() };
        let mut settings = serde_json::to_value(alone).unwrap_or_default();
        if let Value::Object(members) = &mut settings {
            members.remove("messages");
        }
        values.push((Arc::from(SETTINGS), Arc::new(settings)));
    }
    for message in request.messages.get(shared..).unwrap_or_default() {
        values.push((Arc::from(MESSAGE), Arc::new(serde_json::to_value(message).unwrap_or_default())));
    }
    ReplayData::from_values(values)
}

/// Data recorded with a request that no other one of its log is known to begin.
#[must_use]
pub fn record_of_whole(request: &LlmRequest) -> ReplayData {
    record_of_rest(request, 0, Settings::Changed)
}

/// Hash over the texts of messages.
#[derive(Debug, Clone, Default)]
pub struct MessageDigest(Sha256);

impl MessageDigest {
    /// Adds the next message.
    pub fn add(&mut self, message: &Message) {
        self.0.update((message.text().len() as u64).to_le_bytes());
        self.0.update(message.text());
    }

    /// A short name for the messages, equal where they are equal.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{:x}", self.0.clone().finalize()).split_off(48)
    }
}

/// A short name for messages, equal where they are equal.
#[must_use]
pub fn digest_of(messages: &[Message]) -> String {
    let mut digest = MessageDigest::default();
    messages.iter().for_each(|message| digest.add(message));
    digest.name()
}

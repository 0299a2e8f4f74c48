//! `[channels.NAME]` of `weft.toml`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Beginning and end of a secret in a value.
const SECRET: (&str, &str) = ("{$secret.", "}");

/// A way for the users of another system into sessions with an agent, and for what is said there to that system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ChannelSettings {
    /// Kind of the channel: `webhook`.
    pub kind: ChannelKind,
    /// The agent that answers.
    pub agent: String,
    /// Secret with which messages are signed, in and out, as `{$secret.NAME}`.
    #[schemars(with = "String")]
    pub secret: SecretName,
    /// Address to which everything that is said is sent, as far as `[network]` allows. Default: nothing is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Longest time of one attempt to send, in milliseconds.
    #[serde(default = "default_timeout")]
    pub timeout_ms: u64,
}

const fn default_timeout() -> u64 {
    10_000
}

/// Kind of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ChannelKind {
    /// Signed HTTP requests, both ways.
    Webhook,
}

/// Name of a secret of the environment, written as `{$secret.NAME}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SecretName(String);

impl SecretName {
    /// The variable.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for SecretName {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let name = text.strip_prefix(SECRET.0).and_then(|rest| rest.strip_suffix(SECRET.1));
        let is_name = |name: &&str| !name.is_empty() && !name.contains(['{', '}']);
        name.filter(is_name)
            .map(|name| Self(name.to_owned()))
            .ok_or("a secret is not written out; `{$secret.NAME}` takes it from the environment")
    }
}

impl From<SecretName> for String {
    fn from(name: SecretName) -> Self {
        format!("{}{}{}", SECRET.0, name.0, SECRET.1)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_secret_is_named_and_not_written_out() {
        let read = |secret: &str| {
            serde_json::from_value::<ChannelSettings>(
                json!({"kind": "webhook", "agent": "desk", "secret": secret}),
            )
        };
        let settings = read("{$secret.DESK_HOOK}").unwrap();
        assert_eq!((settings.secret.as_str(), settings.timeout_ms), ("DESK_HOOK", 10_000));
        assert_eq!(serde_json::to_value(&settings).unwrap()["secret"], "{$secret.DESK_HOOK}");
        for bad in ["hunter2", "{$secret.}", "{$secret.A} {$secret.B}"] {
            assert!(read(bad).unwrap_err().to_string().contains("{$secret.NAME}"), "{bad}");
        }
    }
}

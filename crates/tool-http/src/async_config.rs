//! Format of `async`.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Work that continues after the answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct AsyncConfig {
    /// JSONPath of the address to poll in the first answer. Default: the header `Location`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub poll: Option<String>,
    /// Address at which the server reports the end of the work; then nothing is polled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub callback: Option<CallbackConfig>,
    /// Pause between two requests where the server names none (`Retry-After`), in milliseconds. Default: 2000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_ms: Option<u64>,
    /// Time limit of the work, in milliseconds. Default: an hour.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_ms: Option<u64>,
    /// Answers that say that the work continues. Default: those with status 202.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending: Option<StateConfig>,
    /// Answers that say that the work failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<StateConfig>,
}

/// Time limit of the work where the file has none, in milliseconds.
const LIMIT_MS: u64 = 3_600_000;

/// Limit of a callback's body where the file has none, in KiB.
const MAX_BODY_KIB: usize = 256;

impl AsyncConfig {
    /// Time limit of the work.
    pub(crate) fn limit(&self) -> Duration {
        Duration::from_millis(self.limit_ms.unwrap_or(LIMIT_MS))
    }
}

/// Report of the end of the work: a request to a one-time address of the running server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct CallbackConfig {
    /// Name of the placeholder that is the address: `{callback_url}` in the request where it is absent.
    pub name: String,
    /// Limit of the body, in KiB.
    pub max_body_kib: usize,
}

impl Default for CallbackConfig {
    fn default() -> Self {
        Self { name: "callback_url".to_owned(), max_body_kib: MAX_BODY_KIB }
    }
}

/// Values in an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StateConfig {
    /// JSONPath of the value.
    pub path: String,
    /// The values that count.
    pub values: Vec<Value>,
}

//! Format of `async`.

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

/// Values in an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StateConfig {
    /// JSONPath of the value.
    pub path: String,
    /// The values that count.
    pub values: Vec<Value>,
}

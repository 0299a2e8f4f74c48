//! Settings for a connection to a server.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A server of the Model Context Protocol: a program (`command`), or an address (`url`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct McpSettings {
    /// The program that is started; it speaks over its stdin and stdout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Its arguments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Variables of its environment. Of ours it gets only what programs need to run at all.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Variables of our environment that it gets too, such as a key.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env_from: Vec<String>,
    /// Folder that it runs in, from that of the project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    /// Address of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Headers of requests to that address.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Variable of the environment with a token for that address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_env: Option<String>,
    /// The tools that count; absent, all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// Longest time of a call, in milliseconds.
    pub timeout_ms: u64,
    /// Longest time until the server is ready, in milliseconds.
    pub start_timeout_ms: u64,
    /// Version of the protocol that is offered: `2025-06-18`, `2025-11-25` or `2026-07-28`.
    pub protocol_version: String,
    /// Answer to a server's elicitation requests.
    pub elicitation: ElicitationPolicy,
}

/// Answer to a server's elicitation requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ElicitationPolicy {
    /// No.
    #[default]
    Decline,
    /// The defaults of what it asks for, where all that is required has one.
    Defaults,
}

/// Shorter values may be ordinary words, which must not be masked: of named variables, and of what is written out.
const SHORTEST: (usize, usize) = (6, 8);

impl McpSettings {
    /// Secrets that the server receives, longest first.
    #[must_use]
    pub fn secrets(&self) -> Vec<String> {
        let named = self.token_env.iter().chain(&self.env_from).filter_map(|name| std::env::var(name).ok());
        let written = self.headers.values().chain(self.env.values()).cloned();
        let written = written.filter(|value| value.len() >= SHORTEST.1);
        let mut secrets: Vec<String> =
            named.filter(|value| value.len() >= SHORTEST.0).chain(written).collect();
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets
    }
}

impl Default for McpSettings {
    fn default() -> Self {
        Self {
            command: None,
            args: Vec::new(),
            env: BTreeMap::new(),
            env_from: Vec::new(),
            cwd: None,
            url: None,
            headers: BTreeMap::new(),
            token_env: None,
            tools: None,
            timeout_ms: 60_000,
            start_timeout_ms: 20_000,
            protocol_version: "2025-11-25".to_owned(),
            elicitation: ElicitationPolicy::default(),
        }
    }
}

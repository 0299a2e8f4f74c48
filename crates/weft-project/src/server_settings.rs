//! `[server]` of `weft.toml`.

use std::net::{IpAddr, Ipv4Addr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of the server. Options of the command line take precedence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ServerSettings {
    /// Address to bind.
    pub host: IpAddr,
    /// Port to bind; 0 takes a free one.
    pub port: u16,
    /// Further names under which the server may be asked, such as that of a proxy in front of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// Origins of other pages that may use the server, such as `http://localhost:5173`. They need the token all the same.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub origins: Vec<String>,
    /// Longest body of a request, in KiB.
    pub max_body_kib: usize,
    /// Connections at once; further ones are answered with 503.
    pub max_connections: usize,
    /// Runs at work at once; further ones wait.
    pub max_runs: usize,
    /// Runs that may wait for their turn; further ones are answered with 429.
    pub max_queue: usize,
    /// Runs that one socket may follow at once.
    pub max_subscriptions: usize,
    /// Time that running runs have to finish at shutdown, in milliseconds; the remaining ones are interrupted and can
    /// be resumed.
    pub grace_ms: u64,
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            host: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: 8787,
            hosts: Vec::new(),
            origins: Vec::new(),
            max_body_kib: 4096,
            max_connections: 1024,
            max_runs: 16,
            max_queue: 256,
            max_subscriptions: 32,
            grace_ms: 5000,
        }
    }
}

impl ServerSettings {
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

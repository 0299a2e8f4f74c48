//! `[server]` of `weft.toml`.

use std::net::{IpAddr, Ipv4Addr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

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
    /// Address at which other systems reach the server, such as `https://weft.example`: callbacks of tools go there.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub public_url: Option<PublicUrl>,
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
            public_url: None,
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

/// Address at which other systems reach the server: a scheme, a host and perhaps a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct PublicUrl(String);

impl PublicUrl {
    /// The address, without a slash at its end.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its host, with the port where it names one.
    #[must_use]
    pub fn host(&self) -> String {
        let host = Url::parse(&self.0).ok().and_then(|url| {
            let host = url.host_str()?.to_owned();
            Some(url.port().map_or_else(|| host.clone(), |port| format!("{host}:{port}")))
        });
        host.unwrap_or_default()
    }
}

impl TryFrom<String> for PublicUrl {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let url = Url::parse(&text).map_err(|error| format!("`{text}` is not an address: {error}"))?;
        let is_plain = url.username().is_empty() && url.password().is_none();
        let is_place = is_plain && url.query().is_none() && url.fragment().is_none() && url.has_host();
        if !is_place || !matches!(url.scheme(), "https" | "http") {
            return Err(format!(
                "`{text}` is not the address of a server; write it as `https://weft.example`"
            ));
        }
        Ok(Self(url.as_str().trim_end_matches('/').to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_public_address_is_that_of_a_server() {
        let parsed = |text: &str| PublicUrl::try_from(text.to_owned()).map(|url| (url.0.clone(), url.host()));
        for (text, url, host) in [
            ("https://weft.example", "https://weft.example", "weft.example"),
            ("https://Weft.Example:8443/in/", "https://weft.example:8443/in", "weft.example:8443"),
            ("http://[::1]:80/", "http://[::1]", "[::1]"),
        ] {
            assert_eq!(parsed(text), Ok((url.to_owned(), host.to_owned())), "{text}");
        }
        for text in [
            "weft.example",
            "ftp://weft.example",
            "https://a:b@weft.example",
            "https://weft.example/?a=1",
            "",
        ] {
            assert!(parsed(text).is_err(), "{text}");
        }
    }
}

//! Allowed targets: the public internet, and hosts that the settings name.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use reqwest::Url;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::address::{is_metadata, is_public};
use crate::error::{BlockReason, HttpError};

/// Names at which clouds hand out the machine's credentials.
const METADATA_NAMES: [&str; 3] = ["metadata.google.internal", "metadata.goog", "metadata"];

/// A host that may be reached although its address is private: `127.0.0.1:8080`, `[::1]`, `printer.local`.
/// Without a port every port is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRule {
    host: String,
    port: Option<u16>,
}

/// A text that names no host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a host; write `host` or `host:port`, such as `127.0.0.1:8080`")]
pub struct InvalidHostRule {
    /// The text.
    pub text: String,
}

impl InvalidHostRule {
    /// Stable code for logs, tests and the wire.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        "bad_host"
    }
}

impl FromStr for HostRule {
    type Err = InvalidHostRule;

    fn from_str(text: &str) -> Result<Self, InvalidHostRule> {
        let bad = || InvalidHostRule { text: text.to_owned() };
        if text.is_empty()
            || text.contains(['/', '?', '#', '@', '\\', '*'])
            || text.contains(char::is_whitespace)
        {
            return Err(bad());
        }
        // The reader of URLs drops the port that a scheme means anyway; of two schemes one keeps it.
        let url = Url::parse(&format!("http://{text}")).map_err(|_| bad())?;
        let host = host_of(&url).ok_or_else(bad)?;
        let names_port = text
            .rsplit_once(':')
            .is_some_and(|(_, port)| !port.is_empty() && port.bytes().all(|digit| digit.is_ascii_digit()));
        Ok(Self { host, port: names_port.then(|| url.port_or_known_default()).flatten() })
    }
}

impl fmt::Display for HostRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.host)?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

impl Serialize for HostRule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for HostRule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for HostRule {
    fn schema_name() -> Cow<'static, str> {
        "HostRule".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "description": "A host that may be private: `host` or `host:port`."})
    }
}

impl HostRule {
    pub(crate) fn opens(&self, host: &str, port: Option<u16>) -> bool {
        self.host == host && (self.port.is_none() || self.port == port)
    }

    /// Returns `true` when the rule itself names a metadata service.
    fn names_metadata(&self) -> bool {
        METADATA_NAMES.contains(&self.host.as_str()) || literal(&self.host).is_some_and(is_metadata)
    }
}

/// Hosts that may be reached. Private addresses are closed unless a rule names them.
///
/// ```
/// use http_caller::NetworkPolicy;
///
/// let policy = NetworkPolicy::public_only().allowing(["127.0.0.1:8080".parse()?]);
/// # let _ = policy;
/// # Ok::<(), http_caller::InvalidHostRule>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NetworkPolicy {
    allow: Vec<HostRule>,
}

impl NetworkPolicy {
    /// Only the public internet.
    #[must_use]
    pub fn public_only() -> Self {
        Self::default()
    }

    /// The same with hosts that may be private.
    #[must_use]
    pub fn allowing(mut self, rules: impl IntoIterator<Item = HostRule>) -> Self {
        self.allow.extend(rules);
        self
    }

    fn rule(&self, url: &Url) -> Option<&HostRule> {
        let host = host_of(url)?;
        let mut rules = self.allow.iter().filter(|rule| rule.opens(&host, url.port_or_known_default()));
        let first = rules.next();
        rules.find(|rule| rule.names_metadata()).or(first)
    }
}

/// Addresses that a request may go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Permit {
    /// Public ones.
    Public,
    /// Private ones too, because the host is named.
    Private,
    /// All, because the name of a metadata service itself is named.
    Metadata,
}

impl Permit {
    /// Returns the reason to refuse an address.
    pub(crate) fn refuses(self, ip: IpAddr) -> Option<BlockReason> {
        match self {
            Self::Public => (!is_public(ip)).then_some(BlockReason::PrivateAddress),
            Self::Private => is_metadata(ip).then_some(BlockReason::MetadataAddress),
            Self::Metadata => None,
        }
    }
}

/// Checks a URL before its name is resolved; returns the addresses that it may go to.
pub(crate) fn check_url(policy: &NetworkPolicy, url: &Url, hop: u32) -> Result<Permit, HttpError> {
    let blocked = |reason, address| HttpError::Blocked { reason, target: target(url), address, hop };
    if !matches!(url.scheme(), "http" | "https") {
        return Err(blocked(BlockReason::Scheme, None));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(blocked(BlockReason::UserInfo, None));
    }
    let permit = match policy.rule(url) {
        Some(rule) if rule.names_metadata() => Permit::Metadata,
        Some(_) => Permit::Private,
        None => Permit::Public,
    };
    let host = host_of(url).unwrap_or_default();
    let is_local = host.is_empty() || host == "localhost" || host.ends_with(".localhost");
    let reason = match literal(&host) {
        Some(ip) => permit.refuses(ip),
        None if METADATA_NAMES.contains(&host.as_str()) && permit == Permit::Public => {
            Some(BlockReason::PrivateAddress)
        }
        None => (is_local && permit == Permit::Public).then_some(BlockReason::PrivateAddress),
    };
    reason.map_or(Ok(permit), |reason| Err(blocked(reason, None)))
}

/// Host and port as `[network] allow` would name them.
pub(crate) fn target(url: &Url) -> String {
    // An address without a host is named by its scheme.
    let Some(host) = url.host_str() else { return format!("{}:", url.scheme()) };
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// The host in its one spelling: small letters, no point at the end, addresses as numbers.
pub(crate) fn host_of(url: &Url) -> Option<String> {
    let host = url.host_str()?.trim_end_matches('.').to_ascii_lowercase();
    (!host.is_empty()).then_some(host)
}

/// The address that a host is, where it is one.
fn literal(host: &str) -> Option<IpAddr> {
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_names_a_host() {
        let rule = |text: &str| text.parse::<HostRule>().map(|rule| (rule.host, rule.port)).ok();
        assert_eq!(rule("127.0.0.1:8080"), Some(("127.0.0.1".into(), Some(8080))));
        assert_eq!(rule("127.0.0.1:80"), Some(("127.0.0.1".into(), Some(80))));
        assert_eq!(rule("LOCALHOST"), Some(("localhost".into(), None)));
        assert_eq!(rule("[::1]:9"), Some(("[::1]".into(), Some(9))));
        assert_eq!(rule("[::1]"), Some(("[::1]".into(), None)));
        for bad in ["", "http://x", "a b", "*", "x:port", "user@x", "10.0.0.0/8", "x:70000"] {
            assert_eq!(rule(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_rule_opens_its_host_and_port_only() {
        let policy = NetworkPolicy::public_only()
            .allowing(["127.0.0.1:8080", "box.test"].map(|rule| rule.parse().unwrap()));
        let permit =
            |url: &str| check_url(&policy, &Url::parse(url).unwrap(), 0).map_err(|error| error.code());
        assert_eq!(permit("http://127.0.0.1:8080/"), Ok(Permit::Private));
        assert_eq!(permit("http://2130706433:8080/"), Ok(Permit::Private));
        assert_eq!(permit("http://127.0.0.1:8081/"), Err("http_blocked"));
        assert_eq!(permit("http://box.test./"), Ok(Permit::Private));
        assert_eq!(permit("https://example.com/"), Ok(Permit::Public));
        assert_eq!(permit("http://metadata.google.internal/"), Err("http_blocked"));
    }
}

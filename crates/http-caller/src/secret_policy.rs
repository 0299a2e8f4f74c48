//! Hosts that each secret may go to.

use std::collections::BTreeMap;

use reqwest::Url;

use crate::network::{HostRule, host_of};
use crate::secret::{Secret, SecretSource};

/// Secrets that files may name, each with the hosts that it may go to.
#[derive(Debug, Clone, Default)]
pub(crate) struct SecretPolicy(pub(crate) Option<BTreeMap<String, Vec<HostRule>>>);

impl SecretPolicy {
    pub(crate) fn allows(&self, name: &str, url: &Url) -> bool {
        let Some(allowed) = &self.0 else { return true };
        let Some(host) = host_of(url) else { return false };
        let port = url.port_or_known_default();
        allowed.get(name).is_some_and(|hosts| hosts.iter().any(|rule| rule.opens(&host, port)))
    }
}

/// The secrets that may go to one address.
#[derive(Debug)]
pub(crate) struct Allowed<'s> {
    pub(crate) secrets: &'s dyn SecretSource,
    pub(crate) policy: &'s SecretPolicy,
    pub(crate) url: &'s Url,
}

impl SecretSource for Allowed<'_> {
    fn secret(&self, name: &str) -> Option<Secret> {
        self.policy.allows(name, self.url).then(|| self.secrets.secret(name)).flatten()
    }
}

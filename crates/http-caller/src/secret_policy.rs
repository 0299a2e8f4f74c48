//! Hosts that each secret may go to.

use std::collections::BTreeMap;

use reqwest::Url;
use serde_json::Value;

use crate::network::{HostRule, host_of, target};
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

/// Beginning of a secret in a template.
const SECRET: &str = "{$secret.";

/// A secret that a file names and that may not go where the file sends it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RefusedSecret {
    /// The variable.
    pub name: String,
    /// Host, or host and port.
    pub host: String,
    /// Suggested fix: the lines of the settings that let it go there.
    pub lines: String,
}

impl SecretPolicy {
    /// Lines of the settings that let a secret go to a host, with the place that they belong to.
    pub(crate) fn lines(&self, name: &str, host: &str) -> String {
        let allowed = self.0.iter().flatten();
        let Some((_, hosts)) = allowed.clone().find(|(own, _)| *own == name) else {
            let line = format!("{} = [\"{host}\"]", key(name));
            return match allowed.count() {
                0 => format!("add to weft.toml:\n[secrets.allow]\n{line}"),
                _ => format!("add to weft.toml under [secrets.allow]:\n{line}"),
            };
        };
        let mut hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
        hosts.push(host.to_owned());
        let hosts = hosts.join("\", \"");
        format!("add the host in weft.toml under [secrets.allow]:\n{} = [\"{hosts}\"]", key(name))
    }

    /// Secrets that a file names and that may not go where it sends them, each once.
    pub(crate) fn refused(&self, file: &Value) -> Vec<RefusedSecret> {
        let mut refused = Vec::new();
        let mut open = vec![(file, None)];
        while let Some((value, address)) = open.pop() {
            match value {
                Value::String(text) => self.look_at(text, address, &mut refused),
                Value::Array(items) => open.extend(items.iter().rev().map(|item| (item, address))),
                Value::Object(members) => {
                    let address = address_of(value).or(address);
                    open.extend(members.values().rev().map(|member| (member, address)));
                }
                Value::Null | Value::Bool(_) | Value::Number(_) => {}
            }
        }
        refused
    }

    fn look_at(&self, text: &str, address: Option<&str>, refused: &mut Vec<RefusedSecret>) {
        let names = text.split(SECRET).skip(1).filter_map(|rest| Some(rest.split_once('}')?.0));
        for name in names {
            // Only a whole address has a host; templates may stand behind it.
            let Some(url) = address.and_then(|address| Url::parse(address).ok()) else { continue };
            let host = target(&url);
            let is_known = |other: &RefusedSecret| other.name == name && other.host == host;
            if !self.allows(name, &url) && !refused.iter().any(is_known) {
                let lines = self.lines(name, &host);
                refused.push(RefusedSecret { name: name.to_owned(), host, lines });
            }
        }
    }
}

/// Address of the request that an object describes, itself or in its `endpoint`.
fn address_of(object: &Value) -> Option<&str> {
    object.get("url").or_else(|| object.get("endpoint")?.get("url"))?.as_str()
}

/// A name as a key of the settings.
fn key(name: &str) -> String {
    let is_plain = |sign: char| sign.is_ascii_alphanumeric() || matches!(sign, '_' | '-');
    if !name.is_empty() && name.chars().all(is_plain) {
        name.to_owned()
    } else {
        Value::from(name).to_string()
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn n13_secrets_that_may_not_go_there_are_found_in_files() {
        let rule = |text: &str| text.parse::<HostRule>().unwrap();
        let allowed =
            [("KEY", vec![rule("api.test:443")]), ("OTHER", vec![rule("[::1]:80"), rule("b.test")])];
        let allowed = allowed.into_iter().map(|(name, hosts)| (name.to_owned(), hosts)).collect();
        let tool = |url: &str, name: &str| {
            json!({"endpoint": {"url": url, "headers": {"x-key": format!("k {{$secret.{name}}}")}},
                "auth": {"type": "bearer", "token": format!("{{$secret.{name}}}")}})
        };
        let file = json!({"flows": [tool("https://api.test/{a}", "KEY"), tool("https://evil.test/", "KEY"),
            tool("http://c.test:81/x", "OTHER"), tool("http://c.test/", "NEW.ONE")]});
        let found = SecretPolicy(Some(allowed)).refused(&file);
        let found: Vec<_> =
            found.iter().map(|it| (&*it.name, &*it.host, it.lines.lines().last().unwrap())).collect();
        assert_eq!(
            found,
            [
                ("KEY", "evil.test", "KEY = [\"api.test:443\", \"evil.test\"]"),
                ("OTHER", "c.test:81", "OTHER = [\"[::1]:80\", \"b.test\", \"c.test:81\"]"),
                ("NEW.ONE", "c.test", "\"NEW.ONE\" = [\"c.test\"]"),
            ]
        );
        let none = SecretPolicy(Some(BTreeMap::new())).refused(&file);
        assert!(
            none.len() == 4 && none.iter().all(|it| it.lines.contains("\n[secrets.allow]\n")),
            "{none:?}"
        );
        assert!(SecretPolicy(None).refused(&file).is_empty());
    }
}

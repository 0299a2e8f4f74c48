//! Secrets: their sources, their storage, and their masking in texts of others.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use parking_lot::RwLock;
use serde_json::{Map, Value};

use crate::encode;

/// Mask that replaces a secret.
const HIDDEN: &str = "***";

/// Shortest piece of base64 that is looked for, in characters: a shorter one would be found everywhere.
const MIN_BASE64: usize = 4;

/// Value that cannot be read by accident: `Debug` and `Display` print `***`.
///
/// ```
/// use http_caller::Secret;
///
/// let secret = Secret::new("S3CR3T");
/// assert_eq!(format!("{secret} {secret:?}"), "*** ***");
/// assert_eq!(secret.reveal(), "S3CR3T");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Keeps a value.
    #[must_use]
    pub fn new(value: impl Into<Arc<str>>) -> Self {
        Self(value.into())
    }

    /// Returns the value itself, for the one function that sends it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

/// Source of secrets.
pub trait SecretSource: Send + Sync + fmt::Debug {
    /// The secret of that name; an empty one counts as none.
    fn secret(&self, name: &str) -> Option<Secret>;
}

/// Secrets from the environment of the process.
#[derive(Debug, Clone, Copy, Default)]
pub struct EnvSecrets;

impl SecretSource for EnvSecrets {
    fn secret(&self, name: &str) -> Option<Secret> {
        // The library panics at a name that no variable can have.
        let is_name = !name.is_empty() && !name.contains(['=', '\0']);
        is_name.then(|| std::env::var(name).ok()).flatten().map(Secret::new)
    }
}

/// Secrets by name, for tests and for programs that keep them elsewhere.
impl SecretSource for BTreeMap<String, Secret> {
    fn secret(&self, name: &str) -> Option<Secret> {
        self.get(name).cloned()
    }
}

/// The secrets that were used so far; it takes them out of texts and values. Clones share them.
///
/// A secret is found as it is, percent-encoded, escaped as in JSON, and in base64 at any offset.
#[derive(Clone, Default)]
pub struct SecretMask(Arc<RwLock<Vec<String>>>);

impl fmt::Debug for SecretMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretMask")
    }
}

impl SecretMask {
    /// Knows nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Remembers a secret from now on.
    pub fn register(&self, secret: &Secret) {
        if secret.reveal().is_empty() {
            return;
        }
        let mut known = self.0.write();
        for form in forms(secret.reveal()) {
            if !known.contains(&form) {
                known.push(form);
            }
        }
        // A longer form may hold a shorter one.
        known.sort_by_key(|form| std::cmp::Reverse(form.len()));
    }

    /// The text without any secret.
    #[must_use]
    pub fn text(&self, text: &str) -> String {
        let known = self.0.read();
        let mut text = text.to_owned();
        for form in known.iter().filter(|form| !form.is_empty()) {
            if text.contains(form.as_str()) {
                text = text.replace(form.as_str(), HIDDEN);
            }
        }
        text
    }

    /// The value without any secret, names of members included.
    #[must_use]
    pub fn value(&self, value: Value) -> Value {
        if self.0.read().is_empty() {
            return value;
        }
        self.masked(value)
    }

    /// Values come from a JSON reader or a request, both at most 128 levels deep.
    fn masked(&self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(&text)),
            Value::Array(items) => items.into_iter().map(|item| self.masked(item)).collect(),
            Value::Object(members) => {
                let members = members.into_iter().map(|(key, value)| (self.text(&key), self.masked(value)));
                Value::Object(members.collect::<Map<_, _>>())
            }
            Value::Number(number) => {
                let text = number.to_string();
                if self.text(&text) == text { Value::Number(number) } else { HIDDEN.into() }
            }
            Value::Null | Value::Bool(_) => value,
        }
    }
}

/// Every way in which a secret may come back.
fn forms(secret: &str) -> Vec<String> {
    let percent = encode::component(secret);
    let quoted = Value::from(secret).to_string();
    let mut forms = vec![
        secret.to_owned(),
        lower_escapes(&percent),
        percent.replace("%20", "+"),
        quoted[1..quoted.len() - 1].to_owned(),
        percent,
    ];
    for offset in 0..3 {
        for engine in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
            let mut bytes = vec![0; offset];
            bytes.extend_from_slice(secret.as_bytes());
            let text = engine.encode(&bytes);
            // Characters at the ends also hold bits of the text around the secret.
            let start = (offset * 8).div_ceil(6);
            let end = bytes.len() * 8 / 6;
            let whole = text.get(start..end).filter(|whole| whole.len() >= MIN_BASE64);
            forms.extend(whole.map(str::to_owned));
        }
    }
    forms.sort();
    forms.dedup();
    forms
}

/// `%2F` as `%2f`.
fn lower_escapes(percent: &str) -> String {
    let mut parts = percent.split('%');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2).unwrap_or((part, ""));
        out.extend(["%", &digits.to_lowercase(), rest]);
    }
    out
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::STANDARD;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn mask(secret: &str) -> SecretMask {
        let mask = SecretMask::new();
        mask.register(&Secret::new(secret));
        mask
    }

    #[test]
    fn a_secret_is_found_in_every_form() {
        let mask = mask("S3/CR\"3T");
        assert_eq!(mask.text("key=S3/CR\"3T."), "key=***.");
        assert_eq!(mask.text("key=S3%2FCR%223T&x=S3%2fCR%223T"), "key=***&x=***");
        assert_eq!(mask.text(r#"{"key":"S3/CR\"3T"}"#), r#"{"key":"***"}"#);
        assert_eq!(mask.value(json!({"S3/CR\"3T": ["S3/CR\"3T", 1]})), json!({"***": ["***", 1]}));
        assert_eq!(mask.text("nothing here"), "nothing here");
    }

    #[test]
    fn numbers_are_no_way_out() {
        assert_eq!(mask("12345").value(json!({"a": 912_345, "b": 4})), json!({"a": "***", "b": 4}));
    }

    proptest! {
        #[test]
        fn base64_of_what_holds_a_secret_holds_it_no_more(
            before in "[a-z:]{0,7}", secret in "[A-Za-z0-9]{9,20}", after in "[a-z:]{0,7}"
        ) {
            let whole = STANDARD.encode(format!("{before}{secret}{after}"));
            let shown = mask(&secret).text(&whole);
            // At most the characters that the secret shares with its neighbours are left.
            prop_assert!(shown.contains(HIDDEN), "{shown}");
        }
    }
}

//! Secrets: their sources, their storage, and their masking in texts of others.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use agent_types::Redactor;
use parking_lot::RwLock;
use serde_json::Value;

/// Mask that replaces a secret.
const HIDDEN: &str = "***";

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

/// The secrets that were used so far; it takes them out of texts and values, in the forms that a [`Redactor`] finds. Clones
/// share them.
#[derive(Clone, Default)]
pub struct SecretMask(Arc<RwLock<Known>>);

#[derive(Default)]
struct Known {
    secrets: Vec<Secret>,
    masks: Redactor,
}

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
        let is_known = |known: &Known| secret.reveal().is_empty() || known.secrets.contains(secret);
        if is_known(&self.0.read()) {
            return;
        }
        let mut known = self.0.write();
        if !is_known(&known) {
            known.secrets.push(secret.clone());
            known.masks =
                Redactor::of_any_length(known.secrets.iter().map(|secret| secret.reveal().to_owned()));
        }
    }

    /// The text without any secret.
    #[must_use]
    pub fn text(&self, text: &str) -> String {
        self.0.read().masks.mask(text).into_owned()
    }

    /// The value without any secret, names of members included.
    #[must_use]
    pub fn value(&self, value: Value) -> Value {
        // Texts of a value may be long, so the lock is not held over them.
        let masks = self.0.read().masks.clone();
        masks.value(value)
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine;
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

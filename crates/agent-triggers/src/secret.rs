//! Names of secrets.

use crate::checked_text::checked_text;

/// Beginning and end of a secret in a value.
const SECRET: (&str, &str) = ("{$secret.", "}");

checked_text!(
    /// The name of a secret.
    Secret(String), |text| {
        let name = text.strip_prefix(SECRET.0).and_then(|rest| rest.strip_suffix(SECRET.1));
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        match name.filter(|name| !name.is_empty() && name.chars().all(is_part)) {
            Some(name) => Ok(name.to_owned()),
            None => Err("a secret is not written out; `{$secret.NAME}` takes it from the environment".into()),
        }
    }
);

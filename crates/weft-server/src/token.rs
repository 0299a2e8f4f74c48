//! The token that opens the server.

use std::fmt;
use std::fmt::Write;

use subtle::ConstantTimeEq;

/// Bytes of a token of our own.
const RANDOM_BYTES: usize = 32;

/// Source of the token.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum TokenChoice {
    /// Drawn when the server starts.
    #[default]
    Random,
    /// Known before, such as that of an environment variable.
    Given(Token),
    /// No token: every client that reaches the address may use the server. Only the loopback can be bound so.
    Open,
}

/// A secret that a request must carry. It prints as `***`.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// Takes a token as it is; `None` where it is too short to be a secret (16 characters), or holds anything but letters, digits,
    /// `-`, `_`, `.` and `~`.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Option<Self> {
        let text = text.into();
        let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
        (text.len() >= 16 && text.bytes().all(is_fine)).then_some(Self(text))
    }

    /// Draws a random token.
    ///
    /// # Errors
    /// The operating system gives no random bytes.
    pub fn random() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; RANDOM_BYTES];
        getrandom::fill(&mut bytes)?;
        let mut text = String::with_capacity(2 * RANDOM_BYTES);
        for byte in bytes {
            // Writing to a text cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        Ok(Self(text))
    }

    /// The secret itself, for the one line that prints it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Compares in constant time.
    pub(crate) fn is(&self, given: &str) -> bool {
        is_same(&self.0, given)
    }
}

/// Returns `true` for two texts that are the same, in a time that does not depend on where they differ.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    one.as_bytes().ct_eq(other.as_bytes()).into()
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(***)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_long_differ_and_are_not_shown() {
        let (one, other) = (Token::random().unwrap(), Token::random().unwrap());
        assert_eq!(one.reveal().len(), 64);
        assert_ne!(one, other);
        assert!(one.is(one.reveal()) && !one.is(other.reveal()) && !one.is(""));
        assert_eq!(format!("{one:?}"), "Token(***)");
        assert!(Token::new("short").is_none() && Token::new("0123456789abcdef\n").is_none());
    }
}

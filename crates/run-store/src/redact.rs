//! Secrets are masked before anything is kept or shown.

use std::borrow::Cow;
use std::fmt;
use std::fmt::Write;

use aho_corasick::AhoCorasick;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

/// Shortest secret that is masked. Masking shorter values would destroy ordinary text.
const SHORTEST: usize = 6;
const MASK: &str = "***";

/// Masks known secrets, plain, percent-encoded or in base64, wherever they stand.
#[derive(Default)]
pub struct Redactor {
    finder: Option<AhoCorasick>,
    masks: Vec<&'static str>,
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor").field("forms", &self.masks.len()).finish_non_exhaustive()
    }
}

impl Redactor {
    /// Masks these values. Those of less than six bytes are left alone.
    #[must_use]
    pub fn new(secrets: impl IntoIterator<Item = String>) -> Self {
        let mut patterns = Vec::new();
        for secret in secrets.into_iter().filter(|secret| secret.len() >= SHORTEST) {
            patterns.extend(forms(&secret));
        }
        patterns.sort_by_key(|pattern| std::cmp::Reverse(pattern.len()));
        patterns.dedup();
        let masks = vec![MASK; patterns.len()];
        // Plain texts always compile; without a finder nothing would be masked, so none means none were given.
        let finder = (!patterns.is_empty()).then(|| {
            AhoCorasick::builder().match_kind(aho_corasick::MatchKind::LeftmostLongest).build(&patterns)
        });
        Self { finder: finder.and_then(Result::ok), masks }
    }

    /// Returns `true` if there is a secret to mask.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.finder.is_some()
    }

    /// The text with every secret masked; borrowed where it holds none.
    #[must_use]
    pub fn mask<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match &self.finder {
            Some(finder) if finder.is_match(text) => Cow::Owned(finder.replace_all(text, &self.masks)),
            Some(_) | None => Cow::Borrowed(text),
        }
    }
}

/// Returns the forms in which a secret may appear in a line of JSON.
fn forms(secret: &str) -> Vec<String> {
    let json = serde_json::Value::from(secret).to_string();
    let escaped = json.trim_matches('"').to_owned();
    let mut percent = String::new();
    for byte in secret.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            percent.push(char::from(byte));
        } else {
            // Writing to a text cannot fail.
            let _ = write!(percent, "%{byte:02X}");
        }
    }
    let mut forms = vec![secret.to_owned(), escaped, percent.to_lowercase(), percent];
    // In base64 a text looks different by where it begins; the first and last letters depend on what is around it.
    for skip in 0..3 {
        let mut padded = vec![0; skip];
        padded.extend_from_slice(secret.as_bytes());
        for engine in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
            let text = engine.encode(&padded);
            let end = if padded.len() % 3 == 0 { text.len() } else { text.len() - 1 };
            let begin = if skip == 0 { 0 } else { skip + 1 };
            if end > begin + SHORTEST {
                forms.push(text[begin..end].to_owned());
            }
        }
    }
    forms
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_masked_in_every_form() {
        let secret = "S3CR3T/key+1";
        let redactor = Redactor::new([secret.to_owned(), "abc".to_owned()]);
        for text in [
            format!("Bearer {secret}"),
            "k=S3CR3T%2Fkey%2B1&x".to_owned(),
            format!("basic {}", STANDARD_NO_PAD.encode(format!("user:{secret}"))),
            format!("basic {}", STANDARD_NO_PAD.encode(format!("me:{secret}:x"))),
            format!("basic {}", STANDARD_NO_PAD.encode(format!("u:{secret}"))),
        ] {
            let masked = redactor.mask(&text);
            assert!(masked.contains(MASK), "{text}");
            assert!(!masked.contains("S3CR3T"), "{masked}");
        }
        assert_eq!(redactor.mask("abc stays"), "abc stays");
    }
}

//! Signatures of webhooks: HMAC-SHA256 over `id.timestamp.body`.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use sha2::Sha256;

/// Fewest bytes of a key.
pub(crate) const MIN_KEY: usize = 16;

/// Beginning of a secret whose rest is base64.
const ENCODED: &str = "whsec_";

/// Version of the signatures.
const VERSION: &str = "v1,";

/// Headers of a signed message.
#[derive(Debug, Clone, Copy)]
pub struct SignatureHeaders<'h> {
    /// `webhook-id`.
    pub id: &'h str,
    /// `webhook-timestamp`: seconds since 1970.
    pub timestamp: &'h str,
    /// `webhook-signature`: one or more signatures with blanks between them.
    pub signature: &'h str,
}

/// Signs messages with a secret, and checks those of the other side.
#[derive(Clone)]
pub struct Signer(Hmac<Sha256>);

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signer(***)")
    }
}

impl Signer {
    /// A signer with a secret: a text, or `whsec_` and base64. `None` for a key of fewer than 16 bytes, which can be
    /// guessed, and for what is not base64.
    #[must_use]
    pub fn new(secret: &str) -> Option<Self> {
        let key = match secret.strip_prefix(ENCODED) {
            Some(encoded) => STANDARD.decode(encoded).ok()?,
            None => secret.as_bytes().to_vec(),
        };
        let mac = Hmac::new_from_slice(&key).ok().filter(|_| key.len() >= MIN_KEY)?;
        Some(Self(mac))
    }

    /// The value of `webhook-signature` for a message.
    #[must_use]
    pub fn sign(&self, id: &str, timestamp: &str, body: &[u8]) -> String {
        let code = self.mac(id, timestamp, body).finalize().into_bytes();
        format!("{VERSION}{}", STANDARD.encode(code))
    }

    /// Returns `true` if one of the signatures is that of the message. The comparison takes the same time wherever they differ.
    #[must_use]
    pub fn is_signed(&self, headers: SignatureHeaders<'_>, body: &[u8]) -> bool {
        let own = self.mac(headers.id, headers.timestamp, body);
        let given =
            headers.signature.split_ascii_whitespace().filter_map(|given| given.strip_prefix(VERSION));
        given
            .filter_map(|given| STANDARD.decode(given).ok())
            .any(|code| own.clone().verify_slice(&code).is_ok())
    }

    fn mac(&self, id: &str, timestamp: &str, body: &[u8]) -> Hmac<Sha256> {
        let parts = [id.as_bytes(), b".", timestamp.as_bytes(), b".", body];
        parts.iter().fold(self.0.clone(), Mac::chain_update)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "a secret of 23 letters.";

    fn signer(secret: &str) -> Signer {
        Signer::new(secret).unwrap()
    }

    #[test]
    fn a_signature_counts_for_its_message_and_secret_alone() {
        let signature = signer(SECRET).sign("m1", "5", b"{}");
        let encoded = format!("whsec_{}", STANDARD.encode(SECRET));
        assert_eq!(signature, signer(&encoded).sign("m1", "5", b"{}"), "base64 is the same secret");
        let both = format!("v1,AAAA v2,x {signature}");
        let headers = SignatureHeaders { id: "m1", timestamp: "5", signature: &both };
        let signer = signer(SECRET);
        assert!(signer.is_signed(headers, b"{}"));
        assert!(!signer.is_signed(headers, b"{ }"));
        assert!(!signer.is_signed(SignatureHeaders { timestamp: "6", ..headers }, b"{}"));
        assert!(!signer.is_signed(SignatureHeaders { signature: "", ..headers }, b"{}"));
        assert!(!signer.is_signed(SignatureHeaders { signature: "v1,", ..headers }, b"{}"));
        assert!(!self::signer("another secret of many").is_signed(headers, b"{}"));
        assert_eq!(format!("{signer:?}"), "Signer(***)");
    }

    #[test]
    fn keys_that_can_be_guessed_are_refused() {
        for secret in ["", "short", "whsec_", "whsec_c2hvcnQ=", "whsec_this is not base64, of 30"] {
            assert!(Signer::new(secret).is_none(), "{secret}");
        }
    }
}

//! Signatures of webhooks: HMAC-SHA256 over `id.timestamp.body`.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// Bytes of a block of the digest.
const BLOCK: usize = 64;

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
pub struct Signer {
    key: Vec<u8>,
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signer(***)")
    }
}

impl Signer {
    /// A signer with a secret: a text, or `whsec_` and base64.
    #[must_use]
    pub fn new(secret: &str) -> Self {
        let decoded = secret.strip_prefix(ENCODED).and_then(|rest| STANDARD.decode(rest).ok());
        Self { key: decoded.unwrap_or_else(|| secret.as_bytes().to_vec()) }
    }

    /// The value of `webhook-signature` for a message.
    #[must_use]
    pub fn sign(&self, id: &str, timestamp: &str, body: &[u8]) -> String {
        let parts = [id.as_bytes(), b".", timestamp.as_bytes(), b".", body];
        format!("{VERSION}{}", STANDARD.encode(hmac_sha256(&self.key, &parts)))
    }

    /// Returns `true` if one of the signatures is that of the message. The comparison takes the same time wherever they differ.
    #[must_use]
    pub fn is_signed(&self, headers: SignatureHeaders<'_>, body: &[u8]) -> bool {
        let own = self.sign(headers.id, headers.timestamp, body);
        let is_own = |given: &str| bool::from(given.as_bytes().ct_eq(own.as_bytes()));
        headers.signature.split_ascii_whitespace().any(is_own)
    }
}

/// HMAC with SHA-256 over parts that follow each other (RFC 2104).
fn hmac_sha256(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut block = [0_u8; BLOCK];
    if key.len() > BLOCK {
        block[..32].copy_from_slice(&Sha256::digest(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let inner = Sha256::new_with_prefix(block.map(|byte| byte ^ 0x36));
    let inner = parts.iter().fold(inner, |digest, part| digest.chain_update(part)).finalize();
    Sha256::new_with_prefix(block.map(|byte| byte ^ 0x5c)).chain_update(inner).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn codes_are_those_of_rfc_4231() {
        let short = hmac_sha256(b"Jefe", &[b"what do ya ", b"want for nothing?"]);
        assert_eq!(hex(&short), "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
        let long = hmac_sha256(&[0xaa; 131], &[b"Test Using Larger Than Block-Size Key - Hash Key First"]);
        assert_eq!(hex(&long), "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    }

    #[test]
    fn a_signature_counts_for_its_message_and_secret_alone() {
        let signer = Signer::new("whsec_c2VjcmV0");
        let signature = signer.sign("m1", "5", b"{}");
        assert_eq!(signature, Signer::new("secret").sign("m1", "5", b"{}"), "base64 is the same secret");
        let both = format!("v1,AAAA {signature}");
        let headers = SignatureHeaders { id: "m1", timestamp: "5", signature: &both };
        assert!(signer.is_signed(headers, b"{}"));
        assert!(!signer.is_signed(headers, b"{ }"));
        assert!(!signer.is_signed(SignatureHeaders { timestamp: "6", ..headers }, b"{}"));
        assert!(!signer.is_signed(SignatureHeaders { signature: "", ..headers }, b"{}"));
        assert!(!Signer::new("other").is_signed(headers, b"{}"));
        assert_eq!(format!("{signer:?}"), "Signer(***)");
    }
}

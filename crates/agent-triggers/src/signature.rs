//! Signatures of webhooks.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::secret::Secret;

/// Difference to the time of this machine that a message may have, in seconds.
const TOLERANCE_S: u64 = 300;

/// Placeholders of the text that is signed.
const BODY: &str = "{body}";
const TIMESTAMP: &str = "{timestamp}";

/// Algorithm of a signature.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Algorithm {
    /// HMAC with SHA-256.
    #[default]
    Sha256,
}

/// Writing of a signature.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SignatureEncoding {
    /// Hexadecimal digits.
    #[default]
    Hex,
    /// Base64 with padding.
    Base64,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Signature")]
pub(crate) struct SignatureConfig {
    /// Header of the signature, such as `X-Hub-Signature-256`. Where it holds several parts, parted by commas or blanks, one must fit.
    header: String,
    /// The key, as `{$secret.NAME}`.
    secret: Secret,
    /// Algorithm: HMAC with SHA-256.
    #[serde(default)]
    algorithm: Algorithm,
    /// Writing of the signature. Default: hexadecimal digits.
    #[serde(default)]
    encoding: SignatureEncoding,
    /// Text before the signature, such as `sha256=`.
    #[serde(default)]
    prefix: String,
    /// Time at which the message was signed.
    #[serde(default)]
    timestamp: Option<TimestampConfig>,
    /// Text that is signed. Default: `{body}`, with a timestamp `{timestamp}.{body}`.
    #[serde(default)]
    payload: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "SignatureTimestamp")]
struct TimestampConfig {
    /// Header of the time, in seconds since 1970.
    header: String,
    /// Text before the time, such as `t=`.
    #[serde(default)]
    prefix: String,
    /// Difference to the time of the server that a message may have, in seconds. Default: 300.
    #[serde(default)]
    tolerance_s: Option<u64>,
}

/// Signature that a request must carry.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Signature {
    /// Header of the signature.
    pub header: String,
    /// Name of the secret that is the key.
    pub secret: String,
    /// Its algorithm.
    pub algorithm: Algorithm,
    /// Its writing.
    pub encoding: SignatureEncoding,
    /// Text before it.
    pub prefix: String,
    /// Time at which the message was signed.
    pub timestamp: Option<SignatureTime>,
    /// Text that is signed.
    payload: String,
}

/// Time of a signature.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SignatureTime {
    /// Header of the time, in seconds since 1970.
    pub header: String,
    /// Text before the time.
    pub prefix: String,
    /// Difference that a message may have.
    pub tolerance: Duration,
}

impl Signature {
    /// The bytes that are signed.
    #[must_use]
    pub fn signed(&self, timestamp: &str, body: &[u8]) -> Vec<u8> {
        let (before, after) = self.payload.split_once(BODY).unwrap_or((&self.payload, ""));
        let part = |text: &str| text.replace(TIMESTAMP, timestamp).into_bytes();
        [&part(before)[..], body, &part(after)[..]].concat()
    }
}

impl TryFrom<SignatureConfig> for Signature {
    type Error = String;

    fn try_from(config: SignatureConfig) -> Result<Self, String> {
        let SignatureConfig {
            header,
            secret: Secret(secret),
            algorithm,
            encoding,
            prefix,
            timestamp,
            payload,
        } = config;
        for name in [Some(&header), timestamp.as_ref().map(|time| &time.header)].into_iter().flatten() {
            check_header(name)?;
        }
        let usual = if timestamp.is_some() { format!("{TIMESTAMP}.{BODY}") } else { BODY.to_owned() };
        let payload = payload.unwrap_or(usual);
        if payload.matches(BODY).count() != 1 {
            return Err(format!("`payload` must hold `{BODY}` once"));
        }
        if payload.contains(TIMESTAMP) != timestamp.is_some() {
            return Err(format!(
                "`payload` must hold `{TIMESTAMP}` where `timestamp` is set, and only there"
            ));
        }
        let timestamp = timestamp.map(|time| SignatureTime {
            header: time.header,
            prefix: time.prefix,
            tolerance: Duration::from_secs(time.tolerance_s.unwrap_or(TOLERANCE_S)),
        });
        Ok(Self { header, secret, algorithm, encoding, prefix, timestamp, payload })
    }
}

fn check_header(name: &str) -> Result<(), String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if !name.is_empty() && name.chars().all(is_part) {
        return Ok(());
    }
    Err(format!("`{name}` cannot be the name of a header"))
}

//! Signatures of webhooks: HMAC over the body, compared in constant time.

use agent_triggers::{Algorithm, Signature, SignatureEncoding, SignatureTime};
use agent_types::Timestamp;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::digest::Output;
use hmac::{Hmac, Mac};
use http::{HeaderMap, StatusCode};
use sha2::{Digest, Sha256};

use crate::problem::Problem;
use crate::token::is_same;

/// Checks that a message carries the signature of its body, and that it is not old. Returns the digest of the signature, by
/// which one that comes again is known.
pub(crate) fn check(
    signature: &Signature,
    key: &str,
    (headers, body): (&HeaderMap, &[u8]),
    now: Timestamp,
) -> Result<String, Problem> {
    let time = match &signature.timestamp {
        Some(time) => parts(headers, &time.header, &time.prefix).next().ok_or_else(|| wrong(signature))?,
        None => "",
    };
    let signed = signature.signed(time, body);
    let code = match signature.algorithm {
        Algorithm::Sha256 => hmac_sha256(key.as_bytes(), &signed).ok_or_else(|| wrong(signature))?,
    };
    let own = format!("{:x}", Sha256::digest(code.as_slice()));
    let expected = match signature.encoding {
        SignatureEncoding::Hex => format!("{code:x}"),
        SignatureEncoding::Base64 => STANDARD.encode(code),
    };
    let is_right = |given: &str| match signature.encoding {
        SignatureEncoding::Hex => is_same(&given.to_ascii_lowercase(), &expected),
        SignatureEncoding::Base64 => is_same(given, &expected),
    };
    if !parts(headers, &signature.header, &signature.prefix).any(is_right) {
        return Err(wrong(signature));
    }
    signature.timestamp.as_ref().map_or(Ok(()), |limit| check_time(limit, time, now))?;
    Ok(own)
}

fn check_time(limit: &SignatureTime, time: &str, now: Timestamp) -> Result<(), Problem> {
    let signed = time.parse::<i64>().ok().and_then(|seconds| seconds.checked_mul(1000));
    let tolerance = u64::try_from(limit.tolerance.as_millis()).unwrap_or(u64::MAX);
    if signed.is_some_and(|signed| signed.abs_diff(now.as_millis()) <= tolerance) {
        return Ok(());
    }
    let detail = format!("the message was not signed within {} seconds of now", limit.tolerance.as_secs());
    Err(Problem::new(StatusCode::UNAUTHORIZED, "stale_signature", detail)
        .with_help("set the clocks of both systems, or raise `tolerance_s` of the signature"))
}

/// The parts of a header that begin with a prefix, without it.
fn parts<'h>(headers: &'h HeaderMap, name: &str, prefix: &'h str) -> impl Iterator<Item = &'h str> {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split([',', ' '])).filter_map(move |part| part.strip_prefix(prefix))
}

fn wrong(signature: &Signature) -> Problem {
    let detail = format!("the header `{}` does not hold the signature of the body", signature.header);
    Problem::new(StatusCode::UNAUTHORIZED, "bad_signature", detail)
        .with_help("sign the bytes of the body as they are sent, with the secret of this hook")
}

/// HMAC with SHA-256. A key may have any length.
fn hmac_sha256(key: &[u8], message: &[u8]) -> Option<Output<Sha256>> {
    let mac = Hmac::<Sha256>::new_from_slice(key).ok()?;
    Some(mac.chain_update(message).finalize().into_bytes())
}

#[cfg(test)]
mod tests {
    use agent_triggers::{TriggerFile, TriggerKind};
    use serde_json::{Value, json};

    use super::*;

    fn signature(config: &Value) -> Signature {
        let file = json!({"triggers": [{"id": "t", "webhook": {"signature": config}}]}).to_string();
        let trigger = TriggerFile::from_json(&file).unwrap().triggers.remove(0);
        let TriggerKind::Webhook(webhook) = trigger.kind else { panic!() };
        webhook.signature.unwrap()
    }

    #[track_caller]
    fn given(config: &Value, headers: &[(&'static str, String)], expected: &str) {
        let mut all = HeaderMap::new();
        for (name, value) in headers {
            all.append(*name, value.parse().unwrap());
        }
        let now = Timestamp::from_millis(1_000_000);
        let checked = check(&signature(config), "key", (&all, b"{\"a\": 1}"), now);
        let code = checked.map_or_else(|problem| problem.code.clone().into_owned(), |_| "ok".into());
        assert_eq!(code, expected, "{config} {headers:?}");
    }

    #[test]
    fn headers_of_other_systems_are_understood() {
        let mac = |text: &str| format!("{:x}", hmac_sha256(b"key", text.as_bytes()).unwrap());
        let body = "{\"a\": 1}";
        let plain = json!({"header": "X-Hub-Signature-256", "secret": "{$secret.K}", "prefix": "sha256="});
        let hub = |value: String| [("x-hub-signature-256", value)];
        given(&plain, &hub(format!("sha256={}", mac(body))), "ok");
        given(&plain, &hub(format!("sha256={}", mac(body).to_uppercase())), "ok");
        for wrong in [
            mac(body),
            format!("sha256={}", mac("{\"a\":1}")),
            format!("sha1={}", mac(body)),
            "sha256=".into(),
        ] {
            given(&plain, &hub(wrong), "bad_signature");
        }
        given(&plain, &[], "bad_signature");

        let one_header = json!({"header": "Pay-Signature", "secret": "{$secret.K}", "prefix": "v1=",
            "timestamp": {"header": "Pay-Signature", "prefix": "t=", "tolerance_s": 60}});
        let pay = |time: i64, mac: String| [("pay-signature", format!("t={time},v0=00,v1=11,v1={mac}"))];
        given(&one_header, &pay(1000, mac(&format!("1000.{body}"))), "ok");
        given(&one_header, &pay(1060, mac(&format!("1060.{body}"))), "ok");
        given(&one_header, &pay(939, mac(&format!("939.{body}"))), "stale_signature");
        given(&one_header, &pay(1061, mac(&format!("1061.{body}"))), "stale_signature");
        given(&one_header, &pay(1000, mac(&format!("999.{body}"))), "bad_signature");
        given(&one_header, &[("pay-signature", format!("v1={}", mac(&format!(".{body}"))))], "bad_signature");

        let two_headers = json!({"header": "X-Sig", "secret": "{$secret.K}", "encoding": "base64",
            "payload": "v0:{timestamp}:{body}", "timestamp": {"header": "X-Time"}});
        let sent = STANDARD.encode(hmac_sha256(b"key", format!("v0:900:{body}").as_bytes()).unwrap());
        given(&two_headers, &[("x-sig", sent.clone()), ("x-time", "900".into())], "ok");
        given(&two_headers, &[("x-sig", sent.to_lowercase()), ("x-time", "900".into())], "bad_signature");
        given(&two_headers, &[("x-sig", sent), ("x-time", "9e2".into())], "bad_signature");
    }
}

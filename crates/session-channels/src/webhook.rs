//! Webhooks: signed HTTP requests, both ways.

use std::fmt;
use std::sync::Arc;

use agent_types::Clock;
use async_trait::async_trait;
use http::HeaderMap;
use http_caller::{CallConfig, CallValues, Endpoint, EndpointConfig, HttpCaller, Scope, SecretSource};
use indexmap::IndexMap;
use serde_json::{Map, Value, json};

use crate::channel::{Channel, ChannelError, Frame, Incoming, Outgoing};
use crate::settings::ChannelSettings;
use crate::signature::{MIN_KEY, SignatureHeaders, Signer};

/// Header of a message's id.
const ID: &str = "webhook-id";

/// Header of the time at which it was signed, in seconds since 1970.
const TIMESTAMP: &str = "webhook-timestamp";

/// Header of its signatures.
const SIGNATURE: &str = "webhook-signature";

/// Minutes for which a signature counts, before and after.
const MINUTES: i64 = 5;

/// Longest id of a message, and longest name of a conversation, in bytes.
const MAX_ID: usize = 200;

/// A webhook: signed messages come in, and everything that is said is posted to an address.
pub struct WebhookChannel {
    signer: Signer,
    caller: HttpCaller,
    clock: Arc<dyn Clock>,
    /// Absent where nothing is sent.
    to: Option<Endpoint>,
}

impl fmt::Debug for WebhookChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookChannel").field("to", &self.to).finish_non_exhaustive()
    }
}

impl WebhookChannel {
    /// The channel of an entry of the settings. Requests go through this client, under its policy.
    ///
    /// # Errors
    /// The secret is not set, or the address is invalid.
    pub fn new(
        settings: &ChannelSettings,
        secrets: &dyn SecretSource,
        caller: HttpCaller,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, ChannelError> {
        let name = settings.secret.as_str();
        let secret = secrets.secret(name).filter(|secret| !secret.reveal().is_empty());
        let secret = secret.ok_or_else(|| ChannelError::MissingSecret { name: name.to_owned() })?;
        let signer = Signer::new(secret.reveal()).ok_or_else(|| ChannelError::BadSettings {
            message: format!(
                "the secret `{name}` has fewer than {MIN_KEY} bytes, or is not base64 behind `whsec_`"
            ),
        })?;
        let to = settings.to.as_deref().map(|to| endpoint(to, settings.timeout_ms)).transpose()?;
        Ok(Self { signer, caller, clock, to })
    }

    fn seconds(&self) -> i64 {
        self.clock.now().as_millis() / 1000
    }
}

/// The request that a message becomes.
fn endpoint(to: &str, timeout_ms: u64) -> Result<Endpoint, ChannelError> {
    let headers = [(ID, "{$ctx.id}"), (TIMESTAMP, "{$ctx.timestamp}"), (SIGNATURE, "{$ctx.signature}")];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let config = CallConfig {
        endpoint: EndpointConfig {
            url: to.to_owned(),
            method: Some("POST".to_owned()),
            headers: IndexMap::from(headers),
            body: Some(json!("{$ctx.message}")),
            timeout_ms: Some(timeout_ms.max(1)),
            ..EndpointConfig::default()
        },
        ..CallConfig::default()
    };
    let names = ["id", "timestamp", "signature", "message"].map(str::to_owned);
    Endpoint::new(&config, &Scope::new(&json!({}), &names))
        .map(|endpoint| endpoint.handing_over())
        .map_err(|error| ChannelError::BadSettings { message: format!("`to`: {error}") })
}

#[async_trait]
impl Channel for WebhookChannel {
    fn receive(&self, frame: Frame<'_>) -> Result<Incoming, ChannelError> {
        let headers = signature_headers(frame.headers).ok_or(ChannelError::BadSignature)?;
        if !self.signer.is_signed(headers, frame.body) {
            return Err(ChannelError::BadSignature);
        }
        let at: i64 = headers.timestamp.parse().map_err(|_| ChannelError::BadSignature)?;
        if self.seconds().abs_diff(at) > MINUTES.unsigned_abs() * 60 {
            return Err(ChannelError::StaleSignature { minutes: MINUTES });
        }
        let mut incoming: Incoming = serde_json::from_slice(frame.body)
            .map_err(|error| ChannelError::BadMessage { message: error.to_string() })?;
        // What is signed names the message, also where the body names another.
        incoming.id = Some(headers.id.to_owned());
        check(&incoming)?;
        Ok(incoming)
    }

    async fn send(&self, message: &Outgoing) -> Result<(), ChannelError> {
        let Some(to) = &self.to else { return Ok(()) };
        let body = json!(message);
        let (id, timestamp) = (&message.id, self.seconds().to_string());
        let signature = self.signer.sign(id, &timestamp, body.to_string().as_bytes());
        let context = json!({"id": id, "timestamp": timestamp, "signature": signature, "message": body});
        let Value::Object(context) = context else { return Ok(()) };
        self.caller.call(to, CallValues { arguments: &Map::new(), context: &context }).await?;
        Ok(())
    }
}

fn signature_headers(headers: &HeaderMap) -> Option<SignatureHeaders<'_>> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let (id, timestamp, signature) = (header(ID)?, header(TIMESTAMP)?, header(SIGNATURE)?);
    Some(SignatureHeaders { id, timestamp, signature })
}

fn check(incoming: &Incoming) -> Result<(), ChannelError> {
    let bad = |message: &str| Err(ChannelError::BadMessage { message: message.to_owned() });
    let is_name = |name: &str| !name.is_empty() && name.len() <= MAX_ID;
    if !incoming.id.as_deref().is_some_and(is_name) {
        return bad("`webhook-id` has 1 to 200 bytes");
    }
    if !is_name(&incoming.conversation) {
        return bad("`conversation` has 1 to 200 bytes");
    }
    if incoming.text.trim().is_empty() {
        return bad("`text` is empty");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use agent_types::{Timestamp, VirtualClock};
    use http_caller::{NetworkPolicy, Secret};

    use super::*;

    const SECRET: &str = "a secret of 23 letters.";

    fn channel(to: Option<&str>) -> Result<WebhookChannel, ChannelError> {
        let mut settings = json!({"kind": "webhook", "agent": "desk", "secret": "{$secret.HOOK}"});
        settings["to"] = json!(to);
        let settings = serde_json::from_value(settings).unwrap();
        let secrets = BTreeMap::from([("HOOK".to_owned(), Secret::new(SECRET))]);
        let caller = HttpCaller::builder(NetworkPolicy::public_only()).build();
        let clock = Arc::new(VirtualClock::new(Timestamp::from_millis(1_000_000)));
        WebhookChannel::new(&settings, &secrets, caller, clock)
    }

    fn receive(at: &str, secret: &str, body: &str) -> Result<Incoming, &'static str> {
        let signature = Signer::new(secret).unwrap().sign("m1", at, body.as_bytes());
        let headers = [(ID, "m1"), (TIMESTAMP, at), (SIGNATURE, &signature)]
            .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        let headers = headers.into_iter().collect();
        let frame = Frame { headers: &headers, body: body.as_bytes() };
        channel(None).unwrap().receive(frame).map_err(|error| error.code())
    }

    #[test]
    fn a_message_is_taken_from_the_holder_of_the_secret_soon_after_it_was_signed() {
        let body = r#"{"id": "other", "conversation": "c1", "text": "Hi"}"#;
        let incoming = receive("1000", SECRET, body).unwrap();
        assert_eq!(
            (incoming.id.as_deref(), &*incoming.conversation, &*incoming.text),
            (Some("m1"), "c1", "Hi")
        );
        assert!(receive("700", SECRET, body).is_ok());
        assert_eq!(receive("699", SECRET, body), Err("stale_signature"));
        assert_eq!(receive("1301", SECRET, body), Err("stale_signature"));
        assert_eq!(receive("soon", SECRET, body), Err("bad_signature"));
        assert_eq!(receive("1000", "another secret of many", body), Err("bad_signature"));
        for bad in [
            "",
            "{}",
            r#"{"conversation": "c1", "text": "Hi", "author": "agent", "session": "s"}"#,
            r#"{"conversation": "c1", "text": " "}"#,
            r#"{"conversation": "", "text": "Hi"}"#,
        ] {
            assert_eq!(receive("1000", SECRET, bad), Err("bad_message"), "{bad}");
        }
        let (headers, body) = (HeaderMap::new(), body.as_bytes());
        let unsigned = channel(None).unwrap().receive(Frame { headers: &headers, body });
        assert_eq!(unsigned, Err(ChannelError::BadSignature));
    }

    #[test]
    fn what_is_said_goes_to_public_addresses_only() {
        assert_eq!(channel(Some("ftp://x")).unwrap_err().code(), "bad_channel");
        let channel = channel(Some("http://127.0.0.1:9/hook")).unwrap();
        let sent = futures::executor::block_on(channel.send(&Outgoing::default()));
        let error = sent.unwrap_err();
        assert!(error.to_string().contains("private_address"), "{error}");
    }
}

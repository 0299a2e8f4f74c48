//! The client: one for the whole program.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, UNIX_EPOCH};

use agent_types::{Backoff, Clock, SystemClock, Timestamp};
use futures::future::{Either, select};
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, LOCATION, RETRY_AFTER};
use reqwest::{Client, Method, StatusCode, Url};
use serde_json::{Map, Value};

use crate::answer;
use crate::endpoint::Endpoint;
use crate::error::{BlockReason, HttpError};
use crate::network::{
    HostRule, NetworkPolicy, Permit, Pinned, Resolver, SystemResolver, check_url, refusal, target,
};
use crate::request::{PLAIN_HEADERS, Request};
use crate::response::{headers_of, value_of};
use crate::secret::{EnvSecrets, SecretMask, SecretSource};
use crate::secret_policy::{Allowed, RefusedSecret, SecretPolicy};
use crate::template::Filler;
use crate::transport::Transport;

/// Redirects that are followed.
const MAX_REDIRECTS: u32 = 5;

/// Maximum length of an error's body in a message, in characters.
const MAX_SHOWN: usize = 500;

/// Longest part of an error's body that is read, in bytes.
const MAX_ERROR_BYTES: u64 = 64 * 1024;

/// Longest wait that a server may ask for.
const MAX_RETRY_AFTER: Duration = Duration::from_hours(1);

/// Values that fill an endpoint.
#[derive(Debug, Clone, Copy)]
pub struct CallValues<'v> {
    /// Arguments chosen by the model or the flow.
    pub arguments: &'v Map<String, Value>,
    /// Context that the model can neither see nor set.
    pub context: &'v Map<String, Value>,
}

/// An answer with a status below 400.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct HttpAnswer {
    /// The status.
    pub status: u16,
    /// Headers by name in small letters.
    pub headers: Map<String, Value>,
    /// The body after `select` and `template`: JSON where it is JSON, else a text, or `{content_type, bytes, base64}`.
    pub body: Value,
    /// Expectations of the file that the answer did not meet.
    pub warnings: Vec<String>,
}

impl HttpAnswer {
    /// An answer with a body and no headers.
    #[must_use]
    pub fn new(status: u16, body: Value) -> Self {
        Self { status, headers: Map::new(), body, warnings: Vec::new() }
    }

    /// An answer of an [unshaped](Endpoint::unshaped) endpoint after `select` and `template` of the endpoint itself.
    ///
    /// # Errors
    /// An answer on which the path would take too long.
    pub fn shaped(self, endpoint: &Endpoint) -> Result<Self, HttpError> {
        let (body, warnings) = endpoint.response.shape(self.status, self.body)?;
        Ok(Self { body, warnings, ..self })
    }
}

/// Installs a TLS provider for the process, unless there is one: clients of other libraries need it too.
pub fn install_tls() {
    // A provider that the process installed before serves as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// The one client of a program for tools and flows. Cheap to clone; clones share connections, policy and known secrets.
#[derive(Clone)]
pub struct HttpCaller(Arc<Inner>);

struct Inner {
    policy: NetworkPolicy,
    secrets: Arc<dyn SecretSource>,
    clock: Arc<dyn Clock>,
    mask: SecretMask,
    secret_policy: SecretPolicy,
    resolver: Arc<dyn Resolver>,
    transport: Option<Arc<dyn Transport>>,
    /// One for each permit, made when it is first needed: what a name may resolve to is decided where it is resolved.
    clients: [OnceLock<Client>; 3],
}

impl fmt::Debug for HttpCaller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpCaller").field("policy", &self.0.policy).finish_non_exhaustive()
    }
}

/// Puts an [`HttpCaller`] together.
#[derive(Debug)]
#[must_use = "`build` makes the client"]
pub struct HttpCallerBuilder {
    policy: NetworkPolicy,
    resolver: Arc<dyn Resolver>,
    secrets: Arc<dyn SecretSource>,
    secret_policy: SecretPolicy,
    clock: Arc<dyn Clock>,
    transport: Option<Arc<dyn Transport>>,
}

impl HttpCallerBuilder {
    /// With other answers to the question where a name is.
    pub fn resolver(mut self, resolver: Arc<dyn Resolver>) -> Self {
        self.resolver = resolver;
        self
    }

    /// With secrets from elsewhere than the environment.
    pub fn secrets(mut self, secrets: Arc<dyn SecretSource>) -> Self {
        self.secrets = secrets;
        self
    }

    /// With only these secrets, each to these hosts only. Without this, any secret goes wherever a file says.
    pub fn allowing_secrets(mut self, allowed: BTreeMap<String, Vec<HostRule>>) -> Self {
        self.secret_policy = SecretPolicy(Some(allowed));
        self
    }

    /// With something else than the network: nothing is resolved and nothing is connected to.
    pub fn transport(mut self, transport: Arc<dyn Transport>) -> Self {
        self.transport = Some(transport);
        self
    }

    /// Replaces the clock, which times deadlines and the backoff between attempts.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Makes the client; nothing is opened before the first call.
    #[must_use]
    pub fn build(self) -> HttpCaller {
        let Self { policy, resolver, secrets, secret_policy, clock, transport } = self;
        let mask = SecretMask::new();
        let clients = Default::default();
        let inner = Inner { policy, secrets, clock, mask, secret_policy, resolver, transport, clients };
        HttpCaller(Arc::new(inner))
    }
}

impl Inner {
    /// The client for a permit.
    fn client(&self, permit: Permit) -> reqwest::Result<&Client> {
        let [public, private, metadata] = &self.clients;
        let slot = match permit {
            Permit::Public => public,
            Permit::Private => private,
            Permit::Metadata => metadata,
        };
        if let Some(client) = slot.get() {
            return Ok(client);
        }
        install_tls();
        let client = Client::builder()
            .no_proxy()
            // Bodies are decompressed here, so that the cap and the refusal of other encodings hold
            // whatever features another crate turns on.
            .no_gzip()
            .no_brotli()
            .no_deflate()
            .no_zstd()
            .referer(false)
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .dns_resolver(Arc::new(Pinned { resolver: Arc::clone(&self.resolver), permit }))
            .build()?;
        Ok(slot.get_or_init(|| client))
    }
}

impl HttpCaller {
    /// A client under a policy, with the resolver of the system and secrets from the environment.
    pub fn builder(policy: NetworkPolicy) -> HttpCallerBuilder {
        HttpCallerBuilder {
            policy,
            resolver: Arc::new(SystemResolver),
            secrets: Arc::new(EnvSecrets),
            secret_policy: SecretPolicy::default(),
            clock: Arc::new(SystemClock),
            transport: None,
        }
    }

    /// Secrets that a file names and that may not go where it sends them, each once.
    #[must_use]
    pub fn refused_secrets(&self, file: &Value) -> Vec<RefusedSecret> {
        self.0.secret_policy.refused(file)
    }

    /// The secrets that were used so far, to keep them out of texts of others.
    #[must_use]
    pub fn mask(&self) -> &SecretMask {
        &self.0.mask
    }

    /// Fills an endpoint, sends it, and reads the answer. Needs a tokio runtime with time and I/O.
    ///
    /// # Errors
    /// Values that do not fit, what the policy refuses, a status from 400, no answer, or one that is too large. No error holds a secret.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection; the server may have acted by then.
    pub async fn call(&self, endpoint: &Endpoint, values: CallValues<'_>) -> Result<HttpAnswer, HttpError> {
        let Inner { secrets, secret_policy: policy, mask, clock, .. } = &*self.0;
        let url = endpoint.url.origin();
        let secrets = &Allowed { secrets: &**secrets, policy, url };
        let filler = Filler { arguments: values.arguments, context: values.context, secrets, mask };
        let request = endpoint.fill(&filler).map_err(|error| match error {
            HttpError::MissingSecret { name } if !policy.allows(&name, url) => {
                let host = target(url);
                HttpError::SecretNotAllowed { lines: policy.lines(&name, &host), name, host }
            }
            other => self.masked(other),
        })?;
        let limit = endpoint.timeout;
        let deadline = clock.elapsed().saturating_add(limit);
        match select(std::pin::pin!(self.attempts(endpoint, request, deadline)), clock.sleep(limit)).await {
            Either::Left((result, _)) => result.map_err(|error| self.masked(error)),
            Either::Right(((), _)) => Err(HttpError::Timeout { limit }),
        }
    }

    /// The first attempt, and those that the file allows after it.
    async fn attempts(
        &self,
        endpoint: &Endpoint,
        request: Request,
        deadline: Duration,
    ) -> Result<HttpAnswer, HttpError> {
        let clock = &*self.0.clock;
        let retries = endpoint.retry.map_or(0, |retry| retry.max);
        let backoff = Backoff::new(Duration::from_millis(endpoint.retry.map_or(0, |retry| retry.backoff_ms)));
        let mut failures = 0;
        loop {
            let error = match self.attempt(endpoint, request.clone()).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            failures += 1;
            let backoff = backoff.after(failures);
            let wait = match &error {
                HttpError::Unreachable { .. } => backoff,
                HttpError::Status { status: 429 | 502 | 503 | 504, retry_after, .. } => {
                    retry_after.unwrap_or(backoff)
                }
                _ => return Err(error),
            };
            // A backoff that outlasts the call is pointless.
            if failures > retries || clock.elapsed().saturating_add(wait) >= deadline {
                return Err(error);
            }
            clock.sleep(wait).await;
        }
    }

    /// One attempt: the request, and the redirects that it meets.
    async fn attempt(&self, endpoint: &Endpoint, mut request: Request) -> Result<HttpAnswer, HttpError> {
        let mut hop = 0;
        loop {
            let response = self.send(&request, hop).await?;
            let status = response.status();
            if endpoint.hands_over && !status.is_client_error() && !status.is_server_error() {
                return handed_over(status);
            }
            let is_redirect = matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308);
            let location = response.headers().get(LOCATION).filter(|_| is_redirect);
            let Some(location) = location else {
                return self.read(endpoint, response).await;
            };
            hop += 1;
            let location = location.as_bytes().to_vec();
            drop(response);
            request = redirected(request, status, &location, hop)?;
        }
    }

    /// Sends one request to an address that the policy allows.
    async fn send(&self, request: &Request, hop: u32) -> Result<reqwest::Response, HttpError> {
        let permit = check_url(&self.0.policy, &request.url, hop)?;
        if let Some(transport) = &self.0.transport {
            return elsewhere(&**transport, request).await;
        }
        let unreachable =
            |error| HttpError::Unreachable { target: target(&request.url), message: cause(error) };
        let client = self.0.client(permit).map_err(unreachable)?;
        let mut sent =
            client.request(request.method.clone(), request.url.clone()).headers(request.headers.clone());
        let usually = matches!(request.method, Method::POST | Method::PUT | Method::PATCH);
        match &request.body {
            Some(body) => sent = sent.body(body.clone()),
            // A method that usually has a body says where it has none: some servers refuse it else.
            None if usually => sent = sent.header(CONTENT_LENGTH, "0"),
            None => {}
        }
        sent.send().await.map_err(|error| {
            let Some((reason, address)) = refusal(&error) else { return unreachable(error) };
            HttpError::Blocked { reason, target: target(&request.url), address: Some(address), hop }
        })
    }

    async fn read(&self, endpoint: &Endpoint, response: reqwest::Response) -> Result<HttpAnswer, HttpError> {
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        let limit = endpoint.response.max_bytes;
        if status >= 400 {
            // More than is shown, so that a secret at the end of the shown part is complete when it is masked.
            let body = answer::read(response, MAX_ERROR_BYTES).await?;
            let text = body.text_lossy();
            let text = self.0.mask.text(text.trim());
            let body = (!text.is_empty()).then(|| shortened(&text));
            return Err(HttpError::Status {
                status,
                body,
                retry_after: retry_after(&headers, self.0.clock.now()),
            });
        }
        let body = answer::read(response, limit).await?;
        if body.is_cut {
            return Err(HttpError::TooLarge { limit });
        }
        let mask = &self.0.mask;
        let (body, warnings) = endpoint.response.shape(status, mask.value(value_of(&body)))?;
        let Value::Object(headers) = mask.value(headers_of(&headers).into()) else {
            return Err(HttpError::BadAnswer { message: "its headers are invalid".into() });
        };
        // A text assembled from parts may hold a secret that no part held.
        Ok(HttpAnswer { status, headers, body: mask.value(body), warnings })
    }

    fn masked(&self, error: HttpError) -> HttpError {
        let mask = &self.0.mask;
        match error {
            HttpError::BadArgument { message } => HttpError::BadArgument { message: mask.text(&message) },
            HttpError::Blocked { reason, target, address, hop } => {
                HttpError::Blocked { reason, target: mask.text(&target), address, hop }
            }
            HttpError::Unreachable { target, message } => {
                HttpError::Unreachable { target: mask.text(&target), message: mask.text(&message) }
            }
            HttpError::BadAnswer { message } => HttpError::BadAnswer { message: mask.text(&message) },
            // The body was masked before it was cut; the others hold no text of a server.
            other @ (HttpError::Status { .. }
            | HttpError::BadHeaderValue { .. }
            | HttpError::MissingContext { .. }
            | HttpError::MissingSecret { .. }
            | HttpError::SecretNotAllowed { .. }
            | HttpError::TooLarge { .. }
            | HttpError::Timeout { .. }) => other,
        }
    }
}

/// The answer to something that was handed over, of which the status counts alone.
fn handed_over(status: StatusCode) -> Result<HttpAnswer, HttpError> {
    let status_code = status.as_u16();
    if !status.is_success() {
        return Err(HttpError::Status { status: status_code, body: None, retry_after: None });
    }
    let (headers, body, warnings) = (Map::new(), Value::Null, Vec::new());
    Ok(HttpAnswer { status: status_code, headers, body, warnings })
}

/// Sends one request through the transport that replaces the network.
async fn elsewhere(transport: &dyn Transport, request: &Request) -> Result<reqwest::Response, HttpError> {
    let unreachable = |message: String| HttpError::Unreachable { target: target(&request.url), message };
    let body = request.body.as_ref().map(|body| body.to_vec()).unwrap_or_default();
    let built = http::Request::builder().method(request.method.clone()).uri(request.url.as_str());
    let mut wire = built.body(body).map_err(|error| unreachable(error.to_string()))?;
    *wire.headers_mut() = request.headers.clone();
    let answer = transport.send(wire).await.map_err(|error| unreachable(error.to_string()))?;
    Ok(answer.into())
}

/// The request that a redirect asks for.
fn redirected(request: Request, status: StatusCode, location: &[u8], hop: u32) -> Result<Request, HttpError> {
    let Request { mut method, url: from, mut headers, mut body } = request;
    let blocked = |reason, url: &Url| HttpError::Blocked { reason, target: target(url), address: None, hop };
    if hop > MAX_REDIRECTS {
        return Err(blocked(BlockReason::TooManyRedirects, &from));
    }
    let joined = std::str::from_utf8(location).ok().and_then(|location| from.join(location).ok());
    let Some(url) = joined else { return Err(blocked(BlockReason::BadRedirect, &from)) };
    if from.scheme() == "https" && url.scheme() == "http" {
        return Err(blocked(BlockReason::Downgrade, &url));
    }
    let becomes_get = match status {
        StatusCode::SEE_OTHER => method != Method::HEAD,
        StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => method == Method::POST,
        _ => false,
    };
    if becomes_get {
        method = Method::GET;
        body = None;
        headers.remove(CONTENT_TYPE);
    }
    if from.origin() != url.origin() {
        if !method.is_safe() || body.is_some() {
            return Err(blocked(BlockReason::CrossOriginBody, &url));
        }
        let remaining =
            PLAIN_HEADERS.into_iter().filter_map(|name| Some((name.clone(), headers.get(&name)?.clone())));
        headers = remaining.collect();
    }
    Ok(Request { method, url, headers, body })
}

/// Wait that the server asks for: seconds, or until a date.
fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let seconds = value.parse::<u64>().ok().map(Duration::from_secs);
    let wait = seconds.or_else(|| {
        let date = httpdate::parse_http_date(value).ok()?.duration_since(UNIX_EPOCH).ok()?;
        let now = Duration::from_millis(u64::try_from(now.as_millis()).unwrap_or(0));
        Some(date.saturating_sub(now))
    })?;
    Some(wait.min(MAX_RETRY_AFTER))
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Innermost cause of an error; the outer messages repeat the URL.
pub(crate) fn cause(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut cause: &dyn std::error::Error = &error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderName;

    use super::*;

    /// Target of a redirect, or the reason for refusing it.
    fn check(method: Method, from: &str, status: u16, location: &str) -> String {
        let headers = [(CONTENT_TYPE, "application/json"), (reqwest::header::AUTHORIZATION, "x")];
        let headers = headers.map(|(name, value)| (name, value.parse().unwrap())).into_iter().collect();
        let request = Request { method, url: from.parse().unwrap(), headers, body: Some("{}".into()) };
        let status = StatusCode::from_u16(status).unwrap();
        match redirected(request, status, location.as_bytes(), 1) {
            Ok(Request { method, url, headers, body }) => {
                let names: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
                format!(
                    "{method} {url} {} {}",
                    names.join("+"),
                    if body.is_some() { "body" } else { "empty" }
                )
            }
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_call_can_be_sent_between_threads() {
        fn is_send<T: Send>(_: T) {}
        let caller = HttpCaller::builder(NetworkPolicy::public_only()).build();
        let config = crate::CallConfig {
            endpoint: crate::EndpointConfig {
                url: "https://a.test/".into(),
                ..crate::EndpointConfig::default()
            },
            ..crate::CallConfig::default()
        };
        let endpoint = Endpoint::new(&config, &crate::Scope::open()).unwrap();
        is_send(caller.call(&endpoint, CallValues { arguments: &Map::new(), context: &Map::new() }));
    }

    #[test]
    fn a_server_asks_to_wait_for_seconds_or_until_a_date() {
        let now = Timestamp::parse("1994-11-06T08:49:00.000Z").unwrap();
        let check = |value: &str, expected: Option<u64>| {
            let headers = [(RETRY_AFTER, value.parse().unwrap())].into_iter().collect();
            assert_eq!(retry_after(&headers, now), expected.map(Duration::from_secs), "{value}");
        };
        check(" 7 ", Some(7));
        check("Sun, 06 Nov 1994 08:49:37 GMT", Some(37));
        check("Sun, 06 Nov 1994 08:48:37 GMT", Some(0));
        check("99999", Some(3600));
        check("soon", None);
        check("Sun, 06 Brr 1994 08:49:37 GMT", None);
    }

    #[test]
    fn n18_redirects_keep_to_their_origin() {
        for (method, from, status, location, expected) in [
            (
                Method::GET,
                "https://a.test/x",
                302,
                "y",
                "GET https://a.test/y content-type+authorization body",
            ),
            (Method::GET, "https://a.test/x", 302, "https://b.test/y", "b.test refused: cross_origin_body"),
            (Method::GET, "https://a.test/x", 302, "//a.test:444/", "a.test:444 refused: cross_origin_body"),
            (Method::HEAD, "https://a.test/x", 303, "https://b.test/", "b.test refused: cross_origin_body"),
            (Method::GET, "https://a.test/x", 302, "http://a.test/x", "a.test refused: downgrade"),
            (Method::POST, "https://a.test/x", 302, "/y", "GET https://a.test/y authorization empty"),
            (Method::PUT, "https://a.test/x", 303, "/y", "GET https://a.test/y authorization empty"),
            (
                Method::POST,
                "https://a.test/x",
                307,
                "/y",
                "POST https://a.test/y content-type+authorization body",
            ),
            (Method::POST, "https://a.test/x", 308, "https://b.test/", "b.test refused: cross_origin_body"),
            (Method::POST, "https://a.test/x", 303, "https://b.test/", "GET https://b.test/  empty"),
            (Method::DELETE, "https://a.test/x", 301, "https://b.test/", "b.test refused: cross_origin_body"),
            (Method::GET, "https://a.test/x", 302, "https://", "a.test refused: bad_redirect"),
        ] {
            assert_eq!(check(method, from, status, location), expected, "{from} {status} {location}");
        }
    }
}

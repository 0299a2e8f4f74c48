//! Real servers: one HTTP client, five dialects.

mod answer;
mod anthropic;
mod arguments;
mod calls;
mod chat;
mod conversation;
mod decoder;
mod dialect;
mod fault;
mod gemini;
mod ollama;
mod reading;
mod responses;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use agent_types::{Clock, SystemClock};
use async_trait::async_trait;
use futures::{StreamExt, stream};
use reqwest::Url;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

use self::conversation::accepted_name;
use self::decoder::Framing;
use self::dialect::{Dialect, Question};
use self::fault::{Secret, network_error, status_error};
use self::reading::Reading;
use crate::{
    LlmError, LlmEvent, LlmProvider, LlmRequest, LlmStream, ModelConfig, ModelError, ModelInfo,
    ModelParameters, ProviderKind, StandardResponse,
};

/// Longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Most bytes of the body of an error that are read.
const MAX_ERROR: usize = 64 << 10;

/// Version of Anthropic's interface.
const ANTHROPIC_VERSION: &str = "2023-06-01";

/// A model behind an HTTP server.
pub(crate) struct RemoteModel {
    client: reqwest::Client,
    address: Url,
    /// They hold the key.
    headers: HeaderMap,
    info: ModelInfo,
    parameters: ModelParameters,
    kind: ProviderKind,
    clock: Arc<dyn Clock>,
    secret: Secret,
}

impl fmt::Debug for RemoteModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteModel").field("info", &self.info).finish_non_exhaustive()
    }
}

impl RemoteModel {
    /// Creates the client; `key` is held in memory and sent to the server only.
    ///
    /// # Errors
    /// The base URL is invalid, or the client cannot be created.
    pub(crate) fn new(
        config: &ModelConfig,
        key: Option<&str>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, ModelError> {
        if config.provider == ProviderKind::Local {
            return Err(ModelError::NoLocal { model: config.model.clone() });
        }
        if config.constrain == Some(true) && config.provider != ProviderKind::OpenAi {
            return Err(ModelError::NoGrammar { model: config.model.clone() });
        }
        let client_error = |message: String| ModelError::Client { model: config.model.clone(), message };
        let address = address(config)?;
        let info = ModelInfo { address: Some(shown(&address)), ..config.info() };
        Ok(Self {
            client: client(&address).map_err(|error| client_error(error.to_string()))?,
            address,
            headers: headers(config.provider, key).map_err(client_error)?,
            info,
            parameters: config.parameters(),
            kind: config.provider,
            clock,
            secret: Secret::new(key),
        })
    }

    /// The body of a request in the server's dialect.
    fn body(&self, request: &LlmRequest) -> String {
        let parameters = self.parameters.clone().overridden_by(&request.parameters);
        let is_unfit = |tool: &agent_types::ToolSpec| accepted_name(&tool.name) != tool.name;
        let mut fitting = None;
        if request.tools.iter().any(is_unfit) {
            let request = fitting.insert(request.clone());
            request.tools.iter_mut().for_each(|tool| tool.name = accepted_name(&tool.name));
        }
        let request = fitting.as_ref().unwrap_or(request);
        let question = Question { request, parameters: &parameters, info: &self.info };
        let mut body: Value = match self.kind {
            ProviderKind::OpenAi | ProviderKind::Local => chat::request(&question),
            ProviderKind::OpenAiResponses => responses::request(&question),
            ProviderKind::Anthropic => anthropic::request(&question),
            ProviderKind::Gemini => gemini::request(&question),
            ProviderKind::Ollama => ollama::request(&question),
        };
        question.add_extra(&mut body);
        body.to_string()
    }

    fn reader(&self) -> (Framing, Box<dyn Dialect>) {
        reader(self.kind)
    }
}

/// The answer that a body of a server holds, such as a recorded one.
///
/// ```
/// use llm_provider::{ProviderKind, read_body};
///
/// let body = "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
/// let answer = futures::executor::block_on(read_body(ProviderKind::OpenAi, body))?;
/// assert_eq!(answer.text, "Hi");
/// # Ok::<(), llm_provider::LlmError>(())
/// ```
///
/// # Errors
/// As of an answer that comes from a server.
pub async fn read_body(kind: ProviderKind, body: impl Into<Vec<u8>>) -> Result<StandardResponse, LlmError> {
    let body: Vec<u8> = body.into();
    let response = http::Response::new(body).into();
    let (framing, dialect) = reader(kind);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let secret = Secret::new(None);
    let mut reading =
        Reading::new(response, framing, dialect, (LlmRequest::default(), String::new()), secret, &clock);
    while let Some((event, rest)) = reading.next().await {
        if let LlmEvent::Finished(answer) = event? {
            return Ok(answer);
        }
        reading = rest;
    }
    Err(LlmError::Stream { message: "it has no end".into() })
}

fn reader(kind: ProviderKind) -> (Framing, Box<dyn Dialect>) {
    match kind {
        ProviderKind::OpenAi | ProviderKind::Local => (Framing::Events, Box::<chat::Reader>::default()),
        ProviderKind::OpenAiResponses => (Framing::Events, Box::<responses::Reader>::default()),
        ProviderKind::Anthropic => (Framing::Events, Box::<anthropic::Reader>::default()),
        ProviderKind::Gemini => (Framing::Events, Box::<gemini::Reader>::default()),
        ProviderKind::Ollama => (Framing::Lines, Box::<ollama::Reader>::default()),
    }
}

fn client(address: &Url) -> reqwest::Result<reqwest::Client> {
    // A provider that the process installed before serves as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .redirect(reqwest::redirect::Policy::none())
        // A body comes as it is, whatever features another crate turns on: a small compressed one may be endless.
        .no_gzip()
        .no_brotli()
        .no_deflate()
        .no_zstd();
    // A proxy of the environment is for servers elsewhere, and would see the key.
    let client = if address.host_str().is_some_and(agent_types::is_loopback_host) {
        client.no_proxy()
    } else {
        client
    };
    client.build()
}

/// Refuses a body that is encoded: none was asked for.
fn refuse_encoding(response: &reqwest::Response) -> Result<(), LlmError> {
    let encoding = response.headers().get(reqwest::header::CONTENT_ENCODING);
    match encoding.map(|encoding| String::from_utf8_lossy(encoding.as_bytes()).trim().to_lowercase()) {
        None => Ok(()),
        Some(plain) if matches!(plain.as_str(), "" | "identity") => Ok(()),
        Some(other) => {
            let other: String = other.chars().take(40).collect();
            Err(LlmError::Stream { message: format!("it is encoded as `{other}`, which was not asked for") })
        }
    }
}

fn headers(kind: ProviderKind, key: Option<&str>) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if kind == ProviderKind::Anthropic {
        headers.insert("anthropic-version", HeaderValue::from_static(ANTHROPIC_VERSION));
    }
    let (name, prefix) = match kind {
        ProviderKind::OpenAi | ProviderKind::OpenAiResponses => ("authorization", "Bearer "),
        ProviderKind::Anthropic => ("x-api-key", ""),
        ProviderKind::Gemini => ("x-goog-api-key", ""),
        ProviderKind::Ollama | ProviderKind::Local => return Ok(headers),
    };
    if let Some(key) = key.filter(|key| !key.is_empty()) {
        let value = HeaderValue::try_from(format!("{prefix}{key}"));
        let mut value = value.map_err(|_| "the key holds characters that no header may hold".to_owned())?;
        value.set_sensitive(true);
        headers.insert(HeaderName::from_static(name), value);
    }
    Ok(headers)
}

/// An address without what may be secret in it.
fn shown(address: &Url) -> String {
    let mut address = address.clone();
    address.set_query(None);
    address.set_fragment(None);
    // An address that cannot have a user has none.
    let _ = address.set_username("").and_then(|()| address.set_password(None));
    address.to_string()
}

/// The address that requests go to.
fn address(config: &ModelConfig) -> Result<Url, ModelError> {
    let (own, version) = match config.provider {
        ProviderKind::OpenAi | ProviderKind::OpenAiResponses => ("https://api.openai.com", "v1"),
        ProviderKind::Anthropic => ("https://api.anthropic.com", "v1"),
        ProviderKind::Gemini => ("https://generativelanguage.googleapis.com", "v1beta"),
        ProviderKind::Ollama | ProviderKind::Local => ("http://localhost:11434", ""),
    };
    let gemini = format!("{}:streamGenerateContent", config.model.trim_start_matches("models/"));
    let path: &[&str] = match config.provider {
        ProviderKind::OpenAi | ProviderKind::Local => &["chat", "completions"],
        ProviderKind::OpenAiResponses => &["responses"],
        ProviderKind::Anthropic => &["messages"],
        ProviderKind::Gemini => &["models", &gemini],
        ProviderKind::Ollama => &["api", "chat"],
    };
    let base = config.base_url.as_deref().unwrap_or(own);
    let bad = || ModelError::BadUrl { url: base.to_owned() };
    let mut url = Url::parse(base).map_err(|_| bad())?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(bad());
    }
    // A path of the user's own (`/api/openai`, `/v1`) is taken as it is.
    let version = Some(version).filter(|version| !version.is_empty() && url.path() == "/");
    url.path_segments_mut().map_err(|()| bad())?.pop_if_empty().extend(version).extend(path);
    if config.provider == ProviderKind::Gemini {
        url.query_pairs_mut().append_pair("alt", "sse");
    }
    Ok(url)
}

#[async_trait]
impl LlmProvider for RemoteModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    async fn stream(&self, mut request: LlmRequest) -> Result<LlmStream, LlmError> {
        let asked = self.client.post(self.address.clone()).headers(self.headers.clone());
        let asked = asked.body(self.body(&request)).send().await;
        let response = asked.map_err(|error| self.secret.hide(network_error(&error.without_url())))?;
        if !response.status().is_success() {
            return Err(self.secret.hide(refused(response, &*self.clock).await));
        }
        refuse_encoding(&response)?;
        request.parameters = self.parameters.clone().overridden_by(&request.parameters);
        let (framing, dialect) = self.reader();
        let asked_for = (request, self.info.source.clone());
        let reading = Reading::new(response, framing, dialect, asked_for, self.secret.clone(), &self.clock);
        Ok(stream::unfold(reading, Reading::next).boxed())
    }
}

/// The error for a status and the beginning of a body.
async fn refused(mut response: reqwest::Response, clock: &dyn Clock) -> LlmError {
    let (status, headers) = (response.status().as_u16(), std::mem::take(response.headers_mut()));
    let mut body = Vec::new();
    while body.len() < MAX_ERROR
        && let Ok(Some(bytes)) = response.chunk().await
    {
        body.extend_from_slice(&bytes);
    }
    status_error(status, &headers, &String::from_utf8_lossy(&body), clock.now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(kind: ProviderKind, base_url: &str, expected: &str) {
        let config = ModelConfig { base_url: Some(base_url.into()), ..ModelConfig::new(kind, "m") };
        assert_eq!(address(&config).map(String::from), Ok(expected.to_owned()));
    }

    #[test]
    fn base_urls_may_hold_the_version_or_not() {
        for url in ["http://127.0.0.1:8080", "http://127.0.0.1:8080/", "http://127.0.0.1:8080/v1"] {
            check(ProviderKind::OpenAi, url, "http://127.0.0.1:8080/v1/chat/completions");
        }
        check(
            ProviderKind::OpenAiResponses,
            "https://h.example/openai/v1/",
            "https://h.example/openai/v1/responses",
        );
        check(ProviderKind::OpenAi, "https://h.example/v1?v=2", "https://h.example/v1/chat/completions?v=2");
        check(ProviderKind::Anthropic, "https://h.example", "https://h.example/v1/messages");
        check(
            ProviderKind::Gemini,
            "https://h.example",
            "https://h.example/v1beta/models/m:streamGenerateContent?alt=sse",
        );
        check(ProviderKind::Ollama, "http://h.example:1", "http://h.example:1/api/chat");
        let config =
            ModelConfig { base_url: Some("ftp://x".into()), ..ModelConfig::new(ProviderKind::OpenAi, "m") };
        assert_eq!(address(&config).unwrap_err().code(), "bad_url");
    }
}

//! Real servers, through the client library.

mod fault;
mod last_frame;
mod reading;
mod request;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use agent_types::Clock;
use async_trait::async_trait;
use futures::{StreamExt, stream};
use genai::adapter::AdapterKind;
use genai::chat::ChatFrameSink;
use genai::resolver::{AuthData, Endpoint};
use genai::{Client, ModelIden, ServiceTarget};

use self::fault::{Secret, llm_error};
use self::last_frame::LastFrame;
use self::reading::Reading;
use crate::{
    LlmError, LlmProvider, LlmRequest, LlmStream, ModelConfig, ModelError, ModelInfo, ModelParameters,
    ProviderKind,
};

/// Longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A model behind an HTTP server.
pub(crate) struct RemoteModel {
    client: Client,
    target: ServiceTarget,
    info: ModelInfo,
    parameters: ModelParameters,
    kind: ProviderKind,
    clock: Arc<dyn Clock>,
    secret: Secret,
}

impl fmt::Debug for RemoteModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The target holds the key.
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
        key: Option<String>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, ModelError> {
        // A provider that the process installed before serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let secret = Secret::new(key.as_deref());
        let kind = match config.provider {
            ProviderKind::OpenAi => AdapterKind::OpenAI,
            ProviderKind::OpenAiResponses => AdapterKind::OpenAIResp,
            ProviderKind::Anthropic => AdapterKind::Anthropic,
            ProviderKind::Gemini => AdapterKind::Gemini,
            ProviderKind::Ollama => AdapterKind::Ollama,
            ProviderKind::Local => return Err(ModelError::NoLocal { model: config.model.clone() }),
        };
        if config.constrain == Some(true) && config.provider != ProviderKind::OpenAi {
            return Err(ModelError::NoGrammar { model: config.model.clone() });
        }
        let client_error = |message: String| ModelError::Client { model: config.model.clone(), message };
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| client_error(error.to_string()))?;
        let client =
            Client::builder().with_reqwest(http).build().map_err(|error| client_error(error.to_string()))?;
        Ok(Self {
            client,
            target: ServiceTarget {
                endpoint: endpoint(config)?,
                auth: key.map_or_else(|| AuthData::from_single(""), AuthData::from_single),
                model: ModelIden::new(kind, config.model.clone()),
            },
            info: config.info(),
            parameters: config.parameters(),
            kind: config.provider,
            clock,
            secret,
        })
    }
}

/// The address that the library appends its paths to.
fn endpoint(config: &ModelConfig) -> Result<Endpoint, ModelError> {
    let versioned = match config.provider {
        ProviderKind::OpenAi | ProviderKind::OpenAiResponses | ProviderKind::Anthropic => "v1/",
        ProviderKind::Gemini => "v1beta/",
        ProviderKind::Ollama | ProviderKind::Local => "",
    };
    let base = match (&config.base_url, config.provider) {
        (Some(url), _) => url.as_str(),
        (None, ProviderKind::OpenAi | ProviderKind::OpenAiResponses) => "https://api.openai.com",
        (None, ProviderKind::Anthropic) => "https://api.anthropic.com",
        (None, ProviderKind::Gemini) => "https://generativelanguage.googleapis.com",
        (None, ProviderKind::Ollama | ProviderKind::Local) => "http://localhost:11434",
    };
    let bad = || ModelError::BadUrl { url: base.to_owned() };
    let url = reqwest::Url::parse(base).map_err(|_| bad())?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(bad());
    }
    let base = base.trim_end_matches('/');
    // A path of the user's own (`/api/openai`, `/v1`) is taken as it is.
    let versioned = if url.path() == "/" { versioned } else { "" };
    Ok(Endpoint::from_owned(format!("{base}/{versioned}")))
}

#[async_trait]
impl LlmProvider for RemoteModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    async fn stream(&self, request: LlmRequest) -> Result<LlmStream, LlmError> {
        let mut request = request;
        let parameters = self.parameters.clone().overridden_by(&request.parameters);
        let last = Arc::new(LastFrame::default());
        let mut options =
            request::options(&parameters, request.response_schema.take(), request.constraint.as_ref());
        if self.kind == ProviderKind::OpenAi {
            options.raw_frame_sink = Some(Arc::clone(&last) as Arc<dyn ChatFrameSink>);
        }
        let chat = request::chat_request(request, &self.info);
        let asked = self.client.exec_chat_stream(self.target.clone(), chat, Some(&options)).await;
        let response = asked.map_err(|error| llm_error(&error, &self.secret, self.clock.now()))?;
        let reading =
            Reading::new(response.stream, self.kind, last, self.secret.clone(), Arc::clone(&self.clock));
        Ok(stream::unfold(reading, Reading::next).boxed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_urls_may_hold_the_version_or_not() {
        for (url, expected) in [
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080/v1/"),
            ("http://127.0.0.1:8080/", "http://127.0.0.1:8080/v1/"),
            ("http://127.0.0.1:8080/v1", "http://127.0.0.1:8080/v1/"),
            ("https://host.example/openai/v1/", "https://host.example/openai/v1/"),
        ] {
            let config =
                ModelConfig { base_url: Some(url.into()), ..ModelConfig::new(ProviderKind::OpenAi, "m") };
            assert_eq!(endpoint(&config).unwrap().base_url(), expected);
        }
        let config =
            ModelConfig { base_url: Some("ftp://x".into()), ..ModelConfig::new(ProviderKind::OpenAi, "m") };
        assert_eq!(endpoint(&config).unwrap_err().code(), "bad_url");
    }
}

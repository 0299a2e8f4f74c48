//! Configuration of a model: server, model name, key.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agent_types::{Clock, SystemClock};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::model_error::ModelError;
use crate::remote::RemoteModel;
use crate::{CallPolicy, Capabilities, GrammarForm, GuardedModel, ModelInfo, ModelParameters};

/// The wire form that a server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProviderKind {
    /// OpenAI's chat completions, at any base URL.
    OpenAi,
    /// OpenAI's responses, at any base URL.
    #[serde(rename = "openai-responses")]
    OpenAiResponses,
    /// Anthropic's messages.
    Anthropic,
    /// Google's Gemini.
    Gemini,
    /// Ollama's own form.
    Ollama,
    /// No server: the model runs in the process, where the program was built with `local-llm`.
    Local,
}

impl ProviderKind {
    const fn word(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::OpenAiResponses => "openai-responses",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::Ollama => "ollama",
            Self::Local => "local",
        }
    }

    const fn key_variable(self) -> Option<&'static str> {
        match self {
            Self::OpenAi | Self::OpenAiResponses => Some("OPENAI_API_KEY"),
            Self::Anthropic => Some("ANTHROPIC_API_KEY"),
            Self::Gemini => Some("GEMINI_API_KEY"),
            Self::Ollama | Self::Local => None,
        }
    }
}

/// One entry `[models.<id>]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelConfig {
    /// Name of the entry, for messages.
    #[serde(skip)]
    pub entry: Option<String>,
    /// The wire form.
    pub provider: ProviderKind,
    /// Name of the model as the server knows it; of a local one its name in `weft model list`, or a GGUF file from the project's folder.
    pub model: String,
    /// Address of the server, with or without `/v1`; absent is the provider's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// Environment variable that holds the key; absent is the provider's usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<String>,
    /// File that holds the key and nothing else, from the project's folder; asked when the variable is not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key_file: Option<PathBuf>,
    /// Randomness of the choice of tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Share of probability that tokens are chosen from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// Most tokens that the model may write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// Seed of the choice of tokens, where the provider takes one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Further fields of each request's body, passed unchanged: the provider's own settings.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
    /// Offers tools in the provider's native form (default: no).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<bool>,
    /// Makes the model's server constrain the answer to a grammar of text and calls of the offered tools (default: no;
    /// a local model's
    /// sampler does unless this says no). For `openai` and `local`, in the text protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub constrain: Option<bool>,
    /// The form of that grammar (`gbnf`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grammar: Option<GrammarForm>,
    /// Threads that a local model reckons with (1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<NonZeroU32>,
    /// Support for images; derived from the model's name by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub images: Option<bool>,
    /// Support for PDF files; derived from the model's name by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub documents: Option<bool>,
    /// Reasoning before the answer; derived from the model's name by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<bool>,
    /// Tokens that a request and its answer may hold together; derived from the model's name where possible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    /// Dollars for a million tokens read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price_in: Option<f64>,
    /// Dollars for a million tokens read out of the provider's cache; `price_in` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price_cached: Option<f64>,
    /// Dollars for a million tokens written into the provider's cache; `price_in` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price_cache_write: Option<f64>,
    /// Marks instructions, tools and the conversation for the provider's cache where the wire form has marks for that:
    /// `anthropic` (default: yes).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_cache: Option<bool>,
    /// Sends the end of a block of calls as a text to stop at, which saves tokens behind it (default: no). Where a model quotes a
    /// block, or writes its end inside a value, the reply is cut there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_at_block: Option<bool>,
    /// Dollars for a million tokens written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price_out: Option<f64>,
    /// Concurrent requests; further ones wait in order. Unlimited by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_parallel: Option<NonZeroU32>,
    /// Attempts after the first when the server is busy, fails or cannot be reached, and nothing of the answer has come (2).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<u32>,
    /// Longest wait that a busy server may ask for before the next attempt, in milliseconds (60,000).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_retry_wait_ms: Option<u64>,
    /// Longest wait between two tokens, and for the first, in milliseconds (120,000).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_timeout_ms: Option<u64>,
    /// Longest wait for the first token, in milliseconds; absent, it is `token_timeout_ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_token_timeout_ms: Option<u64>,
    /// Longest time of one attempt, from sending to the end of the answer, in milliseconds (1,800,000).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

/// Lookup of environment variables; tests pass a table.
pub(crate) type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

impl ModelConfig {
    /// An entry with nothing but its names.
    #[must_use]
    pub fn new(provider: ProviderKind, model: impl Into<String>) -> Self {
        Self {
            entry: None,
            provider,
            model: model.into(),
            base_url: None,
            extra: Map::new(),
            api_key_env: None,
            api_key_file: None,
            temperature: None,
            top_p: None,
            max_tokens: None,
            seed: None,
            native: None,
            constrain: None,
            grammar: None,
            threads: None,
            images: None,
            documents: None,
            reasoning: None,
            context_window: None,
            price_in: None,
            price_cached: None,
            price_cache_write: None,
            prompt_cache: None,
            stop_at_block: None,
            price_out: None,
            max_parallel: None,
            retries: None,
            max_retry_wait_ms: None,
            token_timeout_ms: None,
            first_token_timeout_ms: None,
            timeout_ms: None,
        }
    }

    /// The model that the environment names: `OPENAI_BASE_URL`, `OPENAI_MODEL` and `OPENAI_API_KEY`, then Anthropic's, then Gemini's.
    ///
    /// `None` when none is named. The key is optional with a base URL.
    #[must_use]
    pub fn from_env() -> Option<Self> {
        Self::from_environment(&environment)
    }

    fn from_environment(variable: Environment<'_>) -> Option<Self> {
        let base_url = variable("OPENAI_BASE_URL");
        if base_url.is_some() || variable("OPENAI_API_KEY").is_some() {
            let model = variable("OPENAI_MODEL").unwrap_or_else(|| "gpt-5-mini".into());
            return Some(Self { base_url, ..Self::new(ProviderKind::OpenAi, model) });
        }
        for (kind, key, model, default) in [
            (ProviderKind::Anthropic, "ANTHROPIC_API_KEY", "ANTHROPIC_MODEL", "claude-haiku-4-5"),
            (ProviderKind::Gemini, "GEMINI_API_KEY", "GEMINI_MODEL", "gemini-2.5-flash"),
        ] {
            if variable(key).is_some() {
                return Some(Self::new(kind, variable(model).unwrap_or_else(|| default.into())));
            }
        }
        None
    }

    /// The settings of every request to this model.
    #[must_use]
    pub fn parameters(&self) -> ModelParameters {
        ModelParameters {
            temperature: self.temperature,
            top_p: self.top_p,
            max_tokens: self.max_tokens,
            seed: self.seed,
            extra: self.extra.clone(),
            ..ModelParameters::default()
        }
    }

    /// Properties of the model: those of the entry, else those implied by its name.
    ///
    /// Tools are offered in the provider's native form only where the entry says so.
    #[must_use]
    pub fn info(&self) -> ModelInfo {
        let known = Capabilities::from_name(&self.model);
        ModelInfo {
            name: self.model.clone(),
            native_tools: self.native.unwrap_or(false),
            images: self.images.unwrap_or(known.images),
            documents: self.documents.unwrap_or(known.documents),
            reasoning: self.reasoning.unwrap_or(known.reasoning),
            cuts_replies: !self.reasoning.unwrap_or(known.reasoning || !known.known),
            stop_at_block: self.stop_at_block.unwrap_or(false),
            entry: self.entry.clone(),
            address: None,
            context_window: self.context_window.or(known.context_window),
            max_tokens: self.max_tokens,
            price_in: self.price_in,
            price_cached: self.price_cached,
            price_cache_write: self.price_cache_write,
            prompt_cache: self.prompt_cache.unwrap_or(true),
            source: format!("{}/{}", self.provider.word(), self.model),
            price_out: self.price_out,
            grammar: self.constrain.unwrap_or(false).then(|| self.grammar.unwrap_or_default()),
            small: false,
            scripted: false,
        }
    }

    /// Limits of requests to the model.
    #[must_use]
    pub fn policy(&self) -> CallPolicy {
        let usual = CallPolicy::default();
        let or = |ms: Option<u64>, usual| ms.map_or(usual, Duration::from_millis);
        let between_tokens = or(self.token_timeout_ms, usual.between_tokens);
        CallPolicy {
            retries: self.retries.unwrap_or(usual.retries),
            max_retry_after: or(self.max_retry_wait_ms, usual.max_retry_after),
            first_token: or(self.first_token_timeout_ms, between_tokens),
            between_tokens,
            whole: or(self.timeout_ms, usual.whole),
            max_parallel: self.max_parallel.and_then(|places| usize::try_from(places.get()).ok()),
            ..usual
        }
    }

    /// Creates the client, behind the limits of the entry. Sends nothing.
    ///
    /// # Errors
    /// The key is not set, its file cannot be read, or the base URL is invalid.
    pub fn connect(&self, clock: Arc<dyn Clock>) -> Result<GuardedModel, ModelError> {
        self.connect_with(self.key(&environment)?.as_deref(), clock)
    }

    fn connect_with(&self, key: Option<&str>, clock: Arc<dyn Clock>) -> Result<GuardedModel, ModelError> {
        let model = RemoteModel::new(self, key, Arc::clone(&clock))?;
        Ok(GuardedModel::new(Arc::new(model), self.policy(), clock))
    }

    /// The key, where there is one, so that it can be masked wherever else it might be shown.
    #[must_use]
    pub fn secret(&self) -> Option<String> {
        self.key(&environment).ok().flatten()
    }

    fn key(&self, variable: Environment<'_>) -> Result<Option<String>, ModelError> {
        let name = self.api_key_env.as_deref().or(self.provider.key_variable());
        if let Some(key) = name.and_then(variable) {
            return Ok(Some(key));
        }
        match (&self.api_key_file, name) {
            (Some(file), _) => self.read_key(file).map(Some),
            (None, None) => Ok(None),
            (None, Some(_)) if self.base_url.is_some() && self.api_key_env.is_none() => Ok(None),
            (None, Some(name)) => {
                Err(ModelError::MissingKey { model: self.model.clone(), variable: name.into() })
            }
        }
    }

    fn read_key(&self, file: &Path) -> Result<String, ModelError> {
        let fault = |message: String| ModelError::KeyFile {
            model: self.model.clone(),
            path: file.to_owned(),
            message,
        };
        let text = std::fs::read_to_string(file).map_err(|error| fault(error.to_string()))?;
        let key = text.trim();
        // The contents of the file are not printed: they may be a key all the same.
        match key.lines().count() {
            0 => Err(fault("it is empty".into())),
            1 => Ok(key.to_owned()),
            lines => Err(fault(format!("it must hold one line, and has {lines}"))),
        }
    }
}

fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}

/// Servers that speak OpenAI's chat completions.
#[derive(Debug)]
pub struct OpenAiCompatible;

impl OpenAiCompatible {
    /// The model that the environment names; see [`ModelConfig::from_env`].
    ///
    /// # Errors
    /// No model is named, or its key is not set.
    pub fn from_env() -> Result<GuardedModel, ModelError> {
        let config = ModelConfig::from_env().ok_or(ModelError::NotSet)?;
        config.connect(Arc::new(SystemClock))
    }

    /// A model at a base URL, with or without `/v1`, that needs no key.
    ///
    /// # Errors
    /// The base URL is invalid.
    pub fn at(base_url: impl Into<String>, model: impl Into<String>) -> Result<GuardedModel, ModelError> {
        let config =
            ModelConfig { base_url: Some(base_url.into()), ..ModelConfig::new(ProviderKind::OpenAi, model) };
        config.connect_with(None, Arc::new(SystemClock))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table<'a>(pairs: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> + 'a {
        |name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
    }

    #[test]
    fn the_environment_names_a_model() {
        let config = ModelConfig::from_environment(&table(&[
            ("OPENAI_BASE_URL", "http://127.0.0.1:1"),
            ("OPENAI_MODEL", "m"),
        ]))
        .unwrap();
        assert_eq!((config.provider, config.model.as_str()), (ProviderKind::OpenAi, "m"));
        let config = ModelConfig::from_environment(&table(&[("ANTHROPIC_API_KEY", "k")])).unwrap();
        assert_eq!(config.provider, ProviderKind::Anthropic);
        assert_eq!(ModelConfig::from_environment(&table(&[])), None);
    }

    #[test]
    fn a_key_is_optional_with_a_base_url_only() {
        let mut config = ModelConfig::new(ProviderKind::OpenAi, "m");
        let error = config.key(&table(&[])).unwrap_err();
        assert_eq!(error.code(), "missing_key");
        assert!(error.help().contains("OPENAI_API_KEY"));
        config.base_url = Some("http://127.0.0.1:1".into());
        assert_eq!(config.key(&table(&[])), Ok(None));
        config.api_key_env = Some("MY_KEY".into());
        assert!(config.key(&table(&[])).is_err(), "a variable that is named must be set");
        assert_eq!(config.key(&table(&[("MY_KEY", "k")])), Ok(Some("k".into())));
    }
    #[test]
    fn a_key_may_stand_in_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        let config = ModelConfig {
            api_key_file: Some(file.clone()),
            base_url: Some("http://127.0.0.1:1".into()),
            ..ModelConfig::new(ProviderKind::OpenAi, "m")
        };
        assert_eq!(config.key(&table(&[])).unwrap_err().code(), "key_file");
        std::fs::write(&file, " sk-1\n").unwrap();
        assert_eq!(config.key(&table(&[])), Ok(Some("sk-1".into())));
        assert_eq!(config.key(&table(&[("OPENAI_API_KEY", "sk-2")])), Ok(Some("sk-2".into())));
        std::fs::write(&file, "sk-1\nsk-3\n").unwrap();
        let error = config.key(&table(&[])).unwrap_err();
        assert!(!error.to_string().contains("sk-"), "{error}");
        let model = config.connect_with(Some("sk-4"), Arc::new(SystemClock)).unwrap();
        assert!(!format!("{model:?}").contains("sk-4"));
    }

    #[test]
    fn the_entry_overrides_what_the_name_tells() {
        let mut config = ModelConfig::new(ProviderKind::OpenAi, "gpt-4o");
        let info = config.info();
        assert!(info.images && !info.reasoning, "{info:?}");
        assert!(!info.native_tools, "native is for the entry to say");
        assert_eq!(info.context_window, Some(128_000));
        config.native = Some(true);
        config.images = Some(false);
        config.context_window = Some(8_192);
        let info = config.info();
        assert!(info.native_tools && !info.images);
        assert_eq!(info.context_window, Some(8_192));
    }

    #[test]
    fn the_wait_for_the_first_token_is_that_between_two_unless_it_is_named() {
        let mut config = ModelConfig::new(ProviderKind::Ollama, "m");
        assert_eq!(config.policy(), CallPolicy::default());
        config.token_timeout_ms = Some(7);
        assert_eq!(config.policy().first_token, Duration::from_millis(7));
        config.first_token_timeout_ms = Some(9);
        config.max_parallel = NonZeroU32::new(2);
        let policy = config.policy();
        assert_eq!(
            (policy.first_token, policy.between_tokens),
            (Duration::from_millis(9), Duration::from_millis(7))
        );
        assert_eq!(policy.max_parallel, Some(2));
    }
}

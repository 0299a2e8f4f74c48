//! Which server, which model, which key.

use std::sync::Arc;

use agent_types::{Clock, SystemClock};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{ModelParameters, RemoteModel};

/// The wire form that a server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProviderKind {
    /// OpenAI's chat completions, at any base URL.
    OpenAi,
    /// Anthropic's messages.
    Anthropic,
    /// Google's Gemini.
    Gemini,
    /// Ollama's own form.
    Ollama,
}

impl ProviderKind {
    const fn key_variable(self) -> Option<&'static str> {
        match self {
            Self::OpenAi => Some("OPENAI_API_KEY"),
            Self::Anthropic => Some("ANTHROPIC_API_KEY"),
            Self::Gemini => Some("GEMINI_API_KEY"),
            Self::Ollama => None,
        }
    }
}

/// One entry `[models.<id>]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelConfig {
    /// The wire form.
    pub provider: ProviderKind,
    /// Name of the model as the server knows it.
    pub model: String,
    /// Address of the server, with or without `/v1`; absent is the provider's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// Environment variable that holds the key; absent is the provider's usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<String>,
    /// Randomness of the choice of tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Share of probability that tokens are chosen from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// Most tokens that the model may write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// Whether tools are offered in the provider's own form.
    #[serde(default)]
    pub native: bool,
    /// Dollars for a million tokens read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price_in: Option<f64>,
    /// Dollars for a million tokens written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price_out: Option<f64>,
    /// Tokens that a request and its answer may hold together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    /// Longest wait for the first token, and between two, in milliseconds (120,000).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_timeout_ms: Option<u64>,
}

/// Why a model cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// Neither an entry nor the environment names a model.
    #[error("no model is set")]
    NotSet,
    /// An environment variable that must hold a key is absent or empty.
    #[error("the key of model `{model}` is not set: environment variable `{variable}` is empty")]
    MissingKey {
        /// The model that needs it.
        model: String,
        /// The variable that should hold it.
        variable: String,
    },
    /// No entry of that name.
    #[error("there is no model `{name}`")]
    Unknown {
        /// The name that was asked for.
        name: String,
        /// The nearest entry.
        near: Option<String>,
    },
    /// The base URL is none.
    #[error("`{url}` is no address of a model's server")]
    BadUrl {
        /// The text that is no URL.
        url: String,
    },
    /// The client could not be made.
    #[error("the client of model `{model}` cannot be made: {message}")]
    Client {
        /// The model it was for.
        model: String,
        /// What the library said.
        message: String,
    },
}

impl ModelError {
    /// Stable code for logs, tests and the wire.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NotSet => "model_not_set",
            Self::MissingKey { .. } => "missing_key",
            Self::Unknown { .. } => "unknown_model",
            Self::BadUrl { .. } => "bad_url",
            Self::Client { .. } => "model_client",
        }
    }

    /// A way out, for a person.
    #[must_use]
    pub fn help(&self) -> String {
        match self {
            Self::NotSet => {
                "set OPENAI_BASE_URL and OPENAI_MODEL (or OPENAI_API_KEY), or write [models.default] in weft.toml"
                    .into()
            }
            Self::MissingKey { variable, .. } => format!("put the key into {variable}"),
            Self::Unknown { near: Some(near), .. } => format!("did you mean `{near}`?"),
            Self::Unknown { near: None, .. } => "name an entry [models.<id>] of weft.toml".into(),
            Self::BadUrl { .. } => "write it as http://host:port or https://host/v1".into(),
            Self::Client { .. } => "see the message".into(),
        }
    }
}

/// How environment variables are read; tests pass a table.
pub(crate) type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

impl ModelConfig {
    /// An entry with nothing but its names.
    #[must_use]
    pub fn new(provider: ProviderKind, model: impl Into<String>) -> Self {
        Self {
            provider,
            model: model.into(),
            base_url: None,
            api_key_env: None,
            temperature: None,
            top_p: None,
            max_tokens: None,
            native: false,
            price_in: None,
            price_out: None,
            context_window: None,
            token_timeout_ms: None,
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
            ..ModelParameters::default()
        }
    }

    /// Makes the client. Nothing is sent.
    ///
    /// # Errors
    /// A key that is not set, a base URL that is none.
    pub fn connect(&self, clock: Arc<dyn Clock>) -> Result<RemoteModel, ModelError> {
        RemoteModel::new(self, self.key(&environment)?, clock)
    }

    fn key(&self, variable: Environment<'_>) -> Result<Option<String>, ModelError> {
        let Some(name) = self.api_key_env.as_deref().or(self.provider.key_variable()) else {
            return Ok(None);
        };
        match variable(name) {
            Some(key) => Ok(Some(key)),
            None if self.base_url.is_some() && self.api_key_env.is_none() => Ok(None),
            None => Err(ModelError::MissingKey { model: self.model.clone(), variable: name.into() }),
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
    pub fn from_env() -> Result<RemoteModel, ModelError> {
        let config = ModelConfig::from_env().ok_or(ModelError::NotSet)?;
        config.connect(Arc::new(SystemClock))
    }

    /// A model at a base URL, with or without `/v1`, that needs no key.
    ///
    /// # Errors
    /// The base URL is none.
    pub fn at(base_url: impl Into<String>, model: impl Into<String>) -> Result<RemoteModel, ModelError> {
        let config =
            ModelConfig { base_url: Some(base_url.into()), ..ModelConfig::new(ProviderKind::OpenAi, model) };
        RemoteModel::new(&config, None, Arc::new(SystemClock))
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
}

//! Reasons for which a model cannot be used.

use std::path::PathBuf;

/// Reason for which a model cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// Neither an entry nor the environment names a model.
    #[error("no model is set")]
    NotSet,
    /// An environment variable for a key is unset or empty.
    #[error("the key of model `{model}` is not set: environment variable `{variable}` is empty")]
    MissingKey {
        /// The model that needs it.
        model: String,
        /// Variable that should hold the key.
        variable: String,
    },
    /// The file for a key does not hold one.
    #[error("the key of model `{model}` is not in {}: {message}", .path.display())]
    KeyFile {
        /// The model that needs it.
        model: String,
        /// The file.
        path: PathBuf,
        /// Fault of the file.
        message: String,
    },
    /// No entry of that name.
    #[error("unknown model `{name}`: weft.toml has no entry [models.{name}]")]
    Unknown {
        /// The name that was asked for.
        name: String,
        /// The nearest entry.
        near: Option<String>,
        /// The entries that there are.
        known: Vec<String>,
    },
    /// The base URL is invalid.
    #[error("`{url}` is not the address of a model server")]
    BadUrl {
        /// Invalid URL.
        url: String,
    },
    /// The server's protocol does not support grammars.
    #[error("`constrain` is set for model `{model}`, whose provider takes no grammar")]
    NoGrammar {
        /// The model.
        model: String,
    },
    /// The program was built without models in the process.
    #[error("model `{model}` runs in the process, and this program was built without `local-llm`")]
    NoLocal {
        /// The model.
        model: String,
    },
    /// A model in the process cannot be loaded.
    #[error("model `{model}` cannot be loaded: {message}")]
    Local {
        /// The model.
        model: String,
        /// Fault of the entry.
        message: String,
        /// Suggested fix.
        help: String,
    },
    /// The client could not be made.
    #[error("the client of model `{model}` cannot be made: {message}")]
    Client {
        /// The model it was for.
        model: String,
        /// Message of the library.
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
            Self::KeyFile { .. } => "key_file",
            Self::Unknown { .. } => "unknown_model",
            Self::BadUrl { .. } => "bad_url",
            Self::NoGrammar { .. } => "no_grammar",
            Self::NoLocal { .. } => "no_local_models",
            Self::Local { .. } => "local_model",
            Self::Client { .. } => "model_client",
        }
    }

    /// Suggested fix, for the user.
    #[must_use]
    pub fn help(&self) -> String {
        match self {
            Self::NotSet => {
                "set OPENAI_BASE_URL and OPENAI_MODEL (or OPENAI_API_KEY), or write [models.default] in weft.toml"
                    .into()
            }
            Self::MissingKey { variable, .. } => format!("put the key into {variable}"),
            Self::KeyFile { .. } => "write the key into that file, and nothing else".into(),
            Self::Unknown { near: Some(near), .. } => format!("did you mean `{near}`?"),
            Self::Unknown { name, known, .. } if known.is_empty() => format!("write [models.{name}] in weft.toml"),
            Self::Unknown { name, known, .. } => {
                format!("write [models.{name}] in weft.toml, or name one of its entries: `{}`", known.join("`, `"))
            }
            Self::BadUrl { .. } => "write it as http://host:port or https://host/v1".into(),
            Self::NoGrammar { .. } => "leave `constrain` out, or use the server's OpenAI form".into(),
            Self::NoLocal { .. } => "build it with `cargo install --path crates/weft-cli --features local-llm`".into(),
            Self::Local { help, .. } => help.clone(),
            Self::Client { .. } => "see the message".into(),
        }
    }
}

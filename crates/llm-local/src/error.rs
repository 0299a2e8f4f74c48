//! Errors of loading a model.

use std::path::PathBuf;

/// Reason for which a model cannot be loaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LocalError {
    /// The weights of a known model are not there.
    #[error("the weights of `{id}` are not in {}", .folder.display())]
    NotFetched {
        /// The model.
        id: String,
        /// Folder that was searched.
        folder: PathBuf,
    },
    /// Neither a known model nor a file.
    #[error("`{name}` is neither a known model nor an existing file")]
    Unknown {
        /// The name that was asked for.
        name: String,
    },
    /// The file is there and cannot be used.
    #[error("{}: {message}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Fault of the file.
        message: String,
    },
}

impl LocalError {
    /// Stable code for logs, tests and the wire.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NotFetched { .. } => "weights_not_fetched",
            Self::Unknown { .. } => "unknown_weights",
            Self::File { .. } => "bad_weights",
        }
    }

    /// Suggested fix, for the user.
    #[must_use]
    pub fn help(&self) -> String {
        match self {
            Self::NotFetched { id, .. } => format!("run `weft model fetch {id}`"),
            Self::Unknown { .. } => "name a model of `weft model list`, or the path of a GGUF file".into(),
            Self::File { .. } => {
                "a GGUF file of a small chat model of the llama family is needed, with a byte-level vocabulary".into()
            }
        }
    }
}

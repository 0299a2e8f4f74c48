//! Failures of an import.

use workflow_model::LoadError;

/// Reason why a file cannot be imported at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// It is not JSON.
    #[error("the file is not JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// It is JSON of another kind.
    #[error("{0}")]
    Shape(String),
    /// It describes tools in another form, or in another version.
    #[error("{0}")]
    Kind(String),
    /// It holds another value than an object.
    #[error("the file must hold an object")]
    NoObject,
    /// The result is not a workflow.
    #[error(transparent)]
    Load(#[from] LoadError),
}

impl ImportError {
    /// Stable code for logs, tests and the wire.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Json(_) => "bad_json",
            Self::Shape(_) | Self::Load(_) => "bad_shape",
            Self::Kind(_) => "bad_import",
            Self::NoObject => "bad_value",
        }
    }
}

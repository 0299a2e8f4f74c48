//! Errors of tool files.

use agent_types::InvalidToolId;
use http_caller::ConfigError;
use tool_schema::ToolSetError;

/// Error in the file of an HTTP tool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HttpToolError {
    /// No JSON, a key that is not known, a part of the wrong type.
    #[error("{message}{}", .suggest.as_deref().map(|near| format!("; did you mean `{near}`?")).unwrap_or_default())]
    Syntax {
        /// Line from 1.
        line: usize,
        /// Column from 1.
        column: usize,
        /// Message.
        message: String,
        /// The key that was probably meant.
        suggest: Option<String>,
    },
    /// The name is not a valid id.
    #[error(transparent)]
    Id(#[from] InvalidToolId),
    /// The parameters are not a schema of an object.
    #[error(transparent)]
    Schema(#[from] ToolSetError),
    /// The parameters are something else than a schema of an object.
    #[error("`parameters` must be the JSON Schema of an object")]
    Parameters,
    /// A parameter is required that is not declared, and so can never be given.
    #[error("`parameters` require `{name}`, which `properties` do not declare{}", .near.as_deref().map(|near| format!("; did you mean `{near}`?")).unwrap_or_default())]
    Undeclared {
        /// The parameter.
        name: String,
        /// The declared one that was probably meant.
        near: Option<String>,
    },
    /// The endpoint cannot be used.
    #[error(transparent)]
    Endpoint(#[from] ConfigError),
}

impl HttpToolError {
    /// Stable code for logs, tests and the wire.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Syntax { .. } => "bad_tool_file",
            Self::Id(error) => error.code(),
            Self::Schema(error) => error.code(),
            Self::Parameters | Self::Undeclared { .. } => "bad_schema",
            Self::Endpoint(error) => error.problems.first().map_or("bad_tool_file", |problem| problem.code),
        }
    }
}

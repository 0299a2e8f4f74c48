//! Errors of tool files.

use agent_types::{InvalidToolId, Problem};
use http_caller::ConfigError;
use tool_registry::files::SyntaxError;
use tool_schema::{ParametersError, ToolSetError};

/// Error in the file of an HTTP tool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HttpToolError {
    /// No JSON, a key that is not known, a part of the wrong type.
    #[error(transparent)]
    Syntax(#[from] SyntaxError),
    /// The name is not a valid id.
    #[error(transparent)]
    Id(#[from] InvalidToolId),
    /// The parameters are not a schema of an object.
    #[error(transparent)]
    Schema(#[from] ToolSetError),
    /// The parameters cannot be offered.
    #[error(transparent)]
    Parameters(#[from] ParametersError),
    /// A part of `async` that does not fit.
    #[error("async.{0}")]
    Async(Problem),
    /// The endpoint cannot be used.
    #[error(transparent)]
    Endpoint(#[from] ConfigError),
}

impl HttpToolError {
    /// Stable code for logs, tests and the wire.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Syntax(_) => "bad_tool_file",
            Self::Id(error) => error.code(),
            Self::Schema(error) => error.code(),
            Self::Parameters(error) => error.code(),
            Self::Async(problem) => problem.code,
            Self::Endpoint(error) => error.problems.first().map_or("bad_tool_file", |problem| problem.code),
        }
    }
}

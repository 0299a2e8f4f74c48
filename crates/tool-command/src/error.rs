//! Errors of command files.

use agent_types::{InvalidToolId, Problem};
use tool_registry::files::SyntaxError;
use tool_schema::{ParametersError, ToolSetError};

/// Error in the file of a command tool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommandToolError {
    /// No JSON, a key that is not known, a part of the wrong type.
    #[error(transparent)]
    Syntax(#[from] SyntaxError),
    /// The name is not a valid id.
    #[error(transparent)]
    Id(#[from] InvalidToolId),
    /// The parameters are not a valid schema.
    #[error(transparent)]
    Schema(#[from] ToolSetError),
    /// The parameters cannot be offered.
    #[error(transparent)]
    Parameters(#[from] ParametersError),
    /// The program may not run.
    #[error("the program `{program}` may not run")]
    NotAllowed {
        /// The program, as the file names it.
        program: String,
    },
    /// The program may not have a secret.
    #[error("the secret `{name}` may not be given to `{program}`")]
    SecretNotAllowed {
        /// The secret.
        name: String,
        /// The program.
        program: String,
    },
    /// Parts of the file that do not fit.
    #[error("{}", joined(.0))]
    Invalid(Vec<Problem>),
}

fn joined(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

impl CommandToolError {
    /// Stable code for logs, tests and the wire.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Syntax(_) => "bad_command_file",
            Self::Id(error) => error.code(),
            Self::Schema(error) => error.code(),
            Self::Parameters(error) => error.code(),
            Self::NotAllowed { .. } => "command_not_allowed",
            Self::SecretNotAllowed { .. } => "secret_not_allowed",
            Self::Invalid(problems) => problems.first().map_or("bad_command_file", |problem| problem.code),
        }
    }

    /// Suggested fix, where there is more to it than the file.
    #[must_use]
    pub fn help(&self) -> Option<String> {
        match self {
            Self::NotAllowed { program } => Some(format!(
                "if you trust the file with it, add to weft.toml:\n[commands]\nallow = [{}]",
                quoted(program)
            )),
            Self::SecretNotAllowed { name, program } => Some(format!(
                "if you trust the program with it, add to weft.toml:\n[secrets.allow]\n{name} = [{}]",
                quoted(&format!("command:{program}"))
            )),
            Self::Syntax(_) | Self::Id(_) | Self::Schema(_) | Self::Parameters(_) | Self::Invalid(_) => None,
        }
    }
}

/// A text as TOML writes it.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

//! Reasons for which an agent cannot run.

use agent_types::ToolId;
use tool_registry::RegistryError;
use tool_schema::ToolSetError;

/// Reason for which an agent cannot run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// Two tools of one id, or one whose schema cannot be used.
    #[error(transparent)]
    Tool(#[from] RegistryError),
    /// Tools that cannot be offered together.
    #[error(transparent)]
    Tools(#[from] ToolSetError),
    /// The profile wants native calls, and the model takes none.
    #[error("the profile wants native tool calls, and model `{model}` takes none")]
    NotNative {
        /// The model.
        model: String,
    },
    /// The private state of the profile cannot be used, or does not fit its own schema.
    #[error("the private state of the profile: {message}")]
    State {
        /// Fault of the configuration.
        message: String,
    },
    /// The schema of answers cannot be used.
    #[error("`output_schema` of the profile: {message}")]
    OutputSchema {
        /// Fault of the configuration.
        message: String,
    },
    /// A condition of the profile cannot be read.
    #[error("`ask_if` of the tool `{tool}`: {message}")]
    Condition {
        /// The tool.
        tool: String,
        /// Fault of the configuration.
        message: String,
    },
    /// The agent may only read, and what writes its replies has effects.
    #[error(
        "the replies of the agent come from `{deliberator}`, which has effects, and this run may only read"
    )]
    NotReadOnly {
        /// The author of its replies.
        deliberator: String,
    },
    /// A tool needs a dependency that was not given.
    #[error("the tool `{tool}` needs {}; give it with `Agent::with`", .types.join(" and "))]
    MissingDependency {
        /// The tool.
        tool: ToolId,
        /// The types of what it needs.
        types: Vec<&'static str>,
    },
}

impl AgentError {
    /// Stable code for logs, tests and the wire.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Tool(error) => error.code(),
            Self::Tools(error) => error.code(),
            Self::NotNative { .. } => "not_native",
            Self::State { .. } => "bad_state",
            Self::OutputSchema { .. } => "bad_schema",
            Self::Condition { .. } => "bad_condition",
            Self::NotReadOnly { .. } => "not_read_only",
            Self::MissingDependency { .. } => "missing_dependency",
        }
    }
}

//! Errors of MCP servers.

use std::time::Duration;

use tool_registry::{ToolError, ToolErrorKind};

/// Failure of an MCP server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum McpError {
    /// No settings of that name.
    #[error("unknown MCP server `{server}`")]
    UnknownServer {
        /// The name.
        server: String,
        /// Suggested name.
        near: Option<String>,
    },
    /// Settings that cannot be used.
    #[error("the MCP server `{server}`: {message}")]
    Settings {
        /// The server.
        server: String,
        /// Error in the settings.
        message: String,
    },
    /// It did not come up.
    #[error("the MCP server `{server}` did not start: {message}")]
    Start {
        /// The server.
        server: String,
        /// Cause of the failure.
        message: String,
    },
    /// It failed before, and is left alone for a while.
    #[error("the MCP server `{server}` is down: {message}; it is tried again in {} ms", .wait.as_millis())]
    Down {
        /// The server.
        server: String,
        /// Cause of the last failure.
        message: String,
        /// Time until the next attempt.
        wait: Duration,
    },
    /// It lists the tool in a form that cannot be used.
    #[error("the MCP server `{server}` lists the tool `{tool}` in a form that cannot be used: {message}")]
    BadTool {
        /// The server.
        server: String,
        /// The tool.
        tool: String,
        /// The fault.
        message: String,
    },
    /// It has no such tool.
    #[error("the MCP server `{server}` has no tool `{tool}`")]
    UnknownTool {
        /// The server.
        server: String,
        /// The tool.
        tool: String,
        /// Suggested name.
        near: Option<String>,
    },
}

impl McpError {
    /// Stable code for logs, tests and the wire.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::UnknownServer { .. } => "unknown_mcp_server",
            Self::Settings { .. } => "bad_mcp_settings",
            Self::Start { .. } => "mcp_start_failed",
            Self::Down { .. } => "mcp_down",
            Self::BadTool { .. } => "bad_mcp_tool",
            Self::UnknownTool { .. } => "unknown_tool",
        }
    }

    /// Suggested fix, for the user.
    #[must_use]
    pub fn help(&self) -> String {
        let did_you_mean = |near: &Option<String>, other: &str| {
            near.as_ref().map_or_else(|| other.to_owned(), |near| format!("did you mean `{near}`?"))
        };
        match self {
            Self::UnknownServer { near, .. } => did_you_mean(near, "name it under [mcp.<name>] in weft.toml"),
            Self::Settings { .. } => "a server has either `command` or `url`".to_owned(),
            Self::Start { .. } | Self::Down { .. } => {
                "what it writes to stderr is in the log: WEFT_LOG=info".to_owned()
            }
            Self::BadTool { .. } => {
                "it has to be fixed at the server; its other tools are offered".to_owned()
            }
            Self::UnknownTool { near, .. } => did_you_mean(near, "see `weft tool list`"),
        }
    }
}

impl From<McpError> for ToolError {
    /// The model is shown that a server failed; the cause, which may name files of this machine, is the detail.
    fn from(error: McpError) -> Self {
        let (shown, wait) = match &error {
            McpError::Settings { server, .. } => (format!("the MCP server `{server}` is not set up"), None),
            McpError::Start { server, .. } => (format!("the MCP server `{server}` did not start"), None),
            McpError::Down { server, wait, .. } => {
                let ms = wait.as_millis();
                (format!("the MCP server `{server}` is down; it is tried again in {ms} ms"), Some(*wait))
            }
            McpError::UnknownServer { .. } | McpError::BadTool { .. } | McpError::UnknownTool { .. } => {
                (error.to_string(), None)
            }
        };
        let failed = Self::new(ToolErrorKind::Failed, shown).with_code(error.code()).retryable(true);
        let failed = failed.with_detail(error.to_string());
        match wait {
            Some(wait) => failed.after(wait),
            None => failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_shown_no_cause_that_may_name_a_file() {
        let message = || "`/srv/shop/bin/server`: No such file or directory (os error 2)".to_owned();
        let server = || "files".to_owned();
        let wait = Duration::from_millis(500);
        for (error, shown) in [
            (
                McpError::Settings { server: server(), message: message() },
                "the MCP server `files` is not set up",
            ),
            (
                McpError::Start { server: server(), message: message() },
                "the MCP server `files` did not start",
            ),
            (
                McpError::Down { server: server(), message: message(), wait },
                "the MCP server `files` is down; it is tried again in 500 ms",
            ),
        ] {
            let tool = ToolError::from(error.clone());
            assert_eq!(tool.message_for_model, shown);
            assert_eq!(tool.detail, Some(error.to_string()), "the log has the rest");
        }
    }
}

//! Checks of one's own at the edges of a run.

use std::fmt;

use agent_types::ToolId;
use async_trait::async_trait;
use serde_json::{Map, Value};

/// Why a guardrail says no.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocked {
    /// In a sentence; it is told to the user, and for a call to the model.
    pub reason: String,
}

impl Blocked {
    /// No, for this reason.
    #[must_use]
    pub fn because(reason: impl Into<String>) -> Self {
        Self { reason: reason.into() }
    }
}

/// A check of what comes in, of what is to be done, of what goes out. Each of them says yes unless it is overridden.
///
/// What is blocked at an edge ends the run as `guardrail_blocked`; a blocked call is refused and told to the model.
#[async_trait]
pub trait Guardrail: Send + Sync + fmt::Debug {
    /// Its name, for events and errors.
    fn name(&self) -> &str;

    /// Looks at what the agent is asked, before the model is.
    ///
    /// # Errors
    /// Why it may not be asked.
    async fn input(&self, _text: &str) -> Result<(), Blocked> {
        Ok(())
    }

    /// Looks at a call before it runs.
    ///
    /// # Errors
    /// Why it may not run.
    async fn call(&self, _tool: &ToolId, _arguments: &Map<String, Value>) -> Result<(), Blocked> {
        Ok(())
    }

    /// Looks at the answer before it is given. Its pieces may have been shown by then.
    ///
    /// # Errors
    /// Why it may not be given.
    async fn output(&self, _text: &str) -> Result<(), Blocked> {
        Ok(())
    }
}

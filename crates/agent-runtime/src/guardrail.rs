//! Checks of one's own at the edges of a run.

use std::fmt;

use agent_types::ToolId;
use async_trait::async_trait;
use serde_json::{Map, Value};

/// Block by a guardrail, with its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocked {
    /// Reason as a sentence; shown to the user, and for a call to the model.
    pub reason: String,
}

impl Blocked {
    /// No, for this reason.
    #[must_use]
    pub fn because(reason: impl Into<String>) -> Self {
        Self { reason: reason.into() }
    }
}

/// Checks of input, calls and output. Each allows everything unless it is overridden.
///
/// Blocked input or output ends the run as `guardrail_blocked`; a blocked call is refused and reported to the model.
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

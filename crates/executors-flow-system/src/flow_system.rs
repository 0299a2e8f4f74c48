//! Flows and system actions by their id, without a message.

use serde_json::{Map, Value};

use crate::error::OrchestratorError;
use crate::flows::TargetKind;
use crate::message::UserMessage;
use crate::orchestrator::Orchestrator;
use crate::turn_context::TurnContext;

/// Kind of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActionType {
    /// A skill, which the agent calls as a tool.
    Skill,
    /// A tool, which the agent calls.
    Tool,
    /// A flow.
    Flow,
    /// A system action.
    System,
}

/// Flows and system actions of one session, run by their ids.
#[derive(Debug, Clone)]
pub struct FlowSystem {
    orchestrator: Orchestrator,
    session: String,
}

impl FlowSystem {
    /// Those of a session.
    #[must_use]
    pub fn new(orchestrator: Orchestrator, session: impl Into<String>) -> Self {
        Self { orchestrator, session: session.into() }
    }

    /// Runs an action, and gives its reply and whether the iteration of the caller is over: a silent one has no reply and
    /// ends it. Skills and tools are called by the agent, and nothing is run for them.
    ///
    /// # Errors
    /// The action or a parameter is unknown, or the session cannot be kept.
    ///
    /// # Cancel safety
    /// As [`Orchestrator::handle`].
    pub async fn execute_action(
        &self,
        kind: ActionType,
        target: &str,
        parameters: Map<String, Value>,
    ) -> Result<(Option<String>, bool), OrchestratorError> {
        let kind = match kind {
            ActionType::Skill | ActionType::Tool => return Ok((None, false)),
            ActionType::Flow => TargetKind::Flow,
            ActionType::System => TargetKind::SystemAction,
        };
        let entered = self.orchestrator.enter(&self.session).await?;
        let message = UserMessage::default().with_parameters(parameters);
        let cx: TurnContext = self.orchestrator.quiet_context();
        let handled = entered.run(Some(kind), target, message, cx).await?;
        let is_silent = handled.text.is_none();
        Ok((handled.text, is_silent))
    }
}

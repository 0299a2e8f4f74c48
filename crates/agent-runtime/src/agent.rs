//! An agent and its runs.

use std::sync::Arc;

use agent_types::{Budget, Clock, Recorder, RunId, SystemClock, Watcher};
use llm_provider::LlmProvider;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use tool_registry::{RegistryError, Snapshot, Tool, ToolRegistry};
use tool_schema::ToolSetError;

use crate::driver::{Driver, parameters};
use crate::outcome::RunOutcome;
use crate::profile::{AgentProfile, ProtocolChoice};
use crate::prompt::Protocol;
use crate::state::AgentState;

/// What is done where a person would have to be asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ApprovalMode {
    /// The run ends and says what waits.
    #[default]
    Ask,
    /// Every call that may be approved runs.
    All,
    /// Every call that would need approval is denied.
    None,
}

/// Why an agent cannot run.
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
}

impl AgentError {
    /// Stable code for logs, tests and the wire.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Tool(error) => error.code(),
            Self::Tools(error) => error.code(),
            Self::NotNative { .. } => "not_native",
        }
    }
}

/// A profile, a model and tools.
#[derive(Debug, Clone)]
pub struct Agent {
    profile: Arc<AgentProfile>,
    model: Arc<dyn LlmProvider>,
    tools: Snapshot,
    approval: ApprovalMode,
    values: Arc<Map<String, Value>>,
    clock: Arc<dyn Clock>,
}

impl Agent {
    /// An agent without a profile of its own and without tools.
    #[must_use]
    pub fn new(model: impl LlmProvider + 'static) -> Self {
        Self::of(AgentProfile::new("agent"), Arc::new(model), Snapshot::default())
    }

    /// An agent of a profile, with the tools that it may use.
    #[must_use]
    pub fn of(profile: AgentProfile, model: Arc<dyn LlmProvider>, tools: Snapshot) -> Self {
        Self {
            profile: Arc::new(profile),
            model,
            tools,
            approval: ApprovalMode::default(),
            values: Arc::default(),
            clock: Arc::new(SystemClock),
        }
    }

    /// Offers one more tool.
    ///
    /// # Errors
    /// There is one of that id.
    pub fn tool(mut self, tool: Tool) -> Result<Self, RegistryError> {
        let registry = ToolRegistry::new();
        self.tools.tools().cloned().chain([tool]).try_for_each(|tool| registry.register(tool))?;
        self.tools = registry.snapshot();
        Ok(self)
    }

    /// Sets what is done where a person would have to be asked.
    #[must_use]
    pub fn with_approval(mut self, approval: ApprovalMode) -> Self {
        self.approval = approval;
        self
    }

    /// Sets the context values: tools may use them, the model can neither see nor set them.
    #[must_use]
    pub fn with_values(mut self, values: Map<String, Value>) -> Self {
        self.values = Arc::new(values);
        self
    }

    /// Sets where time comes from.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// The profile.
    #[must_use]
    pub fn profile(&self) -> &AgentProfile {
        &self.profile
    }

    /// The tools that are offered.
    #[must_use]
    pub fn tools(&self) -> &Snapshot {
        &self.tools
    }

    /// Answers one message and waits for the end.
    ///
    /// # Errors
    /// What keeps the agent from running at all; everything later is in the outcome.
    ///
    /// # Cancel safety
    /// Dropping the future drops the run with its calls.
    pub async fn run(&self, message: impl Into<String>) -> Result<RunOutcome, AgentError> {
        Ok(self.start(AgentState::default(), message)?.outcome().await.0)
    }

    /// Prepares a run that goes on from `state`; nothing happens before [`AgentRun::outcome`] is polled.
    ///
    /// # Errors
    /// What keeps the agent from running at all.
    pub fn start(&self, state: AgentState, message: impl Into<String>) -> Result<AgentRun, AgentError> {
        let recorder = Recorder::new(RunId::generate(), Arc::clone(&self.clock));
        let driver = Driver {
            profile: Arc::clone(&self.profile),
            model: Arc::clone(&self.model),
            tools: self.tools.clone(),
            tool_set: Arc::new(self.tools.tool_set()?),
            protocol: self.protocol()?,
            parameters: parameters(&self.profile),
            approval: self.approval,
            values: Arc::clone(&self.values),
            clock: Arc::clone(&self.clock),
            budget: Budget::new(self.profile.limits()),
            cancel: CancellationToken::new(),
            recorder,
        };
        Ok(AgentRun { driver, state, message: message.into() })
    }

    fn protocol(&self) -> Result<Protocol, AgentError> {
        let native = self.model.info().native_tools;
        match self.profile.protocol.unwrap_or_default() {
            ProtocolChoice::Text => Ok(Protocol::Text),
            ProtocolChoice::Auto => Ok(if native { Protocol::Native } else { Protocol::Text }),
            ProtocolChoice::Native if native || self.model.info().scripted => Ok(Protocol::Native),
            ProtocolChoice::Native => Err(AgentError::NotNative { model: self.model.info().name.clone() }),
        }
    }
}

/// A run that is ready to go.
pub struct AgentRun {
    driver: Driver,
    state: AgentState,
    message: String,
}

impl std::fmt::Debug for AgentRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentRun")
            .field("run", self.id())
            .field("message", &self.message)
            .finish_non_exhaustive()
    }
}

impl AgentRun {
    /// Its id.
    #[must_use]
    pub fn id(&self) -> &RunId {
        agent_types::EventSink::run(&*self.driver.recorder)
    }

    /// A reader of its events, from the first one if called before the run goes on. Holds `capacity` events.
    #[must_use]
    pub fn watch(&self, capacity: usize) -> Watcher {
        self.driver.recorder.watch(capacity)
    }

    /// Ends the run when it is cancelled: calls under way end as cancelled, the outcome says so.
    #[must_use]
    pub fn cancel_token(&self) -> CancellationToken {
        self.driver.cancel.clone()
    }

    /// Runs to the end; gives the outcome and the state that the next run goes on from.
    ///
    /// # Cancel safety
    /// Dropping the future drops the run with its calls.
    pub async fn outcome(mut self) -> (RunOutcome, AgentState) {
        let message = std::mem::take(&mut self.message);
        let outcome = self.driver.run(&mut self.state, message).await;
        (outcome, self.state)
    }
}

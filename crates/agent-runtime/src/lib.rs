//! The agent loop: deliberate, parse, dispatch, observe, within budgets.
//!
//! An [`Agent`] is a profile, a model and tools; [`Agent::run`] answers one message.
//! Inside, one serialisable state machine ([`AgentState`]) decides and does no I/O; a driver around it asks the model and runs the tools.
//! A mistake of the model is an observation for its next turn, never an error of the loop, and every call has exactly one observation.
//!
//! ```
//! use agent_runtime::prelude::*;
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Add {
//!     a: i64,
//!     b: i64,
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! let model = ScriptedModel::from_jsonl(
//!     "{\"text\": \"<ACTION><add><a>2</a><b>3</b></add></ACTION>\"}\n{\"text\": \"It is 5.\"}",
//! )?;
//! let add = Tool::func("add", "Adds two integers.", |Add { a, b }, _| async move { a + b })?;
//! let agent = Agent::new(model).tool(add)?;
//! let outcome = agent.run("What is 2 + 3?").await?;
//! assert_eq!(outcome.text.as_deref(), Some("It is 5."));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod agent;
mod ask;
mod decide;
mod dispatch;
mod driver;
mod history;
mod loop_guard;
mod observe;
mod outcome;
mod plan;
mod profile;
mod prompt;
mod state;

/// What a program with an agent usually needs.
pub mod prelude {
    pub use agent_types::ExitReason;
    pub use llm_provider::{OpenAiCompatible, ScriptedModel};
    pub use tool_registry::{Tool, ToolContext, ToolError};

    pub use crate::agent::{Agent, AgentRun};
    pub use crate::outcome::RunOutcome;
    pub use crate::profile::AgentProfile;
}

pub use agent::{Agent, AgentError, AgentRun, ApprovalMode};
pub use history::{CallRecord, Exchange, Turn};
pub use outcome::{PendingCall, RunOutcome, exit_status};
pub use profile::{
    AgentProfile, ApprovalChoice, ApprovalPolicy, Budgets, InventoryEntry, Language, LlmChoice, MemoryPolicy,
    OnLimit, ProfileError, ProtocolChoice,
};
pub use prompt::system_prompt;
pub use state::AgentState;

//! The agent loop: deliberate, parse, dispatch, observe, within budgets.
//!
//! An [`Agent`] is a profile, a model and tools; [`Agent::run`] answers one message.
//! One state machine ([`AgentMachine`]) decides: it serialises, takes inputs and gives effects, and does no I/O. A
//! driver performs the effects: it asks the model, runs the tools and emits the events.
//! A mistake of the model is an observation for its next turn, never an error of the loop, and every call has exactly one observation.
//!
//! ```no_run
//! use agent_runtime::prelude::*;
//!
//! /// Add two integers.
//! #[tool]
//! async fn add(a: i64, b: i64) -> i64 { a + b }
//!
//! #[tokio::main]
//! async fn main() -> Result<()> {
//!     let agent = Agent::new(OpenAiCompatible::from_env()?).tool(tool!(add));
//!     println!("{}", agent.run("What is 2 + 3?").await?.text);
//!     Ok(())
//! }
//! ```
//!
//! Several tools are named by `tools!`, and a scripted model stands in for a real one:
//!
//! ```
//! use agent_runtime::prelude::*;
//!
//! /// Adds two integers.
//! #[tool(read_only)]
//! fn add(a: i64, b: i64) -> i64 { a + b }
//!
//! /// Multiplies two integers.
//! #[tool(read_only)]
//! fn multiply(a: i64, b: i64) -> i64 { a * b }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<()> {
//! let model = ScriptedModel::from_jsonl(
//!     "{\"text\": \"<ACTION><add><a>2</a><b>3</b></add></ACTION>\"}\n{\"text\": \"It is 5.\"}",
//! )?;
//! let agent = Agent::new(model).tools(tools![add, multiply]);
//! assert_eq!(agent.run("What is 2 + 3?").await?.text, "It is 5.");
//! # Ok(())
//! # }
//! ```

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod agent;
pub mod driver;
mod error;
mod events;
mod guardrail;
mod history;
mod input;
pub mod machine;
#[cfg(feature = "otel")]
pub mod otel;
mod outcome;
mod profile;
pub mod prompt;
pub mod requests;
pub mod resume;
mod retry;
pub mod services;
mod state;
mod subagent;
mod text_or_object;

/// Common imports of programs with an agent.
pub mod prelude {
    pub use agent_types::ExitReason;
    pub use llm_provider::{OpenAiCompatible, ScriptedModel};
    pub use tool_registry::{Dep, Tool, ToolContext, ToolError, tool, tools};

    pub use crate::agent::{Agent, AgentRun};
    pub use crate::outcome::RunOutcome;
    pub use crate::profile::AgentProfile;

    /// A result whose error may be any, unless another one is named.
    pub type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;
}

// `#[tool]` finds the registry through this where nothing else names it.
#[doc(hidden)]
pub use tool_registry as __tool_registry;

pub use agent::{Agent, AgentRun};
pub use driver::deliberate::{Deliberation, DeliberationFault, Deliberator, ReplyStream, replayed};
pub use error::AgentError;
pub use events::SubscribedEvent;
pub use guardrail::{Blocked, Guardrail};
pub use history::{CallRecord, Exchange, Turn, visible};
pub use input::AgentInput;
pub use machine::{AgentMachine, ApprovalMode, approval_digest, definition_digests};
pub use outcome::{PendingCall, RunOutcome, exit_status};
pub use profile::{
    AgentProfile, ApprovalChoice, ApprovalPolicy, Budgets, InventoryEntry, Language, LlmChoice, MemoryPolicy,
    OnLimit, ProfileError, ProtocolChoice,
};
pub use prompt::text::system_prompt;
pub use retry::standing;
pub use state::AgentState;
pub use subagent::{SubAgent, TaskText};

/// The main types are shared between threads.
const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<Agent>();
    is_shared::<AgentError>();
    is_shared::<AgentInput>();
    is_shared::<AgentProfile>();
    is_shared::<AgentRun>();
    is_shared::<AgentState>();
    is_shared::<RunOutcome>();
    is_shared::<SubAgent>();
};

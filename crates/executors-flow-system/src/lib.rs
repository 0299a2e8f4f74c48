//! Flows and system actions around an agent: what a model neither sees nor decides, and the orchestrator of a session.
//!
//! A [`FlowsFile`] is what `flows.json` says; a [`FlowsBuilder`] checks it once and makes [`Flows`]; an [`Orchestrator`] puts them around
//! an agent and takes the messages of sessions: actions before the turn, flows, the agent, actions after it.
//! Everything that a model should see becomes a tool of the agent: [`Flows::offered`].

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod builder;
mod config;
mod conversation;
mod error;
mod executor;
mod flow_system;
mod flows;
mod knowledge;
mod lookup;
mod mapping;
mod matcher;
mod message;
mod orchestrator;
mod pattern;
mod provider;
mod seat;
mod session;
mod shared;
mod skill;
mod step;
mod store;
mod text;
mod timer;
mod turn;
mod turn_context;
mod words;

pub use builder::FlowsBuilder;
pub use config::{
    ActionConfig, Approval, ExecutionMode, FlowConfig, FlowsError, FlowsFile, KnowledgeConfig, KnowledgeMode,
    MatchKind, OnConflict, OnError, Problem, Severity, SkillConfig, TargetConfig, TimerAction, TimerConfig,
    When,
};
pub use conversation::{Author, Entry, Said, entries_of_run, exchanges, thread_key};
pub use error::{OrchestratorError, SeatError};
pub use flow_system::{ActionType, FlowSystem};
pub use flows::{ByIdError, FlowCounts, Flows, TargetKind, Triggered};
pub use lookup::{Handlers, NoTool, ToolLookup};
pub use matcher::Why;
pub use message::{Handled, UserMessage};
pub use orchestrator::{Entered, Orchestrator};
pub use provider::{FlowSource, FlowTools};
pub use seat::SeatAction;
pub use session::{Phase, SessionState};
pub use step::{USER_MESSAGE, placeholders};
pub use store::{MemorySessions, Session, SessionError, SessionStore, StoredSessions, Swap};
pub use turn_context::{Resume, SessionStart, TurnContext};
pub use words::{Sentences, Texts};

/// The main types are shared between threads.
const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<Flows>();
    is_shared::<FlowsError>();
    is_shared::<FlowsFile>();
    is_shared::<Orchestrator>();
    is_shared::<SessionState>();
};

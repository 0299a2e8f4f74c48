//! x
mod builder;
mod config;
mod desk;
mod executor;
mod flows;
mod knowledge;
mod lookup;
mod mapping;
mod matcher;
mod orchestrator;
mod pattern;
mod session;
mod skill;
mod step;
mod store;
mod text;
mod timer;
mod turn;
mod words;

pub use builder::FlowsBuilder;
pub use config::{
    ActionConfig, ExecutionMode, FlowConfig, FlowsError, FlowsFile, KnowledgeConfig, KnowledgeMode,
    MatchKind, OnError, Problem, Severity, SkillConfig, TargetConfig, TimerAction, TimerConfig, When,
};
pub use desk::{Desk, Resume};
pub use flows::{FlowCounts, Flows, Triggered};
pub use lookup::{Handlers, NoTool, ToolLookup};
pub use matcher::Why;
pub use orchestrator::{Entered, Handled, Orchestrator, OrchestratorError, UserMessage};
pub use session::{Phase, SessionState};
pub use store::{MemorySessions, Session, SessionError, SessionStore, StoredSessions};

//! x
mod text; mod pattern; mod config; mod matcher;
pub use config::{
    ActionConfig, ExecutionMode, FlowConfig, FlowsError, FlowsFile, KnowledgeConfig, KnowledgeMode, MatchKind,
    OnError, Problem, Severity, SkillConfig, TargetConfig, TimerAction, TimerConfig, When,
};

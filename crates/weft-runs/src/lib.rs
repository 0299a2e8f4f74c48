//! Runs of a project, behind one trait: they are begun, resumed, forked, retried, answered and cancelled here and nowhere else.
//!
//! The command line, the server and its OpenAI-compatible endpoint, timers and tools are adapters over [`RunService`].
//! Nothing of it says where a run executes: a [`RunHandle`] has an id, a subscription to its events and a future of its
//! outcome, which fails where the process that executed it left the run. [`LocalRuns`] executes runs in this process.

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod answer;
mod error;
mod handle;
mod local;
mod loops;
mod mcp;
mod outcome;
mod plan;
mod recorded;
mod recording;
mod request;
mod service;
mod sink;
mod source;
mod talk;

pub use answer::{Answer, EffectOutcome};
pub use error::RunsError;
pub use executors_flow_system::{Author, SeatAction, TargetKind};
pub use handle::{Outcome, RunEvents, RunHandle};
pub use local::{
    CallHandle, CallRequest, Firing, LocalRuns, RunsOptions, Scripts, ThreadChanges, trigger_request,
};
pub use loops::{LoopEntry, LoopPage, LoopReader, LoopRecord, PassCall, PassFailure, PassRecord, PassReply};
pub use mcp::ProjectMcp;
pub use outcome::RunOutcome;
pub use plan::{AgentPlan, CallPlan, FlowCall, TriggerCause, WorkflowPlan, called_tool, retry_of};
pub use recorded::recorded_request;
pub use recording::{ReplayDifference, ReplaySink, RunRecording, RunReplay, replay};
pub use request::{
    AgentRequest, AnswerRequest, Cancelled, ForkRequest, NodeValue, RunEnv, RunRequest, SessionInfo,
    SessionParty, SessionRequest, Then, ThreadAction, ThreadInfo, ThreadName, Version, WhenBusy,
    WorkflowRequest,
};
pub use service::RunService;
pub use source::ProjectFiles;
pub use talk::{ChatCall, ChatMessage, SaidBehind};

/// The main types are shared between threads.
const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<AgentPlan>();
    is_shared::<LocalRuns>();
    is_shared::<RunsError>();
    is_shared::<WorkflowPlan>();
};

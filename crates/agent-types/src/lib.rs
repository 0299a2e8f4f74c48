//! Types shared by every layer of weft: ids, tool calls, observations, trace events, budgets and clocks.
//!
//! The crate holds types and the rules that keep them valid.
//! It opens no file and no socket, spawns no task and knows no runtime; a program that only reads traces needs nothing else.
//!
//! ```
//! use agent_types::ToolId;
//!
//! let id: ToolId = "workflow:summarize_text".parse()?;
//! assert_eq!(id.namespace(), Some("workflow"));
//! assert_eq!(id.name(), "summarize_text");
//! # Ok::<(), agent_types::InvalidToolId>(())
//! ```

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod backoff;
mod budget;
mod call;
mod canonical;
mod clock;
mod escapes;
mod event;
mod event_broadcast;
mod event_info;
mod event_table;
mod event_words;
mod id;
mod json_text;
mod loopback;
mod near;
mod observation;
mod problem;
mod recorder;
mod redact;
mod services;
mod system_clock;
mod timestamp;
mod tool_definition;
mod virtual_clock;
mod visible;

pub use backoff::Backoff;
pub use budget::{Budget, BudgetExceeded, BudgetKey, BudgetLimits};
pub use call::{Annotations, ApprovalDefault, ToolCall, ToolSpec, Usage, estimate_tokens};
pub use canonical::canonical_json;
pub use clock::{Clock, Sleep};
pub use event::{AskSummary, CallSummary, EventLocation, OtherOutputs, ToolFault, TraceEvent};
pub use event_broadcast::{Batch, Delivery, EventBroadcast, EventSubscription};
pub use event_info::{EventInfo, EventRole, EventSubject};
pub use event_table::EventBody;
pub use event_words::{
    ApprovalState, AskKind, ExitReason, LoopEnd, NodeErrorKind, PassDecision, RunStatus, ToolStatus,
};
pub use id::{CallId, InvalidToolId, RunId, ToolId};
pub use json_text::read_json;
pub use loopback::is_loopback_host;
pub use near::{fold, nearest, ranked};
pub use observation::{OBSERVATION_PREFIX, Observation, ObservationCode};
pub use problem::{Problem, ProblemPlace, Severity};
pub use recorder::{
    Durable, EventPersister, EventSink, KeepError, Recorder, ReplayData, ResumeLog, StoredEvent,
    UnsequencedEvent,
};
pub use redact::Redactor;
pub use services::{ContextValues, FormerInputs, Services};
pub use system_clock::SystemClock;
pub use timestamp::Timestamp;
pub use tool_definition::{DefinitionDigests, ToolDefinition, ToolWords};
pub use virtual_clock::{ClockHold, VirtualClock};
pub use visible::visible;

/// The main types are shared between threads.
const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<Budget>();
    is_shared::<EventBroadcast>();
    is_shared::<EventSubscription>();
    is_shared::<Recorder>();
    is_shared::<Redactor>();
    is_shared::<ResumeLog>();
    is_shared::<Services>();
    is_shared::<TraceEvent>();
    is_shared::<VirtualClock>();
};

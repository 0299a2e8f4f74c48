//! Decisions of an agent's loop, as a state machine that serialises and does no I/O.
//!
//! [`AgentMachine::step`] takes an [`Input`] and gives [`Effect`]s: events to emit, and work whose result is the next
//! input. Its driver owns the model, the tools and the clock. Nodes of workflows that run calls step the same machine,
//! from [`AgentMachine::with_calls`] on.

mod agent_machine;
mod approval;
mod calls;
mod effect;
mod emit;
mod end;
mod loop_guard;
pub mod observe;
mod plan;
mod reply;
mod result;
mod state;
mod tasks;
mod waiting;

pub use agent_machine::AgentMachine;
pub use approval::{approval_digest, definition_digests};
pub use effect::{
    Answer, At, Block, CallOrder, Effect, Emission, Grant, Input, Judgement, NoReply, REQUEST, SUMMARY,
    Summary, WOKEN,
};
pub use emit::{message, observed, reply_events, unread_events};
pub use end::{End, Limit};
pub(crate) use plan::compiled;
pub use plan::{
    ApprovalMode, CALLS_PER_DECISION, CallDisposition, Past, PlannedCall, Review, Verdict, too_many_calls,
};
pub use reply::{CallFacts, CallIds, Reading, ReadyCall, Refusal, Reply, read_reply};
pub use result::{CallResult, PendingInner};
pub(crate) use state::is_partial;
pub use state::{Conversation, Rules};
pub use tasks::{OpenTask, TaskChange, TaskEnd};

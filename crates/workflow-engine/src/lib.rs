//! Plans workflows and runs them: joins, errors, loops, streams, events.
//!
//! A [`Plan`] is a checked workflow in flat arrays; [`run`] starts it. One task owns a run: it decides whose turn it
//! is, polls each node once in place, gives a task only to those that wait, and emits every start, chunk and end once
//! and in order. Nodes implement [`Node`] and see the run through their [`NodeContext`].

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod cache;
mod context;
mod convert;
mod error;
mod expression;
mod hash;
mod inputs;
mod node;
mod outputs;
mod plan;
mod run;
mod stream;

pub use agent_types::Services;
pub use cache::Cache;
pub use context::NodeContext;
pub use error::{NodeError, PlanError, RunError, SettingFault};
pub use expression::{Expression, ExpressionError, Scope};
pub use inputs::Inputs;
pub use node::{Node, NodeCatalog, Prepared};
pub use outputs::{Outputs, StopScope};
pub use plan::Plan;
pub use run::{
    Before, BeforeHook, OnFail, OnWaiting, Question, RunHandle, RunOptions, RunOutcome, RunRemote, run,
    standing,
};
pub use stream::{StreamItem, StreamReader};

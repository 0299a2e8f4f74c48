//! Plans workflows and runs them: joins, errors, loops, streams, events.
//!
//! A [`Plan`] is a checked workflow in flat arrays, beside the code of its nodes; [`run`] starts it. One task owns a
//! run: it decides whose turn it is, polls each node once in place, gives a task only to those that wait, and emits
//! every start, chunk and end once and in order. Nodes implement [`Node`] and see the run through their
//! [`NodeContext`].
//!
//! The state of a run has parts, each with fields of its own: the graph (what is settled and what is ready), workers
//! (tasks and permits), zones, questions, events, counts. The parts do not know each other. Above them stand what is
//! cancelled, the ends of nodes, and the start of a node; the scheduler is on top. Calls go down only: the end of a
//! zone goes up as a value.

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
mod words;

pub use agent_types::{Problem, Services};
pub use cache::{Cache, size as value_size};
pub use context::NodeContext;
pub use error::{NodeError, PlanError, RunError};
pub use expression::{ConvertedValue, Expression, ExpressionError, Scope};
pub use inputs::Inputs;
pub use node::{Node, NodeCatalog};
pub use outputs::{Outputs, StopScope};
pub use plan::Plan;
pub use plan::prepared::Prepared;
pub use run::handle::{RunHandle, RunRemote, run};
pub use run::options::{Before, BeforeHook, OnFail, OnWaiting, RunOptions};
pub use run::outcome::RunOutcome;
pub use run::resume::standing::standing;
pub use run::workers::mailbox::Question;
pub use stream::{StreamItem, StreamReader};
pub use words::NodeWords;

/// The main types are shared between threads.
const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<Cache>();
    is_shared::<Expression>();
    is_shared::<NodeCatalog>();
    is_shared::<NodeContext>();
    is_shared::<Plan>();
    is_shared::<RunError>();
    is_shared::<RunHandle>();
    is_shared::<RunOptions>();
    is_shared::<RunOutcome>();
};

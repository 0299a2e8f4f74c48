//! Work of an agent's loop, as the machine orders it: requests to the model, calls of tools, tasks, compaction.

pub mod answer_schema;
pub mod ask;
pub mod call_env;
pub mod calls;
pub(crate) mod compact;
pub(crate) mod context;
pub(crate) mod deliberate;
mod dispatch;
mod finish;
pub(crate) mod offer;
pub(crate) mod parts;
pub(crate) mod request;
mod results;
pub(crate) mod session;
pub mod stop;
mod tasks;
pub mod trace;

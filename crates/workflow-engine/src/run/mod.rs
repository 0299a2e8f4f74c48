//! Running a plan.
//!
//! Calls go down only: [`scheduler`] drives; below it stand what a node's turn, a message, a log and the end of a run
//! do; below those the ends of nodes ([`node_end`]), zones, and what is cancelled ([`lifecycle`]); at the bottom the
//! parts of the run, each with its own fields ([`state`]).

mod asks;
mod events;
mod finalize;
pub(crate) mod graph_state;
pub(crate) mod handle;
mod lifecycle;
mod messages;
mod node_end;
pub(crate) mod options;
pub(crate) mod outcome;
pub(crate) mod resume;
mod scheduler;
pub(crate) mod shared;
mod sizes;
mod start;
mod state;
mod tally;
pub(crate) mod workers;
mod zones;

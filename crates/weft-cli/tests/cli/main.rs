//! The program, run as a user would run it.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may stop at the first surprise")]

mod agents;
mod canvas;
mod commands;
mod common;
mod explain;
mod failures;
mod faults;
mod flows;
mod forks;
mod guarded;
mod guide;
mod lasting;
mod openai_agent;
mod pair;
mod replays;
mod retry;
mod runs;
mod seat;
mod serving;
mod shown;
mod tools;
mod triggers;

//! The machine without a runtime: a table of its steps, and laws over what a driver may deliver.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests: a wrong case may panic")]

mod common;
mod laws;
mod table;

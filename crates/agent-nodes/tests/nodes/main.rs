//! The agent on the canvas: each node by itself, and the whole of them as a loop.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::needless_pass_by_value,
    reason = "helpers of tests: a wrong case may panic"
)]

mod approvals;
mod asking;
mod common;
mod formatting;
mod loops;
mod reading;
mod resume;
mod running;
mod single;
mod threads;

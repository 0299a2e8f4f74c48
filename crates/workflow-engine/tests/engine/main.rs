//! Whole runs of small workflows in virtual time.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::format_push_string,
    clippy::needless_pass_by_value,
    reason = "helpers of tests: a wrong case may panic"
)]

mod boundaries;
mod branches;
mod caching;
mod common;
mod dag;
mod groups;
mod inner;
mod laws;
mod paid;
mod persister;
mod questions;
mod resume;
mod streams;
mod waiting;
mod zones;

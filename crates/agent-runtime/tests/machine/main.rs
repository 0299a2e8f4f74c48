//! The machine without a runtime: a table of its steps, and laws over what a driver may deliver.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod common;
mod laws;
mod table;

//! The machine without a runtime: a table of its steps, and laws over what a driver may deliver.

mod common;
mod laws;
mod table;

//! Flows, system actions and sessions, against a server on a real socket and a scripted model.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may stop at the first surprise")]

mod actions;
mod by_id;
mod common;
mod document;
mod knowledge;
mod processes;
mod resume;
mod seat;
mod security;
mod sessions;
mod soak;
mod table;
mod timers;

//! Requests over real sockets on loopback.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may stop at the first surprise")]

mod addresses;
mod answers;
mod common;
mod requests;
mod secrets;

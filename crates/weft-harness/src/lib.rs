//! Helpers of the maintainers' tests, which no product crate uses outside its own tests.
//!
//! [`VirtualTime`], [`StubServer`], [`Cuts`], [`old_log`], [`events`] and [`write()`] serve the tests of every crate.
//! [`SessionsSoak`] is the soak of sessions over two servers. The feature `scenarios` adds the
//! runners of engine scenarios and of execution payloads of ComfyTavern, and the soak of the store (`weft-soak`).
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops where its helper finds that something is wrong"
)]

#[cfg(doctest)]
#[cfg(feature = "scenarios")]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(feature = "scenarios")]
mod both_ways;
mod cuts;
#[cfg(feature = "scenarios")]
mod engine;
mod events;
mod numbers;
mod old_log;
#[cfg(feature = "scenarios")]
mod payload;
mod project;
mod sessions;
mod stub_server;
mod virtual_time;

#[cfg(feature = "scenarios")]
pub use both_ways::run_both_ways;
pub use cuts::{Cut, Cuts, replies};
#[cfg(feature = "scenarios")]
pub use engine::{Failure, Report, run_engine_cases, run_engine_file};
pub use events::events;
pub use numbers::Numbers;
pub use old_log::old_log;
#[cfg(feature = "scenarios")]
pub use payload::run_payload;
pub use project::{ASK, COUNT, write};
pub use sessions::SessionsSoak;
pub use stub_server::{Request, StubServer};
pub use virtual_time::VirtualTime;

//! Matcher of a run's log with the events of the resumed run.
#![doc = include_str!("../README.md")]

mod checkpoint;
mod inner;
mod journal;
mod key;
mod names;
mod spans;

pub use checkpoint::CheckpointFrame;
pub use inner::{log_in_call, log_in_turn};
pub use journal::{Journal, Recorded};
pub use names::{ask_about_digest, ask_in_call, ask_in_turn, ask_once_more, call_at_level, calls_around};
pub use spans::OpenSpans;

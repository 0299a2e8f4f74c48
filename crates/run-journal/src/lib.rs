//! Matching of a run's log with what the resumed run emits.
//!
//! A run resumes by deciding everything anew with its log at hand. Each event that it would emit is either recorded
//! already or must be emitted; a [`Journal`] answers which, by one identity of events for workflows, agents and
//! sessions. Around it are the next spans, the [names of questions](ask_in_call), the [logs of inner
//! runs](log_in_call), the [spans left open](OpenSpans) and the [frame of a checkpoint](CheckpointFrame).
//!
//! The crate applies no event and waits for nothing: what an event means is known by the run that emits it.
//!
//! ```
//! use agent_types::{EventBody, EventLocation, RunId, StoredEvent, Timestamp, TraceEvent, UnsequencedEvent};
//! use run_journal::Journal;
//!
//! let at = |path: &str| EventLocation { path: Some(path.into()), ..EventLocation::default() };
//! let started = || EventBody::NodeStarted { node_type: None };
//! let event = TraceEvent::new(RunId::new("r"), 1, Timestamp::default(), at("a"), started());
//!
//! let mut journal = Journal::new(&[StoredEvent { event, record: None }]);
//! for path in ["a", "b"] {
//!     journal.emit(UnsequencedEvent::new(at(path), started()));
//! }
//! assert_eq!(journal.take_missing(), [UnsequencedEvent::new(at("b"), started())]);
//! ```

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod answers;
mod calls;
mod checkpoint;
mod inner;
mod journal;
mod key;
mod spans;

pub use answers::{ask_in_call, ask_in_turn, ask_once_more};
pub use calls::{call_at_level, calls_around};
pub use checkpoint::{CheckpointError, CheckpointFrame};
pub use inner::{log_in_call, log_in_turn};
pub use journal::{Journal, Recorded};
pub use spans::OpenSpans;

//! Triggers of agents: their files, when they are due, and what is kept of them.
//!
//! A [`TriggerFile`] holds [`Trigger`]s; [`due`] says what a [`TriggerRecord`] has not seen at a moment.

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod checked_text;
mod cron;
mod due;
mod file;
mod kind;
mod record;
mod secret;
mod signature;

pub use cron::{CronError, CronTimes};
pub use due::{Due, Tick, due};
pub use file::{Missed, Trigger, TriggerFile};
pub use kind::{TriggerKind, Webhook};
pub use record::{DeadLetter, TriggerRecord, TriggerRun};
pub use signature::{Algorithm, Signature, SignatureEncoding, SignatureTime};
pub use tool_registry::files::SyntaxError;

/// The main types are shared between threads.
const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<Trigger>();
    is_shared::<TriggerRecord>();
};

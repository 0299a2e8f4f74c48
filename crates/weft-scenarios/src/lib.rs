//! Runs scenario files of agents: one JSON line says what is run and what must come of it.

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod agent;
mod pattern;

pub use agent::{AgentCases, Difference, FailedCase, TestReport};
pub use pattern::{Pattern, contains_all, fits};

/// Fault of a scenario itself.
pub type Fault = String;

/// The main types are shared between threads.
const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<AgentCases>();
    is_shared::<Pattern>();
    is_shared::<TestReport>();
};

//! Runs scenario files: one JSON line says what is run and what must come of it; and execution payloads of ComfyTavern.

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod engine;
mod payload;

pub use engine::{run_engine_cases, run_engine_file};
pub use payload::run_payload;

/// What came of a file.
#[derive(Debug, Default)]
pub struct Report {
    /// Cases that went as they should.
    pub passed: usize,
    /// Cases that did not.
    pub failures: Vec<Failure>,
}

/// A case that went another way.
#[derive(Debug)]
pub struct Failure {
    /// Its id.
    pub id: String,
    /// What was wanted and what came.
    pub faults: Vec<String>,
}

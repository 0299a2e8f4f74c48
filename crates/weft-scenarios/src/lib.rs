//! Runs scenario files: one JSON line says what is run and what must come of it; and execution payloads of ComfyTavern.

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod agent;
mod engine;
mod pattern;
mod payload;

use serde_json::{Map, Value};

pub use agent::{AgentCases, Difference, FailedCase, TestReport, recorded};
pub use engine::{run_engine_cases, run_engine_file};
pub use payload::run_payload;

/// What is wrong with a scenario itself.
pub(crate) type Fault = String;

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

/// An unknown key is a fault, so that a misspelt wish is not taken for a fulfilled one.
pub(crate) fn known_keys(map: &Map<String, Value>, known: &[&str]) -> Result<(), Fault> {
    match map.keys().find(|key| !known.contains(&key.as_str())) {
        Some(key) => Err(format!("unknown key `{key}`")),
        None => Ok(()),
    }
}

pub(crate) fn object(value: &Value) -> Result<&Map<String, Value>, Fault> {
    value.as_object().ok_or_else(|| format!("expected an object, found {value}"))
}

//! Cases of the workflow engine.

mod actions;
mod case;
mod crash_injection;
mod expect;
mod fixtures;
mod flow;
mod memory;
mod ops;
mod stored;

use serde_json::{Map, Value};
use weft_scenarios::Fault;

use case::Case;

/// Results of the cases of a file.
#[derive(Debug, Default)]
pub struct Report {
    /// Number of cases that met their expectations.
    pub passed: usize,
    /// Cases that did not.
    pub failures: Vec<Failure>,
}

/// Case that did not meet its expectations.
#[derive(Debug)]
pub struct Failure {
    /// Its id.
    pub id: String,
    /// Each expectation that was not met, with the value instead.
    pub faults: Vec<String>,
}

/// Refuses an unknown key, so that a misspelt expectation does not count as met.
fn known_keys(map: &Map<String, Value>, known: &[&str]) -> Result<(), Fault> {
    match map.keys().find(|key| !known.contains(&key.as_str())) {
        Some(key) => Err(format!("unknown key `{key}`")),
        None => Ok(()),
    }
}

fn object(value: &Value) -> Result<&Map<String, Value>, Fault> {
    value.as_object().ok_or_else(|| format!("expected an object, found {value}"))
}

/// Stack of a case that asks for none, in KiB.
const STACK_KIB: usize = 8 * 1024;

/// Runs every line of a file.
#[must_use]
pub fn run_engine_file(text: &str) -> Report {
    run_engine_cases(text, |_| true)
}

/// Runs the lines whose id `wanted` accepts.
#[must_use]
pub fn run_engine_cases(text: &str, wanted: impl Fn(&str) -> bool) -> Report {
    let mut report = Report::default();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let value: Value = match serde_json::from_str(line) {
            Ok(value) => value,
            Err(error) => {
                report.failures.push(Failure { id: "?".to_owned(), faults: vec![error.to_string()] });
                continue;
            }
        };
        let id = value["id"].as_str().unwrap_or("?").to_owned();
        if wanted(&id) {
            report.add(id, &value);
        }
    }
    report
}

impl Report {
    fn add(&mut self, id: String, line: &Value) {
        match Case::read(line) {
            Ok(case) => match on_stack(case) {
                faults if faults.is_empty() => self.passed += 1,
                faults => self.failures.push(Failure { id, faults }),
            },
            Err(fault) => self.failures.push(Failure { id, faults: vec![fault] }),
        }
    }
}

/// Runs a case on a thread of its own, with the stack that it asks for.
fn on_stack(case: Case) -> Vec<String> {
    let stack = case.stack_kib().unwrap_or(STACK_KIB) * 1024;
    let thread =
        std::thread::Builder::new().name(case.id.clone()).stack_size(stack).spawn(move || case.run());
    match thread.map(std::thread::JoinHandle::join) {
        Ok(Ok(faults)) => faults,
        Ok(Err(_)) => vec!["the case panicked".to_owned()],
        Err(error) => vec![error.to_string()],
    }
}

//! Settings of the node, read when a plan is made.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};
use workflow_engine::Problem;

use crate::sandbox::{self, Limits};

/// Limits unless the settings say otherwise, and the highest that they may say.
pub(crate) const TIME_MS: u64 = 5_000;
const MAX_TIME_MS: u64 = 60_000;
pub(crate) const MEMORY_MB: u64 = 32;
const MAX_MEMORY_MB: u64 = 256;

/// The settings.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Settings {
    pub(crate) code: String,
    pub(crate) limits: Limits,
    pub(crate) tests: Vec<Test>,
}

/// A case that the code must meet.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Test {
    pub(crate) name: Option<String>,
    #[serde(default)]
    pub(crate) inputs: Map<String, Value>,
    #[serde(default)]
    pub(crate) vars: Map<String, Value>,
    /// The result. Without it only an error fails the test.
    #[serde(default, deserialize_with = "given")]
    pub(crate) expect: Option<Value>,
    /// A part of the error that the code must end with.
    pub(crate) expect_error: Option<String>,
}

/// A value that is given, null included.
fn given<'de, D: serde::Deserializer<'de>>(value: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(value).map(Some)
}

impl Settings {
    /// Reads the settings and the syntax of the code.
    pub(crate) fn read(config: &Map<String, Value>) -> Result<Self, Vec<Problem>> {
        let mut faults = Vec::new();
        let code = code(config, &mut faults);
        let time = whole(config, "timeoutMs", TIME_MS, MAX_TIME_MS, &mut faults);
        let memory = whole(config, "memoryMb", MEMORY_MB, MAX_MEMORY_MB, &mut faults);
        let tests = tests(config, &mut faults);
        check_names(config, &mut faults);
        let memory_mb = usize::try_from(memory).unwrap_or(usize::MAX);
        let limits = Limits { time: Duration::from_millis(time), memory_mb };
        if faults.is_empty() { Ok(Self { code, limits, tests }) } else { Err(faults) }
    }
}

/// The names of inputs are texts.
fn check_names(config: &Map<String, Value>, faults: &mut Vec<Problem>) {
    let fault = match config.get("inputs") {
        None | Some(Value::Null) => return,
        Some(Value::Array(names)) => match names.iter().find(|name| !name.is_string()) {
            None => return,
            Some(other) => format!("expected names, found {other}"),
        },
        Some(other) => format!("expected a list of names, found {other}"),
    };
    faults.push(Problem::setting("inputs", fault));
}

fn code(config: &Map<String, Value>, faults: &mut Vec<Problem>) -> String {
    let fault = match config.get("code") {
        Some(Value::String(code)) => match sandbox::check(code) {
            Ok(()) => return code.clone(),
            Err(fault) => fault.to_string(),
        },
        None | Some(Value::Null) => "this setting is required".to_owned(),
        Some(other) => format!("expected a text, found {other}"),
    };
    faults.push(Problem::setting("code", fault));
    String::new()
}

fn whole(config: &Map<String, Value>, key: &str, default: u64, max: u64, faults: &mut Vec<Problem>) -> u64 {
    let Some(value) = config.get(key).filter(|value| !value.is_null()) else { return default };
    value.as_u64().filter(|value| (1..=max).contains(value)).unwrap_or_else(|| {
        let message = format!("expected a whole number from 1 to {max}, found {value}");
        faults.push(Problem::setting(key, message));
        default
    })
}

fn tests(config: &Map<String, Value>, faults: &mut Vec<Problem>) -> Vec<Test> {
    let items = match config.get("tests") {
        None | Some(Value::Null) => return Vec::new(),
        Some(Value::Array(items)) => items,
        Some(other) => {
            faults.push(Problem::setting("tests", format!("expected a list, found {other}")));
            return Vec::new();
        }
    };
    let mut tests = Vec::new();
    for (item, number) in items.iter().zip(1..) {
        match Test::deserialize(item) {
            Ok(test) => tests.push(test),
            Err(error) => faults.push(Problem::setting("tests", format!("test {number}: {error}"))),
        }
    }
    tests
}

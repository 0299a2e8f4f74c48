//! Reasons why a script has no result.

use std::fmt;

use rquickjs::{CaughtError, Exception};
use workflow_engine::NodeError;

use crate::sandbox::{FILE, Stop};

/// A script without a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    code: &'static str,
    /// Line of the code, from 1.
    line: Option<u32>,
    message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl From<Fault> for NodeError {
    fn from(fault: Fault) -> Self {
        Self::fatal(fault.to_string()).with_code(fault.code)
    }
}

impl Fault {
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, line: None, message: message.into() }
    }

    /// The fault of a script that a limit ended.
    pub(crate) fn stopped(stop: Stop) -> Self {
        match stop {
            Stop::Cancelled => Self::new("cancelled", "the run was cancelled"),
            Stop::Time(limit) => Self::new(
                "script_timeout",
                format!("the script ran longer than {} ms; raise `timeoutMs`, or do less", limit.as_millis()),
            ),
        }
    }

    /// The fault of a script that did not fit into its memory.
    pub(crate) fn memory(megabytes: usize) -> Self {
        Self::new(
            "script_memory",
            format!("the script needed more than {megabytes} MiB; raise `memoryMb`, or hold less at once"),
        )
    }

    /// The fault that the code threw.
    pub(crate) fn caught(caught: CaughtError<'_>, megabytes: usize) -> Self {
        match caught {
            CaughtError::Exception(exception) => Self::from_exception(&exception, megabytes),
            // The engine throws null where even an error does not fit into memory.
            CaughtError::Value(value) if value.is_null() => Self::memory(megabytes),
            CaughtError::Value(value) => {
                let text = value.ctx().json_stringify(value.clone()).ok().flatten();
                let text =
                    text.and_then(|text| text.to_string().ok()).unwrap_or_else(|| "a value".to_owned());
                Self::new("script_error", format!("the script threw {text}"))
            }
            CaughtError::Error(rquickjs::Error::Allocation) => Self::memory(megabytes),
            CaughtError::Error(error) => Self::new("script_error", error.to_string()),
        }
    }

    fn from_exception(exception: &Exception<'_>, megabytes: usize) -> Self {
        let message = exception.message().unwrap_or_default();
        if message == "out of memory" {
            return Self::memory(megabytes);
        }
        let name = exception.as_object().get::<_, Option<String>>("name").ok().flatten();
        let name = name.filter(|name| !name.is_empty()).unwrap_or_else(|| "Error".to_owned());
        let line = exception.stack().as_deref().and_then(line_in);
        Self { code: "script_error", line, message: format!("{name}: {message}") }
    }
}

/// The line of the code in the first frame of a stack that stands in it.
fn line_in(stack: &str) -> Option<u32> {
    let (_, place) = stack.split_once(&format!("{FILE}:"))?;
    let digits = place.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_that_of_the_first_frame_in_the_code() {
        for (stack, expected) in [
            ("    at add (script.js:3:7)\n    at <anonymous> (script.js:9:1)\n", Some(3)),
            ("    at write (prelude:3:7)\n    at script.js:12\n", Some(12)),
            ("    at write (prelude:3:7)\n", None),
            ("", None),
        ] {
            assert_eq!(line_in(stack), expected, "{stack}");
        }
    }
}

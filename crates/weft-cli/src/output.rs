//! What goes to stdout. A reader that has seen enough may close it.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;

use crate::failure::{Exit, Failure};

/// Whether the reader of stdout has gone.
static CLOSED: AtomicBool = AtomicBool::new(false);

/// Whether nobody reads stdout any more, so that a run need not go on for it.
pub(crate) fn is_closed() -> bool {
    CLOSED.load(Ordering::Relaxed)
}

/// Writes a line of data.
pub(crate) fn line(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    written(writeln!(stdout, "{text}").and_then(|()| stdout.flush()))
}

/// Writes a value on one line.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Failure> {
    line(&text_of(value)?)
}

/// Writes a value for people who read JSON.
pub(crate) fn pretty(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(|error| no_json(&error))?;
    line(&text)
}

/// A value as JSON on one line.
pub(crate) fn text_of(value: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(value).map_err(|error| no_json(&error))
}

fn no_json(error: &serde_json::Error) -> Failure {
    Failure::new(Exit::Failed, "no_json", error.to_string())
}

fn written(result: io::Result<()>) -> Result<(), Failure> {
    match result {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            CLOSED.store(true, Ordering::Relaxed);
            Ok(())
        }
        Err(error) => Err(Failure::new(Exit::Failed, "output", error.to_string())),
    }
}

//! Scenarios of agents, run as people run their own: with `weft test`.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use super::{Failure, Outcome, shortened, text};

/// Scenarios of one file.
pub(crate) fn of_file(file: &Path, weft: &Path) -> Result<Outcome> {
    // It ends with 1 where a scenario fails.
    let output = Command::new(weft).args(["test", "--output", "json"]).arg(file).output()?;
    let report: Value = serde_json::from_slice(&output.stdout)
        .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
    let passed = report["passed"].as_u64().context("`passed` is no number")?;
    let mut outcome = Outcome { passed: usize::try_from(passed)?, failed: Vec::new() };
    for failed in report["failed"].as_array().into_iter().flatten() {
        let at = text(failed, "at")?;
        outcome.failed.push(Failure {
            id: text(failed, "id")?.to_owned(),
            wanted: shortened(&format!("{at}: {}", failed["wanted"])),
            got: shortened(&failed["got"].to_string()),
        });
    }
    Ok(outcome)
}

//! Cases that come with a judge of their own: a program that plays servers to weft and compares what comes of it.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::{Failure, Outcome, shortened};

/// Cases that a judge runs at once. They mostly wait.
const JOBS: &str = "4";

/// Runs the judge of a file `cases/NAME.jsonl`, which is `tools/NAME_judge.py` beside its folder.
pub(crate) fn of_file(file: &Path, weft: &Path) -> Result<Outcome> {
    let judge = judge(file).context("the cases have no judge")?;
    let output = Command::new("python3")
        .arg(&judge)
        .arg(file)
        .args(["--jobs", JOBS, "--"])
        .arg(weft)
        .output()
        .context("python3 cannot be started; install it: the judges of cases are written in it")?;
    let printed = String::from_utf8_lossy(&output.stdout);
    outcome(&printed).with_context(|| {
        let said = String::from_utf8_lossy(&output.stderr);
        format!("{} has no result: {}", judge.display(), shortened(&said))
    })
}

/// The judge of a file, where there is one.
pub(crate) fn judge(file: &Path) -> Option<std::path::PathBuf> {
    let name = file.file_stem()?.to_str()?;
    let judge = file.parent()?.with_file_name("tools").join(format!("{name}_judge.py"));
    judge.is_file().then_some(judge)
}

/// Reads a line for each failure, `ID (note): reason`, and the last line, `N passed, M failed`.
fn outcome(printed: &str) -> Result<Outcome> {
    let (failures, last) = printed.trim_end().rsplit_once('\n').unwrap_or(("", printed.trim_end()));
    let (passed, rest) = last.split_once(" passed, ").context("the last line counts nothing")?;
    let count: usize = rest.trim_end_matches(" failed").parse().context("the last line counts nothing")?;
    let failed: Vec<Failure> = failures.lines().filter_map(failure).collect();
    ensure!(failed.len() == count, "{count} failures are counted and {} named", failed.len());
    Ok(Outcome { passed: passed.parse()?, failed })
}

fn failure(line: &str) -> Option<Failure> {
    let (case, reason) = line.split_once(": ")?;
    let id = case.split_once(" (").map_or(case, |(id, _)| id);
    Some(Failure { id: id.to_owned(), wanted: "see the case".to_owned(), got: shortened(reason) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_named_and_counted() {
        let got = outcome("a-1 (kind): one: two\nb: three\n7 passed, 2 failed\n").unwrap();
        let failed: Vec<[&str; 2]> =
            got.failed.iter().map(|failure| [failure.id.as_str(), failure.got.as_str()]).collect();
        assert_eq!((got.passed, failed), (7, vec![["a-1", "one: two"], ["b", "three"]]));
        assert_eq!(outcome("3 passed, 0 failed\n").unwrap().passed, 3);
        assert!(outcome("a: one\n3 passed, 2 failed").is_err());
        assert!(outcome("").is_err());
    }
}

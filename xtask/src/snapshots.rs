//! Snapshot tests, run and reviewed through cargo-insta.

use anyhow::{Result, bail};

use crate::workspace::{self, Tool};

/// Runs the tests of the crates that have snapshots; `--review` shows each difference and asks what to do with it.
///
/// Without it a difference fails, and so does a snapshot that no test names.
pub(crate) fn run(options: &[String]) -> Result<()> {
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    workspace::installed(Tool::Insta)?;
    let packages = packages()?;
    let named = packages.iter().flat_map(|name| ["--package", name]);
    let test = |how: &[&'static str]| -> Result<()> {
        let arguments = ["insta", "test"].into_iter().chain(named.clone());
        workspace::run("cargo", &arguments.chain(how.iter().copied()).collect::<Vec<_>>())
    };
    match options[..] {
        [] => test(&["--check", "--unreferenced", "reject"]),
        ["--review"] => {
            // The tests fail where there is something to review.
            let tested = test(&["--unreferenced", "delete"]);
            workspace::run("cargo", &["insta", "review"])?;
            tested.or_else(|_| test(&["--check"]))
        }
        _ => bail!("`cargo xtask snapshots {}` is unsupported; it takes --review", options.join(" ")),
    }
}

/// Names of the crates whose tests use insta.
fn packages() -> Result<Vec<String>> {
    let metadata = workspace::metadata()?;
    let crates = workspace::crates(&metadata)?.into_iter();
    let with_snapshots =
        crates.filter(|(_, package)| package.dependencies.iter().any(|used| used.name == "insta"));
    Ok(with_snapshots.map(|(_, package)| package.name.to_string()).collect())
}

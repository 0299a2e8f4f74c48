//! Everything that the build server runs after the tests, in the same order.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::codegen::Mode;
use crate::workspace::{self, Tool};
use crate::{codegen, features, layers, packages, tidy};

/// Runs every step, or those whose names begin so; the first that fails ends it.
pub(crate) fn run(only: &[String]) -> Result<()> {
    let chosen = |name: &str| only.is_empty() || only.iter().any(|wanted| name.starts_with(wanted.as_str()));
    let steps: Vec<&Step> = STEPS.iter().filter(|(name, ..)| chosen(name)).collect();
    let names = STEPS.map(|(name, ..)| name).join(", ");
    ensure!(!steps.is_empty(), "`{}` is not a step of check; the steps are {names}", only.join(" "));
    let begun = Instant::now();
    for (name, minutes, task) in steps {
        println!("== {name} ({} s, at most {minutes} min)", begun.elapsed().as_secs());
        let limit = Duration::from_secs(minutes * 60);
        workspace::within(limit, *task).with_context(|| format!("check: {name}"))?;
    }
    println!("== done in {} s", begun.elapsed().as_secs());
    Ok(())
}

/// Name of a step, minutes that it may take on a machine where nothing is built yet, and its task.
type Step = (&'static str, u64, fn() -> Result<()>);

const STEPS: [Step; 11] = [
    ("formatting", 1, formatting),
    ("layers", 1, layers::run),
    ("tidy", 1, tidy::run),
    ("clippy", 10, clippy),
    ("local models", 10, local_models),
    ("features alone", 10, features::run),
    ("packages", 8, packages::run),
    ("generated files", 5, generated),
    ("docs", 5, docs),
    ("unused dependencies", 5, unused),
    ("deny", 8, deny),
];

fn formatting() -> Result<()> {
    workspace::run("cargo", &["fmt", "--all", "--check"])
}

fn clippy() -> Result<()> {
    workspace::run("cargo", &["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"])
}

fn generated() -> Result<()> {
    codegen::run(Mode::Check)
}

fn docs() -> Result<()> {
    let strict = "build.rustdocflags=['-D','warnings']";
    workspace::run("cargo", &["--config", strict, "doc", "--workspace", "--no-deps", "--quiet"])
}

/// Dependencies that no source of a crate names. One that is there for its features is listed in the manifest:
/// `[package.metadata.cargo-machete] ignored`.
fn unused() -> Result<()> {
    workspace::installed(Tool::Machete)?;
    workspace::run("cargo", &["machete", "crates", "xtask"])
}

/// Tests the feature `local-llm`, which no default build compiles; its tests run on a tiny model that they write
/// themselves.
/// The whole workspace is named, so that most of what is built without the feature counts.
fn local_models() -> Result<()> {
    let features =
        ["llm-local", "weft-project", "weft-cli"].map(|package| format!("{package}/local-llm")).join(",");
    let targets =
        ["--workspace", "--quiet", "--features", &features, "--test", "local", "--test", "local_model"];
    let lints = ["--lib", "--bins", "--", "-D", "warnings"];
    workspace::run("cargo", &[&["clippy"], &targets[..], &lints].concat())?;
    workspace::run("cargo", &[&["test"], &targets[..]].concat())
}

/// Licences, sources and banned crates; advisories where their database is at hand.
fn deny() -> Result<()> {
    workspace::installed(Tool::Deny)?;
    workspace::run(
        "cargo",
        &["deny", "--workspace", "check", "--hide-inclusion-graph", "bans", "licenses", "sources"],
    )?;
    if !workspace::has_advisories() {
        println!("advisories were not looked at: their database is not at hand; `cargo deny fetch` gets it");
        return Ok(());
    }
    let advisories = ["deny", "--workspace", "--offline", "check", "--hide-inclusion-graph", "advisories"];
    workspace::run("cargo", &advisories)
}

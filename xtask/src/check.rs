//! Everything that the build server runs after the tests, in the same order.

use std::time::Instant;

use anyhow::{Context, Result};

use crate::codegen::Mode;
use crate::{codegen, layers, tidy, workspace};

/// Runs every check; the first that fails ends it.
pub(crate) fn run() -> Result<()> {
    step("formatting", || workspace::run("cargo", &["fmt", "--all", "--check"]))?;
    step("clippy", || {
        workspace::run(
            "cargo",
            &["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"],
        )
    })?;
    step("local models", local_models)?;
    step("layers", layers::run)?;
    step("tidy", tidy::run)?;
    step("generated files", || codegen::run(Mode::Check))?;
    step("docs", || {
        workspace::run(
            "cargo",
            &[
                "--config",
                "build.rustdocflags=['-D','warnings']",
                "doc",
                "--workspace",
                "--no-deps",
                "--quiet",
            ],
        )
    })?;
    step("deny", deny)
}

fn step(name: &str, task: impl FnOnce() -> Result<()>) -> Result<()> {
    println!("== {name}");
    let begun = Instant::now();
    task().with_context(|| format!("check: {name}"))?;
    println!("   {} s", begun.elapsed().as_secs());
    Ok(())
}

/// What the feature `local-llm` compiles, which no default build does; its tests run on a tiny model that they write themselves.
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

/// Licences, sources and banned crates. Advisories need a network and are looked at by hand: `cargo deny check advisories`.
fn deny() -> Result<()> {
    if workspace::output("cargo", &["deny", "--version"]).is_err() {
        println!("installing cargo-deny, once");
        // It runs for a second, so building it fast is what counts.
        workspace::run("cargo", &["install", "--locked", "--quiet", "--debug", "cargo-deny"])?;
    }
    workspace::run(
        "cargo",
        &["deny", "--workspace", "check", "--hide-inclusion-graph", "bans", "licenses", "sources"],
    )
}

//! Everything that the build server runs after the tests, in the same order.

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
    task().with_context(|| format!("check: {name}"))
}

/// Licences, sources and banned crates. Advisories need a network and are looked at by hand: `cargo deny check advisories`.
fn deny() -> Result<()> {
    if workspace::output("cargo", &["deny", "--version"]).is_err() {
        println!("installing cargo-deny, once");
        workspace::run("cargo", &["install", "--locked", "--quiet", "cargo-deny"])?;
    }
    workspace::run(
        "cargo",
        &["deny", "--workspace", "check", "--hide-inclusion-graph", "bans", "licenses", "sources"],
    )
}

//! Programs outside the workspace: the benchmarks and the fuzz targets. Both are run by hand, never by the build server.

use std::fs;

use anyhow::{Context, Result, bail};

use crate::workspace;

const TARGETS: [&str; 3] = ["decoder", "round_trip", "coercion"];
/// How long each target runs where nothing is said.
const SECONDS: &str = "600";

/// Measures, all tables or those of one name; some take a file.
pub(crate) fn bench(options: &[String]) -> Result<()> {
    if let Some((name, options)) = options.split_first()
        && name == "local"
    {
        return local(options);
    }
    let run = ["run", "--release", "--manifest-path", "bench/Cargo.toml", "--"];
    let options: Vec<&str> =
        if options.is_empty() { vec!["all"] } else { options.iter().map(String::as_str).collect() };
    workspace::run("cargo", &[&run[..], &options].concat())
}

/// How well a model in the process calls tools. It brings a feature that no other program has, so it is an example of its crate.
fn local(options: &[String]) -> Result<()> {
    let run =
        ["run", "--release", "-p", "llm-local", "--features", "local-llm", "--example", "figures", "--"];
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    workspace::run("cargo", &[&run[..], &options].concat())
}

/// Kills and cuts kept runs everywhere; the tests do so here and there.
pub(crate) fn soak() -> Result<()> {
    let soak = ["run", "--quiet", "--release", "-p", "weft-scenarios", "--bin", "weft-soak", "--"];
    ["kill", "kill-agent", "cut"].iter().try_for_each(|how| {
        let arguments: Vec<&str> = soak.iter().copied().chain([*how]).collect();
        workspace::run("cargo", &arguments)
    })
}

/// Fuzzes one target, or all of them one after the other.
pub(crate) fn fuzz(options: &[String]) -> Result<()> {
    match options {
        [] => TARGETS.iter().try_for_each(|target| fuzz_one(target, SECONDS)),
        [target] => fuzz_one(target, SECONDS),
        [target, seconds] => fuzz_one(target, seconds),
        _ => bail!("cargo xtask fuzz [TARGET] [SECONDS]"),
    }
}

fn fuzz_one(target: &str, seconds: &str) -> Result<()> {
    if !TARGETS.contains(&target) {
        bail!("`{target}` is no fuzz target: {}", TARGETS.join(", "));
    }
    if workspace::output("cargo", &["fuzz", "--version"]).is_err() {
        bail!("cargo-fuzz is missing: cargo install --locked cargo-fuzz");
    }
    let corpus = format!("fuzz/corpus/{target}");
    fs::create_dir_all(workspace::root().join(&corpus)).with_context(|| corpus.clone())?;
    let seeds = format!("fuzz/seeds/{target}");
    let time = format!("-max_total_time={seconds}");
    let run = ["run", "nightly", "cargo", "fuzz", "run", target, &corpus, &seeds];
    let limits = ["--", &time, "-dict=fuzz/tokens.dict", "-max_len=4096", "-timeout=10"];
    workspace::run("rustup", &[&run[..], &limits[..]].concat())
}

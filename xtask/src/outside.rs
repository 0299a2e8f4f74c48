//! Programs outside the workspace: the benchmarks and the fuzz targets. Both are run by hand, never by the build server.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::workspace;

const TARGETS: [&str; 7] =
    ["decoder", "round_trip", "coercion", "provider", "mcp_message", "workflow_file", "flows_file"];
/// Seconds that a fuzz target or a server is kept busy by default.
const SECONDS: &str = "600";

/// Minutes of a mixed load by default.
const MINUTES: &str = "15";

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

/// Measures the tool calls of a model that runs in the process. It needs a feature that no other program has, so it is
/// an
/// example of its crate.
fn local(options: &[String]) -> Result<()> {
    let run =
        ["run", "--release", "-p", "llm-local", "--features", "local-llm", "--example", "figures", "--"];
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    workspace::run("cargo", &[&run[..], &options].concat())
}

/// Kills and cuts kept runs everywhere, or those of one way; the tests do so here and there. `server` keeps a server busy for so
/// many seconds, whose memory must stand still.
pub(crate) fn soak(options: &[String]) -> Result<()> {
    match options {
        [] => {
            ["kill", "kill-agent", "paid", "cut"].into_iter().try_for_each(|how| soak_store(&[how]))?;
            soak_server(SECONDS)
        }
        [how] if how == "server" => soak_server(SECONDS),
        [how, seconds] if how == "server" => soak_server(seconds),
        [how] if how == "load" => soak_load(MINUTES),
        [how, minutes] if how == "load" => soak_load(minutes),
        [how] => soak_store(&[how]),
        [how, rounds] if how == "paid" => soak_store(&[how, rounds]),
        _ => bail!(
            "cargo xtask soak [kill | kill-agent | paid [ROUNDS] | cut | server [SECONDS] | load [MINUTES]]"
        ),
    }
}

fn soak_store(how: &[&str]) -> Result<()> {
    let soak = ["run", "--quiet", "--release", "-p", "weft-harness", "--bin", "weft-soak", "--"];
    workspace::run("cargo", &[&soak[..], how].concat())
}

fn soak_server(seconds: &str) -> Result<()> {
    let soak = workspace::example("soak")?;
    // What the allocator keeps for each of many threads grows for minutes and is not the server's.
    let status = Command::new(&soak).arg(seconds).env("MALLOC_ARENA_MAX", "1").status();
    ensure!(status.with_context(|| soak.display().to_string())?.success(), "the soak of the server failed");
    Ok(())
}

/// Keeps a server in a process of its own busy with mixed clients, and prints its memory by the minute.
fn soak_load(minutes: &str) -> Result<()> {
    let (soak, weft) = (workspace::program("weft-soak")?, workspace::program("weft")?);
    let status =
        Command::new(&soak).arg("load").arg(&weft).arg(minutes).env("MALLOC_ARENA_MAX", "2").status();
    ensure!(status.with_context(|| soak.display().to_string())?.success(), "the load was too much");
    Ok(())
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

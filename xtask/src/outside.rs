//! Programs outside the workspace: the benchmarks and the fuzz targets. Both are run by hand, never by the build server.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::workspace;

const TARGETS: [&str; 7] =
    ["decoder", "round_trip", "coercion", "provider", "mcp_message", "workflow_file", "flows_file"];
/// Inputs of a fuzz target by default.
const RUNS: &str = "1000000";

/// Flags that let libFuzzer see which code an input reaches. They need neither the nightly toolchain nor cargo-fuzz.
const COVERAGE: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 -Cdebug-assertions -Coverflow-checks";

/// Seconds that a server is kept busy by default.
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
        [how, options @ ..] if how == "sessions" => soak_sessions(options),
        [how] if how == "load" => soak_load(MINUTES),
        [how, minutes] if how == "load" => soak_load(minutes),
        [how] => soak_store(&[how]),
        [how, rounds] if how == "paid" => soak_store(&[how, rounds]),
        _ => bail!(
            "cargo xtask soak [kill | kill-agent | paid [ROUNDS] | cut | server [SECONDS] | load [MINUTES] | sessions [--sessions N] \
             [--messages M] [--kills K] [--seed S]]"
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

/// Keeps sessions on two servers, one of which is killed at random, and judges each conversation.
fn soak_sessions(options: &[String]) -> Result<()> {
    let (soak, weft) = (workspace::program("weft-soak")?, workspace::program("weft")?);
    let status = Command::new(&soak).arg("sessions").arg(&weft).args(options).status();
    ensure!(status.with_context(|| soak.display().to_string())?.success(), "the soak of sessions failed");
    Ok(())
}

/// Fuzzes one target, or all of them one after the other.
pub(crate) fn fuzz(options: &[String]) -> Result<()> {
    match options {
        [] => TARGETS.iter().try_for_each(|target| fuzz_one(target, RUNS)),
        [target] => fuzz_one(target, RUNS),
        [target, runs] => fuzz_one(target, runs),
        _ => bail!("cargo xtask fuzz [TARGET] [RUNS]"),
    }
}

/// Gives a target so many inputs, which it makes from its seeds and from what it has found before.
fn fuzz_one(target: &str, runs: &str) -> Result<()> {
    if !TARGETS.contains(&target) {
        bail!("`{target}` is not a fuzz target: {}", TARGETS.join(", "));
    }
    let folder = workspace::root().join("target/fuzz");
    let host = host()?;
    let mut build = Command::new("cargo");
    build.args([
        "build",
        "--release",
        "--manifest-path",
        "fuzz/Cargo.toml",
        "--target",
        &host,
        "--bin",
        target,
    ]);
    build.env("RUSTFLAGS", COVERAGE).env("CARGO_TARGET_DIR", &folder).current_dir(workspace::root());
    ensure!(build.status().context("cargo build")?.success(), "the fuzz target `{target}` does not build");
    let found = folder.join("corpus").join(target);
    fs::create_dir_all(&found).with_context(|| found.display().to_string())?;
    let seeds = workspace::root().join("fuzz/seeds").join(target);
    let mut fuzzer = Command::new(folder.join(&host).join("release").join(target));
    fuzzer.arg(&found).arg(seeds).arg(format!("-runs={runs}"));
    fuzzer.args(["-dict=fuzz/tokens.dict", "-max_len=4096", "-timeout=10", "-print_final_stats=1"]);
    fuzzer.arg(format!("-artifact_prefix={}/", folder.display())).current_dir(workspace::root());
    ensure!(
        fuzzer.status().context("the fuzzer")?.success(),
        "`{target}` has a finding in {}",
        folder.display()
    );
    Ok(())
}

/// The triple of this machine. Flags of a named target do not reach build scripts.
fn host() -> Result<String> {
    let version = workspace::output("rustc", &["-vV"])?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).context("`rustc -vV` names no host")
}

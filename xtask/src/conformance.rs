//! Outside cases against the program, as a user would run it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, bail, ensure};

use crate::sets::{Outcome, Set};
use crate::{sets, workspace};

/// Cases that fail, with their reasons. An unlisted failure fails, and so does an entry that no failure answers to.
const KNOWN_FAILURES: &str = include_str!("../known-failures.txt");

/// Options of the command.
struct Options {
    data: PathBuf,
    /// Scenarios of the engine, and nothing else.
    engine: Option<String>,
    list: bool,
}

/// Runs every set that is there.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let options = options(arguments)?;
    if let Some(file) = &options.engine {
        return report(harness("--engine", file.as_ref())?);
    }
    let cases = options.data.join("cases");
    ensure!(cases.is_dir(), "{} holds no cases; name the folder with --data DIR", options.data.display());
    let weft = workspace::program("weft")?;
    let known = KnownFailures::read();
    let mut failed = Vec::new();
    let mut passed = 0;
    let mut names = Vec::new();
    let scenarios = Some(cases.join("engine.jsonl")).filter(|file| file.is_file());
    let scenarios = scenarios.map(|file| harness("--engine", &file)).transpose()?;
    let both_ways =
        harness("--both-ways", &workspace::root().join("crates/weft-scenarios/tests/agents.jsonl"))?;
    let sets = sets::all(&options.data, &weft)?;
    for (set, outcome) in sets.iter().zip(side_by_side(&sets, &weft)?) {
        println!("{}: {} passed, {} failed", set.name, outcome.passed, outcome.failed.len());
        passed += outcome.passed;
        for failure in outcome.failed {
            let id = format!("{}/{}", set.name, failure.id);
            let mark = if known.has(&id) { " (known)" } else { "" };
            println!("  {}{mark}", failure.id);
            if options.list {
                println!("    want {}\n    got  {}", failure.wanted, failure.got);
            }
            failed.push(id);
        }
        names.push(set.name.clone());
    }
    println!("{passed} passed, {} failed", failed.len());
    if let Some(scenarios) = scenarios {
        println!("scenarios of the engine:");
        report(scenarios)?;
    }
    println!("agents by the built-in loop and by nodes:");
    report(both_ways)?;
    let mended = known.without_failure(&names, &failed);
    ensure!(mended.is_empty(), "listed as failures, and pass: {}", mended.join(", "));
    let unlisted: Vec<&str> = failed.iter().map(String::as_str).filter(|id| !known.has(id)).collect();
    ensure!(unlisted.is_empty(), "failures that are not listed with a reason: {}", unlisted.join(", "));
    Ok(())
}

/// Runs the sets on all cores; their outcomes come in the order of the sets.
fn side_by_side(sets: &[Set], weft: &Path) -> Result<Vec<Outcome>> {
    let next = AtomicUsize::new(0);
    let outcomes: Vec<OnceLock<Result<Outcome>>> = sets.iter().map(|_| OnceLock::new()).collect();
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some((set, outcome)) =
                    sets.iter().zip(&outcomes).nth(next.fetch_add(1, Ordering::Relaxed))
                {
                    // Each place is one thread's alone.
                    let _ = outcome.set(set.run(weft));
                }
            });
        }
    });
    outcomes.into_iter().map(|outcome| outcome.into_inner().context("a set was not run")?).collect()
}

/// The entries of the list.
struct KnownFailures(Vec<&'static str>);

impl KnownFailures {
    fn read() -> Self {
        let entries = KNOWN_FAILURES.lines().map(str::trim);
        Self(entries.filter(|line| !line.is_empty() && !line.starts_with('#')).collect())
    }

    fn has(&self, id: &str) -> bool {
        self.0.iter().any(|entry| answers(entry, id))
    }

    /// Entries of the sets that ran to which no failure answers.
    fn without_failure(&self, sets: &[String], failed: &[String]) -> Vec<&'static str> {
        let ran = |entry: &str| {
            sets.iter().any(|set| entry.strip_prefix(set.as_str()).is_some_and(|rest| rest.starts_with('/')))
        };
        // What goes by real time is marked `~`, and may pass.
        let entries = self.0.iter().copied().filter(|entry| !entry.starts_with('~') && ran(entry));
        entries.filter(|entry| !failed.iter().any(|id| answers(entry, id))).collect()
    }
}

fn answers(entry: &str, id: &str) -> bool {
    let entry = entry.trim_start_matches('~');
    entry.strip_suffix('*').map_or(entry == id, |beginning| id.starts_with(beginning))
}

fn options(arguments: &[String]) -> Result<Options> {
    let mut options = Options { data: workspace::root().join("../shared"), engine: None, list: false };
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--data" => options.data = PathBuf::from(rest.next().context("--data wants a folder")?),
            "--engine" => options.engine = Some(rest.next().context("--engine wants a file")?.clone()),
            "--list" => options.list = true,
            other => bail!("`{other}` is no option of conformance"),
        }
    }
    Ok(options)
}

/// Starts scenarios of a kind.
fn harness(kind: &str, file: &Path) -> Result<Child> {
    let runner = workspace::program("weft-harness")?;
    let child = Command::new(&runner).arg(kind).arg(file).stdout(Stdio::piped()).spawn();
    child.with_context(|| runner.display().to_string())
}

/// Prints how the scenarios went when they are done.
fn report(scenarios: Child) -> Result<()> {
    let output = scenarios.wait_with_output()?;
    print!("{}", String::from_utf8_lossy(&output.stdout));
    ensure!(output.status.success(), "scenarios failed");
    Ok(())
}

/// Feeds lines to a program and gives the lines that it prints.
pub(crate) fn lines_through(program: &Path, arguments: &[&str], input: String) -> Result<Vec<String>> {
    use std::io::Write;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| program.display().to_string())?;
    let mut stdin = child.stdin.take().context("stdin is piped")?;
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output()?;
    writer.join().map_err(|_| anyhow::anyhow!("the writer failed"))??;
    ensure!(output.status.success(), "{} ended with {}", program.display(), output.status);
    Ok(String::from_utf8(output.stdout)?.lines().map(str::to_owned).collect())
}

//! Memory: each figure in a process of its own, which this program starts of itself.

#![expect(clippy::print_stdout, reason = "a child process answers on its standard output")]

use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;

use super::runtime::{Threads, drive};
use super::shape::Shape;
use super::{dag_exec_peer, ours, spawn};
use crate::table::{Aim, Figure, against, begin, note, row};

const NODES: usize = 100_000;
const CHUNKS: usize = 1_000_000;
const PASSES: usize = 100_000;

/// One table.
pub(crate) fn run() -> Result<()> {
    begin("Engine, memory a run adds at its peak, events on");
    let dag = child("dag")?;
    row("DAG 100,000 / 300,000", dag, Aim::AtMost(Figure::Bytes(40.0 * 1_048_576.0)));
    against("DAG 100,000 / 300,000", dag, ("tokio spawn a node", child("dag-spawn")?), Aim::None);
    against("DAG 100,000 / 300,000", dag, ("dag_exec, sequential", child("dag-dag_exec")?), Aim::None);
    row("1,000,000 chunks, three stages", child("stream")?, Aim::AtMost(Figure::Bytes(4.0 * 1_048_576.0)));
    let (long, short) = (child("passes")?, child("passes-few")?);
    against("100,000 passes", long, ("ours, 10,000 passes", short), Aim::CostAtMost(1.5));
    note(
        "What is resident before the run (the plan, the graph) is left out; the run has a thread, and so a heap, of its own.",
    );
    Ok(())
}

fn child(name: &str) -> Result<Figure> {
    let output = Command::new(std::env::current_exe()?).args(["memory", name]).output()?;
    ensure!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    let bytes: u32 = String::from_utf8(output.stdout)?.trim().parse()?;
    Ok(Figure::Bytes(f64::from(bytes)))
}

/// In the child: prints the bytes that one run adds.
pub(crate) fn measure(name: &str) -> Result<()> {
    let dag = || Shape::layered(NODES);
    let passes = |number: usize| {
        ours::zone(
            &json!({"mode": "times", "times": number, "maxIterations": number, "state": [{"key": "k", "initial": 0}]}),
        )
    };
    let growth = match name {
        "dag" => watched(&ours::workflow(&dag())?)?,
        "stream" => watched(&ours::stream(CHUNKS)?)?,
        "passes" => watched(&passes(PASSES)?)?,
        "passes-few" => watched(&passes(PASSES / 10)?)?,
        "dag-spawn" => {
            let spawned = Arc::new(spawn::Spawned::new(&dag()));
            let runtime = Threads::One.runtime()?;
            growth(move || drive(&runtime, spawned.run()))?
        }
        "dag-dag_exec" => {
            let prepared = dag_exec_peer::Prepared::new(&dag())?;
            growth(move || prepared.run())?
        }
        _ => bail!("no memory figure `{name}`"),
    };
    println!("{growth}");
    Ok(())
}

fn watched(workflow: &workflow_model::Workflow) -> Result<u64> {
    let plan = ours::plan(workflow)?;
    let runtime = Threads::One.runtime()?;
    growth(move || drive(&runtime, ours::run_watched(plan)))
}

/// Bytes that the peak of the process rises by while the work runs on a thread of its own.
///
/// A new thread has a heap of its own, so that memory freed before is not used again and hides nothing.
fn growth<T: Send>(work: impl FnOnce() -> T + Send) -> Result<u64> {
    let before = status("VmRSS:")?;
    std::fs::write("/proc/self/clear_refs", "5").context("the peak cannot be set back")?;
    std::thread::scope(|scope| scope.spawn(work).join().map(drop)).ok().context("the run panicked")?;
    Ok(status("VmHWM:")?.saturating_sub(before))
}

fn status(key: &str) -> Result<u64> {
    let text = std::fs::read_to_string("/proc/self/status")?;
    let line = text.lines().find_map(|line| line.strip_prefix(key)).with_context(|| format!("no {key}"))?;
    let kibibytes: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kibibytes * 1024)
}

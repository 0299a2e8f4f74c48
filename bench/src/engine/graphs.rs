//! Chain, fan and DAG: the cost of a node.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::runtime::{Threads, drive};
use super::shape::Shape;
use super::{dag_exec_peer, dagrs_peer, ours, spawn};
use crate::measure::{Work, count, medians, timed};
use crate::table::{Aim, Figure, against, begin, row, without};

/// Nodes that `dagrs` is given at most: it needs so much longer and so much more memory that more would tell nothing.
const DAGRS_MOST: usize = 20_000;

/// One table a runtime.
pub(crate) fn run() -> Result<()> {
    let shapes =
        [(Shape::chain(10_000), 700.0), (Shape::fan(10_000), 800.0), (Shape::layered(100_000), 900.0)];
    for threads in [Threads::One, Threads::Two] {
        begin(&format!("Engine, the cost of a node that does nothing, {}", threads.name()));
        for (shape, most) in &shapes {
            measure(shape, *most, threads)?;
        }
    }
    Ok(())
}

fn measure(shape: &Shape, most: f64, threads: Threads) -> Result<()> {
    let runtime = threads.runtime()?;
    let plan = ours::plan(&ours::workflow(shape)?)?;
    let spawned = Arc::new(spawn::Spawned::new(shape));
    let prepared = dag_exec_peer::Prepared::new(shape)?;
    let nodes = u64::try_from(shape.nodes)?;
    ensure!(drive(&runtime, ours::run(plan.clone())) == nodes, "not every node ran");
    ensure!(drive(&runtime, ours::run_watched(plan.clone())) > 2 * nodes, "events are missing");
    ensure!(drive(&runtime, Arc::clone(&spawned).run()) == shape.nodes, "not every task ran");
    ensure!(prepared.run() == shape.ends().len(), "dag_exec did not run");
    let figures = medians(&mut [
        Work::repeated(|| drive(&runtime, ours::run_watched(plan.clone()))),
        Work::repeated(|| drive(&runtime, ours::run(plan.clone()))),
        Work::repeated(|| drive(&runtime, Arc::clone(&spawned).run())),
        Work::repeated(|| prepared.run()),
    ]);
    let node = |nanos: f64| Figure::Nanos(nanos / count(shape.nodes));
    let (on, off) = (node(figures[0]), node(figures[1]));
    let name = shape.name;
    row(&format!("{name}, events on"), on, Aim::AtMost(Figure::Nanos(most)));
    against(
        &format!("{name}, events on"),
        on,
        ("tokio spawn a node", node(figures[2])),
        Aim::CostAtMost(2.0),
    );
    against(&format!("{name}, events off"), off, ("tokio spawn a node", node(figures[2])), Aim::None);
    against(&format!("{name}, events on"), on, ("dag_exec, sequential", node(figures[3])), Aim::None);
    if shape.nodes > DAGRS_MOST {
        without(&format!("{name}, events on"), on, "dagrs", "not tried: minutes");
        return Ok(());
    }
    let dagrs = medians(&mut [Work::part(|| dagrs(&runtime, shape))])[0];
    against(&format!("{name}, events on"), on, ("dagrs", node(dagrs)), Aim::None);
    Ok(())
}

/// The run alone: a graph of dagrs is built for each.
fn dagrs(runtime: &tokio::runtime::Runtime, shape: &Shape) -> Duration {
    let graph = dagrs_peer::graph(shape).expect("the shape is a graph without cycles");
    timed(|| assert!(drive(runtime, dagrs_peer::run(graph)), "dagrs did not run"))
}

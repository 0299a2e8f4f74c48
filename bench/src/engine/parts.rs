//! Loop passes, stream chunks, small workflows and large plans.

use anyhow::{Result, ensure};
use serde_json::{Map, Value, json};
use workflow_engine::{Plan, RunOptions};
use workflow_model::{NoWorkflows, Workflow};

use super::runtime::{Threads, drive};
use super::shape::Shape;
use super::{ours, spawn};
use crate::measure::{Work, alone, count, medians};
use crate::table::{Aim, Figure, against, begin, row};

const PASSES: usize = 100_000;
const CHUNKS: usize = 200_000;

/// One table.
pub(crate) fn run() -> Result<()> {
    begin("Engine, loops, streams and plans, one thread, events on");
    passes()?;
    chunks()?;
    small()?;
    large()
}

fn passes() -> Result<()> {
    let runtime = Threads::One.runtime()?;
    let state = |kind: &str, initial: Value| json!([{"key": "k", "dataFlowType": kind, "initial": initial}]);
    let many = json!(PASSES * 2);
    let zones = [
        (
            "times",
            json!({"mode": "times", "times": PASSES, "maxIterations": many, "state": state("INTEGER", json!(0))}),
            800.0,
        ),
        (
            "a boolean slot",
            json!({"mode": "while", "condition": "go", "maxIterations": PASSES, "state": [
                {"key": "k", "dataFlowType": "INTEGER", "initial": 0}, {"key": "go", "dataFlowType": "BOOLEAN", "initial": true}]}),
            800.0,
        ),
        (
            "an expression",
            json!({"mode": "until", "condition": format!("state.k >= {}", PASSES - 1), "maxIterations": many,
                "state": state("INTEGER", json!(0))}),
            2000.0,
        ),
    ];
    let bare = alone(Work::repeated(|| drive(&runtime, spawn::passes(PASSES)))) / count(PASSES);
    for (name, settings, most) in zones {
        let plan = ours::plan(&ours::zone(&settings)?)?;
        let events = drive(&runtime, ours::run_watched(plan.clone()));
        ensure!(events > u64::try_from(PASSES * 6)?, "{name}: only {events} events");
        let cost = alone(Work::repeated(|| drive(&runtime, ours::run_watched(plan.clone())))) / count(PASSES);
        let what = format!("loop pass of two nodes, {name}");
        row(&what, Figure::Nanos(cost), Aim::AtMost(Figure::Nanos(most)));
        against(&what, Figure::Nanos(cost), ("two tokio spawns a pass", Figure::Nanos(bare)), Aim::None);
    }
    Ok(())
}

fn chunks() -> Result<()> {
    let runtime = Threads::One.runtime()?;
    let plan = ours::plan(&ours::stream(CHUNKS)?)?;
    ensure!(drive(&runtime, spawn::batched_stream(CHUNKS)) == CHUNKS, "chunks are lost");
    let figures = medians(&mut [
        Work::repeated(|| drive(&runtime, ours::run_watched(plan.clone()))),
        Work::repeated(|| drive(&runtime, ours::run(plan.clone()))),
        Work::repeated(|| drive(&runtime, spawn::batched_stream(CHUNKS))),
    ]);
    let chunk = |nanos: f64| Figure::Nanos(nanos / count(CHUNKS));
    let what = "stream chunk, three stages";
    row(what, chunk(figures[0]), Aim::AtMost(Figure::Nanos(300.0)));
    against(
        what,
        chunk(figures[0]),
        ("tokio channels, batches of 64", chunk(figures[2])),
        Aim::CostAtMost(3.0),
    );
    row(&format!("{what}, events off"), chunk(figures[1]), Aim::None);
    Ok(())
}

fn small() -> Result<()> {
    let one = ours::workflow(&Shape { name: "one", nodes: 1, edges: Vec::new() })?;
    let catalog = ours::catalog();
    let runtime = Threads::One.runtime()?;
    let figures = medians(&mut [
        Work::repeated(|| {
            let plan = Plan::new(&one, &catalog, &NoWorkflows).expect("the workflow is sound");
            runtime.block_on(async { plan.run(Map::new(), RunOptions::new()).outcome().await })
        }),
        Work::repeated(|| Plan::new(&one, &catalog, &NoWorkflows)),
    ]);
    row("workflow of one node, plan and run", Figure::Nanos(figures[0]), Aim::AtMost(Figure::Nanos(10e3)));
    row("workflow of one node, plan", Figure::Nanos(figures[1]), Aim::None);
    Ok(())
}

fn large() -> Result<()> {
    let workflow = |nodes: usize| ours::workflow(&Shape::layered(nodes));
    let (half, full) = (workflow(50_000)?, workflow(100_000)?);
    let catalog = ours::catalog();
    let plan = |workflow: &Workflow| Plan::new(workflow, &catalog, &NoWorkflows).map(drop);
    ensure!(plan(&full).is_ok(), "the plan is refused");
    let figures = medians(&mut [Work::repeated(|| plan(&full)), Work::repeated(|| plan(&half))]);
    let (full, half) = (Figure::Nanos(figures[0]), Figure::Nanos(figures[1]));
    row("plan of 100,000 nodes, 300,000 edges", full, Aim::AtMost(Figure::Nanos(150e6)));
    against("plan of 100,000 nodes, 300,000 edges", full, ("ours, half of it", half), Aim::CostAtMost(2.4));
    Ok(())
}

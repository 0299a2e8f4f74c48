//! Runs that are kept: what an event, a pass and a resume cost.

use std::sync::Arc;
use std::time::{Duration, Instant};

use agent_types::{
    EventBody, EventLocation, EventPersister, EventSink, RunId, SystemClock, UnsequencedEvent,
};
use anyhow::{Result, ensure};
use run_store::{Backend, NewRun, Sqlite, Store, StoreOptions, StoredRun, Sync};
use serde_json::{Map, Value, json};
use workflow_engine::RunOptions;

use crate::engine::{ours, runtime::Threads, shape::Shape};
use crate::measure::{count, cpu};
use crate::table::{Aim, Figure, against, begin, row};

const EVENTS: usize = 50_000;
const SINGLE: usize = 2_000;
const PASSES: usize = 50_000;
const RECORDS: usize = 10_000;
const RUNS: usize = 3;

/// One table.
pub(crate) fn run() -> Result<()> {
    begin("Runs that are kept, SQLite");
    events()?;
    passes()?;
    resume()
}

struct Kept {
    store: Store,
    folder: tempfile::TempDir,
}

fn open(sync: Sync) -> Result<Kept> {
    let folder = tempfile::tempdir()?;
    let file: Arc<dyn Backend> = Arc::new(Sqlite::open(&folder.path().join("weft.db"), sync)?);
    Ok(Kept { store: Store::new(file, StoreOptions::default())?, folder })
}

fn begin_run(kept: &Kept, id: &str) -> Result<Arc<StoredRun>> {
    Ok(kept.store.begin(NewRun::new(RunId::new(id)), Arc::new(SystemClock))?)
}

fn draft(at: usize) -> UnsequencedEvent {
    let place = EventLocation {
        path: Some("L[3]/node".into()),
        iteration: Some(3),
        span: 7,
        ..EventLocation::default()
    };
    let value = Arc::new(json!({"text": "x".repeat(300), "at": at}));
    UnsequencedEvent::new(place, EventBody::node_finished(Some(value)))
}

/// CPU and wall time of the best of some runs, for one unit.
fn best(units: usize, mut work: impl FnMut() -> Result<()>) -> Result<(Figure, f64)> {
    let (mut cpu_best, mut wall_best) = (Duration::MAX, Duration::MAX);
    for _ in 0..RUNS {
        let (cpu_start, start) = (cpu(), Instant::now());
        work()?;
        cpu_best = cpu_best.min(cpu().saturating_sub(cpu_start));
        wall_best = wall_best.min(start.elapsed());
    }
    let nanos = cpu_best.as_secs_f64() * 1e9 / count(units);
    Ok((Figure::Nanos(nanos), count(units) / wall_best.as_secs_f64()))
}

fn events() -> Result<()> {
    for (name, sync) in [("on the disk", Sync::Full), ("in the system", Sync::Normal)] {
        let kept = open(sync)?;
        let mut number = 0;
        let mut write = |events: usize, together: usize| {
            best(events, || {
                number += 1;
                let run = begin_run(&kept, &format!("{number}"))?;
                for at in (0..events).step_by(together) {
                    run.record(&mut (at..at + together).map(draft).collect());
                    if together == 1 {
                        futures::executor::block_on(run.durable())?;
                    }
                }
                futures::executor::block_on(run.durable())?;
                Ok(())
            })
        };
        let (single, single_rate) = write(SINGLE, 1)?;
        let (grouped, grouped_rate) = write(EVENTS, 100)?;
        let what = format!("event of 400 bytes, each waited for, safe {name} ({single_rate:.0} a second)");
        row(&what, single, Aim::None);
        let plain = plain_rows(&kept)?;
        let what = format!("event of 400 bytes, in groups, safe {name} ({grouped_rate:.0} a second)");
        against(&what, grouped, ("rusqlite, a row an event, 100 a transaction", plain), Aim::None);
    }
    Ok(())
}

fn plain_rows(kept: &Kept) -> Result<Figure> {
    let mut db = rusqlite::Connection::open(kept.folder.path().join("plain.db"))?;
    db.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE IF NOT EXISTS e (seq INTEGER, body TEXT)")?;
    let body = serde_json::to_string(&json!({"text": "x".repeat(360)}))?;
    let (figure, _) = best(EVENTS, || {
        for _ in 0..EVENTS / 100 {
            let transaction = db.transaction()?;
            {
                let mut insert = transaction.prepare_cached("INSERT INTO e VALUES (?1, ?2)")?;
                for at in 0..100 {
                    insert.execute(rusqlite::params![at, body])?;
                }
            }
            transaction.commit()?;
        }
        Ok(())
    })?;
    Ok(figure)
}

fn passes() -> Result<()> {
    let settings = json!({"mode": "times", "times": PASSES, "maxIterations": PASSES * 2,
        "state": [{"key": "k", "dataFlowType": "INTEGER", "initial": 0}]});
    let plan = ours::plan(&ours::zone(&settings)?)?;
    let runtime = Threads::One.runtime()?;
    for (name, sync) in [("on the disk", Sync::Full), ("in the system", Sync::Normal)] {
        let kept = open(sync)?;
        let mut number = 0;
        let (pass, rate) = best(PASSES, || {
            number += 1;
            let run = begin_run(&kept, &format!("{number}"))?;
            let options = RunOptions::new().with_sink(run);
            let outcome = runtime.block_on(async { plan.run(Map::new(), options).outcome().await });
            ensure!(outcome.error.is_none(), "{:?}", outcome.error);
            Ok(())
        })?;
        let what = format!("loop pass of two nodes, durable, safe {name} ({rate:.0} a second)");
        row(&what, pass, Aim::AtMost(Figure::Nanos(4000.0)));
    }
    Ok(())
}

fn resume() -> Result<()> {
    // A node that waits at the end: the run is left behind all its records.
    let mut workflow = ours::workflow(&Shape::chain(RECORDS))?.to_value();
    let last = json!({"id": "ask", "type": "b:ask"});
    let edge = json!({"source": format!("n{}", RECORDS - 1), "sourceHandle": "out", "target": "ask", "targetHandle": "in"});
    for (key, part) in [("nodes", last), ("edges", edge)] {
        workflow[key].as_array_mut().into_iter().for_each(|list: &mut Vec<Value>| list.push(part.clone()));
    }
    let plan = ours::plan(&workflow_model::Workflow::from_value(workflow)?)?;
    let kept = open(Sync::Normal)?;
    let runtime = Threads::One.runtime()?;
    let options = || RunOptions { on_waiting: workflow_engine::OnWaiting::End, ..RunOptions::new() };
    let run = begin_run(&kept, "r")?;
    let first = options().with_sink(Arc::clone(&run) as _);
    runtime.block_on(async { plan.run(Map::new(), first).outcome().await });
    drop(run);
    let (cost, rate) = best(1, || {
        let (run, log) = kept.store.resume(&RunId::new("r"), Arc::new(SystemClock))?;
        ensure!(log.events.len() >= RECORDS * 2, "only {} events", log.events.len());
        let again = RunOptions { resume: Some(Box::new(log)), ..options() }.with_sink(run);
        let outcome = runtime.block_on(async { plan.run(Map::new(), again).outcome().await });
        ensure!(outcome.asks.len() == 1, "{:?}", outcome.error);
        Ok(())
    })?;
    let wall = 1000.0 / rate;
    row(
        &format!("resume of a run of 10,000 nodes, until it waits again ({wall:.0} ms wall)"),
        cost,
        Aim::None,
    );
    Ok(())
}

//! The process that is killed.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use agent_types::{Delivery, ResumeLog, RunId, SystemClock};
use run_store::{NewRun, Sqlite, Store, StoreError, StoreOptions, StoredRun, Sync};
use serde_json::{Map, json};
use workflow_engine::{OnWaiting, RunOptions, RunOutcome};

use crate::{Fault, flow};

pub(crate) const RUN: &str = "soak";
/// File in which a run notes its effects.
pub(crate) const EFFECTS: &str = "effects.txt";
/// The store's file.
pub(crate) const FILE: &str = "weft.db";

pub(crate) fn open(folder: &Path) -> Result<Store, Fault> {
    let file = Sqlite::open(&folder.join(FILE), Sync::Normal).map_err(|error| error.to_string())?;
    let options = StoreOptions { locks: Some(folder.join("locks")), ..StoreOptions::default() };
    Store::new(Arc::new(file), options).map_err(|error| error.to_string())
}

pub(crate) fn start(folder: &Path) -> Result<(), Fault> {
    let store = open(folder)?;
    let run = store.begin(NewRun::new(RunId::new(RUN)), Arc::new(SystemClock));
    drive(folder, &run.map_err(|error| error.to_string())?, None, &say).map(drop)
}

pub(crate) fn resume(folder: &Path) -> Result<(), Fault> {
    let store = open(folder)?;
    let (run, log) = match store.resume(&RunId::new(RUN), Arc::new(SystemClock)) {
        // The last events were safe before the process was killed.
        Err(StoreError::RunEnded { .. }) => return say(&json!({"outcome": "ended"}).to_string()),
        resumed => resumed.map_err(|error| error.to_string())?,
    };
    drive(folder, &run, Some(log), &say).map(drop)
}

/// Runs to the end, printing each event on a line as a subscriber receives it, and last the outcome.
pub(crate) fn drive(
    folder: &Path,
    run: &Arc<StoredRun>,
    resume: Option<ResumeLog>,
    say: &dyn Fn(&str) -> Result<(), Fault>,
) -> Result<RunOutcome, Fault> {
    let plan = flow::plan(&folder.join(EFFECTS))?;
    let runtime = tokio::runtime::Builder::new_current_thread().build().map_err(|error| error.to_string())?;
    let mut watcher = run.subscribe(usize::MAX);
    let options = RunOptions {
        on_waiting: OnWaiting::End,
        resume: resume.map(Box::new),
        snapshot_events: 150,
        ..RunOptions::new().with_sink(run.clone())
    };
    runtime.block_on(async {
        let printing = async {
            while let Some(watched) = watcher.next().await {
                let Delivery::Events(batch) = watched else { continue };
                for event in batch.iter() {
                    say(&serde_json::to_string(event).map_err(|error| error.to_string())?)?;
                }
            }
            Ok::<(), Fault>(())
        };
        let running = async {
            let outcome = plan.run(Map::new(), options).outcome().await;
            let closed = run.close().await.map_err(|error| error.to_string());
            closed.map(|()| outcome)
        };
        let (printed, outcome) = futures::join!(printing, running);
        printed?;
        let outcome = outcome?;
        let asks: Vec<_> = outcome.asks.iter().map(|ask| ask.ask.to_string()).collect();
        let error = outcome.error.as_ref().map(ToString::to_string);
        let last =
            json!({"outcome": outcome.status, "outputs": outcome.outputs, "asks": asks, "error": error});
        say(&last.to_string())?;
        Ok(outcome)
    })
}

/// A line on stdout.
pub(crate) fn say(line: &str) -> Result<(), Fault> {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{line}").and_then(|()| stdout.flush()).map_err(|error| error.to_string())
}

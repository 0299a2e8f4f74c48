//! Stores of one case, and the runs that earlier lines left in them.

use std::collections::HashMap;
use std::sync::Arc;

use agent_types::{Clock, EventSink, EventSubscription, Recorder, ResumeLog, RunId, StoredEvent};
use parking_lot::{Mutex, MutexGuard};
use run_store::{Backend, NewRun, Sqlite, Store, StoreOptions, StoredRun, Sync};
use serde_json::{Map, Value};
use tempfile::TempDir;

use super::crash_injection::Mortal;
use weft_scenarios::{Fault, Pattern};

/// Bytes of events behind a checkpoint that a run keeps here, so that a long run shows that it prunes.
const LOG_BYTES: u64 = 512 * 1024;

/// A run of an earlier line.
#[derive(Clone)]
pub(crate) struct Past {
    pub(crate) run: RunId,
    pub(crate) store: Option<String>,
    pub(crate) flow: String,
    pub(crate) inputs: Map<String, Value>,
}

/// Stores of one case, by name; each is a file of its own.
#[derive(Default)]
pub(crate) struct Stores {
    open: Mutex<HashMap<String, Opened>>,
    past: Mutex<Vec<Option<Past>>>,
}

struct Opened {
    store: Store,
    file: Arc<Mortal>,
    folder: TempDir,
}

/// Sink of a run's events.
pub(crate) enum CaseSink {
    Shown(Arc<Recorder>),
    StoredEvent(Arc<StoredRun>),
}

impl CaseSink {
    pub(crate) fn sink(&self) -> Arc<dyn EventSink> {
        match self {
            Self::Shown(recorder) => recorder.clone(),
            Self::StoredEvent(run) => run.clone(),
        }
    }

    pub(crate) fn subscribe(&self, capacity: usize) -> EventSubscription {
        match self {
            Self::Shown(recorder) => recorder.subscribe(capacity),
            Self::StoredEvent(run) => run.subscribe(capacity),
        }
    }
}

/// A run that is about to start or resume.
pub(crate) struct Begun {
    pub(crate) sink: CaseSink,
    pub(crate) resume: Option<ResumeLog>,
}

impl Stores {
    fn opened(&self) -> MutexGuard<'_, HashMap<String, Opened>> {
        self.open.lock()
    }

    pub(crate) fn get(&self, name: &str) -> Result<Store, Fault> {
        if let Some(opened) = self.opened().get(name) {
            return Ok(opened.store.clone());
        }
        let opened = open(tempfile::tempdir().map_err(|error| error.to_string())?)?;
        let store = opened.store.clone();
        self.opened().insert(name.to_owned(), opened);
        Ok(store)
    }

    /// The process of the store ends with the commit of such an event.
    pub(crate) fn crash_on(&self, name: &str, pattern: Option<Pattern>) {
        if let Some(opened) = self.opened().get(name) {
            opened.file.die_with(pattern);
        }
    }

    /// Opens a store anew, as the next process would.
    pub(crate) fn reopen(&self, name: &str) -> Result<(), Fault> {
        let Some(Opened { store, file, folder }) = self.opened().remove(name) else { return Ok(()) };
        drop((store, file));
        let opened = open(folder)?;
        self.opened().insert(name.to_owned(), opened);
        Ok(())
    }

    pub(crate) fn note(&self, number: usize, past: Past) {
        let mut all = self.past.lock();
        if all.len() <= number {
            all.resize(number + 1, None);
        }
        all[number] = Some(past);
    }

    pub(crate) fn past(&self, of: Option<&Value>) -> Result<Past, Fault> {
        let number = of.and_then(Value::as_u64).and_then(|of| usize::try_from(of).ok());
        let all = self.past.lock();
        let past = number.and_then(|number| all.get(number).cloned().flatten());
        past.ok_or_else(|| "`of` names no earlier run".to_owned())
    }

    /// A run of its own.
    pub(crate) fn begin(
        &self,
        run: &RunId,
        store: Option<&str>,
        clock: &Arc<dyn Clock>,
    ) -> Result<Begun, Fault> {
        let Some(store) = store else {
            let recorder = Recorder::new(run.clone(), Arc::clone(clock));
            return Ok(Begun { sink: CaseSink::Shown(recorder), resume: None });
        };
        let run = self.get(store)?.begin(NewRun::new(run.clone()), Arc::clone(clock));
        Ok(Begun { sink: CaseSink::StoredEvent(run.map_err(|error| error.to_string())?), resume: None })
    }

    /// Resumes the run where it stopped.
    pub(crate) fn resume(&self, past: &Past, clock: &Arc<dyn Clock>) -> Result<Begun, Fault> {
        let resumed = self.store_of(past)?.resume(&past.run, Arc::clone(clock));
        let (run, log) = resumed.map_err(|error| error.to_string())?;
        Ok(Begun { sink: CaseSink::StoredEvent(run), resume: Some(log) })
    }

    /// A run that begins with what another one did up to an event.
    pub(crate) fn fork(
        &self,
        past: &Past,
        run: &RunId,
        at: &Value,
        changes: &HashMap<String, Value>,
        clock: &Arc<dyn Clock>,
    ) -> Result<Begun, Fault> {
        let after = Pattern::read(at.get("after").ok_or("`at` needs `after`")?)?;
        let store = self.store_of(past)?;
        let matches =
            |kept: &&StoredEvent| serde_json::to_value(&kept.event).is_ok_and(|event| after.matches(&event));
        let events = store.events(&past.run, 0, usize::MAX).map_err(|error| error.to_string())?;
        let cut = events.iter().find(matches).ok_or("the run has no such event")?.event.seq;
        let forked =
            store.fork(&past.run, NewRun::new(run.clone()), cut, changes, |_| true, Arc::clone(clock));
        let (run, log) = forked.map_err(|error| error.to_string())?;
        Ok(Begun { sink: CaseSink::StoredEvent(run), resume: Some(log) })
    }

    /// All events in the log of a run.
    pub(crate) fn read(&self, past: &Past) -> Result<Vec<StoredEvent>, Fault> {
        let store = self.store_of(past)?;
        Ok(store.log(&past.run, u64::MAX).map_err(|error| error.to_string())?.events)
    }

    fn store_of(&self, past: &Past) -> Result<Store, Fault> {
        self.get(past.store.as_deref().ok_or("that run has no store")?)
    }
}

fn open(folder: TempDir) -> Result<Opened, Fault> {
    let file = Sqlite::open(&folder.path().join("weft.db"), Sync::Normal);
    let file = Arc::new(Mortal::new(file.map_err(|error| error.to_string())?));
    let options = StoreOptions {
        log_bytes: LOG_BYTES,
        locks: Some(folder.path().join("locks")),
        ..StoreOptions::default()
    };
    let store = Store::new(Arc::clone(&file) as Arc<dyn Backend>, options);
    Ok(Opened { store: store.map_err(|error| error.to_string())?, file, folder })
}

//! A store: one writer, any number of readers, and the runs that are executed.

use std::path::PathBuf;
use std::sync::Arc;

use agent_types::{Clock, Redactor, ResumeLog, RunId, StoredEvent};
use serde_json::Value;

use crate::blob::{put_back, restore};
use crate::encode::masked_value;
use crate::lock::{RunLock, RunLocks, ThreadLock};
use crate::writer::{Job, Writer};
use crate::{
    AskRecord, Backend, Change, Footprint, Memory, NewRun, RunFilter, RunPhase, RunRecord, StoreError,
    StoredRun, read_lines,
};

/// Groups of events that are read at once.
const PAGE: usize = 256;

/// Options of a store.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// Values that must never be kept or shown.
    pub secrets: Vec<String>,
    /// Bytes of events that a run keeps behind its newest snapshot; older ones are pruned. Runs without loops write
    /// no snapshots and keep everything.
    pub log_bytes: u64,
    /// Folder of the locks of runs; `None` where no other process uses the store.
    pub locks: Option<PathBuf>,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self { secrets: Vec::new(), log_bytes: 64 << 20, locks: None }
    }
}

/// Store of runs. Clones share it; dropping the last one waits until everything is written.
#[derive(Debug, Clone)]
pub struct Store(pub(crate) Arc<StoreInner>);

#[derive(Debug)]
pub(crate) struct StoreInner {
    pub(crate) writer: Writer,
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) options: StoreOptions,
    pub(crate) masks: Arc<Redactor>,
    locks: RunLocks,
}

/// The right to do some work, until it is dropped or the process dies.
#[derive(Debug)]
pub struct WorkLock {
    _lock: RunLock,
}

impl Store {
    /// A store on any backend.
    ///
    /// # Errors
    /// The writer's thread could not be started.
    pub fn new(backend: Arc<dyn Backend>, options: StoreOptions) -> Result<Self, StoreError> {
        let writer = Writer::start(Arc::clone(&backend), Redactor::new(options.secrets.clone()))?;
        let masks = Arc::new(Redactor::new(options.secrets.clone()));
        let locks = RunLocks::new(options.locks.clone());
        Ok(Self(Arc::new(StoreInner { writer, backend, options, masks, locks })))
    }

    /// A store that is gone with the process.
    ///
    /// # Errors
    /// The writer's thread could not be started.
    pub fn memory() -> Result<Self, StoreError> {
        Self::new(Arc::new(Memory::default()), StoreOptions::default())
    }

    /// Begins a run. Its record is safe before its first event is.
    ///
    /// # Errors
    /// A run of that id is executing.
    pub fn begin(&self, new: NewRun, clock: Arc<dyn Clock>) -> Result<Arc<StoredRun>, StoreError> {
        let run = new.run.clone();
        let lock = self.0.locks.take(&run)?;
        let new = NewRun { plan: masked_value(&new.plan, &self.0.masks), ..new };
        let started = clock.now();
        let stored = StoredRun::new(Arc::clone(&self.0), run, clock, (0, 0), lock);
        self.0.writer.send(Job::Begin { core: stored.core(), new: Box::new(new), started });
        Ok(stored)
    }

    /// Takes a run up again that has no end yet.
    ///
    /// # Errors
    /// The run is unknown, has ended, or is being executed.
    pub fn resume(
        &self,
        run: &RunId,
        clock: Arc<dyn Clock>,
    ) -> Result<(Arc<StoredRun>, ResumeLog), StoreError> {
        self.resume_where(run, |_| true, clock)
    }

    /// The same by a snapshot that `fits`; by all events where it does not.
    ///
    /// # Errors
    /// As [`resume`](Self::resume), or the first events are no longer kept and no snapshot fits.
    pub fn resume_where(
        &self,
        run: &RunId,
        fits: impl Fn(&str) -> bool,
        clock: Arc<dyn Clock>,
    ) -> Result<(Arc<StoredRun>, ResumeLog), StoreError> {
        let lock = self.0.locks.take(run)?;
        let record = self.known(run)?;
        if record.state.phase.has_ended() {
            let status = record.state.phase.as_str().to_owned();
            return Err(StoreError::RunEnded { run: run.to_string(), status });
        }
        let log = self.log_where(&record, u64::MAX, fits, u64::MAX)?;
        let stored = StoredRun::new(
            Arc::clone(&self.0),
            run.clone(),
            clock,
            (record.last_seq, record.last_span),
            lock,
        );
        Ok((stored, log))
    }

    /// Answers an open question of a run that is not executed. The answer is durable when this returns.
    ///
    /// # Errors
    /// The run or question is unknown, the answer does not fit (the question stays open), or the run is being executed.
    pub fn answer(&self, run: &RunId, ask: &str, value: &Value) -> Result<(), StoreError> {
        let _lock = self.0.locks.take(run)?;
        let record = self.known(run)?;
        let open = |record: &&AskRecord| &*record.summary.ask == ask && record.answer.is_none();
        let asks = self.0.backend.asks(run)?;
        let Some(AskRecord { summary, .. }) = asks.iter().find(open) else {
            return Err(StoreError::UnknownAsk { run: run.to_string(), ask: ask.to_owned() });
        };
        if !summary.kind.takes(value) {
            return Err(StoreError::UnfitAnswer { ask: ask.to_owned(), kind: summary.kind });
        }
        let value = masked_value(value, &self.0.masks);
        let (run, ask, seq) = (run.clone(), ask.to_owned(), record.last_seq);
        self.0.writer.send(Job::Write(Change::Answer { run, ask, value, seq }));
        self.flush()
    }

    /// Removes a run and all that belongs to it.
    ///
    /// # Errors
    /// The run is unknown or is being executed.
    pub fn remove(&self, run: &RunId) -> Result<(), StoreError> {
        let lock = self.0.locks.take(run)?;
        self.known(run)?;
        self.0.writer.send(Job::Write(Change::Remove { run: run.clone() }));
        self.flush()?;
        drop(lock);
        self.0.locks.forget(run);
        Ok(())
    }

    /// Removes lock files of runs that are gone, which earlier versions left.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn sweep_locks(&self) -> Result<(), StoreError> {
        if self.0.locks.files() as u64 > self.footprint()?.runs {
            let known = self.0.backend.runs(&RunFilter::default())?;
            self.0.locks.sweep(known.into_iter().map(|record| record.new.run));
        }
        Ok(())
    }

    /// The right to do the work of this name, of which one at a time does it, in this process and in others.
    ///
    /// # Errors
    /// Another has it ([`StoreError::RunBusy`]), or the lock file cannot be used.
    pub fn work_lock(&self, name: &str) -> Result<WorkLock, StoreError> {
        self.0.locks.take(&RunId::new(format!("work:{name}"))).map(|lock| WorkLock { _lock: lock })
    }

    /// Events and other changes that are not kept yet.
    #[must_use]
    pub fn unkept(&self) -> usize {
        self.0.writer.unkept()
    }

    /// A run.
    ///
    /// # Errors
    /// The id is unknown.
    pub fn known(&self, run: &RunId) -> Result<RunRecord, StoreError> {
        self.flush()?;
        self.0.backend.run(run)?.ok_or_else(|| StoreError::UnknownRun { run: run.to_string() })
    }

    /// Runs, newest first.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn runs(&self, filter: &RunFilter) -> Result<Vec<RunRecord>, StoreError> {
        self.flush()?;
        self.0.backend.runs(filter)
    }

    /// Returns `true` while this process or another one executes the run.
    #[must_use]
    pub fn is_at_work(&self, run: &RunId) -> bool {
        self.0.locks.is_taken(run)
    }

    /// Returns `true` for a run that was interrupted: it has no end and does not wait, and no process executes it.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn is_interrupted(&self, run: &RunId) -> Result<bool, StoreError> {
        if self.is_at_work(run) {
            return Ok(false);
        }
        // The end of a run is kept before its lock is free, so what was read before does not count.
        self.flush()?;
        Ok(self.0.backend.run(run)?.is_some_and(|record| record.state.phase == RunPhase::Running))
    }

    /// Takes the right to execute a run of a conversation; `None` while a run of it has it, in whichever process.
    ///
    /// # Errors
    /// The lock's file cannot be used.
    pub fn lock_thread(&self, thread: &str) -> Result<Option<ThreadLock>, StoreError> {
        self.0.locks.take_thread(thread)
    }

    /// Events behind `after`, oldest first, about `limit` of them; an empty list means that no more follow.
    /// Large values are names of blobs.
    ///
    /// # Errors
    /// The store cannot be read, or is damaged.
    pub fn events(&self, run: &RunId, after: u64, limit: usize) -> Result<Vec<StoredEvent>, StoreError> {
        let mut events = Vec::new();
        let mut at = after;
        while events.len() < limit {
            let groups = self.0.backend.lines(run, at, PAGE)?;
            if groups.is_empty() {
                break;
            }
            for group in groups {
                let kept = read_lines(&group)?;
                events.extend(kept.into_iter().filter(|kept| kept.event.seq > after));
                if events.len() >= limit {
                    break;
                }
            }
            at = events.last().map_or(u64::MAX, |kept: &StoredEvent| kept.event.seq);
        }
        Ok(events)
    }

    /// Events behind `after` that were committed together, oldest first; an empty list means that no more follow.
    /// At most one group is read, however many events the run has emitted. Large values are names of blobs.
    ///
    /// # Errors
    /// The store cannot be read, or is damaged.
    pub fn next_group(&self, run: &RunId, after: u64) -> Result<Vec<StoredEvent>, StoreError> {
        let group = self.0.backend.lines(run, after, 1)?;
        let mut kept = group.first().map_or_else(|| Ok(Vec::new()), |lines| read_lines(lines))?;
        kept.retain(|kept| kept.event.seq > after);
        Ok(kept)
    }

    /// All events of a run as [`next_group`](Self::next_group) gives them, nothing behind the first error.
    pub fn groups(&self, run: &RunId) -> impl Iterator<Item = Result<Vec<StoredEvent>, StoreError>> {
        let mut after = Some(0);
        std::iter::from_fn(move || {
            let group = self.next_group(run, after?);
            after = group.as_ref().ok().and_then(|group| Some(group.last()?.event.seq));
            Some(group).filter(|group| !matches!(group, Ok(group) if group.is_empty()))
        })
    }

    /// The questions of a run in the order in which they were put.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn asks(&self, run: &RunId) -> Result<Vec<AskRecord>, StoreError> {
        self.flush()?;
        self.0.backend.asks(run)
    }

    /// The bytes of a blob, by its SHA-256 in hex.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn blob(&self, sha: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.flush()?;
        self.0.backend.blob(sha)
    }

    /// Keeps bytes under their SHA-256, which it gives.
    pub fn put_blob(&self, data: &[u8]) -> String {
        let sha = crate::blob::digest(data);
        self.0.writer.send(Job::Write(Change::Blob { sha: sha.clone(), data: data.to_vec() }));
        sha
    }

    /// The messages of a thread.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn messages(&self, thread: &str) -> Result<Vec<Value>, StoreError> {
        self.flush()?;
        self.0.backend.messages(thread)
    }

    /// Number of messages of a thread that are safe. Nothing that is being written is waited for.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn thread_length(&self, thread: &str) -> Result<usize, StoreError> {
        self.0.backend.thread_length(thread)
    }

    /// Puts messages behind those that a thread has.
    pub fn add_messages(&self, thread: &str, messages: &[Value]) {
        let messages = messages.iter().map(|message| masked_value(message, &self.0.masks)).collect();
        self.0.writer.send(Job::Write(Change::Messages { thread: thread.to_owned(), messages }));
    }

    /// Forgets the newest messages of a thread: the oldest `keep` stay.
    pub fn cut_thread(&self, thread: &str, keep: usize) {
        self.0.writer.send(Job::Write(Change::CutThread { thread: thread.to_owned(), keep }));
    }

    /// A named value of the project.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn value(&self, key: &str) -> Result<Option<Value>, StoreError> {
        self.flush()?;
        self.0.backend.value(key)
    }

    /// The named values whose names begin with `prefix`, in order of name.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn values(&self, prefix: &str) -> Result<Vec<(String, Value)>, StoreError> {
        self.flush()?;
        self.0.backend.values(prefix)
    }

    /// Sets or removes a named value of the project.
    pub fn put(&self, key: &str, value: Option<&Value>) {
        let value = value.map(|value| masked_value(value, &self.0.masks));
        self.0.writer.send(Job::Write(Change::Put { key: key.to_owned(), value }));
    }

    /// Updates a named value of the project atomically, also with respect to other processes.
    /// `change` gives the new value, or why the old one stays. It is safe when this returns.
    ///
    /// # Errors
    /// The store cannot be written; the inner error is that of `change`.
    pub fn update<E: Send + 'static>(
        &self,
        key: &str,
        change: impl FnOnce(Option<Value>) -> Result<Value, E> + Send + 'static,
    ) -> Result<Result<Value, E>, StoreError> {
        futures::executor::block_on(self.0.writer.updated(key, &self.0.masks, change))
    }

    /// Returns the disk usage of the store.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn footprint(&self) -> Result<Footprint, StoreError> {
        self.flush()?;
        self.0.backend.footprint()
    }

    /// Waits until all that was written so far is safe.
    ///
    /// # Errors
    /// The last group could not be written.
    pub fn flush(&self) -> Result<(), StoreError> {
        futures::executor::block_on(self.0.writer.flushed())
    }

    /// Puts large values back where events only name them.
    ///
    /// # Errors
    /// One is missing: the store is damaged.
    pub fn put_values_back(&self, events: &mut [StoredEvent]) -> Result<(), StoreError> {
        let mut blob_error = None;
        let mut find = |sha: &str| {
            let found = self.0.backend.blob(sha);
            if !matches!(found, Ok(Some(_))) {
                blob_error = Some(StoreError::Corrupt { message: format!("the blob {sha} is missing") });
            }
            found.ok().flatten()
        };
        for kept in events {
            restore(&mut kept.event.body, &mut find);
            for (_, value) in kept.record.iter_mut().flat_map(|record| &mut record.values) {
                if value.get("$blob").is_some() {
                    put_back(Arc::make_mut(value), &mut find);
                }
            }
        }
        blob_error.map_or(Ok(()), Err)
    }

    /// Reads the log from which a run resumes after its event `upto`.
    ///
    /// # Errors
    /// The run is unknown, or the store cannot be read, or is damaged.
    pub fn log(&self, run: &RunId, upto: u64) -> Result<ResumeLog, StoreError> {
        let record = self.known(run)?;
        self.log_where(&record, upto, |_| true, upto)
    }

    /// Reads the same with a checkpoint of the event `before` or an earlier one that fits, or without one.
    pub(crate) fn log_where(
        &self,
        record: &RunRecord,
        before: u64,
        fits: impl Fn(&str) -> bool,
        upto: u64,
    ) -> Result<ResumeLog, StoreError> {
        let run = &record.new.run;
        let snapshot = match self.0.backend.snapshot(run, before)? {
            Some((seq, state)) => {
                let state = String::from_utf8(state)
                    .map_err(|error| StoreError::Corrupt { message: format!("a snapshot: {error}") })?;
                Some((seq, state)).filter(|(_, state)| fits(state))
            }
            None => None,
        };
        if snapshot.is_none() && record.first_seq > 1 {
            return Err(StoreError::NotKept { run: run.to_string(), seq: before.min(record.last_seq) });
        }
        let after = snapshot.as_ref().map_or(0, |(seq, _)| *seq);
        let mut events = self.events(run, after, usize::MAX)?;
        events.retain(|kept| kept.event.seq <= upto);
        self.put_values_back(&mut events)?;
        let asks = self.0.backend.asks(run)?.into_iter();
        let answers = asks
            .filter_map(|ask| {
                let (value, seq) = ask.answer?;
                (seq <= upto).then(|| (ask.summary.ask.to_string(), value))
            })
            .collect();
        Ok(ResumeLog { snapshot, events, answers })
    }
}

//! The one writer of a process: it groups what all runs record, commits each group, and only then shows it.

use std::collections::VecDeque;
use std::fmt;
use std::mem;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use agent_types::{Batch, ClockHold, Redactor, Timestamp};
use futures::channel::oneshot;
use parking_lot::Mutex;
use serde_json::Value;

use crate::encode::{Numbered, NumberedEvent, encode, masked_value};
use crate::inbox::Inbox;
use crate::run::RunCore;
use crate::{Backend, Change, NewRun, StoreError, Update, read_lines};

/// Events that one commit takes at most.
pub(crate) const GROUP: usize = 2048;

/// Events that one row holds at most.
pub(crate) const ROW: usize = 256;

/// Attempts to commit while another process holds the store, of half a minute each.
const ROUNDS: u32 = 20;

/// Waiter for a commit, perhaps for the sake of one run.
pub(crate) struct Waiting {
    core: Option<Arc<RunCore>>,
    done: oneshot::Sender<Result<(), StoreError>>,
}

/// Something for the writer to do.
pub(crate) enum Job {
    /// New events of a run.
    Events {
        core: Arc<RunCore>,
        numbered: Numbered,
        last_span: u64,
        hold: Option<ClockHold>,
    },
    /// Anything else to write.
    /// A run begins. Where that cannot be kept, nothing of it can.
    Begin {
        core: Arc<RunCore>,
        new: Box<NewRun>,
        started: Timestamp,
    },
    Write(Change),
    /// Updates a named value, and reports when the new one is durable.
    Update {
        key: String,
        change: Update<'static>,
        done: oneshot::Sender<Result<(), StoreError>>,
    },
    /// Notify when all earlier jobs are committed, or report why the run cannot be persisted.
    Flush(Waiting),
    /// Nothing follows.
    Stop,
}

impl Job {
    /// Changes in it besides events.
    fn changes(&self) -> usize {
        match self {
            Self::Begin { .. } | Self::Write(_) | Self::Update { .. } => 1,
            Self::Events { .. } | Self::Flush(_) | Self::Stop => 0,
        }
    }

    /// Returns `true` if a caller waits for the job, or if it blocks the clock.
    pub(crate) fn is_urgent(&self) -> bool {
        match self {
            Self::Events { hold, .. } => hold.is_some(),
            Self::Write(_) | Self::Begin { .. } => false,
            Self::Update { .. } | Self::Flush(_) | Self::Stop => true,
        }
    }
}

/// The way to the writer. Dropping the last handle waits until everything is written.
pub(crate) struct Writer {
    inbox: Arc<Inbox>,
    /// Events that are not committed yet.
    pending: Arc<AtomicUsize>,
    /// Other changes that are not committed yet.
    changes: Arc<AtomicUsize>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    pub(crate) fn start(backend: Arc<dyn Backend>, redactor: Redactor) -> Result<Self, StoreError> {
        let inbox = Arc::new(Inbox::default());
        let pending = Arc::new(AtomicUsize::new(0));
        let changes = Arc::new(AtomicUsize::new(0));
        let worker = WriterThread {
            backend,
            redactor,
            inbox: Arc::clone(&inbox),
            pending: Arc::clone(&pending),
            changes: Arc::clone(&changes),
        };
        let thread = std::thread::Builder::new()
            .name("weft-store".to_owned())
            .spawn(move || worker.work())
            .map_err(StoreError::io)?;
        Ok(Self { inbox, pending, changes, thread: Mutex::new(Some(thread)) })
    }

    pub(crate) fn send(&self, job: Job) {
        self.changes.fetch_add(job.changes(), Ordering::Relaxed);
        self.inbox.send(job);
    }

    /// Sends events of a run.
    pub(crate) fn send_events(
        &self,
        core: &Arc<RunCore>,
        events: impl ExactSizeIterator<Item = NumberedEvent>,
        last_span: u64,
        hold: Option<ClockHold>,
    ) {
        self.pending.fetch_add(events.len(), Ordering::Relaxed);
        self.inbox.send_events(core, events, last_span, hold);
    }

    pub(crate) fn pending(&self) -> usize {
        self.pending.load(Ordering::Relaxed)
    }

    /// Events and other changes that are not committed yet.
    pub(crate) fn unkept(&self) -> usize {
        self.pending() + self.changes.load(Ordering::Relaxed)
    }

    /// Resolves when all that was sent before is committed.
    pub(crate) fn flush(&self, core: Option<Arc<RunCore>>) -> oneshot::Receiver<Result<(), StoreError>> {
        let (done, wait) = oneshot::channel();
        self.send(Job::Flush(Waiting { core, done }));
        wait
    }

    /// Waits until all that was sent so far is safe.
    pub(crate) async fn flushed(&self) -> Result<(), StoreError> {
        self.flush(None).await.unwrap_or_else(|_| Err(stopped()))
    }

    /// Updates a named value; `change` gives the new value, or why the old one stays. It is safe when this returns.
    pub(crate) async fn updated<E: Send + 'static>(
        &self,
        key: &str,
        masks: &Arc<Redactor>,
        change: impl FnOnce(Option<Value>) -> Result<Value, E> + Send + 'static,
    ) -> Result<Result<Value, E>, StoreError> {
        let (sender, receiver) = std::sync::mpsc::channel();
        let masks = Arc::clone(masks);
        let change = move |old| {
            let new = change(old).map(|new| masked_value(&new, &masks));
            let kept = new.as_ref().ok().cloned();
            // Whoever asked waits for it below.
            let _ = sender.send(new);
            kept
        };
        let (done, wait) = oneshot::channel();
        self.send(Job::Update { key: key.to_owned(), change: Box::new(change), done });
        wait.await.unwrap_or_else(|_| Err(stopped()))?;
        receiver.try_recv().map_err(|_| stopped())
    }
}

fn stopped() -> StoreError {
    StoreError::io("the writer has stopped")
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("pending", &self.pending()).finish_non_exhaustive()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.inbox.send(Job::Stop);
        let thread = self.thread.get_mut().take();
        // A panic of the writer has been reported by its own thread.
        let _ = thread.map(JoinHandle::join);
    }
}

/// State of the writer thread.
struct WriterThread {
    backend: Arc<dyn Backend>,
    redactor: Redactor,
    inbox: Arc<Inbox>,
    pending: Arc<AtomicUsize>,
    changes: Arc<AtomicUsize>,
}

/// Events that are shown when they are committed.
struct Shown {
    core: Arc<RunCore>,
    /// `None` without a subscriber at the time when the events were encoded.
    batch: Option<Batch>,
    /// Index of the job's change within the commit.
    change: usize,
}

/// A change of a named value that follows the group.
struct NamedUpdate {
    key: String,
    change: Update<'static>,
    done: oneshot::Sender<Result<(), StoreError>>,
}

/// Changes of one commit, and the callers to notify.
#[derive(Default)]
struct Group {
    changes: Vec<Change>,
    shown: Vec<Shown>,
    runs: Vec<Arc<RunCore>>,
    waiting: Vec<Waiting>,
    updates: Vec<NamedUpdate>,
    holds: Vec<ClockHold>,
    events: usize,
    /// Number of the other changes.
    others: usize,
    stop: bool,
}

impl WriterThread {
    fn work(self) {
        let mut jobs = VecDeque::new();
        loop {
            if jobs.is_empty() {
                self.inbox.take(&mut jobs);
            }
            let mut group = Group::default();
            while group.events < GROUP && !group.stop && group.updates.is_empty() {
                let Some(job) = jobs.pop_front() else { break };
                self.add(&mut group, job);
            }
            let stop = group.stop;
            self.commit(group);
            if stop {
                return;
            }
        }
    }

    fn add(&self, group: &mut Group, job: Job) {
        group.others += job.changes();
        match job {
            Job::Events { core, numbered, last_span, hold } => {
                group.events += numbered.len();
                group.holds.extend(hold);
                // After a fault there would be a hole: nothing of this run is kept any more.
                if core.fault().is_some() {
                    return;
                }
                match encode(&core.run, numbered, last_span, &self.redactor, core.feed.is_watched()) {
                    Ok(None) => {}
                    Ok(Some(encoded)) => {
                        let blobs = encoded.blobs.into_iter();
                        group.changes.extend(blobs.map(|(sha, data)| Change::Blob { sha, data }));
                        group.changes.push(Change::Events(encoded.events));
                        let change = group.changes.len() - 1;
                        group.shown.push(Shown { core: Arc::clone(&core), batch: encoded.shown, change });
                        group.runs.push(core);
                    }
                    Err(error) => core.set_fault(&error),
                }
            }
            Job::Begin { core, new, started } => {
                group.changes.push(Change::Begin { new, started });
                group.runs.push(core);
            }
            Job::Write(change) => group.changes.push(change),
            Job::Update { key, change, done } => group.updates.push(NamedUpdate { key, change, done }),
            Job::Flush(waiting) => group.waiting.push(waiting),
            Job::Stop => group.stop = true,
        }
    }

    fn commit(&self, mut group: Group) {
        let changes = mem::take(&mut group.changes);
        let result = if changes.is_empty() { Ok(()) } else { self.write(&changes) };
        self.pending.fetch_sub(group.events, Ordering::Relaxed);
        match &result {
            Ok(()) => {
                group.shown.iter().for_each(|shown| shown.publish(&changes));
            }
            Err(error) => group.runs.iter().for_each(|core| core.set_fault(error)),
        }
        let others = group.others - group.updates.len();
        self.changes.fetch_sub(others, Ordering::Relaxed);
        for Waiting { core, done } in group.waiting {
            let fault = core.and_then(|core| core.fault());
            // Whoever asked may have gone.
            let _ = done.send(fault.map_or_else(|| result.clone(), Err));
        }
        for NamedUpdate { key, change, done } in group.updates {
            let updated = self.update(&key, change);
            self.changes.fetch_sub(1, Ordering::Relaxed);
            // Whoever asked may have gone.
            let _ = done.send(updated);
        }
        // Time may move only after the waiting callers have been notified.
        drop(group.holds);
    }
}

impl WriterThread {
    /// Commits changes. While another process holds the store, what has been done waits for it.
    fn write(&self, changes: &[Change]) -> Result<(), StoreError> {
        for round in 1..ROUNDS {
            let result = self.backend.commit(changes);
            if result != Err(StoreError::Locked) {
                return result;
            }
            let minutes = (ROUNDS - round).div_ceil(2);
            log::warn!(
                "the store is still locked: what has been done waits for it, up to {minutes} min more"
            );
        }
        self.backend.commit(changes)
    }

    fn update(&self, key: &str, change: Update<'static>) -> Result<(), StoreError> {
        // A change that panics must not take the writer with it.
        let update = AssertUnwindSafe(|| self.backend.update(key, change));
        std::panic::catch_unwind(update).unwrap_or_else(|_| Err(StoreError::io("the change panicked")))
    }
}

impl Shown {
    fn publish(&self, changes: &[Change]) {
        if let Some(batch) = &self.batch {
            return self.core.feed.push(batch);
        }
        // Somebody may have begun to watch since.
        if self.core.feed.is_watched()
            && let Some(Change::Events(events)) = changes.get(self.change)
            && let Ok(kept) = read_lines(&events.lines)
        {
            self.core.feed.push(&Batch::new(kept.into_iter().map(|kept| kept.event)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use agent_types::RunId;
    use serde_json::Value;

    use super::*;
    use crate::{AskRecord, Footprint, Memory, RunFilter, RunRecord};

    /// A store that another process holds for some attempts.
    #[derive(Debug)]
    struct LockedBackend(Memory, AtomicU32);

    impl Backend for LockedBackend {
        fn commit(&self, changes: &[Change]) -> Result<(), StoreError> {
            let left = self.1.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
            if left.is_ok() { Err(StoreError::Locked) } else { self.0.commit(changes) }
        }
        fn update(&self, key: &str, change: Update<'_>) -> Result<(), StoreError> {
            self.0.update(key, change)
        }
        fn run(&self, run: &RunId) -> Result<Option<RunRecord>, StoreError> {
            self.0.run(run)
        }
        fn runs(&self, filter: &RunFilter) -> Result<Vec<RunRecord>, StoreError> {
            self.0.runs(filter)
        }
        fn lines(&self, run: &RunId, after: u64, limit: usize) -> Result<Vec<Vec<u8>>, StoreError> {
            self.0.lines(run, after, limit)
        }
        fn snapshot(&self, run: &RunId, at_most: u64) -> Result<Option<(u64, Vec<u8>)>, StoreError> {
            self.0.snapshot(run, at_most)
        }
        fn blob(&self, sha: &str) -> Result<Option<Vec<u8>>, StoreError> {
            self.0.blob(sha)
        }
        fn asks(&self, run: &RunId) -> Result<Vec<AskRecord>, StoreError> {
            self.0.asks(run)
        }
        fn messages(&self, thread: &str) -> Result<Vec<Value>, StoreError> {
            self.0.messages(thread)
        }
        fn value(&self, key: &str) -> Result<Option<Value>, StoreError> {
            self.0.value(key)
        }
        fn values(&self, prefix: &str) -> Result<Vec<(String, Value)>, StoreError> {
            self.0.values(prefix)
        }
        fn footprint(&self) -> Result<Footprint, StoreError> {
            self.0.footprint()
        }
    }

    #[test]
    fn what_has_been_done_waits_for_a_locked_store() {
        for (attempts, wanted) in [(3, Ok(())), (ROUNDS, Err(StoreError::Locked))] {
            let held = Arc::new(LockedBackend(Memory::default(), AtomicU32::new(attempts)));
            let writer = Writer::start(held, Redactor::new(Vec::new())).unwrap();
            let put = Change::Put { key: "k".to_owned(), value: Some(1.into()) };
            writer.send(Job::Write(put));
            assert_eq!(writer.unkept(), 1);
            assert_eq!(futures::executor::block_on(writer.flush(None)).unwrap(), wanted);
            assert_eq!(writer.unkept(), 0);
        }
    }
}

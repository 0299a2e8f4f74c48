//! The one writer that numbers the events of a run, and those who watch it.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::{Clock, EventBody, Place, RunId, TraceEvent};

/// A fact that has no number yet.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    /// Where it happened.
    pub place: Place,
    /// What happened.
    pub body: EventBody,
}

/// Where facts go to be numbered.
///
/// A wrapper may add to the place of what passes through it, as a tool call does for the events of its workflow.
pub trait EventSink: Send + Sync + fmt::Debug {
    /// Numbers the drafts in order and leaves the vector empty.
    fn record(&self, drafts: &mut Vec<Draft>);

    /// A span number that nobody else in this run has.
    fn new_span(&self) -> u64;

    /// The run that the events belong to.
    fn run(&self) -> &RunId;
}

/// Numbered events that were recorded together.
#[derive(Debug, Clone)]
pub struct Batch(Arc<[TraceEvent]>);

impl Deref for Batch {
    type Target = [TraceEvent];

    fn deref(&self) -> &[TraceEvent] {
        &self.0
    }
}

/// Numbers the events of one run from 1 without holes and hands them to watchers.
///
/// It never waits: a watcher that does not keep up loses its oldest events and is told how many.
#[derive(Debug)]
pub struct Recorder {
    run: RunId,
    clock: Arc<dyn Clock>,
    spans: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    seq: u64,
    closed: bool,
    watchers: Vec<Arc<Mutex<Queue>>>,
}

#[derive(Debug)]
struct Queue {
    batches: VecDeque<Batch>,
    events: usize,
    capacity: usize,
    missed: u64,
    closed: bool,
    dropped: bool,
    waker: Option<Waker>,
}

impl Recorder {
    /// A writer for `run` whose events carry the time of `clock`.
    #[must_use]
    pub fn new(run: RunId, clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self { run, clock, spans: AtomicU64::new(1), state: Mutex::default() })
    }

    /// A reader of all that is recorded from now on, which holds `capacity` events at most; more push out the oldest.
    #[must_use]
    pub fn watch(&self, capacity: usize) -> Watcher {
        let mut state = lock(&self.state);
        let queue = Arc::new(Mutex::new(Queue {
            batches: VecDeque::new(),
            events: 0,
            capacity: capacity.max(1),
            missed: 0,
            closed: state.closed,
            dropped: false,
            waker: None,
        }));
        state.watchers.push(Arc::clone(&queue));
        Watcher { queue, current: None }
    }

    /// Says that nothing follows; watchers end after what they hold.
    pub fn close(&self) {
        let watchers = {
            let mut state = lock(&self.state);
            state.closed = true;
            std::mem::take(&mut state.watchers)
        };
        for watcher in watchers {
            let waker = {
                let mut queue = lock(&watcher);
                queue.closed = true;
                queue.waker.take()
            };
            waker.into_iter().for_each(Waker::wake);
        }
    }

    /// The number of the last event.
    #[must_use]
    pub fn last_seq(&self) -> u64 {
        lock(&self.state).seq
    }

    /// Records one fact.
    pub fn emit(&self, place: Place, body: EventBody) {
        self.record(&mut vec![Draft { place, body }]);
    }
}

impl EventSink for Recorder {
    fn record(&self, drafts: &mut Vec<Draft>) {
        if drafts.is_empty() {
            return;
        }
        let mut state = lock(&self.state);
        let first = state.seq + 1;
        state.seq += drafts.len() as u64;
        state.watchers.retain(|watcher| !lock(watcher).dropped);
        if state.watchers.is_empty() {
            drafts.clear();
            return;
        }
        let ts = self.clock.now();
        let events = drafts.drain(..).zip(first..);
        let batch = Batch(
            events
                .map(|(draft, seq)| TraceEvent::new(self.run.clone(), seq, ts, draft.place, draft.body))
                .collect(),
        );
        // Queues are filled under the lock, so that every watcher sees the order of the numbers.
        let wakers: Vec<_> =
            state.watchers.iter().filter_map(|watcher| lock(watcher).push(batch.clone())).collect();
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    fn new_span(&self) -> u64 {
        self.spans.fetch_add(1, Ordering::Relaxed)
    }

    fn run(&self) -> &RunId {
        &self.run
    }
}

impl Queue {
    fn push(&mut self, batch: Batch) -> Option<Waker> {
        self.events += batch.len();
        self.batches.push_back(batch);
        while self.events > self.capacity && self.batches.len() > 1 {
            if let Some(oldest) = self.batches.pop_front() {
                self.events -= oldest.len();
                self.missed += oldest.len() as u64;
            }
        }
        self.waker.take()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that can panic runs under these locks.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a watcher sees next.
#[derive(Debug, Clone)]
pub enum Watched {
    /// Events in order.
    Events(Batch),
    /// So many events were lost here, because the watcher did not keep up.
    Lagged(u64),
}

/// Reads a run's events as they come.
#[derive(Debug)]
pub struct Watcher {
    queue: Arc<Mutex<Queue>>,
    current: Option<(Batch, usize)>,
}

impl Watcher {
    /// What comes next; `None` after the last event of a closed recorder.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<Watched> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// The next event alone, passing over what was lost.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn next_event(&mut self) -> Option<TraceEvent> {
        loop {
            if let Some((batch, index)) = &mut self.current
                && let Some(event) = batch.get(*index)
            {
                *index += 1;
                return Some(event.clone());
            }
            if let Watched::Events(batch) = self.next().await? {
                self.current = Some((batch, 0));
            }
        }
    }

    /// What is there already, without waiting.
    pub fn try_next(&mut self) -> Option<Watched> {
        lock(&self.queue).pop()
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Watched>> {
        let mut queue = lock(&self.queue);
        if let Some(watched) = queue.pop() {
            return Poll::Ready(Some(watched));
        }
        if queue.closed {
            return Poll::Ready(None);
        }
        queue.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Queue {
    fn pop(&mut self) -> Option<Watched> {
        if self.missed > 0 {
            return Some(Watched::Lagged(std::mem::take(&mut self.missed)));
        }
        let batch = self.batches.pop_front()?;
        self.events -= batch.len();
        Some(Watched::Events(batch))
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let mut queue = lock(&self.queue);
        queue.dropped = true;
        queue.batches.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Timestamp, VirtualClock};

    fn recorder() -> Arc<Recorder> {
        Recorder::new(RunId::new("r"), Arc::new(VirtualClock::new(Timestamp::default())))
    }

    fn seqs(watcher: &mut Watcher) -> (Vec<u64>, u64) {
        let (mut seen, mut missed) = (Vec::new(), 0);
        while let Some(watched) = watcher.try_next() {
            match watched {
                Watched::Events(batch) => seen.extend(batch.iter().map(|event| event.seq)),
                Watched::Lagged(count) => missed += count,
            }
        }
        (seen, missed)
    }

    #[test]
    fn numbers_have_no_holes_and_every_watcher_sees_them() {
        let recorder = recorder();
        let mut first = recorder.watch(10);
        recorder.emit(Place::default(), EventBody::RunQueued {});
        let mut second = recorder.watch(10);
        recorder.emit(Place::default(), EventBody::AgentThinking {});
        assert_eq!(seqs(&mut first), (vec![1, 2], 0));
        assert_eq!(seqs(&mut second), (vec![2], 0));
    }

    #[test]
    fn a_slow_watcher_is_told_what_it_missed() {
        let recorder = recorder();
        let mut slow = recorder.watch(3);
        for _ in 0..10 {
            recorder.emit(Place::default(), EventBody::AgentThinking {});
        }
        assert_eq!(seqs(&mut slow), (vec![8, 9, 10], 7));
    }

    #[test]
    fn a_closed_recorder_ends_its_watchers() {
        let recorder = recorder();
        let mut watcher = recorder.watch(3);
        recorder.emit(Place::default(), EventBody::RunQueued {});
        recorder.close();
        let mut cx = Context::from_waker(Waker::noop());
        assert!(matches!(watcher.poll_next(&mut cx), Poll::Ready(Some(Watched::Events(_)))));
        assert!(matches!(watcher.poll_next(&mut cx), Poll::Ready(None)));
    }
}

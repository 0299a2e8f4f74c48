//! Numbered events on their way to those who watch.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::ops::Deref;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use crate::TraceEvent;

/// Numbered events that were recorded together.
#[derive(Debug, Clone)]
pub struct Batch(Arc<[TraceEvent]>);

impl Batch {
    /// Events in the order of their numbers.
    #[must_use]
    pub fn new(events: impl Iterator<Item = TraceEvent>) -> Self {
        Self(events.collect())
    }
}

impl Deref for Batch {
    type Target = [TraceEvent];

    fn deref(&self) -> &[TraceEvent] {
        &self.0
    }
}

/// Delivers batches to any number of subscribers without waiting for any of them.
#[derive(Debug, Default)]
pub struct EventBroadcast {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    closed: bool,
    subscribers: Vec<Arc<Mutex<Queue>>>,
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

impl EventBroadcast {
    /// Creates a broadcast without subscribers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A reader of all that is pushed from now on, which holds `capacity` events at most; more push out the oldest.
    #[must_use]
    pub fn subscribe(&self, capacity: usize) -> EventSubscription {
        let mut state = self.state.lock();
        let queue = Arc::new(Mutex::new(Queue {
            batches: VecDeque::new(),
            events: 0,
            capacity: capacity.max(1),
            missed: 0,
            closed: state.closed,
            dropped: false,
            waker: None,
        }));
        state.subscribers.push(Arc::clone(&queue));
        EventSubscription { queue, current: None }
    }

    /// Closes the broadcast. Subscriptions end after the events that they have buffered.
    pub fn close(&self) {
        let subscribers = {
            let mut state = self.state.lock();
            state.closed = true;
            std::mem::take(&mut state.subscribers)
        };
        for subscriber in subscribers {
            let waker = {
                let mut queue = subscriber.lock();
                queue.closed = true;
                queue.waker.take()
            };
            waker.into_iter().for_each(Waker::wake);
        }
    }

    /// Returns `true` while the broadcast has a subscriber.
    #[must_use]
    pub fn is_watched(&self) -> bool {
        let mut state = self.state.lock();
        state.subscribers.retain(|subscriber| !subscriber.lock().dropped);
        !state.subscribers.is_empty()
    }

    /// Delivers a batch to every subscriber.
    pub fn push(&self, batch: &Batch) {
        let wakers: Vec<_> = {
            let state = self.state.lock();
            state.subscribers.iter().filter_map(|subscriber| subscriber.lock().push(batch.clone())).collect()
        };
        wakers.into_iter().for_each(Waker::wake);
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

/// Item that a subscriber receives.
#[derive(Debug, Clone)]
pub enum Delivery {
    /// Events in order.
    Events(Batch),
    /// Number of events lost here because the subscriber did not keep up.
    Lagged(u64),
}

/// Reads a run's events as they come.
#[derive(Debug)]
pub struct EventSubscription {
    queue: Arc<Mutex<Queue>>,
    current: Option<(Batch, usize)>,
}

impl EventSubscription {
    /// Waits for the next item; `None` after the last event of a closed recorder.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<Delivery> {
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
            if let Delivery::Events(batch) = self.next().await? {
                self.current = Some((batch, 0));
            }
        }
    }

    /// Returns the next item if there is one already, without waiting.
    pub fn try_next(&mut self) -> Option<Delivery> {
        self.queue.lock().pop()
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Delivery>> {
        let mut queue = self.queue.lock();
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
    fn pop(&mut self) -> Option<Delivery> {
        if self.missed > 0 {
            return Some(Delivery::Lagged(std::mem::take(&mut self.missed)));
        }
        let batch = self.batches.pop_front()?;
        self.events -= batch.len();
        Some(Delivery::Events(batch))
    }
}

impl Drop for EventSubscription {
    fn drop(&mut self) {
        let mut queue = self.queue.lock();
        queue.dropped = true;
        queue.batches.clear();
    }
}

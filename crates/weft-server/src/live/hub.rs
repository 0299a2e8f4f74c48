//! Distribution of one run's events to all of its subscribers: each event is encoded as JSON once.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use agent_types::{Delivery, EventBody, EventSubscription, RunId, TraceEvent};
use parking_lot::Mutex;
use tokio::sync::broadcast;
use tokio_util::sync::{CancellationToken, DropGuard};
use weft_runs::RunService;

use crate::app::App;
use crate::problem::Problem;

/// Events that a subscriber may be behind; the buffer is shared by all subscribers of a run, and a slower one gets
/// `lag`.
const RING: usize = 512;

/// Interval at which a run is polled that another process executes, or that is suspended.
const LOOK: Duration = Duration::from_millis(150);

/// Pause before a run is read again that has just stopped in this process.
const SETTLE: Duration = Duration::from_millis(20);

/// An event as it goes over the wire.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    pub(crate) seq: u64,
    pub(crate) json: Arc<str>,
    /// Set for the last event of the run.
    pub(crate) is_last: bool,
}

impl Frame {
    pub(crate) fn from_event(event: &TraceEvent) -> Self {
        let is_end = matches!(event.body, EventBody::RunFinished { .. });
        Self {
            seq: event.seq,
            json: serde_json::to_string(event).unwrap_or_default().into(),
            is_last: is_end && event.place.call.is_none() && event.place.path.is_none(),
        }
    }
}

/// Runs that have subscribers.
#[derive(Debug, Default)]
pub(crate) struct Hubs(Mutex<HashMap<RunId, Weak<Hub>>>);

/// Hub of a run that has subscribers. It is fed as long as a subscriber holds it.
#[derive(Debug)]
pub(crate) struct Hub {
    frames: broadcast::Sender<Frame>,
    /// Cancelled once the event is known from which on `frames` is complete.
    placed: CancellationToken,
    _guard: DropGuard,
}

impl Hub {
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Frame> {
        self.frames.subscribe()
    }

    /// Waits until the feeder has found its position. Later events come through `subscribe`, earlier ones are in the
    /// store: a
    /// subscriber that reads the store before that may miss events in between.
    pub(crate) async fn placed(&self) {
        self.placed.cancelled().await;
    }
}

impl Hubs {
    /// Returns the hub of a run. A subscriber that waits for `placed`, subscribes and then reads the store misses
    /// nothing.
    pub(crate) fn get_or_create(&self, app: &Arc<App>, run: &RunId) -> Arc<Hub> {
        let mut hubs = self.0.lock();
        if let Some(hub) = hubs.get(run).and_then(Weak::upgrade) {
            return hub;
        }
        let (frames, _) = broadcast::channel(RING);
        let unused = CancellationToken::new();
        let placed = CancellationToken::new();
        let hub = Arc::new(Hub {
            frames: frames.clone(),
            placed: placed.clone(),
            _guard: unused.clone().drop_guard(),
        });
        hubs.retain(|_, hub| hub.strong_count() > 0);
        hubs.insert(run.clone(), Arc::downgrade(&hub));
        let feeder = Feeder { app: Arc::clone(app), run: run.clone(), frames, placed, last: None };
        app.tasks.spawn(async move {
            let closed = feeder.app.closed.clone();
            tokio::select! {
                () = unused.cancelled() => {}
                () = closed.cancelled() => {}
                () = feeder.feed() => {}
            }
        });
        hub
    }
}

/// Forwards the events of a run to its hub, from this process or from the store.
struct Feeder {
    app: Arc<App>,
    run: RunId,
    frames: broadcast::Sender<Frame>,
    placed: CancellationToken,
    /// The last event that was forwarded; `None` before the store was first read.
    last: Option<u64>,
}

impl Feeder {
    async fn feed(mut self) {
        loop {
            // The subscription comes first, so that no event falls between it and the store.
            let subscription = self.app.runs.subscribe(&self.run);
            let caught_up = self.catch_up().await;
            // Also where the store cannot be read: subscribers report that themselves.
            self.placed.cancel();
            match caught_up {
                Ok(true) => return,
                Ok(false) => {}
                Err(problem) => log::warn!("the run {} cannot be read: {}", self.run, problem.detail),
            }
            let pause = match subscription {
                Some(subscription) => {
                    if self.forward_live(subscription).await {
                        return;
                    }
                    SETTLE
                }
                None => LOOK,
            };
            self.app.clock.sleep(pause).await;
        }
    }

    /// Forwards the events in the store that were not forwarded yet. Returns `true` once the run has ended.
    async fn catch_up(&mut self) -> Result<bool, Problem> {
        let (store, run) = (self.app.store.clone(), self.run.clone());
        let Some(mut last) = self.last else {
            // Subscribers read the earlier events themselves.
            let record = self.app.blocking(move || Ok(store.known(&run)?)).await?;
            self.last = Some(record.last_seq);
            return Ok(record.state.phase.has_ended());
        };
        loop {
            let (store, run) = (self.app.store.clone(), self.run.clone());
            let group = self.app.blocking(move || Ok(store.next_group(&run, last)?)).await?;
            if group.is_empty() {
                return Ok(false);
            }
            for kept in &group {
                last = kept.event.seq;
                self.last = Some(last);
                if self.forward(&kept.event) {
                    return Ok(true);
                }
            }
        }
    }

    /// Forwards the events of a run in this process, until it stops or an event is missing. Returns `true` once it has
    /// ended.
    async fn forward_live(&mut self, mut subscription: EventSubscription) -> bool {
        while let Some(watched) = subscription.next().await {
            // What was lost on the way is in the store.
            let Delivery::Events(batch) = watched else { return false };
            for event in batch.iter() {
                let last = self.last.unwrap_or(0);
                if event.seq <= last {
                    continue;
                }
                if event.seq > last + 1 {
                    return false;
                }
                self.last = Some(event.seq);
                if self.forward(event) {
                    return true;
                }
            }
        }
        false
    }

    fn forward(&self, event: &TraceEvent) -> bool {
        let frame = Frame::from_event(event);
        let is_last = frame.is_last;
        // A hub without subscribers is not an error.
        let _ = self.frames.send(frame);
        is_last
    }
}

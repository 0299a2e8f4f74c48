//! One reader of a run for all who watch it: each event is written as JSON once.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use agent_types::{EventBody, EventSubscription, RunId, TraceEvent, Watched};
use parking_lot::Mutex;
use tokio::sync::broadcast;
use tokio_util::sync::{CancellationToken, DropGuard};
use weft_runs::RunService;

use crate::app::App;
use crate::problem::Problem;

/// Events that a reader may be behind; the room is shared by all readers of a run. Whoever is further behind is told.
const RING: usize = 512;

/// How often a run that another process works on, or that waits, is looked at.
const LOOK: Duration = Duration::from_millis(150);

/// How long a run that has just stopped here is left alone.
const SETTLE: Duration = Duration::from_millis(20);

/// An event as it goes over the wire.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    pub(crate) seq: u64,
    pub(crate) json: Arc<str>,
    /// Nothing follows it.
    pub(crate) is_last: bool,
}

impl Frame {
    pub(crate) fn of(event: &TraceEvent) -> Self {
        let is_end = matches!(event.body, EventBody::RunFinished { .. });
        Self {
            seq: event.seq,
            json: serde_json::to_string(event).unwrap_or_default().into(),
            is_last: is_end && event.place.call.is_none() && event.place.path.is_none(),
        }
    }
}

/// The runs that somebody watches.
#[derive(Debug, Default)]
pub(crate) struct Hubs(Mutex<HashMap<RunId, Weak<Hub>>>);

/// A run that somebody watches. It is fed as long as somebody holds it.
#[derive(Debug)]
pub(crate) struct Hub {
    frames: broadcast::Sender<Frame>,
    /// Whether it is known from which event on `frames` has all of them.
    placed: CancellationToken,
    _watched: DropGuard,
}

impl Hub {
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Frame> {
        self.frames.subscribe()
    }

    /// Waits until the feeder has found its place. What is recorded from then on comes through `subscribe`, what was there
    /// before is in the store: whoever reads the store earlier may miss what lies between.
    pub(crate) async fn placed(&self) {
        self.placed.cancelled().await;
    }
}

impl Hubs {
    /// The hub of a run. Whoever waits until it is placed, subscribes to it and then reads the store misses nothing.
    pub(crate) fn of(&self, app: &Arc<App>, run: &RunId) -> Arc<Hub> {
        let mut hubs = self.0.lock();
        if let Some(hub) = hubs.get(run).and_then(Weak::upgrade) {
            return hub;
        }
        let (frames, _) = broadcast::channel(RING);
        let unwatched = CancellationToken::new();
        let placed = CancellationToken::new();
        let hub = Arc::new(Hub {
            frames: frames.clone(),
            placed: placed.clone(),
            _watched: unwatched.clone().drop_guard(),
        });
        hubs.retain(|_, hub| hub.strong_count() > 0);
        hubs.insert(run.clone(), Arc::downgrade(&hub));
        let feeder = Feeder { app: Arc::clone(app), run: run.clone(), frames, placed, last: None };
        app.tasks.spawn(async move {
            let closed = feeder.app.closed.clone();
            tokio::select! {
                () = unwatched.cancelled() => {}
                () = closed.cancelled() => {}
                () = feeder.feed() => {}
            }
        });
        hub
    }
}

/// Hands the events of a run to its hub, from wherever they come.
struct Feeder {
    app: Arc<App>,
    run: RunId,
    frames: broadcast::Sender<Frame>,
    placed: CancellationToken,
    /// The last event that was handed on; nothing before the first look at the store.
    last: Option<u64>,
}

impl Feeder {
    async fn feed(mut self) {
        loop {
            // The reader comes first, so that nothing falls between it and the store.
            let watcher = self.app.runs.subscribe(&self.run);
            let caught_up = self.catch_up().await;
            // Also where it cannot be read: then a subscriber cannot either, and says so.
            self.placed.cancel();
            match caught_up {
                Ok(true) => return,
                Ok(false) => {}
                Err(problem) => log::warn!("the run {} cannot be read: {}", self.run, problem.detail),
            }
            let pause = match watcher {
                Some(watcher) => {
                    if self.hand_on(watcher).await {
                        return;
                    }
                    SETTLE
                }
                None => LOOK,
            };
            self.app.clock.sleep(pause).await;
        }
    }

    /// Hands on what the store has and nobody has seen. Gives whether the run has ended.
    async fn catch_up(&mut self) -> Result<bool, Problem> {
        let (store, run) = (self.app.store.clone(), self.run.clone());
        let Some(mut last) = self.last else {
            // Whoever subscribed reads for himself what was there before.
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
                if self.tell(&kept.event) {
                    return Ok(true);
                }
            }
        }
    }

    /// Hands on what a run in this process tells, until it stops or something is missing. Gives whether it has ended.
    async fn hand_on(&mut self, mut watcher: EventSubscription) -> bool {
        while let Some(watched) = watcher.next().await {
            // What was lost on the way is in the store.
            let Watched::Events(batch) = watched else { return false };
            for event in batch.iter() {
                let last = self.last.unwrap_or(0);
                if event.seq <= last {
                    continue;
                }
                if event.seq > last + 1 {
                    return false;
                }
                self.last = Some(event.seq);
                if self.tell(event) {
                    return true;
                }
            }
        }
        false
    }

    fn tell(&self, event: &TraceEvent) -> bool {
        let frame = Frame::of(event);
        let is_last = frame.is_last;
        // Nobody may be there just now.
        let _ = self.frames.send(frame);
        is_last
    }
}

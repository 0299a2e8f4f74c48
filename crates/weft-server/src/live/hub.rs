//! One reader of a run for all who watch it: each event is written as JSON once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use agent_types::{EventBody, RunId, TraceEvent, Watched, Watcher};
use run_store::RunRecord;
use tokio::sync::broadcast;
use tokio_util::sync::{CancellationToken, DropGuard};

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
    _watched: DropGuard,
}

impl Hub {
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Frame> {
        self.frames.subscribe()
    }
}

impl Hubs {
    fn lock(&self) -> MutexGuard<'_, HashMap<RunId, Weak<Hub>>> {
        // Nothing that can panic runs under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The hub of a run that stood so a moment ago. Whoever subscribes to it and then reads the store misses nothing:
    /// a new hub hands on all that came behind `record`.
    pub(crate) fn of(&self, app: &Arc<App>, record: &RunRecord) -> Arc<Hub> {
        let run = &record.new.run;
        let mut hubs = self.lock();
        if let Some(hub) = hubs.get(run).and_then(Weak::upgrade) {
            return hub;
        }
        let (frames, _) = broadcast::channel(RING);
        let unwatched = CancellationToken::new();
        let hub = Arc::new(Hub { frames: frames.clone(), _watched: unwatched.clone().drop_guard() });
        hubs.retain(|_, hub| hub.strong_count() > 0);
        hubs.insert(run.clone(), Arc::downgrade(&hub));
        if record.state.phase.has_ended() {
            return hub;
        }
        let feeder = Feeder { app: Arc::clone(app), run: run.clone(), frames, last: record.last_seq };
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
    /// The last event that was handed on, or that readers have read for themselves.
    last: u64,
}

impl Feeder {
    async fn feed(mut self) {
        loop {
            // The reader comes first, so that nothing falls between it and the store.
            let watcher = self.app.runs.watch(&self.run);
            match self.catch_up().await {
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
        loop {
            let (store, run, last) = (self.app.store.clone(), self.run.clone(), self.last);
            let group = self.app.blocking(move || Ok(store.next_group(&run, last)?)).await?;
            if group.is_empty() {
                return Ok(false);
            }
            for kept in &group {
                self.last = kept.event.seq;
                if self.tell(&kept.event) {
                    return Ok(true);
                }
            }
        }
    }

    /// Hands on what a run in this process tells, until it stops or something is missing. Gives whether it has ended.
    async fn hand_on(&mut self, mut watcher: Watcher) -> bool {
        while let Some(watched) = watcher.next().await {
            // What was lost on the way is in the store.
            let Watched::Events(batch) = watched else { return false };
            for event in batch.iter() {
                if event.seq <= self.last {
                    continue;
                }
                if event.seq > self.last + 1 {
                    return false;
                }
                self.last = event.seq;
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

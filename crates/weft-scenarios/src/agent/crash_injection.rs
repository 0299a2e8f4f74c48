//! One life of a process: where the events of a run go, what is done at them, and how it dies.

use std::collections::{BTreeSet, VecDeque};
use std::pin::pin;
use std::sync::Arc;

use agent_types::{
    Clock, Durable, EventPersister, EventSink, KeepError, RunId, TraceEvent, UnsequencedEvent,
};
use parking_lot::{Mutex, MutexGuard};
use run_store::StoredRun;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::fixtures::{Begins, World};
use super::observed::Cut;
use crate::pattern::Pattern;

/// Turns that tasks have to begin what an event set off, before the process ends.
const LAST_STEPS: usize = 64;

/// Action while a run executes.
#[derive(Debug, Clone)]
pub(crate) struct Meanwhile {
    pub(crate) on: Pattern,
    pub(crate) restarts: bool,
}

/// One life of a process, as far as one run is concerned.
///
/// It acts at the very event that is waited for: later events of the run are not stored.
#[derive(Debug)]
pub(crate) struct Life {
    run: RunId,
    clock: Arc<dyn Clock>,
    world: Arc<World>,
    /// Tools whose executions are noted where they happen.
    noted: BTreeSet<String>,
    /// Ends the run.
    pub(crate) cancel: CancellationToken,
    died: CancellationToken,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// None as soon as the process is dead.
    stored: Option<Arc<StoredRun>>,
    meanwhile: VecDeque<Meanwhile>,
    events: Vec<Value>,
    /// The process ends when the run has.
    ends_after: bool,
}

/// State that a life leaves behind.
pub(crate) struct Remains {
    pub(crate) events: Vec<Value>,
    /// Actions that were due and are still open.
    pub(crate) meanwhile: VecDeque<Meanwhile>,
    /// The process ended with the run.
    pub(crate) ends_after: bool,
}

impl Life {
    pub(crate) fn new(
        stored: Arc<StoredRun>,
        clock: Arc<dyn Clock>,
        world: Arc<World>,
        noted: BTreeSet<String>,
        meanwhile: VecDeque<Meanwhile>,
        events: Vec<Value>,
    ) -> Arc<Self> {
        let run = stored.run().clone();
        let state = State { stored: Some(stored), meanwhile, events, ends_after: false };
        let (cancel, died) = (CancellationToken::new(), CancellationToken::new());
        Arc::new(Self { run, clock, world, noted, cancel, died, state: Mutex::new(state) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn stored(&self) -> Option<Arc<StoredRun>> {
        self.lock().stored.clone()
    }

    /// Executes until the work ends; `None` when the process ended first.
    pub(crate) async fn work<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        tokio::select! {
            biased;
            () = self.died.cancelled() => {}
            ended = &mut work => return Some(ended),
        }
        // What the event set off begins before the process ends.
        for _ in 0..LAST_STEPS {
            if futures::poll!(work.as_mut()).is_ready() {
                break;
            }
            tokio::task::yield_now().await;
        }
        None
    }

    /// Closes the run, which is over or waits.
    pub(crate) async fn close(&self) -> Result<Remains, run_store::StoreError> {
        if let Some(stored) = self.stored() {
            stored.close().await?;
        }
        Ok(self.remains())
    }

    /// Ends the life and returns its remains; nothing of the run is held any more.
    pub(crate) fn remains(&self) -> Remains {
        let mut state = self.lock();
        state.stored = None;
        Remains {
            events: std::mem::take(&mut state.events),
            meanwhile: std::mem::take(&mut state.meanwhile),
            ends_after: state.ends_after,
        }
    }

    /// Position in the observed step at which this life ends.
    pub(crate) fn cut(events: &[Value], world: &World, before: (usize, usize)) -> Cut {
        let (executed, requested) = world.now();
        Cut { events: events.len(), executed: executed - before.0, requested: requested - before.1 }
    }

    /// Notes an execution that shows in its events alone.
    fn note(&self, event: &Value, before: &[Value]) {
        let tool = event["data"]["tool"].as_str().unwrap_or_default();
        if event["type"] != "agent.tool.started" || self.noted.contains(tool) || event.get("depth").is_some()
        {
            return;
        }
        let is_ready = |ready: &&Value| ready["type"] == "agent.call.ready" && ready["call"] == event["call"];
        let ready = before.iter().rev().find(is_ready);
        let arguments: Option<Map<String, Value>> =
            ready.and_then(|ready| ready["data"]["arguments"].as_object()).cloned();
        self.world.executed(tool, &arguments.unwrap_or_default());
    }

    /// Work that an event still begins although it ends the process.
    fn begins(event: &Value) -> Begins {
        match event["type"].as_str() {
            Some("agent.tool.started") => Begins::Call(event["call"].as_str().unwrap_or_default().to_owned()),
            Some("agent.llm.started") => Begins::Model,
            _ => Begins::Nothing,
        }
    }
}

impl EventSink for Life {
    fn record(&self, drafts: &mut Vec<UnsequencedEvent>) {
        for draft in drafts.drain(..) {
            let mut state = self.lock();
            let Some(stored) = state.stored.clone() else { return };
            let (place, body) = (draft.place.clone(), draft.body.clone());
            stored.record(&mut vec![draft]);
            let event = TraceEvent::new(self.run.clone(), stored.last_seq(), self.clock.now(), place, body);
            let Ok(event) = serde_json::to_value(&event) else { continue };
            self.note(&event, &state.events);
            let deed = state.meanwhile.pop_front_if(|deed| deed.on.matches(&event));
            match deed.map(|deed| deed.restarts) {
                None => {}
                Some(false) => self.cancel.cancel(),
                Some(true) if event["type"] == "run.finished" || event["type"] == "run.waiting" => {
                    state.ends_after = true;
                }
                Some(true) => {
                    self.world.die(Self::begins(&event));
                    state.stored = None;
                    self.died.cancel();
                }
            }
            state.events.push(event);
        }
    }

    fn new_span(&self) -> u64 {
        self.stored().map_or(0, |stored| stored.new_span())
    }

    fn run(&self) -> &RunId {
        &self.run
    }

    fn persister(&self) -> Option<&dyn EventPersister> {
        Some(self)
    }
}

impl EventPersister for Life {
    fn durable(&self) -> Durable {
        match self.stored() {
            Some(stored) => stored
                .persister()
                .map_or_else(|| Box::pin(async { Ok(()) }) as Durable, EventPersister::durable),
            // What was told before the end is safe, and nothing is told behind it.
            None => Box::pin(async { Ok(()) }),
        }
    }

    fn is_behind(&self) -> bool {
        self.stored().is_some_and(|stored| stored.persister().is_some_and(EventPersister::is_behind))
    }

    fn fault(&self) -> Option<KeepError> {
        self.stored().and_then(|stored| stored.persister().and_then(EventPersister::fault))
    }

    fn snapshot(&self, state: String) {
        if let Some(stored) = self.stored()
            && let Some(persister) = stored.persister()
        {
            persister.snapshot(state);
        }
    }

    fn answered(&self, ask: &str, value: &Value) {
        if let Some(stored) = self.stored()
            && let Some(persister) = stored.persister()
        {
            persister.answered(ask, value);
        }
    }
}

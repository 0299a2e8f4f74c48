//! The world outside of a process: its disk, the model's server and what tools do. It outlives any process.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::future::{pending, ready};
use std::sync::Arc;

use agent_types::{
    Durable, EventPersister, EventSink, KeepError, ResumeLog, RunId, StoredEvent, Timestamp, TraceEvent,
    UnsequencedEvent,
};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;

/// Point at which a process is killed, counted from its start.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Cut {
    /// Behind so many events, the first of them included.
    Events(u64),
    /// In the first effect behind so many events: it has happened, and its result is lost.
    InTool(u64),
    /// In the first request to a model behind so many events: its reply is lost.
    InModel(u64),
}

/// Outcome of an interrupted call as it was stated.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Fate {
    Skipped,
    Done(Value),
}

#[derive(Default)]
struct State {
    events: Vec<StoredEvent>,
    spans: u64,
    answers: HashMap<String, Value>,
    dead: bool,
    cut: Option<Cut>,
    begun: u64,
    /// Requests to models, in their order.
    asked: Vec<String>,
    /// Effects, in their order: the call, and what it was asked for.
    paid: Vec<(String, Value)>,
    looked: Vec<(String, Value)>,
    fates: BTreeMap<String, Fate>,
    retries: HashMap<String, usize>,
}

/// World of one run.
pub(crate) struct World {
    state: Mutex<State>,
    death: Notify,
    run: RunId,
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").finish_non_exhaustive()
    }
}

impl World {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), death: Notify::new(), run: RunId::new("r") })
    }

    /// A world in which interrupted calls come to these ends at once.
    pub(crate) fn with_fates(fates: BTreeMap<String, Fate>) -> Arc<Self> {
        let world = Self::new();
        world.state.lock().fates = fates;
        world
    }

    /// Starts a process that is killed at `cut`; returns the log that it finds.
    pub(crate) fn start(&self, cut: Option<Cut>) -> Option<ResumeLog> {
        let mut state = self.state.lock();
        (state.dead, state.cut, state.begun) = (false, cut, state.events.len() as u64);
        let (events, answers) = (state.events.clone(), state.answers.clone());
        (!events.is_empty()).then_some(ResumeLog { snapshot: None, events, answers })
    }

    /// Returns `true` behind the cut: nothing that happens from then on leaves the process.
    pub(crate) fn is_dead(&self) -> bool {
        self.state.lock().dead
    }

    pub(crate) async fn died(&self) {
        while !self.state.lock().dead {
            self.death.notified().await;
        }
    }

    pub(crate) fn answer(&self, ask: &str, value: Value) {
        let before = self.state.lock().answers.insert(ask.to_owned(), value);
        assert_eq!(before, None, "{ask} is asked once");
    }

    pub(crate) fn decide(&self, call: &str, fate: Option<Fate>) {
        let mut state = self.state.lock();
        match fate {
            Some(fate) => drop(state.fates.insert(call.to_owned(), fate)),
            None => *state.retries.entry(call.to_owned()).or_default() += 1,
        }
    }

    pub(crate) fn fates(&self) -> BTreeMap<String, Fate> {
        self.state.lock().fates.clone()
    }

    pub(crate) fn fate(&self, call: &str) -> Option<Fate> {
        self.state.lock().fates.get(call).cloned()
    }

    pub(crate) fn retries(&self, call: &str) -> usize {
        self.state.lock().retries.get(call).copied().unwrap_or(0)
    }

    pub(crate) fn events(&self) -> Vec<StoredEvent> {
        self.state.lock().events.clone()
    }

    /// Effects, in their order.
    pub(crate) fn paid(&self) -> Vec<(String, Value)> {
        self.state.lock().paid.clone()
    }

    pub(crate) fn looked(&self) -> Vec<(String, Value)> {
        self.state.lock().looked.clone()
    }

    /// Requests to models; one that was sent again because its reply was lost counts once.
    pub(crate) fn turns_asked(&self) -> Vec<String> {
        let mut asked = self.state.lock().asked.clone();
        asked.dedup();
        asked
    }

    pub(crate) fn requests(&self) -> usize {
        self.state.lock().asked.len()
    }

    /// A request reaches a model's server.
    pub(crate) async fn ask(&self, request: String) {
        let is_over = {
            let mut state = self.state.lock();
            if !state.dead {
                state.asked.push(request);
            }
            let is_last = matches!(state.cut, Some(Cut::InModel(after)) if state.is_behind(after));
            self.end(&mut state, is_last)
        };
        self.hang(is_over).await;
    }

    /// A call reaches a tool.
    pub(crate) async fn act(&self, call: &str, what: Value, has_effect: bool) {
        let is_over = {
            let mut state = self.state.lock();
            if !state.dead {
                let acts = if has_effect { &mut state.paid } else { &mut state.looked };
                acts.push((call.to_owned(), what));
            }
            let is_last =
                has_effect && matches!(state.cut, Some(Cut::InTool(after)) if state.is_behind(after));
            self.end(&mut state, is_last)
        };
        self.hang(is_over).await;
    }

    fn end(&self, state: &mut State, is_last: bool) -> bool {
        if is_last && !state.dead {
            state.dead = true;
            self.death.notify_one();
        }
        state.dead
    }

    async fn hang(&self, is_over: bool) {
        if is_over {
            pending::<()>().await;
        }
    }
}

impl State {
    fn is_behind(&self, events: u64) -> bool {
        self.events.len() as u64 >= self.begun + events
    }
}

impl EventSink for World {
    fn record(&self, drafts: &mut Vec<UnsequencedEvent>) {
        let mut state = self.state.lock();
        for UnsequencedEvent { place, body, record } in drafts.drain(..) {
            if state.dead {
                continue;
            }
            let seq = state.events.len() as u64 + 1;
            let event = TraceEvent::new(self.run.clone(), seq, Timestamp::default(), place, body);
            state.events.push(StoredEvent { event, record: record.map(|record| *record) });
            let is_last = matches!(state.cut, Some(Cut::Events(count)) if state.is_behind(count.max(1)));
            self.end(&mut state, is_last);
        }
    }

    fn new_span(&self) -> u64 {
        let mut state = self.state.lock();
        state.spans += 1;
        state.spans
    }

    fn run(&self) -> &RunId {
        &self.run
    }

    fn persister(&self) -> Option<&dyn EventPersister> {
        Some(self)
    }
}

impl EventPersister for World {
    fn durable(&self) -> Durable {
        if self.state.lock().dead { Box::pin(pending()) } else { Box::pin(ready(Ok(()))) }
    }

    fn is_behind(&self) -> bool {
        false
    }

    fn fault(&self) -> Option<KeepError> {
        None
    }

    fn snapshot(&self, _: String) {}

    fn answered(&self, _: &str, _: &Value) {}
}

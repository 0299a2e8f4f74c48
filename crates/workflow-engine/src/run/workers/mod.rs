//! Running nodes: their tasks, permits and further attempts.

pub(crate) mod attempt;
pub(crate) mod failure;
pub(crate) mod flights;
pub(crate) mod mailbox;
pub(crate) mod permits;

use std::sync::Arc;

use agent_types::{EventLocation, Sleep};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, JoinError, JoinSet};

use self::attempt::Work;
use self::failure::Ended;
use self::flights::Flights;
use self::mailbox::OpenStream;
use self::permits::{Claim, Permits};
use super::graph_state::frame::Key;
use crate::hash::NumberMap;
use crate::node::Node;
use crate::outputs::Outputs;

/// A node whose code has been called.
pub(crate) struct Start {
    /// Location of the events of the start.
    pub(crate) place: EventLocation,
    pub(crate) claim: Claim,
    /// Its permit is returned by its threads.
    pub(crate) blocking: bool,
    pub(crate) streams: Option<Arc<[OpenStream]>>,
    /// The attempt that runs.
    pub(crate) attempt: u32,
    /// Attempts that ended with a process and count against no limit.
    pub(crate) interrupted: u32,
}

/// A node whose future is in a task of its own.
struct Active {
    start: Start,
    abort: AbortHandle,
    /// It gave its permit back while it waits for something of this run.
    paused: bool,
}

/// A node that resumes where it was.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Restart {
    /// The attempt that runs next.
    pub(crate) attempt: u32,
    /// Attempts among those before that no limit of attempts counts.
    pub(crate) interrupted: u32,
    /// It has had its start, with this span: it only asked and is answered now, or its code was not called.
    pub(crate) span: Option<u64>,
    /// Its code has been called: what is decided before that stands.
    pub(crate) called: bool,
}

/// A running node as a checkpoint has it.
#[derive(Serialize, Deserialize)]
pub(crate) struct SavedWork {
    pub(crate) key: Key,
    pub(crate) span: u64,
    pub(crate) attempt: u32,
    pub(crate) interrupted: u32,
}

/// Result of a task.
pub(crate) enum Report {
    /// A node has ended.
    Node(Key, Ended),
    /// A time is over, for a container.
    Timer(Key, Timer),
    /// Equal work elsewhere has ended: with a result and where it was made, or without.
    Flight(Key, Option<(Arc<Outputs>, Arc<str>)>),
}

/// Purpose of a timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timer {
    /// One attempt.
    Attempt(u32),
    /// All attempts.
    Total,
    /// Backoff before the next attempt.
    Retry,
}

/// Tasks and permits of the running nodes.
pub(crate) struct Workers<'p> {
    /// The code of each type of node.
    nodes: &'p [Arc<dyn Node>],
    tasks: JoinSet<Report>,
    active: NumberMap<Key, Active>,
    permits: Permits,
    flights: Flights,
    /// Nodes that resume where they were.
    restarts: NumberMap<Key, Restart>,
}

impl<'p> Workers<'p> {
    pub(crate) fn new(nodes: &'p [Arc<dyn Node>], permits: Permits, flights: Flights) -> Self {
        Self {
            nodes,
            tasks: JoinSet::new(),
            active: NumberMap::default(),
            permits,
            flights,
            restarts: NumberMap::default(),
        }
    }

    /// The code of a type of node.
    pub(crate) fn code(&self, node_type: u32) -> &'p Arc<dyn Node> {
        &self.nodes[node_type as usize]
    }

    pub(crate) fn permits(&mut self) -> &mut Permits {
        &mut self.permits
    }

    pub(crate) fn flights(&mut self) -> &mut Flights {
        &mut self.flights
    }

    /// Gives a started node a task of its own.
    pub(crate) fn spawn(&mut self, key: Key, start: Start, work: Work) {
        let abort = self.tasks.spawn(async move { Report::Node(key, work.await) });
        self.active.insert(key, Active { start, abort, paused: false });
    }

    /// Waits for the result of equal work elsewhere.
    pub(crate) fn spawn_flight(
        &mut self,
        key: Key,
        from: Arc<str>,
        landing: oneshot::Receiver<Option<Arc<Outputs>>>,
    ) {
        let abort = self.tasks.spawn(async move {
            let outputs = landing.await.ok().flatten();
            Report::Flight(key, outputs.map(|outputs| (outputs, from)))
        });
        let start = Start {
            place: EventLocation::default(),
            claim: Claim::NONE,
            blocking: false,
            streams: None,
            attempt: 1,
            interrupted: 0,
        };
        self.active.insert(key, Active { start, abort, paused: false });
    }

    pub(crate) fn spawn_timer(&mut self, key: Key, timer: Timer, sleep: Sleep) -> AbortHandle {
        self.tasks.spawn(async move {
            sleep.await;
            Report::Timer(key, timer)
        })
    }

    /// A task is done: takes its node and returns the permit. None if the node was settled by something else.
    pub(crate) fn finish(&mut self, key: Key) -> Option<Start> {
        let Active { start, paused, .. } = self.active.remove(&key)?;
        if !paused && !start.blocking {
            self.permits.leave(start.claim);
        }
        Some(start)
    }

    /// Stops the task of a node that has one; returns the span of its start.
    pub(crate) fn stop(&mut self, key: Key) -> Option<u64> {
        self.active.get(&key)?.abort.abort();
        self.finish(key).map(|start| start.place.span)
    }

    /// The node whose task panicked outside of the node's own code, and its attempt.
    pub(crate) fn lost(&self, error: &JoinError) -> Option<(Key, u32)> {
        let (key, active) = self.active.iter().find(|(_, active)| active.abort.id() == error.id())?;
        error.is_panic().then_some((*key, active.start.attempt))
    }

    /// A node that waits for something of this run gives its permit to others.
    pub(crate) fn pause(&mut self, key: Key) {
        if let Some(active) = self.active.get_mut(&key)
            && !std::mem::replace(&mut active.paused, true)
        {
            self.permits.leave(active.start.claim);
        }
    }

    /// The node continues, with a permit even if none is free.
    pub(crate) fn resume(&mut self, key: Key) {
        if let Some(active) = self.active.get_mut(&key)
            && std::mem::replace(&mut active.paused, false)
        {
            self.permits.take(active.start.claim);
        }
    }

    /// Notes which attempt of a node comes next; returns the streams that it writes.
    pub(crate) fn note_attempt(&mut self, key: Key, attempt: u32) -> Option<Arc<[OpenStream]>> {
        let active = self.active.get_mut(&key)?;
        active.start.attempt = attempt;
        active.start.streams.clone()
    }

    pub(crate) fn is_active(&self, key: Key) -> bool {
        self.active.contains_key(&key)
    }

    /// Returns `true` if every running node waits for something of this run.
    pub(crate) fn all_paused(&self) -> bool {
        self.active.values().all(|active| active.paused)
    }

    /// Returns `true` if there is neither a task nor a node that waits for a permit.
    pub(crate) fn is_idle(&self) -> bool {
        self.tasks.is_empty() && self.active.is_empty() && !self.permits.has_parked()
    }

    pub(crate) fn has_tasks(&self) -> bool {
        !self.tasks.is_empty()
    }

    /// Waits for the next task that is done; `None` without tasks.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn join_next(&mut self) -> Option<Result<Report, JoinError>> {
        self.tasks.join_next().await
    }

    /// Aborts all tasks and waits until they have stopped.
    pub(crate) async fn shutdown(&mut self) {
        self.tasks.shutdown().await;
    }

    pub(crate) fn restart(&mut self, key: Key, restart: Restart) {
        self.restarts.insert(key, restart);
    }

    /// Returns `true` if a node resumes whose code had been called.
    pub(crate) fn was_called(&self, key: Key) -> bool {
        !self.restarts.is_empty() && self.restarts.get(&key).is_some_and(|restart| restart.called)
    }

    pub(crate) fn take_restart(&mut self, key: Key) -> Option<Restart> {
        if self.restarts.is_empty() { None } else { self.restarts.remove(&key) }
    }

    /// The nodes with a task among those that are running, as a checkpoint has them.
    pub(crate) fn to_saved(&self, is_running: impl Fn(Key) -> bool) -> Vec<SavedWork> {
        let running = self.active.iter().filter(|(key, _)| is_running(**key));
        let saved = running.map(|(key, Active { start, .. })| SavedWork {
            key: *key,
            span: start.place.span,
            attempt: start.attempt,
            interrupted: start.interrupted,
        });
        saved.collect()
    }
}

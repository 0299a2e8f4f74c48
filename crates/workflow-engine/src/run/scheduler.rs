//! The scheduler, sole owner of a run's state: it decides which node is next, numbers nothing itself, and emits every event once.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use agent_types::{
    AskSummary, Durable, EventBody, EventLocation, EventPersister, NodeErrorKind, ReplayData, StoredEvent,
    UnsequencedEvent, Usage,
};
use run_journal::Journal;
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, JoinSet};

use crate::cache::{Cache, Lead};
use crate::error::RunError;
use crate::hash::{NumberMap, NumberSet};
use crate::outputs::Outputs;
use crate::plan::{PlanInner, SlotIx};
use crate::run::graph_state::frame::{Frame, Key, NodeState, Standing};
use crate::run::lifecycle::Ending;
use crate::run::options::{OnWaiting, RunOptions};
use crate::run::outcome::RunOutcome;
use crate::run::resume::inner::Inner;
use crate::run::resume::replay_index::ReplayIndex;
use crate::run::resume::restart::Restart;
use crate::run::shared::RunShared;
use crate::run::workers::attempt::{Ended, Failure};
use crate::run::workers::message::OpenStream;
use crate::run::workers::permits::{Claim, Limits};
use crate::run::zones::ZoneRun;
use crate::run::zones::container::Container;

/// Events that are handed on together.
const BATCH: usize = 256;
/// Steps after which others get a turn on this thread.
const STEPS: usize = 256;

/// A node whose future is in a task of its own.
pub(super) struct Active {
    pub(super) abort: AbortHandle,
    pub(super) path: Arc<str>,
    pub(super) span: u64,
    pub(super) claim: Claim,
    /// Its room is freed by its threads.
    pub(super) blocking: bool,
    pub(super) streams: Option<Arc<[OpenStream]>>,
    /// It gave its room back while it waits for something of this run.
    pub(super) paused: bool,
    /// The attempt that runs.
    pub(super) attempt: u32,
    /// Attempts that ended with a process and count against no limit.
    pub(super) interrupted: u32,
}

/// Result of a task.
pub(super) enum Report {
    /// A node has ended.
    Node(Key, Ended),
    /// A time is over, for a container.
    Timer(Key, Timer),
    /// Equal work elsewhere has ended: with a result and where it was made, or without.
    Flight(Key, Option<(Arc<Outputs>, Arc<str>)>),
}

/// Purpose of a timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Timer {
    /// One attempt.
    Attempt(u32),
    /// All attempts.
    Total,
    /// Backoff before the next attempt.
    Retry,
}

/// An open question.
pub(super) struct OpenAsk {
    pub(super) key: Key,
    pub(super) summary: AskSummary,
    /// Reply channel to the waiting node; `None` if the node has not run since the run was resumed.
    pub(super) reply: Option<oneshot::Sender<Value>>,
    /// It is about the node's effect, which may have happened.
    pub(super) unknown_effect: bool,
    pub(super) span: u64,
    pub(super) attempt: u32,
}

/// A node that waits for a lazy input.
pub(super) struct Puller {
    pub(super) key: Key,
    pub(super) reply: oneshot::Sender<Option<Arc<Value>>>,
}

pub(super) struct Scheduler {
    pub(super) shared: Arc<RunShared>,
    pub(super) options: RunOptions,
    pub(super) frames: Vec<Option<Box<Frame>>>,
    pub(super) free: Vec<u32>,
    pub(super) ready: VecDeque<Key>,
    pub(super) skips: VecDeque<Key>,
    /// Frames all of whose nodes are settled.
    pub(super) complete: VecDeque<Key>,
    pub(super) tasks: JoinSet<Report>,
    pub(super) active: NumberMap<Key, Active>,
    pub(super) zones: NumberMap<Key, Box<ZoneRun>>,
    /// The frame of a group that runs as one node, by that node.
    pub(super) calls: NumberMap<Key, u32>,
    pub(super) containers: NumberMap<Key, Container>,
    /// Nodes whose result others may wait for.
    pub(super) leads: NumberMap<Key, Lead>,
    /// Nodes that were to be cached and cannot be.
    pub(super) unkeyable: NumberSet<Key>,
    pub(super) cache: Arc<Cache>,
    pub(super) pullers: NumberMap<(u32, SlotIx), Vec<Puller>>,
    pub(super) asks: Vec<OpenAsk>,
    pub(super) limits: Limits,
    pub(super) causes: Vec<Arc<str>>,
    pub(super) drafts: Vec<UnsequencedEvent>,
    pub(super) arguments: Vec<Arc<Value>>,
    pub(super) ending: Option<Ending>,
    pub(super) first_error: Option<RunError>,
    pub(super) usage: Usage,
    pub(super) starts: u64,
    pub(super) was_waiting: bool,
    /// Events are persisted, so that the run can be resumed.
    pub(super) keeps: bool,
    /// Index of the log during replay.
    pub(super) replay: Option<Box<ReplayIndex>>,
    /// Rest of the log of a run that was about to end.
    pub(super) pending_log: Option<Journal>,
    /// Nodes that resume where they were.
    pub(super) restarts: NumberMap<Key, Restart>,
    /// Answers that came while no node waited for them.
    pub(super) answers: HashMap<String, Value>,
    /// Questions that a node has put since it started.
    pub(super) asked: NumberMap<Key, u32>,
    /// Usage of running nodes, where events are persisted.
    pub(super) used: NumberMap<Key, Usage>,
    /// Events that running nodes emitted through their sinks.
    pub(super) inner: NumberMap<Key, Inner>,
    /// Events that resuming nodes emitted through their sinks before the process ended.
    pub(super) pasts: NumberMap<Key, Vec<StoredEvent>>,
    /// Events since the last snapshot, and how large that was.
    pub(super) since_snapshot: (usize, usize),
    pub(super) snapshot_due: bool,
    /// Buffer for building texts.
    pub(super) scratch: RefCell<String>,
}

/// Reason why the scheduler woke.
enum Woken {
    Cancelled,
    Deadline,
    Posted,
    Task(Option<Result<Report, tokio::task::JoinError>>),
}

impl Scheduler {
    pub(super) async fn drive(mut self) -> RunOutcome {
        let shared = Arc::clone(&self.shared);
        let plan = &*shared.plan;
        match self.options.resume.take() {
            Some(log) => {
                if let Err(error) = self.replay_log(plan, *log) {
                    self.ending = Some(Ending::Failed(*error));
                }
            }
            None => self.begin(plan),
        }
        let mut deadline = self.options.deadline.map(|limit| shared.clock.sleep(limit));
        while self.ending.is_none() {
            let mut steps = 0;
            while self.ending.is_none() && self.step(plan) {
                steps += 1;
                if self.snapshot_due {
                    self.take_snapshot();
                }
                if steps % STEPS == 0 {
                    self.flush();
                    if let Some(caught_up) = self.keeper_is_behind() {
                        // A fault is seen with the next events.
                        let _ = caught_up.await;
                    }
                    if shared.cancel.is_cancelled() {
                        self.ending = Some(Ending::Cancelled);
                    }
                    tokio::task::yield_now().await;
                    self.read_messages(plan);
                }
            }
            if self.ending.is_none() && shared.cancel.is_cancelled() {
                self.ending = Some(Ending::Cancelled);
            }
            if self.ending.is_some() || self.nothing_left(plan) {
                break;
            }
            self.flush();
            let woken = tokio::select! {
                biased;
                () = shared.cancel.cancelled() => Woken::Cancelled,
                () = shared.inbox.filled() => Woken::Posted,
                task = self.tasks.join_next(), if !self.tasks.is_empty() => Woken::Task(task),
                () = until(&mut deadline) => Woken::Deadline,
            };
            self.wake(plan, woken);
        }
        self.end(plan).await
    }

    fn wake(&mut self, plan: &PlanInner, woken: Woken) {
        match woken {
            Woken::Cancelled => self.ending = Some(Ending::Cancelled),
            Woken::Deadline => self.ending = Some(Ending::Deadline),
            Woken::Posted => self.read_messages(plan),
            Woken::Task(task) => {
                // What a node said before it ended comes before its end.
                self.read_messages(plan);
                match task {
                    Some(Ok(report)) => self.returned(plan, report),
                    Some(Err(error)) => self.lost(plan, &error),
                    None => {}
                }
            }
        }
    }

    /// A task panicked outside of the node's own code, as when its future is dropped: the node has failed.
    fn lost(&mut self, plan: &PlanInner, error: &tokio::task::JoinError) {
        let lost = self.active.iter().find(|(_, active)| active.abort.id() == error.id());
        let Some(key) = lost.map(|(key, _)| *key).filter(|_| error.is_panic()) else { return };
        let attempt = self.active.get(&key).map_or(1, |active| active.attempt);
        let failure = Failure::new(NodeErrorKind::Panic, error.to_string());
        let ended = Ended { result: Err(Failure { attempt, ..failure }), attempt };
        self.returned(plan, Report::Node(key, ended));
    }

    /// A task is done: its result counts unless the node was settled by something else.
    fn returned(&mut self, plan: &PlanInner, report: Report) {
        match report {
            Report::Node(key, ended) => {
                let Some(active) = self.active.remove(&key) else { return };
                if !active.paused && !active.blocking {
                    self.limits.leave(active.claim);
                }
                self.ended(plan, key, (active.path, active.span), active.streams.as_deref(), ended);
            }
            Report::Timer(key, timer) => self.timer_fired(plan, key, timer),
            Report::Flight(key, landed) => self.landed(plan, key, landed),
        }
    }

    /// One piece of work that needs no waiting; false if there is none.
    fn step(&mut self, plan: &PlanInner) -> bool {
        if let Some(key) = self.skips.pop_front() {
            self.skip_queued(plan, key);
        } else if let Some(key) = self.complete.pop_front() {
            self.frame_complete(plan, key);
        } else if let Some((claim, parked)) = self.limits.unpark() {
            if self.is_queued(parked.key) {
                self.enter(plan, parked.key, parked.inputs, claim);
            } else {
                self.limits.leave(claim);
            }
        } else if let Some(key) = self.ready.pop_front() {
            if self.is_queued(key) {
                self.consider(plan, key);
            }
        } else {
            return false;
        }
        true
    }

    /// Returns `true` if the run is over, or waits for answers only, and then sets its ending.
    fn nothing_left(&mut self, _plan: &PlanInner) -> bool {
        let waiting = !self.asks.is_empty() && self.active.values().all(|active| active.paused);
        if waiting && self.pullers.is_empty() {
            self.note_waiting();
            if self.options.on_waiting == OnWaiting::End {
                self.ending = Some(Ending::Waiting);
                return true;
            }
            return false;
        }
        if !self.tasks.is_empty() || !self.active.is_empty() {
            return false;
        }
        if self.limits.has_parked() || self.has_held_zone() {
            // Only threads that were given up hold the room, or read; they say when it is free.
            return false;
        }
        // The root frame would have ended the run if it were complete.
        self.ending = Some(Ending::Stalled);
        true
    }

    fn note_waiting(&mut self) {
        if !std::mem::replace(&mut self.was_waiting, true) && !self.options.nested {
            let asks = self.asks.iter().map(|ask| ask.summary.clone()).collect();
            self.emit(EventLocation::default(), EventBody::RunWaiting { exit: None, asks });
        }
    }

    pub(super) fn emit(&mut self, place: EventLocation, body: EventBody) {
        self.emit_with(place, body, None);
    }

    /// Tells a fact, with what a resumed run must know besides.
    pub(super) fn emit_with(
        &mut self,
        place: EventLocation,
        body: EventBody,
        record: Option<Box<ReplayData>>,
    ) {
        let draft = UnsequencedEvent { place, body, record };
        if let Some(replay) = &mut self.replay {
            return replay.journal.emit(draft);
        }
        self.drafts.push(draft);
        if self.drafts.len() >= BATCH {
            self.flush();
        }
    }

    pub(super) fn flush(&mut self) {
        if self.drafts.is_empty() {
            return;
        }
        self.since_snapshot.0 += self.drafts.len();
        self.shared.sink.record(&mut self.drafts);
        if self.keeps
            && self.ending.is_none()
            && let Some(fault) = self.shared.sink.keeper().and_then(EventPersister::fault)
        {
            self.ending = Some(Ending::Failed(RunError::new(fault.code, fault.message)));
        }
    }

    /// Events are made faster than they can be written: others get their turn meanwhile.
    fn keeper_is_behind(&self) -> Option<Durable> {
        self.shared.sink.keeper().filter(|keeper| keeper.is_behind()).map(EventPersister::durable)
    }

    /// A span for what is about to start: the one that the log has for it, or a new one.
    pub(super) fn span_for(&self, place: &EventLocation, body: &EventBody) -> u64 {
        let log = self.replay.as_ref().map(|replay| &replay.journal).or(self.pending_log.as_ref());
        let recorded = log.and_then(|log| log.peek(place, body));
        recorded.map_or_else(|| self.shared.sink.new_span(), |recorded| recorded.span)
    }

    pub(super) fn frame(&self, key: Key) -> Option<&Frame> {
        self.frames.get(key.frame as usize)?.as_deref().filter(|frame| frame.generation == key.generation)
    }

    pub(super) fn frame_mut(&mut self, key: Key) -> Option<&mut Frame> {
        self.frames
            .get_mut(key.frame as usize)?
            .as_deref_mut()
            .filter(|frame| frame.generation == key.generation)
    }

    pub(super) fn is_queued(&self, key: Key) -> bool {
        self.frame(key).is_some_and(|frame| frame.state[key.node as usize] == NodeState::Queued)
    }

    pub(super) fn is_running(&self, key: Key) -> bool {
        self.frame(key).is_some_and(|frame| frame.state[key.node as usize] == NodeState::Running)
    }

    /// A frame for a scope, made anew or used again.
    pub(super) fn add_frame(&mut self, plan: &PlanInner, standing: Standing, needed: &[bool]) -> u32 {
        let scope = &plan.scopes[standing.scope as usize];
        let prefix = self.replay.is_some().then(|| Arc::clone(&standing.prefix));
        let at = if let Some(at) = self.free.pop()
            && let Some(frame) = self.frames[at as usize].as_deref_mut()
        {
            frame.generation = frame.generation.wrapping_add(1);
            frame.reset(standing, scope, needed);
            at
        } else {
            self.frames.push(Some(Box::new(Frame::new(standing, scope, needed))));
            u32::try_from(self.frames.len() - 1).unwrap_or(u32::MAX)
        };
        if let (Some(replay), Some(prefix)) = (&mut self.replay, prefix) {
            replay.frames.insert(prefix, at);
        }
        at
    }

    /// Nothing of the frame counts any more.
    pub(super) fn drop_frame(&mut self, at: u32) {
        if let Some(frame) = self.frames[at as usize].as_deref_mut() {
            frame.generation = frame.generation.wrapping_add(1);
            frame.slots.clear();
            if let Some(replay) = &mut self.replay {
                replay.frames.remove(&frame.prefix);
            }
            self.free.push(at);
        }
    }

    pub(super) fn cause(&mut self, path: Arc<str>) -> u32 {
        if self.causes.last().is_none_or(|last| *last != path) {
            self.causes.push(path);
        }
        u32::try_from(self.causes.len() - 1).unwrap_or(u32::MAX)
    }

    /// Parts as one text, with a single allocation.
    pub(super) fn text(&self, parts: &[&str]) -> Arc<str> {
        let mut scratch = self.scratch.borrow_mut();
        scratch.clear();
        scratch.extend(parts.iter().copied());
        Arc::from(scratch.as_str())
    }

    /// The path of a node in this run.
    pub(super) fn path(&self, plan: &PlanInner, key: Key) -> Arc<str> {
        let Some(frame) = self.frames.get(key.frame as usize).and_then(Option::as_deref) else {
            return Arc::from("");
        };
        let path = &plan.scopes[frame.scope as usize].nodes[key.node as usize].path;
        if frame.prefix.is_empty() { Arc::clone(path) } else { self.text(&[&frame.prefix, path]) }
    }
}

/// Ends when the deadline has passed; never without one.
async fn until(deadline: &mut Option<agent_types::Sleep>) {
    match deadline {
        Some(sleep) => sleep.await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod stalled;

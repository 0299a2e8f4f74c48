//! Conversations: one run at a time is in each, and what is kept of them.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use agent_runtime::{AgentState, Exchange};
use agent_types::{EventSink, Recorder, RunId};
use executors_flow_system::{Author, Entry, exchanges, thread_key};
use futures::future::{Either, select};
use parking_lot::{Mutex, MutexGuard};
use run_store::{RunFilter, RunPhase, StoreError};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use weft_project::Project;

use super::LocalRuns;
use super::sessions::is_timer;
use crate::error::RunsError;
use crate::plan::AgentPlan;
use crate::request::{ThreadAction, ThreadInfo, ThreadName};

/// Conversations whose state is kept in memory at most.
const MAX_STATES: usize = 256;

/// Messages that wait in one conversation at most.
pub(super) const MAX_QUEUE: usize = 16;

/// The conversations that are held or waited for.
#[derive(Debug, Clone, Default)]
pub(super) struct Threads {
    held: Arc<Mutex<HashMap<ThreadName, ThreadQueue>>>,
    /// States of the threads; the tools that a model was shown stay unchanged.
    states: Arc<Mutex<HashMap<ThreadName, AgentState>>>,
}

/// A conversation that is held, or that a parked message waits in.
#[derive(Debug, Default)]
struct ThreadQueue {
    /// `true` while a run is in it.
    is_taken: bool,
    /// Cancelled when the run that is in it leaves.
    over: CancellationToken,
    /// Messages that wait, in order.
    queue: VecDeque<oneshot::Sender<ThreadHold>>,
}

/// The right to be in a conversation, until it is dropped.
#[derive(Debug)]
pub(super) struct ThreadHold {
    threads: Threads,
    pub(super) name: ThreadName,
    is_parked: bool,
}

/// A place in the queue of a conversation.
#[derive(Debug)]
pub(super) struct Ticket {
    pub(super) name: ThreadName,
    /// Messages before it, the one that is answered included.
    pub(super) place: usize,
    threads: Threads,
    turn: oneshot::Receiver<ThreadHold>,
}

/// End of a queue at which a message waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QueueEnd {
    Back,
    Front,
}

/// Result of joining a conversation.
pub(super) enum Joined {
    Taken(ThreadHold),
    Queued(Ticket),
    /// As many messages wait as may.
    Full,
}

impl Threads {
    fn held(&self) -> MutexGuard<'_, HashMap<ThreadName, ThreadQueue>> {
        // Nothing that can panic runs under this lock.
        self.held.lock()
    }

    fn states(&self) -> MutexGuard<'_, HashMap<ThreadName, AgentState>> {
        // Nothing that can panic runs under this lock.
        self.states.lock()
    }

    fn hold(&self, name: &ThreadName) -> ThreadHold {
        ThreadHold { threads: self.clone(), name: name.clone(), is_parked: false }
    }

    /// Holds a conversation; where it is held, gives what is cancelled when that run leaves.
    pub(super) fn take(&self, name: &ThreadName) -> Result<ThreadHold, CancellationToken> {
        let mut held = self.held();
        let place = held.entry(name.clone()).or_default();
        if place.is_taken {
            return Err(place.over.clone());
        }
        (place.is_taken, place.over) = (true, CancellationToken::new());
        Ok(self.hold(name))
    }

    /// Holds a conversation, or waits in its queue.
    pub(super) fn join(&self, name: &ThreadName, end: QueueEnd, limit: usize) -> Joined {
        let mut held = self.held();
        let place = held.entry(name.clone()).or_default();
        if !place.is_taken && place.queue.is_empty() {
            (place.is_taken, place.over) = (true, CancellationToken::new());
            return Joined::Taken(self.hold(name));
        }
        if place.queue.len() >= limit {
            return Joined::Full;
        }
        Joined::Queued(place.queued(self, name, end))
    }

    /// Holds a conversation, or waits in its queue if that has room.
    pub(super) fn join_as_user(&self, name: &ThreadName, end: QueueEnd) -> Joined {
        self.join(name, end, MAX_QUEUE)
    }

    /// Waits for a conversation as long as it takes.
    pub(super) async fn wait(&self, name: &ThreadName) -> ThreadHold {
        loop {
            match self.join(name, QueueEnd::Back, usize::MAX) {
                Joined::Taken(hold) => return hold,
                Joined::Queued(ticket) => {
                    if let Ok(hold) = ticket.turn.await {
                        return hold;
                    }
                }
                Joined::Full => {}
            }
        }
    }

    /// Gives a conversation to the message that has waited longest, if no run is in it.
    fn pass_on(&self, name: &ThreadName) {
        let mut held = self.held();
        let Some(place) = held.get_mut(name) else { return };
        if place.is_taken {
            return;
        }
        let Some(turn) = place.queue.pop_front() else {
            held.remove(name);
            return;
        };
        (place.is_taken, place.over) = (true, CancellationToken::new());
        drop(held);
        // Where the waiter is gone, the hold is dropped, and the next one has its turn.
        let _ = turn.send(self.hold(name));
    }

    /// Remembers the state in which a run left a conversation.
    pub(super) fn remember(&self, name: &ThreadName, state: AgentState) {
        let mut states = self.states();
        if states.len() >= MAX_STATES {
            states.clear();
        }
        states.insert(name.clone(), state);
    }

    /// The state of a conversation with this history.
    pub(super) fn state(&self, name: Option<&ThreadName>, history: Vec<Exchange>) -> AgentState {
        let known = name.and_then(|name| self.states().get(name).cloned());
        known.filter(|state| state.history() == history).unwrap_or_else(|| AgentState::from_history(history))
    }
}

impl ThreadQueue {
    fn queued(&mut self, threads: &Threads, name: &ThreadName, end: QueueEnd) -> Ticket {
        let (send, turn) = oneshot::channel();
        match end {
            QueueEnd::Back => self.queue.push_back(send),
            QueueEnd::Front => self.queue.push_front(send),
        }
        let before = if end == QueueEnd::Back { self.queue.len() } else { 1 };
        Ticket { name: name.clone(), place: before, threads: threads.clone(), turn }
    }
}

impl Ticket {
    /// Waits for the turn; `None` where it does not come before `patience` ends.
    ///
    /// # Cancel safety
    /// The place is kept.
    pub(super) async fn turn(&mut self, patience: impl Future<Output = ()>) -> Option<ThreadHold> {
        match select(&mut self.turn, std::pin::pin!(patience)).await {
            Either::Left((hold, _)) => hold.ok(),
            Either::Right(((), _)) => None,
        }
    }

    /// Asks for the turn where no run is in the conversation.
    pub(super) fn ask(&self) {
        self.threads.pass_on(&self.name);
    }
}

impl ThreadHold {
    /// Leaves the conversation to the run of it that waits, and stays the first in its queue.
    pub(super) fn park(mut self) -> Ticket {
        self.is_parked = true;
        let mut held = self.threads.held();
        let place = held.entry(self.name.clone()).or_default();
        place.is_taken = false;
        place.over.cancel();
        place.queued(&self.threads, &self.name, QueueEnd::Front)
    }
}

impl Drop for ThreadHold {
    fn drop(&mut self) {
        if self.is_parked {
            return;
        }
        if let Some(place) = self.threads.held().get_mut(&self.name) {
            place.is_taken = false;
            place.over.cancel();
        }
        self.threads.pass_on(&self.name);
    }
}

impl LocalRuns {
    /// Holds a conversation; a run in it that is about to be over is waited for.
    pub(super) async fn take_thread(&self, name: &ThreadName) -> Result<ThreadHold, RunsError> {
        loop {
            let over = match self.0.threads.take(name) {
                Ok(hold) => return Ok(hold),
                Err(over) => over,
            };
            if !self.nearly_over(&over).await {
                return Err(RunsError::ThreadBusy { run: self.in_thread(name).map(|run| run.to_string()) });
            }
        }
    }

    /// The run that executes in a conversation.
    pub(super) fn in_thread(&self, name: &ThreadName) -> Option<RunId> {
        let live = self.live();
        let mut of_thread = live.iter().filter(|(_, live)| live.thread.as_ref() == Some(name));
        of_thread.find(|(_, live)| !live.is_queued.load(Ordering::Relaxed)).map(|(run, _)| run.clone())
    }

    pub(super) async fn thread_info(
        &self,
        name: &ThreadName,
        action: ThreadAction,
    ) -> Result<ThreadInfo, RunsError> {
        if action == ThreadAction::Read {
            self.settled(name).await?;
            return self.read_thread(name, false).await;
        }
        let _hold = self.take_thread(name).await?;
        let changed = match action {
            ThreadAction::Compact => self.compact(name).await?,
            ThreadAction::Undo | ThreadAction::Read => {
                let name = name.clone();
                self.with_project(move |project| undo(project, &name)).await?
            }
        };
        self.read_thread(name, changed).await
    }

    /// Waits a little where a run of a conversation has emitted its end, until its text is in the conversation.
    async fn settled(&self, name: &ThreadName) -> Result<(), RunsError> {
        let Some(run) = self.in_thread(name) else { return Ok(()) };
        let Some(over) = self.over(&run) else { return Ok(()) };
        let has_ended = self
            .with_project(move |project| {
                Ok(project.required_store(&run)?.known(&run)?.state.phase.has_ended())
            })
            .await?;
        if has_ended {
            self.nearly_over(&over).await;
        }
        Ok(())
    }

    async fn read_thread(&self, name: &ThreadName, changed: bool) -> Result<ThreadInfo, RunsError> {
        let name = name.clone();
        self.with_project(move |project| {
            if project.flows_agent().ok() != Some(&name.agent) {
                project.agent_file(&name.agent)?;
            }
            Ok(ThreadInfo { entries: entries(project, &name)?, waiting: waiting(project, &name)?, changed })
        })
        .await
    }

    async fn compact(&self, name: &ThreadName) -> Result<bool, RunsError> {
        let (runs, of) = (self.clone(), name.clone());
        let (agent, mut state) = self
            .with_project(move |project| {
                let agent = runs.agent(project, &of.agent)?;
                Ok((agent, runs.0.threads.state(Some(&of), history(project, &of)?)))
            })
            .await?;
        let before = state.history().len();
        let recorder = Recorder::new(RunId::generate(), Arc::clone(&self.0.clock));
        let done = agent.compact(&mut state, recorder as Arc<dyn EventSink>).await?;
        if done {
            let added = state.history().get(before..).unwrap_or_default();
            let added: Vec<Entry> = added.iter().cloned().map(Entry::from).collect();
            let of = name.clone();
            self.with_project(move |project| extend(project, &of, &added)).await?;
            self.0.threads.remember(name, state);
        }
        Ok(done)
    }
}

fn undo(project: &Project, name: &ThreadName) -> Result<bool, RunsError> {
    if let Some(run) = waiting(project, name)? {
        super::cancel::end_cancelled(project, &run)?;
        return Ok(true);
    }
    let entries = entries(project, name)?;
    let last = entries.iter().rposition(is_asked);
    match last {
        Some(last) => cut(project, name, last).map(|()| true),
        None => Ok(false),
    }
}

/// Returns `true` for an entry with which an exchange begins.
fn is_asked(entry: &Entry) -> bool {
    match (&entry.said, &entry.exchange) {
        (Some(said), None) => said.author == Author::User,
        (_, exchange) => matches!(exchange, Some(Exchange::User { .. } | Exchange::Event { .. })),
    }
}

/// Keeps the oldest entries of a conversation only.
pub(super) fn cut(project: &Project, name: &ThreadName, keep: usize) -> Result<(), RunsError> {
    if let Some(store) = project.store()? {
        store.cut_thread(&key_of(name), keep);
    }
    Ok(())
}

/// Keeps the entries of a conversation up to so many exchanges.
pub(super) fn cut_behind(project: &Project, name: &ThreadName, exchanges: usize) -> Result<(), RunsError> {
    let entries = entries(project, name)?;
    let mut places = entries.iter().enumerate().filter(|(_, entry)| entry.exchange.is_some());
    match places.nth(exchanges) {
        Some((at, _)) => cut(project, name, at),
        None => Ok(()),
    }
}

/// Puts what a run has added behind its conversation.
pub(super) fn extend(project: &Project, name: &ThreadName, entries: &[Entry]) -> Result<(), RunsError> {
    if let Some(store) = project.store()? {
        let messages: Vec<Value> = entries.iter().map(Entry::to_value).collect();
        store.add_messages(&key_of(name), &messages);
    }
    Ok(())
}

/// The run of a conversation that waits.
pub(super) fn waiting(project: &Project, name: &ThreadName) -> Result<Option<RunId>, StoreError> {
    let Some(store) = project.store()? else { return Ok(None) };
    let filter = RunFilter { phase: Some(RunPhase::Waiting), limit: Some(1), ..filter_of(name) };
    Ok(store.runs(&filter)?.into_iter().next().map(|record| record.new.run))
}

/// The run of a conversation that was interrupted: it has no end, and no process executes it.
pub(super) fn interrupted(
    runs: &LocalRuns,
    project: &Project,
    name: &ThreadName,
) -> Result<Option<RunId>, StoreError> {
    let Some(store) = project.store()? else { return Ok(None) };
    let filter = RunFilter { phase: Some(RunPhase::Running), ..filter_of(name) };
    let records = store.runs(&filter)?.into_iter().filter(|record| !is_timer(&record.new.plan));
    let mut of_thread = records.map(|record| record.new.run);
    Ok(of_thread.find(|run| !store.is_at_work(run) && runs.over(run).is_none()))
}

/// The newest run of a conversation.
pub(super) fn newest(project: &Project, name: &ThreadName) -> Result<Option<RunId>, StoreError> {
    let Some(store) = project.store()? else { return Ok(None) };
    let filter = RunFilter { limit: Some(1), ..filter_of(name) };
    Ok(store.runs(&filter)?.into_iter().next().map(|record| record.new.run))
}

fn filter_of(name: &ThreadName) -> RunFilter {
    let (agent, thread) = (Some(name.agent.clone()), Some(name.thread.clone()));
    RunFilter { agent, thread, ..RunFilter::default() }
}

/// The conversation before a run: that of its thread without what the run itself has added, else the one that its plan has.
pub(super) fn history_before(
    project: &Project,
    plan: &AgentPlan,
    thread: Option<&str>,
    run: Option<&RunId>,
) -> Result<Vec<Exchange>, RunsError> {
    let Some(thread) = thread else { return Ok(plan.history.clone()) };
    let mut entries = entries(project, &ThreadName::new(&plan.agent, thread))?;
    let Some(run) = run else { return Ok(exchanges(&entries).cloned().collect()) };
    entries.retain(|entry| !entry.is_of(run));
    let before = if plan.queued { usize::MAX } else { plan.before };
    Ok(exchanges(&entries).take(before).cloned().collect())
}

pub(super) fn history(project: &Project, name: &ThreadName) -> Result<Vec<Exchange>, StoreError> {
    Ok(exchanges(&entries(project, name)?).cloned().collect())
}

/// The entries of a conversation.
pub(super) fn entries(project: &Project, name: &ThreadName) -> Result<Vec<Entry>, StoreError> {
    let Some(store) = project.store()? else { return Ok(Vec::new()) };
    Ok(store.messages(&key_of(name))?.into_iter().filter_map(Entry::from_value).collect())
}

fn key_of(name: &ThreadName) -> String {
    thread_key(&name.agent, &name.thread)
}

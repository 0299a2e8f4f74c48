//! Conversations: one run at a time is in each, and what is kept of them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use agent_runtime::{AgentState, Exchange};
use agent_types::{EventSink, Recorder, RunId};
use parking_lot::{Mutex, MutexGuard};
use run_store::{RunFilter, RunPhase, StoreError};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use weft_project::Project;

use super::LocalRuns;
use crate::error::RunsError;
use crate::plan::AgentPlan;
use crate::request::{ThreadAction, ThreadInfo, ThreadName};

/// Conversations whose state is kept in memory at most.
const MAX_STATES: usize = 256;

/// The conversations that are held, each with what is cancelled when it is free again.
#[derive(Debug, Clone, Default)]
pub(super) struct Threads {
    held: Arc<Mutex<HashMap<ThreadName, CancellationToken>>>,
    /// States of the threads; the tools that a model was shown stay unchanged.
    states: Arc<Mutex<HashMap<ThreadName, AgentState>>>,
}

/// The right to be in a conversation, until it is dropped.
#[derive(Debug)]
pub(super) struct ThreadHold {
    threads: Threads,
    pub(super) name: ThreadName,
}

impl Threads {
    fn held(&self) -> MutexGuard<'_, HashMap<ThreadName, CancellationToken>> {
        // Nothing that can panic runs under this lock.
        self.held.lock()
    }

    fn states(&self) -> MutexGuard<'_, HashMap<ThreadName, AgentState>> {
        // Nothing that can panic runs under this lock.
        self.states.lock()
    }

    /// Holds a conversation; where it is held, gives what is cancelled when it is free.
    pub(super) fn take(&self, name: &ThreadName) -> Result<ThreadHold, CancellationToken> {
        match self.held().entry(name.clone()) {
            Entry::Occupied(held) => Err(held.get().clone()),
            Entry::Vacant(place) => {
                place.insert(CancellationToken::new());
                Ok(ThreadHold { threads: self.clone(), name: name.clone() })
            }
        }
    }

    /// Waits for a conversation as long as it takes.
    pub(super) async fn wait(&self, name: &ThreadName) -> ThreadHold {
        loop {
            match self.take(name) {
                Ok(hold) => return hold,
                Err(over) => over.cancelled().await,
            }
        }
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

impl Drop for ThreadHold {
    fn drop(&mut self) {
        let over = self.threads.held().remove(&self.name);
        over.iter().for_each(CancellationToken::cancel);
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
    fn in_thread(&self, name: &ThreadName) -> Option<RunId> {
        let live = self.live();
        live.iter().find(|(_, live)| live.thread.as_ref() == Some(name)).map(|(run, _)| run.clone())
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
            let history = AgentState::from_history(history(project, &name)?).history().to_vec();
            Ok(ThreadInfo { history, waiting: waiting(project, &name)?, changed })
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
            let added = state.history().get(before..).unwrap_or_default().to_vec();
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
    let history = history(project, name)?;
    let last = history
        .iter()
        .rposition(|exchange| matches!(exchange, Exchange::User { .. } | Exchange::Event { .. }));
    match last {
        Some(last) => cut(project, name, last).map(|()| true),
        None => Ok(false),
    }
}

/// Keeps the oldest exchanges of a conversation only.
pub(super) fn cut(project: &Project, name: &ThreadName, keep: usize) -> Result<(), RunsError> {
    if let Some(store) = project.store()? {
        store.cut_thread(&thread_key(name), keep);
    }
    Ok(())
}

/// Puts what a run has added behind its conversation.
pub(super) fn extend(project: &Project, name: &ThreadName, exchanges: &[Exchange]) -> Result<(), RunsError> {
    if let Some(store) = project.store()? {
        let messages: Vec<Value> =
            exchanges.iter().filter_map(|exchange| serde_json::to_value(exchange).ok()).collect();
        store.add_messages(&thread_key(name), &messages);
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
pub(super) fn interrupted(project: &Project, name: &ThreadName) -> Result<Option<RunId>, StoreError> {
    let Some(store) = project.store()? else { return Ok(None) };
    let filter = RunFilter { phase: Some(RunPhase::Running), ..filter_of(name) };
    let mut runs = store.runs(&filter)?.into_iter().map(|record| record.new.run);
    Ok(runs.find(|run| !store.is_at_work(run)))
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

/// The conversation before a run: that of its thread, else the one that its plan has.
pub(super) fn history_before(
    project: &Project,
    plan: &AgentPlan,
    thread: Option<&str>,
) -> Result<Vec<Exchange>, RunsError> {
    match thread {
        Some(thread) => Ok(history(project, &ThreadName::new(&plan.agent, thread))?),
        None => Ok(plan.history.clone()),
    }
}

pub(super) fn history(project: &Project, name: &ThreadName) -> Result<Vec<Exchange>, StoreError> {
    let Some(store) = project.store()? else { return Ok(Vec::new()) };
    let messages = store.messages(&thread_key(name))?;
    Ok(messages.into_iter().filter_map(|message| serde_json::from_value(message).ok()).collect())
}

/// Threads of different agents are different threads.
fn thread_key(name: &ThreadName) -> String {
    // Ids may have a slash of their own, and threads of workflows have a colon.
    let agent = name.agent.replace('%', "%25").replace('/', "%2F").replace(':', "%3A");
    format!("{agent}/{}", name.thread)
}

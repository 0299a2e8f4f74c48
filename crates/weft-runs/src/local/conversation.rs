//! Conversations as they are kept: their entries, and those of their runs that wait or were interrupted.

use std::sync::Arc;

use agent_runtime::Exchange;
use agent_types::{EventSink, Recorder, RunId};
use executors_flow_system::{Author, Entry, exchanges};
use run_store::{RunFilter, RunPhase, RunRecord, Store, StoreError};
use serde_json::Value;
use weft_project::Project;

use super::LocalRuns;
use super::cancel::end_cancelled;
use super::threads::{Rank, RankClass, ThreadHold};
use crate::error::RunsError;
use crate::plan::{AgentPlan, is_timer};
use crate::request::{ThreadAction, ThreadInfo, ThreadName};
use crate::talk::{ChatMessage, SaidBehind, messages_of};

impl LocalRuns {
    /// Reads the messages of a conversation behind its first `seen` entries. One without further ones is not read.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn said_behind(&self, name: &ThreadName, seen: usize) -> Result<SaidBehind, RunsError> {
        let name = name.clone();
        self.with_project(move |project| {
            let nothing = SaidBehind { entries: seen, messages: Vec::new() };
            let Some(store) = project.store()? else { return Ok(nothing) };
            let length = store.thread_length(&name.stored())?;
            if length <= seen {
                return Ok(SaidBehind { entries: length, ..nothing });
            }
            let entries = store.messages(&name.stored())?;
            let (length, numbered) = (entries.len(), entries.into_iter().zip(1..).skip(seen));
            let messages = numbered.flat_map(|(entry, number)| {
                let messages = Entry::from_value(entry).map(|entry| messages_of(&entry)).unwrap_or_default();
                let said = messages.into_iter().filter(ChatMessage::is_said);
                said.map(move |message| (number, message))
            });
            Ok(SaidBehind { messages: messages.collect(), entries: length })
        })
        .await
    }
}

/// Reads or changes a conversation.
pub(super) async fn thread_info(
    runs: &LocalRuns,
    name: &ThreadName,
    action: ThreadAction,
) -> Result<ThreadInfo, RunsError> {
    if action == ThreadAction::Read {
        settled(runs, name).await?;
        return read_thread(runs, name, false).await;
    }
    let _hold = runs.take_thread(name).await?;
    let changed = match action {
        ThreadAction::Compact => compact(runs, name).await?,
        ThreadAction::Undo | ThreadAction::Read => {
            let name = name.clone();
            runs.with_project(move |project| undo(project, &name)).await?
        }
    };
    runs.0.threads.notify_readers(name);
    read_thread(runs, name, changed).await
}

/// Waits a little where a run of a conversation has emitted its end, until its text is in the conversation.
async fn settled(runs: &LocalRuns, name: &ThreadName) -> Result<(), RunsError> {
    let Some(run) = runs.in_thread(name) else { return Ok(()) };
    let Some(over) = runs.over(&run) else { return Ok(()) };
    let has_ended = runs
        .with_project(move |project| Ok(project.required_store(&run)?.known(&run)?.state.phase.has_ended()))
        .await?;
    if has_ended {
        runs.nearly_over(&over).await;
    }
    Ok(())
}

async fn read_thread(runs: &LocalRuns, name: &ThreadName, changed: bool) -> Result<ThreadInfo, RunsError> {
    let name = name.clone();
    runs.with_project(move |project| {
        if project.flows_agent().ok() != Some(&name.agent) {
            project.agent_file(&name.agent)?;
        }
        Ok(ThreadInfo { entries: entries(project, &name)?, waiting: waiting(project, &name)?, changed })
    })
    .await
}

async fn compact(runs: &LocalRuns, name: &ThreadName) -> Result<bool, RunsError> {
    let (own, of) = (runs.clone(), name.clone());
    let (agent, mut state) = runs
        .with_project(move |project| {
            let agent = own.agent(project, &of.agent)?;
            Ok((agent, own.0.threads.state(Some(&of), history(project, &of)?)))
        })
        .await?;
    let before = state.history().len();
    let recorder = Recorder::new(RunId::generate(), Arc::clone(&runs.0.clock));
    let done = agent.compact(&mut state, recorder as Arc<dyn EventSink>).await?;
    if done {
        let added = state.history().get(before..).unwrap_or_default();
        let added: Vec<Entry> = added.iter().cloned().map(Entry::from).collect();
        let of = name.clone();
        runs.with_project(move |project| extend(project, &of, &added)).await?;
        runs.0.threads.remember(name, state);
    }
    Ok(done)
}

fn undo(project: &Project, name: &ThreadName) -> Result<bool, RunsError> {
    if let Some(run) = waiting(project, name)? {
        end_cancelled(project, &run)?;
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
        store.cut_thread(&name.stored(), keep);
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
        store.add_messages(&name.stored(), &messages);
    }
    Ok(())
}

/// The newest run of a conversation that waits.
pub(super) fn waiting(project: &Project, name: &ThreadName) -> Result<Option<RunId>, StoreError> {
    Ok(all_waiting(project, name)?.into_iter().next())
}

/// The runs of a conversation that wait, the newest first.
pub(super) fn all_waiting(project: &Project, name: &ThreadName) -> Result<Vec<RunId>, StoreError> {
    let Some(store) = project.store()? else { return Ok(Vec::new()) };
    let filter = RunFilter { phase: Some(RunPhase::Waiting), ..filter_of(name) };
    Ok(store.runs(&filter)?.into_iter().map(|record| record.new.run).collect())
}

/// The run of a conversation that some process executes.
pub(super) fn executing(project: &Project, name: &ThreadName) -> Result<Option<RunId>, StoreError> {
    let Some(store) = project.store()? else { return Ok(None) };
    let filter = RunFilter { phase: Some(RunPhase::Running), ..filter_of(name) };
    let records = store.runs(&filter)?.into_iter();
    let mut begun = records.filter(|record| rank_of(record).class == RankClass::Begun);
    Ok(begun.find(|record| store.is_at_work(&record.new.run)).map(|record| record.new.run))
}

/// Rank of a recorded run among those of its conversation.
pub(super) fn rank_of(record: &RunRecord) -> Rank {
    let is_set = |name: &str| record.new.plan.get(name) == Some(&true.into());
    // The only event of a message that waits is that it does.
    let has_begun = record.state.phase != RunPhase::Running || !is_set("queued") || record.last_seq > 1;
    let class = match (has_begun, is_set("steers")) {
        (true, _) => RankClass::Begun,
        (false, true) => RankClass::Steers,
        (false, false) => RankClass::Queued,
    };
    Rank { class, order: record.order }
}

/// A run that goes before another one of its conversation.
#[derive(Debug)]
pub(super) enum Ahead {
    /// It waits for an answer.
    Waiting(RunId),
    /// Another process executes it, or will.
    Elsewhere(RunId),
    /// Another process has the conversation.
    Locked,
    /// It has come into the queue of this process just now.
    Here,
    /// Its process has ended. It is resumed by itself, if it is a message of a session or has not begun.
    Interrupted { run: RunId, resumes: bool },
}

impl From<Ahead> for RunsError {
    fn from(ahead: Ahead) -> Self {
        match ahead {
            Ahead::Waiting(run) => Self::RunWaiting { run: run.to_string() },
            Ahead::Elsewhere(run) => Self::ThreadBusy { run: Some(run.to_string()) },
            Ahead::Locked | Ahead::Here => Self::ThreadBusy { run: None },
            Ahead::Interrupted { run, .. } => Self::RunInterrupted { run: run.to_string() },
        }
    }
}

/// The first run of a conversation that has no end and goes before a run of this rank; before any, where there is none yet.
/// Messages that wait in this process are not among them: they have their order here.
fn ahead(
    runs: &LocalRuns,
    project: &Project,
    name: &ThreadName,
    own: Option<(&RunId, Rank)>,
) -> Result<Option<Ahead>, StoreError> {
    let Some(store) = project.store()? else { return Ok(None) };
    for record in open_runs(store, name)? {
        let (run, is_running) = (&record.new.run, record.state.phase == RunPhase::Running);
        let is_behind = own.is_some_and(|(own, rank)| own == run || rank_of(&record) > rank);
        if is_behind || (is_running && (is_timer(&record.new.plan) || runs.over(run).is_some())) {
            continue;
        }
        let run = run.clone();
        if !is_running {
            return Ok(Some(Ahead::Waiting(run)));
        }
        if store.is_at_work(&run) {
            return Ok(Some(Ahead::Elsewhere(run)));
        }
        // It may have ended since it was read, or its process has. One that ended was kept before its lock was free.
        match store.known(&run).map(|record| record.state.phase) {
            Ok(RunPhase::Running) => {
                let resumes = resumes_by_itself(&record) && !runs.0.sessions.has_given_up(&run);
                return Ok(Some(Ahead::Interrupted { run, resumes }));
            }
            Ok(RunPhase::Waiting) => return Ok(Some(Ahead::Waiting(run))),
            Ok(_) | Err(StoreError::UnknownRun { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// The runs of a conversation that have no end, in their order.
pub(super) fn open_runs(store: &Store, name: &ThreadName) -> Result<Vec<RunRecord>, StoreError> {
    let mut open = store.runs(&RunFilter { open: true, ..filter_of(name) })?;
    open.sort_by_key(rank_of);
    Ok(open)
}

/// A conversation that is held in this process, and perhaps among all.
pub(super) enum Entered {
    Taken(ThreadHold),
    Blocked(ThreadHold, Ahead),
    /// The store cannot be read.
    Failed(ThreadHold, StoreError),
}

impl ThreadHold {
    /// Takes the conversation among all processes, unless a run goes before this one; before a new one, where there is none.
    pub(super) fn enter(mut self, runs: &LocalRuns, project: &Project, own: Option<&RunId>) -> Entered {
        let own = own.map(|run| (run, self.rank));
        let found = match self.lock(project) {
            Ok(true) => ahead(runs, project, &self.name, own),
            Ok(false) => Ok(Some(Ahead::Locked)),
            Err(error) => Err(error),
        };
        match found {
            Ok(Some(ahead)) => {
                self.unlock();
                Entered::Blocked(self, ahead)
            }
            // One that was resumed while the store was read is in the queue, and was not found there.
            Ok(None) if self.is_behind() => {
                self.unlock();
                Entered::Blocked(self, Ahead::Here)
            }
            Ok(None) => Entered::Taken(self),
            Err(error) => {
                self.unlock();
                Entered::Failed(self, error)
            }
        }
    }
}

/// Returns `true` for a run that a server resumes where it was interrupted: a message of a session, or one that had not
/// begun.
pub(super) fn resumes_by_itself(record: &RunRecord) -> bool {
    record.new.plan.get("in_session") == Some(&true.into()) || rank_of(record).class != RankClass::Begun
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
    let before = if plan.queued { noted_before(project, run)? } else { Some(plan.before) };
    Ok(exchanges(&entries).take(before.unwrap_or(usize::MAX)).cloned().collect())
}

/// Name under which the number of exchanges before a queued message is kept, from its beginning on.
fn before_key(run: &RunId) -> String {
    format!("before:{run}")
}

/// Notes the number of exchanges before a message that has waited for its turn, which begins.
pub(super) fn note_before(project: &Project, run: &RunId, before: usize) -> Result<(), StoreError> {
    if let Some(store) = project.store()? {
        store.put(&before_key(run), Some(&before.into()));
    }
    Ok(())
}

/// Forgets that number when the run needs it no more.
pub(super) fn forget_before(store: &Store, run: &RunId) {
    store.put(&before_key(run), None);
}

fn noted_before(project: &Project, run: &RunId) -> Result<Option<usize>, StoreError> {
    let Some(store) = project.store()? else { return Ok(None) };
    let noted = store.value(&before_key(run))?;
    Ok(noted.and_then(|noted| noted.as_u64()).and_then(|before| usize::try_from(before).ok()))
}

pub(super) fn history(project: &Project, name: &ThreadName) -> Result<Vec<Exchange>, StoreError> {
    Ok(exchanges(&entries(project, name)?).cloned().collect())
}

/// The entries of a conversation.
pub(crate) fn entries(project: &Project, name: &ThreadName) -> Result<Vec<Entry>, StoreError> {
    let Some(store) = project.store()? else { return Ok(Vec::new()) };
    Ok(store.messages(&name.stored())?.into_iter().filter_map(Entry::from_value).collect())
}

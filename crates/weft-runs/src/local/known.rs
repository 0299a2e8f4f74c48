//! Messages with an id: one that comes again has the run of the first.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use agent_types::{EventBody, ExitReason, RunId};
use executors_flow_system::Handled;
use parking_lot::Mutex;
use run_store::{RunPhase, Store, StoreError};
use serde_json::Value;
use weft_project::Project;

use super::conversation::resumes_by_itself;
use super::{LocalRuns, events};
use crate::error::RunsError;
use crate::handle::{Outcome, RunHandle};
use crate::outcome::RunOutcome;
use crate::request::AgentRequest;

/// Attempts to find the record of a run whose message has just come elsewhere, and the pause between two.
const ATTEMPTS: (u32, Duration) = (20, Duration::from_millis(50));

/// Interval at which a run of another process is read.
const FOLLOW: Duration = Duration::from_millis(100);

/// Name under which the run of a message is found.
pub(super) fn message_key(request: &AgentRequest) -> Option<String> {
    let id = request.plan.message_id.as_ref()?;
    Some(format!("message:{}/{}/{id}", request.plan.agent, request.thread.as_deref().unwrap_or_default()))
}

/// Runs whose messages begin in this process: they are noted, and their records are not there yet.
#[derive(Debug, Default)]
pub(super) struct BeginningRuns(Mutex<HashSet<RunId>>);

impl BeginningRuns {
    /// Adds a run until the result is dropped.
    pub(super) fn add(&self, run: &RunId) -> BeginningRun<'_> {
        self.0.lock().insert(run.clone());
        BeginningRun { runs: self, run: run.clone() }
    }
}

/// A run whose message begins, until it is dropped.
pub(super) struct BeginningRun<'r> {
    runs: &'r BeginningRuns,
    run: RunId,
}

impl Drop for BeginningRun<'_> {
    fn drop(&mut self) {
        self.runs.0.lock().remove(&self.run);
    }
}

/// Notes the run of a message; the run that an earlier message of the same id has, if there is one. A run that begins in
/// this process is waited for; one of another process whose record does not come loses the message.
pub(super) async fn claim(runs: &LocalRuns, key: &str, run: &RunId) -> Result<Option<RunId>, RunsError> {
    let (mut attempts, mut last) = (0, None);
    loop {
        let (key, run) = (key.to_owned(), run.clone());
        let stale = last.clone().filter(|_| attempts >= ATTEMPTS.0);
        let claimed =
            runs.with_project(move |project| claim_key(project, &key, &run, stale.as_ref())).await?;
        match claimed {
            Claimed::New => return Ok(None),
            Claimed::Known(run) => return Ok(Some(run)),
            Claimed::Beginning(other) => {
                let is_here = runs.0.beginning.0.lock().contains(&other);
                let is_same = last.as_ref() == Some(&other);
                attempts = if is_here || !is_same { 0 } else { attempts + 1 };
                last = Some(other);
                runs.0.clock.sleep(ATTEMPTS.1).await;
            }
        }
    }
}

/// The run that has begun for a message. Where another process took it for one that does not begin, and began a run too,
/// that one counts.
pub(super) async fn verified(runs: &LocalRuns, key: &str, begun: RunHandle) -> Result<RunHandle, RunsError> {
    let of = key.to_owned();
    let read = move |project: &Arc<Project>| match project.store()? {
        Some(store) => Ok(store.value(&of)?),
        None => Ok(None),
    };
    let noted = runs.with_project(read).await?;
    if noted.is_none_or(|noted| noted == *begun.id.as_str()) {
        return Ok(begun);
    }
    match claim(runs, key, &begun.id).await? {
        Some(other) if other != begun.id => {
            runs.cancel_run(begun.id).await?;
            known_run(runs, other)
        }
        Some(_) | None => Ok(begun),
    }
}

/// Forgets a message whose run did not begin, unless another run has it by now.
pub(super) async fn release(runs: &LocalRuns, key: String, run: RunId) {
    let forget = move |project: &Arc<Project>| {
        if let Some(store) = project.store()? {
            let _ = replace(store, &key, Value::from(run.as_str()), Value::Null)?;
        }
        Ok(())
    };
    // A fault of the store is in the refusal already.
    let _ = runs.with_project(forget).await;
}

/// Replaces a value if it is the expected one, atomically. Gives whether it was.
pub(super) fn replace(store: &Store, key: &str, expected: Value, new: Value) -> Result<bool, StoreError> {
    let change = move |old: Option<Value>| if old == Some(expected) { Ok(new) } else { Err(()) };
    Ok(store.update(key, change)?.is_ok())
}

/// A handle of a run that was begun before, with its events from the first on. It is followed wherever it executes.
pub(super) fn known_run(runs: &LocalRuns, run: RunId) -> Result<RunHandle, RunsError> {
    let events = match runs.live().get(&run) {
        Some(live) => events::from_start(&run, &live.sink),
        None => events::followed(runs, &run, runs.project().required_store(&run)?.clone()),
    };
    let (own, of) = (runs.clone(), run.clone());
    let outcome = Outcome::new(async move {
        while executes(&own, &of).await? {
            match own.over(&of) {
                Some(over) => over.cancelled().await,
                None if wait_a_moment(&own).await => {}
                None => break,
            }
        }
        own.with_project(move |project| recorded_outcome(project, &of)).await
    });
    Ok(RunHandle { repeated: true, ..RunHandle::new(run, events, outcome) })
}

/// Returns `true` while a process executes a run, or will resume it.
pub(super) async fn executes(runs: &LocalRuns, run: &RunId) -> Result<bool, RunsError> {
    if runs.over(run).is_some() {
        return Ok(true);
    }
    let (of, continues) = (run.clone(), runs.0.options.continues);
    runs.with_project(move |project| {
        let store = project.required_store(&of)?;
        let record = store.known(&of)?;
        let is_running = record.state.phase == RunPhase::Running;
        Ok(is_running && ((continues && resumes_by_itself(&record)) || !store.is_interrupted(&of)?))
    })
    .await
}

/// Waits a moment for a run of another process; `false` where this one leaves its runs.
pub(super) async fn wait_a_moment(runs: &LocalRuns) -> bool {
    tokio::select! {
        () = runs.0.clock.sleep(FOLLOW) => true,
        () = runs.0.options.closed.cancelled() => false,
    }
}

/// Result of noting the run of a message.
enum Claimed {
    New,
    Known(RunId),
    /// The record of the other run is not there yet.
    Beginning(RunId),
}

fn claim_key(project: &Project, key: &str, run: &RunId, stale: Option<&RunId>) -> Result<Claimed, RunsError> {
    let Some(store) = project.store()? else { return Ok(Claimed::New) };
    let own = Value::from(run.as_str());
    let new = own.clone();
    let change = move |old: Option<Value>| match old {
        Some(other) if !other.is_null() => Err(other),
        // A message whose run did not begin leaves null.
        Some(_) | None => Ok(new),
    };
    let Err(noted) = store.update(key, change)? else { return Ok(Claimed::New) };
    let other = RunId::new(noted.as_str().unwrap_or_default());
    match store.known(&other) {
        Ok(_) => Ok(Claimed::Known(other)),
        // Its process ended before the record was kept, or the run was deleted.
        Err(StoreError::UnknownRun { .. }) if stale == Some(&other) && replace(store, key, noted, own)? => {
            Ok(Claimed::New)
        }
        Err(StoreError::UnknownRun { .. }) => Ok(Claimed::Beginning(other)),
        Err(error) => Err(error.into()),
    }
}

/// The outcome of a run as its log has it.
fn recorded_outcome(project: &Project, run: &RunId) -> Result<RunOutcome, RunsError> {
    let store = project.required_store(run)?;
    let record = store.known(run)?;
    if record.state.phase == RunPhase::Running {
        return Err(RunsError::Left { run: run.to_string() });
    }
    let exit = record.state.exit.unwrap_or(ExitReason::Completed);
    let thread = record.new.thread.as_deref().unwrap_or_default();
    let mut handled = Handled::recorded(run.clone(), thread, exit);
    handled.repeated = true;
    for group in store.groups(run) {
        let mut group = group?;
        store.put_values_back(&mut group)?;
        for kept in group.into_iter().filter(|kept| kept.event.place.call.is_none()) {
            match kept.event.body {
                EventBody::AgentMessage { text, .. } => handled.text = Some(text),
                EventBody::RunFinished { message, partial, .. } => {
                    (handled.error, handled.partial) = (message, partial.unwrap_or(false));
                }
                EventBody::FlowMatched { flow, .. } => handled.flow = Some(flow),
                _ => {}
            }
        }
    }
    Ok(RunOutcome::Session(Box::new(handled)))
}

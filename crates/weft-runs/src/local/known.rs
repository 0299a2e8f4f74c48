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

use super::{LocalRuns, events};
use crate::error::RunsError;
use crate::handle::{Outcome, RunHandle};
use crate::outcome::RunOutcome;
use crate::request::AgentRequest;

/// Attempts to find the record of a run whose message has just come elsewhere, and the pause between two.
const ATTEMPTS: (u32, Duration) = (20, Duration::from_millis(50));

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

/// A handle of a run that was begun before, with its events from the first on.
pub(super) fn known_run(runs: &LocalRuns, run: RunId) -> Result<RunHandle, RunsError> {
    let live = runs.live().get(&run).cloned();
    let events = if let Some(live) = &live {
        events::from_start(&run, &live.sink)
    } else {
        let store = runs.project().required_store(&run)?.clone();
        events::stored(&run, store)
    };
    let (own, of) = (runs.clone(), run.clone());
    let outcome = Outcome::new(async move {
        if let Some(live) = live {
            live.over.cancelled().await;
        }
        own.with_project(move |project| recorded_outcome(project, &of)).await
    });
    Ok(RunHandle { repeated: true, ..RunHandle::new(run, events, outcome) })
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

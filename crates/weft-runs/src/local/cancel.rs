//! Ending runs, wherever they execute.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use agent_types::{EventBody, EventLocation, EventSink, ExitReason, RunId, RunStatus, UnsequencedEvent};
use tokio_util::sync::CancellationToken;
use weft_project::Project;

use super::LocalRuns;
use crate::error::RunsError;
use crate::request::{Cancelled, Version};

/// Interval of checks for cancellation requests of other processes.
const LOOK: Duration = Duration::from_millis(300);

/// Name under which a request to end a run is left for the process that executes it.
fn cancel_key(run: &RunId) -> String {
    format!("cancel:{run}")
}

/// State in which a run that is to end is found.
enum Found {
    Ended(&'static str),
    Elsewhere,
    Idle,
}

impl LocalRuns {
    pub(super) async fn cancel_run(&self, run: RunId) -> Result<Cancelled, RunsError> {
        let of = run.clone();
        let live = self.live().get(&run).map(|live| (live.cancel.clone(), live.over.clone()));
        if let Some((cancel, over)) = live {
            // A run whose end is recorded, or that waits, stays here for a moment.
            let key = of.clone();
            let phase =
                self.with_project(move |project| Ok(project.required_store(&key)?.known(&key)?.state.phase));
            let phase = phase.await.ok();
            // Its work ends with it, which would wake it.
            self.0.tasks.hold(&run);
            cancel.cancel();
            if phase.is_none_or(|phase| !phase.has_ended() && phase.as_str() != "waiting") {
                return Ok(Cancelled::Asked);
            }
            self.nearly_over(&over).await;
        }
        match self.with_project(move |project| find(project, &of)).await? {
            Found::Ended(status) => return Ok(Cancelled::HadEnded(status)),
            Found::Elsewhere => return Ok(Cancelled::Asked),
            Found::Idle => {}
        }
        let cancel = CancellationToken::new();
        cancel.cancel();
        if let Ok(handle) = self.resume_run(run.clone(), Version::AsItWas, cancel).await {
            return Ok(Cancelled::Ending(handle));
        }
        // There is no room, or what it needs is not there any more.
        self.with_project(move |project| end_cancelled(project, &run)).await?;
        Ok(Cancelled::Ended)
    }
}

/// Follows requests of other processes to end runs of this one, from the first run on.
pub(super) fn poll_cancel_requests(runs: &LocalRuns) {
    if runs.0.polls.swap(true, Ordering::Relaxed) {
        return;
    }
    let runs = runs.clone();
    let tracker = runs.0.tracker.clone();
    tracker.spawn(async move {
        loop {
            tokio::select! {
                () = runs.0.options.closed.cancelled() => return,
                () = runs.0.clock.sleep(LOOK) => {}
            }
            if let Err(error) = read_cancel_requests(&runs).await {
                log::warn!("requests to end runs could not be read: {error}");
            }
        }
    });
}

async fn read_cancel_requests(runs: &LocalRuns) -> Result<(), RunsError> {
    let live: Vec<(RunId, CancellationToken)> =
        runs.live().iter().map(|(run, live)| (run.clone(), live.cancel.clone())).collect();
    if live.is_empty() {
        return Ok(());
    }
    runs.with_project(move |project| {
        let Some(store) = project.store()? else { return Ok(()) };
        for (run, cancel) in live {
            let key = cancel_key(&run);
            if store.value(&key)?.is_some() {
                store.put(&key, None);
                cancel.cancel();
            }
        }
        Ok(())
    })
    .await
}

fn find(project: &Project, run: &RunId) -> Result<Found, RunsError> {
    let store = project.required_store(run)?;
    let phase = store.known(run)?.state.phase;
    if phase.has_ended() {
        return Ok(Found::Ended(phase.as_str()));
    }
    if !store.is_at_work(run) {
        return Ok(Found::Idle);
    }
    store.put(&cancel_key(run), Some(&true.into()));
    store.flush()?;
    Ok(Found::Elsewhere)
}

/// Ends a run that no process executes as cancelled, even where its agent, tools or workflow are gone.
pub(super) fn end_cancelled(project: &Project, run: &RunId) -> Result<(), RunsError> {
    end(project, run, None)
}

/// Ends a run that no process executes with an error: its code and message.
pub(super) fn end_failed(project: &Project, run: &RunId, failure: (String, String)) -> Result<(), RunsError> {
    end(project, run, Some(failure))
}

fn end(project: &Project, run: &RunId, failure: Option<(String, String)>) -> Result<(), RunsError> {
    let store = project.required_store(run)?;
    let (stored, _) = store.resume(run, Arc::clone(project.clock()))?;
    let body = match failure {
        Some((kind, message)) => EventBody::RunFinished {
            status: RunStatus::Error,
            exit: None,
            kind: Some(kind),
            partial: None,
            message: Some(message),
        },
        None => EventBody::RunFinished {
            status: RunStatus::Cancelled,
            exit: store.known(run)?.new.agent.map(|_| ExitReason::Cancelled),
            kind: None,
            partial: None,
            message: None,
        },
    };
    stored.record(&mut vec![UnsequencedEvent::new(EventLocation::default(), body)]);
    Ok(store.flush()?)
}

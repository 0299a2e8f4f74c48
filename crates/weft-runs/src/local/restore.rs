//! Tasks of a run that another process began: those that can are continued, and the agent hears of the others.

use std::sync::Arc;

use agent_runtime::Agent;
use agent_types::{EventBody, EventLocation, EventSink, ExitReason, RunId, RunStatus, UnsequencedEvent};
use run_store::{AskRecord, RunFilter, RunPhase, RunRecord, Store, StoreError};
use serde::Deserialize;
use serde_json::Value;
use tool_registry::{TaskBoard, TaskCall, TaskState};
use weft_project::Project;

use super::LocalRuns;
use super::agent::{ended_key, saved_key};
use crate::error::RunsError;
use crate::request::Version;
use crate::service::RunService;

/// Outcome of a task of which nothing is known.
const LOST: &str = "its outcome is unknown, because the process that executed it ended";

/// Beginning of the ids of tasks.
const TASK: &str = "task-";

/// Outcome of a task, as it is stored.
#[derive(Deserialize)]
struct Ended {
    state: TaskState,
    result: Value,
}

/// Puts the tasks of a run on its board that this process does not know.
pub(super) fn restore_tasks(
    project: &Project,
    run: &RunId,
    agent: &Agent,
    board: &TaskBoard,
) -> Result<(), RunsError> {
    let Some(store) = project.store()? else { return Ok(()) };
    let filter = RunFilter { parent: Some(run.clone()), ..RunFilter::default() };
    for record in store.runs(&filter)? {
        let Ok(call) = TaskCall::deserialize(&record.new.plan) else { continue };
        // A task that another process executes has its end there.
        if board.status(&call.task).is_none() && !store.is_at_work(&record.new.run) {
            restore(project, store, &record, &call, agent, board)?;
        }
    }
    Ok(())
}

fn restore(
    project: &Project,
    store: &Store,
    record: &RunRecord,
    call: &TaskCall,
    agent: &Agent,
    board: &TaskBoard,
) -> Result<(), RunsError> {
    let run = &record.new.run;
    let ended = store.value(&ended_key(run))?.and_then(|ended| Ended::deserialize(ended).ok());
    if let Some(Ended { state, result }) = ended {
        board.restore(call.clone(), state, result);
        return Ok(());
    }
    if record.state.phase.has_ended() {
        let state =
            if record.state.phase == RunPhase::Cancelled { TaskState::Cancelled } else { TaskState::Lost };
        board.restore(call.clone(), state, LOST.into());
        return Ok(());
    }
    let (stored, log) = match store.resume(run, Arc::clone(project.clock())) {
        Ok(resumed) => resumed,
        // It has begun to execute elsewhere, or has ended there meanwhile.
        Err(StoreError::RunBusy { .. } | StoreError::RunEnded { .. }) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let saved = store.value(&saved_key(run))?;
    let sink: Arc<dyn EventSink> = stored;
    if !agent.resume_task(board, call, Arc::clone(&sink), log, saved) {
        let kind = Some("interrupted".to_owned());
        let (status, message) = (RunStatus::Error, Some(LOST.to_owned()));
        let end = EventBody::RunFinished { status, exit: None, kind, partial: None, message };
        sink.record(&mut vec![UnsequencedEvent::new(EventLocation::default(), end)]);
        board.restore(call.clone(), TaskState::Lost, LOST.into());
    }
    Ok(())
}

impl LocalRuns {
    /// Resumes the runs that wait for tasks of a process that has ended.
    pub async fn resume_waiting(&self) {
        let waiting = self.with_project(|project| {
            let Some(store) = project.store()? else { return Ok(Vec::new()) };
            let filter = RunFilter { phase: Some(RunPhase::Waiting), ..RunFilter::default() };
            let mut runs = Vec::new();
            for record in store.runs(&filter)? {
                let run = record.new.run;
                // A question of another kind waits for a user.
                let is_task = |ask: &AskRecord| ask.answer.is_none() && ask.summary.ask.starts_with(TASK);
                if record.state.exit == Some(ExitReason::AwaitingResult)
                    && store.asks(&run)?.iter().any(is_task)
                {
                    runs.push(run);
                }
            }
            Ok(runs)
        });
        let waiting = waiting.await.unwrap_or_else(|error| {
            log::warn!("runs that wait for their tasks are not resumed: {error}");
            Vec::new()
        });
        for run in waiting {
            if let Err(error) = self.resume(&run, Version::AsItWas).await {
                log::warn!("{run} is not resumed though it waits for a task: {error}");
            }
        }
    }
}

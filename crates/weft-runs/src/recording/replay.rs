//! Replay of a recorded run: it decides anew, with the recorded replies, results and answers, and must decide the same.

use std::sync::Arc;

use agent_types::{Clock, EventBody, ExitReason, Redactor, ResumeLog, RunStatus, StoredEvent, TraceEvent};
use executors_flow_system::{Entry, SessionError, SessionState, SessionStore, StoredSessions};
use run_store::RunPhase;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use weft_project::Project;

use super::{ReplayDifference, ReplaySink, RunRecording};
use crate::error::RunsError;
use crate::local::{LocalRuns, RunsOptions, replayed_work};
use crate::source::ProjectFiles;

/// Replay of a run: its log without its end, and the sink that compares what it emits.
#[derive(Debug)]
pub struct RunReplay {
    /// Log from which the run is resumed.
    pub log: ResumeLog,
    /// Sink of the resumed run.
    pub sink: Arc<ReplaySink>,
    /// Suspension with which the recording ends.
    suspended: Option<Suspension>,
}

/// Suspension of a run that waits.
#[derive(Debug, Clone, Copy)]
struct Suspension {
    /// Its reason, of an agent's run.
    exit: Option<ExitReason>,
}

impl RunReplay {
    /// A replay of all events of a run, with the answers that it was given.
    #[must_use]
    pub fn new(
        mut events: Vec<StoredEvent>,
        answers: impl IntoIterator<Item = (String, Value)>,
        redactor: Redactor,
    ) -> Self {
        let is_own = |kept: &StoredEvent| kept.event.place.path.is_none() && kept.event.place.depth.is_none();
        let is_end =
            |kept: &StoredEvent| is_own(kept) && matches!(kept.event.body, EventBody::RunFinished { .. });
        let end: Option<TraceEvent> =
            events.iter().rev().find(|kept| is_end(kept)).map(|kept| kept.event.clone());
        events.retain(|kept| !is_end(kept));
        let suspended = match events.iter().rev().find(|kept| is_own(kept)).map(|kept| &kept.event.body) {
            Some(EventBody::RunWaiting { exit, .. }) if end.is_none() => Some(Suspension { exit: *exit }),
            Some(_) | None => None,
        };
        let log = ResumeLog { snapshot: None, events, answers: answers.into_iter().collect() };
        let sink = Arc::new(ReplaySink::new(&log, end.as_ref(), redactor));
        let cancelled = |end: &TraceEvent| {
            matches!(end.body, EventBody::RunFinished { status: RunStatus::Cancelled, .. })
        };
        if end.as_ref().is_some_and(cancelled) {
            sink.cancel().cancel();
        }
        Self { log, sink, suspended }
    }

    /// Ends the run: the recording does, or the replay differs from it.
    #[must_use]
    pub fn cancel(&self) -> CancellationToken {
        self.sink.cancel().clone()
    }

    /// The first difference, when the replay has ended so.
    #[must_use]
    pub fn difference(self, status: RunStatus, exit: Option<ExitReason>) -> Option<ReplayDifference> {
        let is_same = self.suspended.is_none_or(|Suspension { exit: recorded }| {
            status == RunStatus::Waiting && (recorded.is_none() || exit.is_none() || exit == recorded)
        });
        if !is_same && !self.sink.is_halted() {
            let word = |exit: Option<ExitReason>, status| {
                exit.map_or_else(|| RunPhase::from(status).as_str(), ExitReason::as_str).to_owned()
            };
            let wanted = word(self.suspended.and_then(|suspension| suspension.exit), RunStatus::Waiting);
            self.sink.differs(ReplayDifference {
                at: "the run: exit".into(),
                wanted,
                got: word(exit, status),
            });
        }
        self.sink.difference()
    }
}

/// Replays a recorded run with the files of a project as they are now. Nothing outside is asked. Gives the first
/// difference.
///
/// # Errors
/// The run cannot be done with these files.
pub async fn replay(
    project: &Project,
    recording: &RunRecording,
    clock: Arc<dyn Clock>,
) -> Result<Option<ReplayDifference>, RunsError> {
    let project = Arc::new(project.for_replay(Arc::clone(&clock))?);
    let events = recording.events.iter().map(super::RecordedEvent::stored).collect();
    let replay = RunReplay::new(events, recording.answers.clone(), project.redactor());
    seed(&project, recording, &replay.log, clock).await?;
    let runs = LocalRuns::new(Arc::new(ProjectFiles::fixed((*project).clone())), RunsOptions::default());
    let timer = recording.session().and_then(|start| start.timer);
    let outcome = replayed_work(&runs, &project, &recording.run, &replay.sink, timer)?.await?;
    Ok(replay.difference(outcome.status(), outcome.exit()))
}

/// Puts the run, and the conversation and session before it, into the store of the project.
async fn seed(
    project: &Project,
    recording: &RunRecording,
    log: &ResumeLog,
    clock: Arc<dyn Clock>,
) -> Result<(), RunsError> {
    let store = project.required_store(&recording.run)?;
    let stored = store.import(recording.record(), log, clock)?;
    store.flush()?;
    drop(stored);
    let (Some(agent), Some(thread)) = (&recording.agent, &recording.thread) else { return Ok(()) };
    let sessions = StoredSessions::new(store.clone(), agent.clone());
    let entries: Vec<Entry> = recording.history.iter().cloned().filter_map(Entry::from_value).collect();
    sessions.append(thread, &entries).await.map_err(unusable)?;
    if let Some(start) = recording.session() {
        sessions.swap(thread, &SessionState::default(), &start.state).await.map_err(unusable)?;
    }
    Ok(store.flush()?)
}

fn unusable(error: SessionError) -> RunsError {
    RunsError::Session(error.into())
}

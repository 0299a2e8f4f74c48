//! The trait that everything which drives runs is written against.

use std::fmt;

use agent_types::{EventSubscription, RunId};
use async_trait::async_trait;

use crate::error::RunsError;
use crate::handle::RunHandle;
use crate::request::{
    AnswerRequest, Cancelled, ForkRequest, RunRequest, SessionInfo, SessionRequest, ThreadAction, ThreadInfo,
    ThreadName, Version,
};

/// Runs of a project, wherever they execute.
#[async_trait]
pub trait RunService: Send + Sync + fmt::Debug {
    /// Begins a run. Its record is safe when this returns.
    ///
    /// # Errors
    /// It cannot run, the limit of runs is reached, its conversation is busy, or the service shuts down.
    async fn begin(&self, request: RunRequest) -> Result<RunHandle, RunsError>;

    /// Resumes a run that was interrupted or waits.
    ///
    /// # Errors
    /// The run does not exist, has ended, or executes; or what it needs has changed or is gone.
    async fn resume(&self, run: &RunId, version: Version) -> Result<RunHandle, RunsError>;

    /// Begins a run with the first events of another one.
    ///
    /// # Errors
    /// As [`resume`](Self::resume), or the fork's place or a changed node does not exist.
    async fn fork(&self, request: ForkRequest) -> Result<RunHandle, RunsError>;

    /// Begins a run that continues a failed or cancelled one from its failure, with the files as they are now.
    ///
    /// # Errors
    /// The run has not ended or ended well, or what it has finished has changed.
    async fn retry(&self, run: &RunId) -> Result<RunHandle, RunsError>;

    /// Records the answer to an open question, and resumes the run where that is asked for.
    ///
    /// # Errors
    /// The question does not exist or takes no such answer, or the run cannot be resumed: then nothing is recorded.
    async fn answer(&self, request: AnswerRequest) -> Result<Option<RunHandle>, RunsError>;

    /// Asks a run to end, wherever it executes.
    ///
    /// # Errors
    /// The run does not exist.
    async fn cancel(&self, run: &RunId) -> Result<Cancelled, RunsError>;

    /// Continues a run that waits for work which its calls began, when the work ends. Nothing where no such work is known.
    ///
    /// # Errors
    /// As [`resume`](Self::resume).
    ///
    /// # Cancel safety
    /// Dropping the future leaves the run waiting.
    async fn continued(&self, run: &RunId) -> Result<Option<RunHandle>, RunsError>;

    /// Reads a session.
    ///
    /// # Errors
    /// `flows.json` or the store cannot be used.
    async fn session(&self, session: &str) -> Result<SessionInfo, RunsError>;

    /// Reads all sessions; those that wait for a person come first, the one that waits longest before the others.
    ///
    /// # Errors
    /// As [`session`](Self::session).
    async fn sessions(&self) -> Result<Vec<SessionInfo>, RunsError>;

    /// Executes an action of a person on a session.
    ///
    /// # Errors
    /// The action does not apply, or `flows.json` or the store cannot be used.
    async fn act(&self, request: SessionRequest) -> Result<SessionInfo, RunsError>;

    /// Waits until a timer is due, of one session or of any, and begins its run. Nothing where the files have changed meanwhile.
    ///
    /// # Errors
    /// As [`begin`](Self::begin).
    ///
    /// # Cancel safety
    /// A timer whose run has not begun stays due.
    async fn timer(&self, session: Option<&str>) -> Result<Option<RunHandle>, RunsError>;

    /// Reads or changes a conversation.
    ///
    /// # Errors
    /// The agent does not exist, or a run of the conversation executes.
    async fn thread(&self, name: &ThreadName, action: ThreadAction) -> Result<ThreadInfo, RunsError>;

    /// A live subscription to a run's events where there is one; else its events are read from the store.
    fn subscribe(&self, run: &RunId) -> Option<EventSubscription>;
}

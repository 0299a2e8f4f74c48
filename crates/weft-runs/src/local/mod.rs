//! Runs that this process executes: how many at once, who waits, how they begin, are resumed and end.

mod admission;
mod agent;
mod answer;
mod answered;
mod begin;
mod calls;
mod cancel;
mod checks;
mod conversation;
mod events;
mod known;
mod launch;
mod open;
mod queue;
mod restore;
mod resume;
mod retry;
mod seats;
mod sessions;
mod tasks;
mod threads;
mod triggers;
mod version;
mod workflow;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use agent_types::{Clock, EventSubscription, RunId};
use async_trait::async_trait;
use parking_lot::{Mutex, MutexGuard};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use weft_project::Project;

pub use calls::{CallHandle, CallRequest};
pub(crate) use conversation::entries;
pub(crate) use resume::replayed_work;
pub use threads::ThreadChanges;
pub use triggers::{Firing, trigger_request};

use crate::error::RunsError;
use crate::handle::RunHandle;
use crate::request::{
    AnswerRequest, Cancelled, ForkRequest, RunRequest, SessionInfo, SessionRequest, ThreadAction, ThreadInfo,
    ThreadName, Version,
};
use crate::service::RunService;
use crate::sink::RunSink;
use crate::source::ProjectFiles;

/// Events that a subscriber of one run may be behind before it must read the store.
const BEHIND: usize = 512;

/// Options of a service of runs.
#[derive(Debug, Clone)]
pub struct RunsOptions {
    /// Runs that execute at once.
    pub max_runs: usize,
    /// Runs that wait for their turn.
    pub max_queue: usize,
    /// Replies that scripts play.
    pub scripts: Scripts,
    /// Set when runs that wait for tasks of their own continue by themselves.
    pub continues: bool,
    /// Cancelled when no new work is taken.
    pub closing: CancellationToken,
    /// Cancelled when what still executes is left where it is.
    pub closed: CancellationToken,
    /// Runtime that executes runs; absent, that of the callers. Work of a run that keeps its threads busy then holds up
    /// other runs and no caller.
    pub runtime: Option<tokio::runtime::Handle>,
}

impl Default for RunsOptions {
    fn default() -> Self {
        Self {
            max_runs: usize::MAX,
            max_queue: 256,
            scripts: Scripts::OfProcess,
            continues: false,
            closing: CancellationToken::new(),
            closed: CancellationToken::new(),
            runtime: None,
        }
    }
}

/// Replies that scripts play in place of models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scripts {
    /// One after the other, whichever run asks.
    OfProcess,
    /// To each conversation from its beginning.
    OfRun,
}

/// A run that this process executes.
#[derive(Debug, Clone)]
struct Live {
    sink: RunSink,
    cancel: CancellationToken,
    thread: Option<ThreadName>,
    /// `true` while it waits for its turn in the conversation.
    is_queued: Arc<AtomicBool>,
    /// Cancelled when this process executes it no more.
    over: CancellationToken,
}

/// Runs that this process executes. Clones share them.
#[derive(Debug, Clone)]
pub struct LocalRuns(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    files: Arc<ProjectFiles>,
    clock: Arc<dyn Clock>,
    options: RunsOptions,
    live: Mutex<HashMap<RunId, Live>>,
    admission: admission::Admissions,
    beginning: known::BeginningRuns,
    threads: threads::Threads,
    tasks: tasks::Waiting,
    sessions: sessions::Sessions,
    tracker: TaskTracker,
    polls: AtomicBool,
}

impl LocalRuns {
    /// Runs of a project.
    #[must_use]
    pub fn new(files: Arc<ProjectFiles>, options: RunsOptions) -> Self {
        let clock = Arc::clone(files.project().clock());
        Self(Arc::new(Inner {
            admission: admission::Admissions::new(options.max_runs, options.max_queue),
            beginning: known::BeginningRuns::default(),
            files,
            clock,
            options,
            live: Mutex::default(),
            threads: threads::Threads::default(),
            tasks: tasks::Waiting::default(),
            sessions: sessions::Sessions::default(),
            tracker: TaskTracker::new(),
            polls: AtomicBool::new(false),
        }))
    }

    fn live(&self) -> MutexGuard<'_, HashMap<RunId, Live>> {
        // Nothing that can panic runs under this lock.
        self.0.live.lock()
    }

    /// Returns `true` when no run executes or waits for its turn, single calls included.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.live().is_empty() && self.0.admission.is_idle()
    }

    /// Returns `true` if replies are played from a script.
    #[must_use]
    pub fn is_scripted(&self) -> bool {
        self.project().is_scripted()
    }

    /// Waits for all work beside the callers. Ends when `closed` of the options is cancelled.
    pub async fn drained(&self) {
        self.0.tracker.close();
        self.0.tracker.wait().await;
    }

    /// The project as its files are now.
    pub(crate) fn project(&self) -> Arc<Project> {
        self.0.files.project()
    }

    fn over(&self, run: &RunId) -> Option<CancellationToken> {
        self.live().get(run).map(|live| live.over.clone())
    }

    /// Executes work of a run where runs are executed.
    fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        match &self.0.options.runtime {
            Some(runtime) => self.0.tracker.spawn_on(work, runtime),
            None => self.0.tracker.spawn(work),
        };
    }

    /// Does work that blocks, away from the callers.
    async fn blocking<T: Send + 'static>(
        work: impl FnOnce() -> Result<T, RunsError> + Send + 'static,
    ) -> Result<T, RunsError> {
        let done = tokio::task::spawn_blocking(work).await;
        done.unwrap_or_else(|error| {
            Err(RunsError::Failed { code: "internal", message: format!("a request failed: {error}") })
        })
    }

    /// The same with the project.
    async fn with_project<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Arc<Project>) -> Result<T, RunsError> + Send + 'static,
    ) -> Result<T, RunsError> {
        let project = self.0.files.project();
        Self::blocking(move || work(&project)).await
    }

    /// The project for one run.
    fn for_one_run(&self, project: &Arc<Project>) -> Result<Arc<Project>, RunsError> {
        match self.0.options.scripts {
            Scripts::OfProcess => Ok(Arc::clone(project)),
            Scripts::OfRun => Ok(project.for_one_run()?),
        }
    }
}

#[async_trait]
impl RunService for LocalRuns {
    async fn begin(&self, request: RunRequest) -> Result<RunHandle, RunsError> {
        match request {
            RunRequest::Agent(request) => self.begin_agent(*request).await,
            RunRequest::Workflow(request) => self.begin_workflow(*request).await,
        }
    }

    async fn resume(&self, run: &RunId, version: Version) -> Result<RunHandle, RunsError> {
        self.resume_run(run.clone(), version, CancellationToken::new()).await
    }

    async fn fork(&self, request: ForkRequest) -> Result<RunHandle, RunsError> {
        self.fork_run(request).await
    }

    async fn retry(&self, run: &RunId) -> Result<RunHandle, RunsError> {
        self.retry_run(run.clone()).await
    }

    async fn answer(&self, request: AnswerRequest) -> Result<Option<RunHandle>, RunsError> {
        self.answer_ask(request).await
    }

    async fn cancel(&self, run: &RunId) -> Result<Cancelled, RunsError> {
        self.cancel_run(run.clone()).await
    }

    async fn continued(&self, run: &RunId) -> Result<Option<RunHandle>, RunsError> {
        self.continue_run(run).await
    }

    async fn session(&self, session: &str) -> Result<SessionInfo, RunsError> {
        seats::read(self, session).await
    }

    async fn sessions(&self) -> Result<Vec<SessionInfo>, RunsError> {
        seats::list(self).await
    }

    async fn act(&self, request: SessionRequest) -> Result<SessionInfo, RunsError> {
        seats::act(self, request).await
    }

    async fn timer(&self, session: Option<&str>) -> Result<Option<RunHandle>, RunsError> {
        self.next_timer(session).await
    }

    async fn thread(&self, name: &ThreadName, action: ThreadAction) -> Result<ThreadInfo, RunsError> {
        conversation::thread_info(self, name, action).await
    }

    fn subscribe(&self, run: &RunId) -> Option<EventSubscription> {
        self.live().get(run).map(|live| live.sink.subscribe(BEHIND))
    }
}

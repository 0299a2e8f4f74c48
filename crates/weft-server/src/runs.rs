//! Runs that this process works on: how many at once, who waits, how they begin, go on and end.

mod begin;
mod events;
mod run_task;
mod sessions;
mod tasks;
mod threads;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agent_runtime::{Exchange, PendingCall};
use agent_types::{EventBody, EventLocation, EventSubscription, ExitReason, RunId, Usage};
use futures::future::{BoxFuture, Either, select};
use http::StatusCode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio_util::sync::CancellationToken;
use tool_registry::TaskBoard;
use weft_project::RunSink;

use crate::app::App;
use crate::problem::Problem;

pub(crate) use begin::{AgentRequest, begin_agent, begin_workflow};
pub(crate) use events::RunEvents;
pub(crate) use run_task::{Answer, answer, cancel, fork, poll_cancel_requests, resume};
pub(crate) use sessions::{Sessions, fire_timers};
pub(crate) use threads::ThreadHold;

/// Events that a reader of one run may be behind before it must read the store.
const BEHIND: usize = 512;

/// How long something that is about to be over is waited for.
const NEARLY_OVER: Duration = Duration::from_secs(2);

/// What came of a run.
#[derive(Debug)]
pub(crate) enum Ended {
    /// An agent's.
    Agent(Box<AgentEnd>),
    /// A workflow's; its record has all there is to know.
    Workflow,
    /// It could not be run at all.
    Failed { code: &'static str, message: String },
}

/// What came of an agent's run, or of a message of a session.
#[derive(Debug)]
pub(crate) struct AgentEnd {
    pub(crate) exit: ExitReason,
    pub(crate) text: String,
    pub(crate) usage: Usage,
    pub(crate) pending: Vec<PendingCall>,
    pub(crate) error: Option<String>,
    /// What is to be put behind the conversation; sessions do that themselves.
    added: Vec<Exchange>,
}

/// A run that has begun.
#[derive(Debug)]
pub(crate) struct Begun {
    pub(crate) run: RunId,
    pub(crate) cancel: CancellationToken,
    /// Its events.
    pub(crate) events: RunEvents,
    /// What came of it; nothing where the server ended first.
    pub(crate) done: oneshot::Receiver<Ended>,
}

/// A run that is ready to go.
pub(crate) struct Prepared {
    pub(crate) desk: RunSink,
    pub(crate) cancel: CancellationToken,
    /// The conversation that it belongs to, kept for it until it is over.
    pub(crate) hold: Option<ThreadHold>,
    /// Nothing happens before it is polled.
    pub(crate) work: BoxFuture<'static, Ended>,
    /// What is kept of it besides its events.
    pub(crate) after: Box<dyn FnOnce(&Ended) + Send>,
    /// Where the work is that goes on behind its calls.
    pub(crate) board: Option<Arc<TaskBoard>>,
}

/// A run at work in this process.
#[derive(Debug, Clone)]
struct Live {
    desk: RunSink,
    cancel: CancellationToken,
    thread: Option<(String, String)>,
    /// Cancelled when nobody works on it any more.
    over: CancellationToken,
}

/// The runs at work in this process, and those that wait for their turn.
#[derive(Debug)]
pub(crate) struct Runs {
    live: Mutex<HashMap<RunId, Live>>,
    threads: threads::Threads,
    /// What runs wait for that has no more to do themselves.
    tasks: tasks::Waiting,
    room: Arc<Semaphore>,
    queue: Arc<Semaphore>,
    at_work_limit: usize,
    queue_limit: usize,
}

/// Leave to begin.
pub(crate) enum Admission {
    /// At once.
    Now(OwnedSemaphorePermit),
    /// When there is room; the place in the queue.
    Queued(OwnedSemaphorePermit),
}

impl Runs {
    pub(crate) fn new(max_runs: usize, max_queue: usize) -> Self {
        let max_runs = max_runs.clamp(1, Semaphore::MAX_PERMITS);
        let max_queue = max_queue.min(Semaphore::MAX_PERMITS);
        Self {
            live: Mutex::default(),
            threads: threads::Threads::default(),
            tasks: tasks::Waiting::default(),
            room: Arc::new(Semaphore::new(max_runs)),
            queue: Arc::new(Semaphore::new(max_queue)),
            at_work_limit: max_runs,
            queue_limit: max_queue,
        }
    }

    fn live(&self) -> MutexGuard<'_, HashMap<RunId, Live>> {
        // Nothing that can panic runs under this lock.
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nothing is at work or waits for its turn, single calls included.
    pub(crate) fn is_idle(&self) -> bool {
        self.live().is_empty()
            && self.room.available_permits() == self.at_work_limit
            && self.queue.available_permits() == self.queue_limit
    }

    /// A reader of a run that is at work here.
    pub(crate) fn watch(&self, run: &RunId) -> Option<EventSubscription> {
        self.live().get(run).map(|live| live.desk.watch(BEHIND))
    }

    fn over(&self, run: &RunId) -> Option<CancellationToken> {
        self.live().get(run).map(|live| live.over.clone())
    }

    /// The run that is at work in a thread.
    fn in_thread(&self, agent: &str, thread: &str) -> Option<RunId> {
        let is_it =
            |live: &Live| live.thread.as_ref().is_some_and(|(of, name)| of == agent && name == thread);
        self.live().iter().find(|(_, live)| is_it(live)).map(|(run, _)| run.clone())
    }
}

/// Leave to begin a run, or why there is none.
pub(crate) fn admit(app: &App) -> Result<Admission, Problem> {
    if app.closing.is_cancelled() {
        return Err(Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "shutting_down",
            "the server ends and begins no runs",
        ));
    }
    let runs = &app.runs;
    if let Ok(permit) = Arc::clone(&runs.room).try_acquire_owned() {
        return Ok(Admission::Now(permit));
    }
    Arc::clone(&runs.queue).try_acquire_owned().map(Admission::Queued).map_err(|_| {
        let detail = format!(
            "{} runs are at work and {} wait, which is the limit",
            runs.at_work_limit, runs.queue_limit
        );
        Problem::new(StatusCode::TOO_MANY_REQUESTS, "queue_full", detail)
            .with_help("try again later, or raise max_runs and max_queue in [server] of weft.toml")
    })
}

impl Admission {
    /// Waits for room for a single call.
    pub(crate) async fn room_for_a_call(self, app: &App) -> Option<OwnedSemaphorePermit> {
        match self {
            Self::Now(permit) => Some(permit),
            Self::Queued(_place) => Arc::clone(&app.runs.room).acquire_owned().await.ok(),
        }
    }

    /// Waits for room. A run that is cancelled meanwhile needs none: it only says that it has ended.
    async fn room(
        self,
        app: &App,
        desk: &RunSink,
        cancel: &CancellationToken,
    ) -> Option<OwnedSemaphorePermit> {
        match self {
            Self::Now(permit) => Some(permit),
            Self::Queued(_place) => {
                let queued =
                    agent_types::UnsequencedEvent::new(EventLocation::default(), EventBody::RunQueued {});
                desk.sink().record(&mut vec![queued]);
                let room = Arc::clone(&app.runs.room);
                let waiting = std::pin::pin!(room.acquire_owned());
                match select(waiting, std::pin::pin!(cancel.cancelled())).await {
                    Either::Left((permit, _)) => permit.ok(),
                    Either::Right(((), _)) => None,
                }
            }
        }
    }
}

/// Sets a run to work beside the requests.
pub(crate) fn launch(app: &Arc<App>, admission: Admission, prepared: Prepared) -> Begun {
    let Prepared { desk, cancel, hold, work, after, board } = prepared;
    let run = desk.sink().run().clone();
    let (tell, done) = oneshot::channel();
    let events = RunEvents::new(app, run.clone(), desk.watch(BEHIND));
    let over = CancellationToken::new();
    let thread = hold.as_ref().map(|hold| hold.name.clone());
    let live = Live { desk: desk.clone(), cancel: cancel.clone(), thread, over: over.clone() };
    app.runs.live().insert(run.clone(), live);
    let begun = Begun { run: run.clone(), cancel: cancel.clone(), events, done };
    let owner = Arc::clone(app);
    app.tasks.spawn(async move {
        let app = owner;
        let going = async {
            let _room = admission.room(&app, &desk, &cancel).await;
            let ended = work.await;
            // A fault of the store is in the outcome already.
            let _ = desk.close().await;
            after(&ended);
            ended
        };
        let ended = match select(Box::pin(going), Box::pin(app.closed.cancelled())).await {
            Either::Left((ended, _)) => Some(ended),
            // What is left goes on when it is taken up again: it is dropped as it stands, and what it told is kept.
            Either::Right(((), going)) => {
                desk.leave();
                drop(going);
                None
            }
        };
        if let (Some(Ended::Agent(end)), Some(board)) = (&ended, board) {
            tasks::wait(&app, &run, end, board, over.clone());
        }
        app.runs.live().remove(&run);
        // Whoever waits for the end may take the run up, so the right to work on it goes first.
        drop(desk);
        drop(hold);
        over.cancel();
        if let Some(ended) = ended {
            // Nobody may be there who waits.
            let _ = tell.send(ended);
        }
    });
    begun
}

/// Waits a little where a run of a thread has told its end, until what it said stands in the thread.
pub(crate) async fn settled(app: &Arc<App>, agent: &str, thread: &str) -> Result<(), Problem> {
    let Some(run) = app.runs.in_thread(agent, thread) else { return Ok(()) };
    let Some(over) = app.runs.over(&run) else { return Ok(()) };
    let store = app.store.clone();
    if app.blocking(move || Ok(store.known(&run)?.state.phase.has_ended())).await? {
        nearly_over(app, &over).await;
    }
    Ok(())
}

/// Waits a little for a run that is about to be over. Gives whether it is.
async fn nearly_over(app: &App, over: &CancellationToken) -> bool {
    let over = std::pin::pin!(over.cancelled());
    matches!(select(over, app.clock.sleep(NEARLY_OVER)).await, Either::Left(_))
}

//! Sessions: one message of each at a time, all of them in parallel.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};
use std::time::Duration;

use agent_runtime::{Agent, AgentError, PendingCall, RunOutcome};
use agent_types::{Clock, ExitReason, Recorder, RunId, SystemClock, Timestamp, Usage};
use futures::future::{Either, select};
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Map, Value};
use tokio::sync::{Notify, OnceCell, OwnedMutexGuard};

use crate::conversation::Entry;
use crate::flows::{ByIdError, Flows, TargetKind};
use crate::seat::SeatError;
use crate::session::SessionState;
use crate::store::{MemorySessions, Session, SessionError, SessionStore};
use crate::turn::Turn;
use crate::turn_context::TurnContext;
use crate::words::Texts;

/// Number of session locks above which unused ones are removed.
const FEW: usize = 64;

/// Message of a user.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct UserMessage {
    /// The text.
    pub text: String,
    /// An id of its own: the same message that comes twice is answered once.
    pub id: Option<String>,
    /// Context values: `{$ctx.name}`. The model can neither see nor set them.
    pub values: Map<String, Value>,
    /// Parameters of a flow or system action that is run by its id.
    pub parameters: Map<String, Value>,
}

impl UserMessage {
    /// A message.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// The same with an id: where it comes again within the session's last messages, it gets the same answer, and nothing runs.
    #[must_use]
    pub fn with_id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// The same with parameters, for a flow or system action that is run by its id.
    #[must_use]
    pub fn with_parameters(mut self, parameters: Map<String, Value>) -> Self {
        self.parameters = parameters;
        self
    }

    /// The same with context values. `session` and `profile` are there without.
    #[must_use]
    pub fn with_values(mut self, values: Map<String, Value>) -> Self {
        self.values = values;
        self
    }
}

impl From<&str> for UserMessage {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

/// Result of a message, or of a timer.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Handled {
    /// The run.
    pub run: RunId,
    /// The session.
    pub session: String,
    /// Reason for which the run ended.
    pub exit: ExitReason,
    /// Reply, if there is one.
    pub text: Option<String>,
    /// The answer as a value, where the agent gave one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// `true` if the answer is incomplete.
    pub partial: bool,
    /// Tokens of the agent.
    pub usage: Usage,
    /// Calls of the agent that wait for approval or a result.
    pub pending: Vec<PendingCall>,
    /// The flow that answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow: Option<String>,
    /// The system action that answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// The timer that went off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timer: Option<String>,
    /// `true` if the message had been answered before, and nothing was run.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub repeated: bool,
    /// Error, in a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Outcome of the agent's run, if it answered.
    #[serde(skip)]
    pub outcome: Option<RunOutcome>,
}

impl Handled {
    /// The outcome of a run whose log says how it ended.
    #[must_use]
    pub fn recorded(run: RunId, session: &str, exit: ExitReason) -> Self {
        Self {
            run,
            session: session.to_owned(),
            exit,
            text: None,
            value: None,
            partial: false,
            usage: Usage::default(),
            pending: Vec::new(),
            flow: None,
            action: None,
            timer: None,
            repeated: false,
            error: None,
            outcome: None,
        }
    }
}

/// Reason for which a message could not be handled at all. A failure while it is handled is in [`Handled`].
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum OrchestratorError {
    /// The agent cannot run.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// The session cannot be read or kept.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// An action of a person does not apply.
    #[error(transparent)]
    Seat(#[from] SeatError),
    /// A flow or system action cannot be run by its id.
    #[error(transparent)]
    ById(#[from] ByIdError),
}

impl OrchestratorError {
    /// Returns `true` where an action of a person does not apply.
    #[must_use]
    pub const fn is_of_seat(&self) -> bool {
        matches!(self, Self::Seat(_))
    }

    /// Returns `true` where a flow or system action cannot be run by its id.
    #[must_use]
    pub const fn is_of_id(&self) -> bool {
        matches!(self, Self::ById(_))
    }

    /// Stable code for logs, tests and the wire.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Agent(error) => error.code(),
            Self::Session(error) => error.code,
            Self::Seat(error) => error.code(),
            Self::ById(error) => error.code(),
        }
    }
}

/// Flows, an agent, and where sessions are kept. Cheap to clone; clones share the sessions.
#[derive(Debug, Clone)]
pub struct Orchestrator(Arc<Shared>);

#[derive(Debug, Clone)]
pub(crate) struct Shared {
    pub(crate) flows: Flows,
    pub(crate) agent: Agent,
    pub(crate) store: Arc<dyn SessionStore>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) texts: Arc<Texts>,
    sessions: Arc<Sessions>,
}

/// Locks of sessions, and the next timer of each.
#[derive(Debug, Default)]
struct Sessions {
    locks: Mutex<HashMap<String, Weak<tokio::sync::Mutex<()>>>>,
    due: DueTimes,
}

/// Due time of the next timer of each session.
#[derive(Debug, Default)]
struct DueTimes {
    known: OnceCell<()>,
    times: Mutex<BTreeMap<String, Timestamp>>,
    changed: Notify,
}

impl Orchestrator {
    /// Puts the three together. The agent must have been given [`Flows::offered`]; without flows all messages go to it.
    #[must_use]
    pub fn new(flows: Flows, agent: Agent, store: Arc<dyn SessionStore>) -> Self {
        let clock = Arc::new(SystemClock);
        Self(Arc::new(Shared { flows, agent, store, clock, texts: Arc::default(), sessions: Arc::default() }))
    }

    /// The same, with the session locks and timers of another orchestrator: a message still has its session to itself,
    /// and both know the timers that one of them sets. Call it before the first session is entered; both must use the
    /// same store.
    #[must_use]
    pub fn sharing(self, other: &Self) -> Self {
        self.with(|shared| shared.sessions = Arc::clone(&other.0.sessions))
    }

    /// The same with another clock, for the agent too. To be said before the first session is entered.
    #[must_use]
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        self.with(|shared| {
            shared.agent = shared.agent.clone().with_clock(Arc::clone(&clock));
            shared.clock = clock;
        })
    }

    /// The same with sentences in place of the fixed ones.
    #[must_use]
    pub fn with_texts(self, texts: Texts) -> Self {
        self.with(|shared| shared.texts = Arc::new(texts))
    }

    /// The same for a conversation that is gone with its run: no timer of it goes off.
    #[must_use]
    pub fn in_memory(self, session: impl Into<String>, entries: Vec<Entry>) -> Self {
        let store = MemorySessions::with_session(session.into(), entries);
        self.with(|shared| {
            shared.store = store;
            shared.sessions = Arc::default();
        })
    }

    fn with(self, change: impl FnOnce(&mut Shared)) -> Self {
        let mut shared = (*self.0).clone();
        change(&mut shared);
        Self(Arc::new(shared))
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.0
    }

    /// The flows.
    #[must_use]
    pub fn flows(&self) -> &Flows {
        &self.0.flows
    }

    /// The agent.
    #[must_use]
    pub fn agent(&self) -> &Agent {
        &self.0.agent
    }

    /// Handles a message of a session; events go nowhere.
    ///
    /// # Errors
    /// The agent cannot run, or the session cannot be kept.
    ///
    /// # Cancel safety
    /// Dropping the future drops what runs. Effects that had begun are not begun again for a message with the same id.
    pub async fn handle(
        &self,
        session: &str,
        message: impl Into<UserMessage>,
    ) -> Result<Handled, OrchestratorError> {
        self.enter(session).await?.handle(message.into(), self.quiet_context()).await
    }

    /// A context that persists no events.
    pub(crate) fn quiet_context(&self) -> TurnContext {
        TurnContext::new(Recorder::new(RunId::generate(), Arc::clone(&self.0.clock)))
    }

    /// Waits for a session's turn, and reads it. While the result lives, the session is locked.
    ///
    /// # Errors
    /// The session cannot be read.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the queue.
    pub async fn enter(&self, session: &str) -> Result<Entered, OrchestratorError> {
        let lock = self.0.lock(session).lock_owned().await;
        let kept = self.0.store.load(session).await?;
        Ok(Entered { shared: Arc::clone(&self.0), session: session.to_owned(), kept, _lock: lock })
    }

    /// Waits until a timer of some session is due, and gives the session; [`Entered::fire`] then lets it go off.
    ///
    /// # Errors
    /// The sessions cannot be read.
    ///
    /// # Cancel safety
    /// Nothing is lost: the next call gives the same session.
    pub async fn next_due(&self) -> Result<String, OrchestratorError> {
        self.wait_for_timer(|_| true).await
    }

    /// Waits until a timer of this session is due.
    ///
    /// # Errors
    /// The sessions cannot be read.
    ///
    /// # Cancel safety
    /// As [`next_due`](Self::next_due).
    pub async fn until_due(&self, session: &str) -> Result<(), OrchestratorError> {
        self.wait_for_timer(|other| other == session).await.map(drop)
    }

    async fn wait_for_timer(&self, is_meant: impl Fn(&str) -> bool) -> Result<String, OrchestratorError> {
        let Shared { sessions, clock, store, .. } = &*self.0;
        let due = &sessions.due;
        due.known
            .get_or_try_init(|| async {
                let states = store.list().await?.into_iter();
                let waiting = states.filter_map(|(session, state)| Some((session, state.next_due()?)));
                due.times.lock().extend(waiting);
                Ok::<(), SessionError>(())
            })
            .await?;
        loop {
            let mut changed = std::pin::pin!(due.changed.notified());
            changed.as_mut().enable();
            let Some((session, at)) = due.first(&is_meant) else {
                changed.await;
                continue;
            };
            let left = at.as_millis().saturating_sub(clock.now().as_millis());
            let Some(left) = u64::try_from(left).ok().filter(|left| *left > 0) else { return Ok(session) };
            match select(clock.sleep(Duration::from_millis(left)), changed).await {
                Either::Left(_) | Either::Right(_) => {}
            }
        }
    }
}

impl DueTimes {
    /// The session whose timer goes off first, of those that are meant.
    fn first(&self, is_meant: impl Fn(&str) -> bool) -> Option<(String, Timestamp)> {
        let times = self.times.lock();
        let meant = times.iter().filter(|(session, _)| is_meant(session));
        meant.min_by_key(|(_, at)| **at).map(|(session, at)| (session.clone(), *at))
    }
}

impl Shared {
    fn lock(&self, session: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut locks = self.sessions.locks.lock();
        if let Some(lock) = locks.get(session).and_then(Weak::upgrade) {
            return lock;
        }
        // The map is as large as there are sessions at work, give or take a factor of two.
        if locks.len() >= FEW && locks.len() == locks.capacity() {
            locks.retain(|_, lock| lock.strong_count() > 0);
        }
        let lock = Arc::default();
        locks.insert(session.to_owned(), Arc::downgrade(&lock));
        lock
    }

    /// Keeps the state of a session. A state that another process has kept meanwhile stays, and what has changed here is
    /// changed in it.
    pub(crate) async fn save(&self, session: &str, kept: &mut Session) -> Result<(), SessionError> {
        while let Some(other) = self.swap(session, kept).await? {
            kept.rebase(other);
        }
        Ok(())
    }

    /// Keeps the state of a session, and the due time of its next timer, unless another process has kept a state
    /// meanwhile, which is returned.
    pub(crate) async fn swap(
        &self,
        session: &str,
        kept: &mut Session,
    ) -> Result<Option<SessionState>, SessionError> {
        if let Some(other) = kept.swap(&*self.store, session).await? {
            return Ok(Some(other));
        }
        let mut times = self.sessions.due.times.lock();
        let before = times.get(session).copied();
        let next = kept.state.next_due();
        match next {
            Some(at) => times.insert(session.to_owned(), at),
            None => times.remove(session),
        };
        drop(times);
        if before != next {
            self.sessions.due.changed.notify_waiters();
        }
        Ok(None)
    }
}

/// A locked session.
#[derive(Debug)]
#[must_use = "the session is held only while this lives"]
pub struct Entered {
    pub(crate) shared: Arc<Shared>,
    pub(crate) session: String,
    pub(crate) kept: Session,
    _lock: OwnedMutexGuard<()>,
}

impl Entered {
    /// State and history of the session.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.kept
    }

    /// Handles a message.
    ///
    /// # Errors
    /// The agent cannot run, or the session cannot be kept.
    ///
    /// # Cancel safety
    /// As [`Orchestrator::handle`].
    pub async fn handle(
        mut self,
        message: UserMessage,
        cx: TurnContext,
    ) -> Result<Handled, OrchestratorError> {
        Turn::new(&self.shared, &self.session, &mut self.kept, message, cx).handle().await
    }

    /// Runs a flow or a system action by its id, also in a session that is handed over or closed. The text of the message may be empty.
    ///
    /// # Errors
    /// The id or a parameter is unknown, or the session cannot be kept.
    ///
    /// # Cancel safety
    /// As [`Orchestrator::handle`].
    pub async fn run(
        mut self,
        kind: Option<TargetKind>,
        id: &str,
        message: UserMessage,
        cx: TurnContext,
    ) -> Result<Handled, OrchestratorError> {
        let target = self.shared.flows.by_id(kind, id)?;
        self.shared.flows.check_parameters(target, &message.parameters)?;
        Turn::new(&self.shared, &self.session, &mut self.kept, message, cx).run_by_id(target).await
    }

    /// Returns `true` if a timer is due.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.kept.state.next_due().is_some_and(|due| due <= self.shared.clock.now())
    }

    /// Fires the timer that is due; `None` if no timer is due.
    ///
    /// # Errors
    /// The session cannot be kept.
    pub async fn fire(mut self, cx: TurnContext) -> Result<Option<Handled>, OrchestratorError> {
        let now = self.shared.clock.now();
        let shared = Arc::clone(&self.shared);
        let timer = self.kept.state.take_due(&shared.flows.0.timers, now);
        let Some(timer) = timer else {
            self.shared.save(&self.session, &mut self.kept).await?;
            return Ok(None);
        };
        let turn = Turn::new(&self.shared, &self.session, &mut self.kept, UserMessage::default(), cx);
        turn.fire(timer).await.map(Some)
    }
}

//! Sessions: one message of each at a time, all of them in parallel.

use std::sync::Arc;

use agent_runtime::Agent;
use agent_types::{Clock, Recorder, RunId, SystemClock};
use tokio::sync::OwnedMutexGuard;

use crate::conversation::Entry;
use crate::error::OrchestratorError;
use crate::flows::{Flows, TargetKind};
use crate::message::{Handled, UserMessage};
use crate::shared::Shared;
use crate::store::{MemorySessions, Session, SessionStore};
use crate::turn::Turn;
use crate::turn_context::TurnContext;
use crate::words::Texts;

/// Flows, an agent, and where sessions are kept. Cheap to clone; clones share the sessions.
#[derive(Debug, Clone)]
pub struct Orchestrator(Arc<Shared>);

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
        let kept = self.0.load(session).await?;
        Ok(Entered { shared: Arc::clone(&self.0), session: session.to_owned(), kept, _lock: lock })
    }

    /// Waits until a timer of a session that is free is due, and gives the session; [`Entered::fire`] then lets it go off.
    /// A session that is not free is looked at again later.
    ///
    /// # Errors
    /// The sessions cannot be read.
    ///
    /// # Cancel safety
    /// Nothing is lost: the next call gives the same session.
    pub async fn next_due(&self, is_free: impl Fn(&str) -> bool) -> Result<String, OrchestratorError> {
        Ok(self.0.wait_for_timer(|_| true, is_free).await?)
    }

    /// Reads which timers other processes have set, so that those of a process that has ended fire here.
    ///
    /// # Errors
    /// The sessions cannot be read.
    pub async fn reread_timers(&self) -> Result<(), OrchestratorError> {
        Ok(self.0.reread_timers().await?)
    }

    /// Waits until a timer of this session is due.
    ///
    /// # Errors
    /// The sessions cannot be read.
    ///
    /// # Cancel safety
    /// As [`next_due`](Self::next_due).
    pub async fn until_due(&self, session: &str) -> Result<(), OrchestratorError> {
        self.0.wait_for_timer(|other| other == session, |_| true).await?;
        Ok(())
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

    /// Fires the timer that is due; `None` if no timer is due, or another process has changed the session meanwhile.
    ///
    /// # Errors
    /// The session cannot be kept.
    pub async fn fire(mut self, cx: TurnContext) -> Result<Option<Handled>, OrchestratorError> {
        let now = self.shared.clock.now();
        let shared = Arc::clone(&self.shared);
        let timer = self.kept.state.take_due(&shared.flows.0.timers, now);
        // Before anything runs: of two processes that find it due, one fires it.
        if self.shared.swap(&self.session, &mut self.kept).await?.is_some() {
            self.shared.load(&self.session).await?;
            return Ok(None);
        }
        let Some(timer) = timer else { return Ok(None) };
        let turn = Turn::new(&self.shared, &self.session, &mut self.kept, UserMessage::default(), cx);
        turn.fire(timer).await.map(Some)
    }

    /// Resumes the run of a timer that has gone off.
    ///
    /// # Errors
    /// The session cannot be kept. `None` if the timer is unknown.
    pub async fn resume_timer(
        mut self,
        id: &str,
        cx: TurnContext,
    ) -> Result<Option<Handled>, OrchestratorError> {
        let shared = Arc::clone(&self.shared);
        let Some(timer) = shared.flows.0.timers.iter().find(|timer| timer.id == id) else { return Ok(None) };
        let turn = Turn::new(&self.shared, &self.session, &mut self.kept, UserMessage::default(), cx);
        turn.fire(timer).await.map(Some)
    }
}

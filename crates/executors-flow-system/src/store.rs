//! Stores of sessions.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use agent_runtime::Exchange;
use agent_types::Timestamp;
use async_trait::async_trait;
use parking_lot::Mutex;
use run_store::{Store, StoreError};
use serde_json::Value;

use crate::session::SessionState;

/// A session as it is kept.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Session {
    /// State.
    pub state: SessionState,
    /// Messages that the agent read and wrote.
    pub history: Vec<Exchange>,
    /// The state that the store is known to have.
    stored: SessionState,
}

impl Session {
    /// A session as a store has it.
    #[must_use]
    pub fn new(state: SessionState, history: Vec<Exchange>) -> Self {
        Self { stored: state.clone(), state, history }
    }

    /// Swaps the state in a store; returns the state that another process has kept meanwhile, if there is one.
    pub(crate) async fn swap(
        &mut self,
        store: &dyn SessionStore,
        session: &str,
    ) -> Result<Option<SessionState>, SessionError> {
        Ok(match store.swap(session, &self.stored, &self.state).await? {
            Swap::Unchanged(stored) => {
                self.stored = stored;
                None
            }
            Swap::Changed(other) => Some(other),
        })
    }

    /// Replays the change of the state on the state that another process has kept.
    pub(crate) fn rebase(&mut self, other: SessionState) {
        self.state = self.state.replayed(&self.stored, other.clone());
        self.stored = other;
    }
}

/// Result of a compare-and-swap of a session's state.
#[derive(Debug, Clone, PartialEq)]
pub enum Swap {
    /// The new state is kept, as it is stored.
    Unchanged(SessionState),
    /// Nothing was written: the store has this state, not the expected one.
    Changed(SessionState),
}

/// A session that cannot be read or kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the session cannot be kept: {message}")]
pub struct SessionError {
    /// Stable code for logs, tests and the wire.
    pub code: &'static str,
    /// Message.
    pub message: String,
}

impl From<StoreError> for SessionError {
    fn from(error: StoreError) -> Self {
        Self { code: error.code(), message: error.to_string() }
    }
}

/// Store of sessions. The orchestrator has one operation per session under way at a time.
#[async_trait]
pub trait SessionStore: Send + Sync + fmt::Debug {
    /// Loads a session; an empty one if the id is unknown.
    ///
    /// # Errors
    /// It cannot be read.
    async fn load(&self, session: &str) -> Result<Session, SessionError>;

    /// Keeps the state of a session if the store has the expected one, atomically, also with respect to other processes.
    ///
    /// # Errors
    /// It cannot be read or kept.
    async fn swap(
        &self,
        session: &str,
        expected: &SessionState,
        state: &SessionState,
    ) -> Result<Swap, SessionError>;

    /// Puts exchanges behind those that a session has.
    ///
    /// # Errors
    /// They cannot be kept.
    async fn append(&self, session: &str, exchanges: &[Exchange]) -> Result<(), SessionError>;

    /// Sessions with timers that wait, and when the first of each goes off.
    ///
    /// # Errors
    /// They cannot be read.
    async fn waiting(&self) -> Result<Vec<(String, Timestamp)>, SessionError>;
}

/// Sessions that are gone with the process.
#[derive(Debug, Default)]
pub struct MemorySessions(Mutex<BTreeMap<String, Session>>);

impl MemorySessions {
    /// None so far.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    fn with<T>(&self, session: &str, change: impl FnOnce(&mut Session) -> T) -> T {
        let mut sessions = self.0.lock();
        change(sessions.entry(session.to_owned()).or_default())
    }
}

#[async_trait]
impl SessionStore for MemorySessions {
    async fn load(&self, session: &str) -> Result<Session, SessionError> {
        Ok(self.with(session, |session| session.clone()))
    }

    async fn swap(
        &self,
        session: &str,
        expected: &SessionState,
        state: &SessionState,
    ) -> Result<Swap, SessionError> {
        Ok(self.with(session, |session| {
            if session.state != *expected {
                return Swap::Changed(session.state.clone());
            }
            session.state.clone_from(state);
            session.stored.clone_from(state);
            Swap::Unchanged(state.clone())
        }))
    }

    async fn append(&self, session: &str, exchanges: &[Exchange]) -> Result<(), SessionError> {
        self.with(session, |session| session.history.extend_from_slice(exchanges));
        Ok(())
    }

    async fn waiting(&self) -> Result<Vec<(String, Timestamp)>, SessionError> {
        let sessions = self.0.lock();
        let waiting =
            sessions.iter().filter_map(|(id, session)| Some((id.clone(), session.state.next_due()?)));
        Ok(waiting.collect())
    }
}

/// The sessions of one agent in a [`Store`]: what was said is the agent's thread of the same id.
#[derive(Debug, Clone)]
pub struct StoredSessions {
    store: Store,
    agent: String,
}

impl StoredSessions {
    /// The sessions of an agent.
    #[must_use]
    pub fn new(store: Store, agent: impl Into<String>) -> Self {
        Self { store, agent: agent.into() }
    }

    /// Beginning of the names of states.
    fn prefix(&self) -> String {
        format!("session:{}/", self.agent)
    }

    fn thread(&self, session: &str) -> String {
        format!("{}/{session}", self.agent)
    }
}

#[async_trait]
impl SessionStore for StoredSessions {
    async fn load(&self, session: &str) -> Result<Session, SessionError> {
        let state = read(session, self.store.value(&(self.prefix() + session))?)?;
        let messages = self.store.messages(&self.thread(session))?;
        let history = messages.into_iter().filter_map(|message| serde_json::from_value(message).ok());
        Ok(Session::new(state, history.collect()))
    }

    async fn swap(
        &self,
        session: &str,
        expected: &SessionState,
        state: &SessionState,
    ) -> Result<Swap, SessionError> {
        let (id, expected) = (session.to_owned(), expected.clone());
        let value = serde_json::to_value(state).unwrap_or_default();
        let change = move |old| match read(&id, old) {
            Ok(found) if found == expected => Ok(value),
            other => Err(other),
        };
        match self.store.update(&(self.prefix() + session), change)? {
            Ok(kept) => Ok(Swap::Unchanged(read(session, Some(kept))?)),
            Err(other) => other.map(Swap::Changed),
        }
    }

    async fn append(&self, session: &str, exchanges: &[Exchange]) -> Result<(), SessionError> {
        let messages: Vec<Value> =
            exchanges.iter().filter_map(|exchange| serde_json::to_value(exchange).ok()).collect();
        self.store.add_messages(&self.thread(session), &messages);
        Ok(())
    }

    async fn waiting(&self) -> Result<Vec<(String, Timestamp)>, SessionError> {
        let prefix = self.prefix();
        let states = self.store.values(&prefix)?.into_iter();
        let waiting = states.filter_map(|(key, value)| {
            let state: SessionState = serde_json::from_value(value).ok()?;
            Some((key.strip_prefix(&prefix)?.to_owned(), state.next_due()?))
        });
        Ok(waiting.collect())
    }
}

/// Reads the state of a session; the first one if the store has none.
fn read(session: &str, state: Option<Value>) -> Result<SessionState, SessionError> {
    let state = state.map(serde_json::from_value).transpose().map_err(|error| SessionError {
        code: "bad_session",
        message: format!("the state of `{session}`: {error}"),
    })?;
    Ok(state.unwrap_or_default())
}

//! Stores of sessions.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use agent_runtime::Exchange;
use async_trait::async_trait;
use parking_lot::Mutex;
use run_store::{Store, StoreError, UnblockedStore};
use serde_json::Value;

use crate::conversation::{Entry, exchanges, thread_key};
use crate::session::SessionState;

/// A session as it is kept.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Session {
    /// State.
    pub state: SessionState,
    /// The conversation.
    pub entries: Vec<Entry>,
    /// The state that the store is known to have.
    stored: SessionState,
}

impl Session {
    /// A session as a store has it.
    #[must_use]
    pub fn new(state: SessionState, entries: Vec<Entry>) -> Self {
        Self { stored: state.clone(), state, entries }
    }

    /// Messages that the agent read and wrote.
    #[must_use]
    pub fn history(&self) -> Vec<Exchange> {
        exchanges(&self.entries).cloned().collect()
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

    /// Puts entries behind those that a session has, all or none of them.
    ///
    /// # Errors
    /// They cannot be kept.
    async fn append(&self, session: &str, entries: &[Entry]) -> Result<(), SessionError>;

    /// Sessions with their states.
    ///
    /// # Errors
    /// They cannot be read.
    async fn list(&self) -> Result<Vec<(String, SessionState)>, SessionError>;
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

    /// A session with these entries.
    pub(crate) fn with_session(session: String, entries: Vec<Entry>) -> Arc<Self> {
        let sessions = BTreeMap::from([(session, Session::new(SessionState::default(), entries))]);
        Arc::new(Self(Mutex::new(sessions)))
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

    async fn append(&self, session: &str, entries: &[Entry]) -> Result<(), SessionError> {
        self.with(session, |session| session.entries.extend_from_slice(entries));
        Ok(())
    }

    async fn list(&self) -> Result<Vec<(String, SessionState)>, SessionError> {
        let sessions = self.0.lock();
        Ok(sessions.iter().map(|(id, session)| (id.clone(), session.state.clone())).collect())
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
        thread_key(&self.agent, session)
    }
}

#[async_trait]
impl SessionStore for StoredSessions {
    async fn load(&self, session: &str) -> Result<Session, SessionError> {
        let state =
            read(session, UnblockedStore::from(&self.store).value(&(self.prefix() + session)).await?)?;
        let messages = UnblockedStore::from(&self.store).messages(&self.thread(session)).await?;
        Ok(Session::new(state, messages.into_iter().filter_map(Entry::from_value).collect()))
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
        match UnblockedStore::from(&self.store).update(&(self.prefix() + session), change).await? {
            Ok(kept) => Ok(Swap::Unchanged(read(session, Some(kept))?)),
            Err(other) => other.map(Swap::Changed),
        }
    }

    async fn append(&self, session: &str, entries: &[Entry]) -> Result<(), SessionError> {
        let messages: Vec<Value> = entries.iter().map(Entry::to_value).collect();
        self.store.add_messages(&self.thread(session), &messages);
        Ok(())
    }

    async fn list(&self) -> Result<Vec<(String, SessionState)>, SessionError> {
        let prefix = self.prefix();
        let states = UnblockedStore::from(&self.store).values(&prefix).await?.into_iter();
        let states = states.filter_map(|(key, value)| {
            let state: SessionState = serde_json::from_value(value).ok()?;
            Some((key.strip_prefix(&prefix)?.to_owned(), state))
        });
        Ok(states.collect())
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

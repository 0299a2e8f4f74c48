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

    /// Keeps what a session is at. What is kept later is kept after it.
    ///
    /// # Errors
    /// It cannot be kept.
    async fn save(&self, session: &str, state: &SessionState) -> Result<(), SessionError>;

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

    async fn save(&self, session: &str, state: &SessionState) -> Result<(), SessionError> {
        self.with(session, |session| session.state.clone_from(state));
        Ok(())
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
        let state = self.store.value(&(self.prefix() + session))?;
        let state = state.map(serde_json::from_value).transpose().map_err(|error| SessionError {
            code: "bad_session",
            message: format!("the state of `{session}`: {error}"),
        })?;
        let messages = self.store.messages(&self.thread(session))?;
        let history = messages.into_iter().filter_map(|message| serde_json::from_value(message).ok());
        Ok(Session { state: state.unwrap_or_default(), history: history.collect() })
    }

    async fn save(&self, session: &str, state: &SessionState) -> Result<(), SessionError> {
        let value = serde_json::to_value(state).unwrap_or_default();
        self.store.put(&(self.prefix() + session), Some(&value));
        Ok(())
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

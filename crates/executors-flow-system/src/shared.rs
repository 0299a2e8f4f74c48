//! Parts that the turns of all sessions share: flows, agent, store, the locks of sessions and their timers.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};
use std::time::Duration;

use agent_runtime::Agent;
use agent_types::{Clock, Timestamp};
use futures::future::{Either, select};
use parking_lot::Mutex;
use tokio::sync::{Notify, OnceCell};

use crate::flows::Flows;
use crate::session::SessionState;
use crate::store::{Session, SessionError, SessionStore};
use crate::words::Texts;

/// Number of session locks above which unused ones are removed.
const FEW: usize = 64;

/// Pause before a session that was not free is looked at again.
const LOOK: Duration = Duration::from_secs(1);

/// Parts of an orchestrator that its turns share.
#[derive(Debug, Clone)]
pub(crate) struct Shared {
    pub(crate) flows: Flows,
    pub(crate) agent: Agent,
    pub(crate) store: Arc<dyn SessionStore>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) texts: Arc<Texts>,
    pub(crate) sessions: Arc<Sessions>,
}

/// Locks of sessions, and the next timer of each.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
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

impl DueTimes {
    /// The session whose timer goes off first, of those that are meant.
    fn first(&self, is_meant: impl Fn(&str) -> bool) -> Option<(String, Timestamp)> {
        let times = self.times.lock();
        let meant = times.iter().filter(|(session, _)| is_meant(session));
        meant.min_by_key(|(_, at)| **at).map(|(session, at)| (session.clone(), *at))
    }
}

impl Shared {
    /// The lock of a session.
    pub(crate) fn lock(&self, session: &str) -> Arc<tokio::sync::Mutex<()>> {
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

    /// Waits until a timer of some session that is meant is due while the session is free, and gives the session.
    pub(crate) async fn wait_for_timer(
        &self,
        is_meant: impl Fn(&str) -> bool,
        is_free: impl Fn(&str) -> bool,
    ) -> Result<String, SessionError> {
        let Self { sessions, clock, store, .. } = self;
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
            let first = due.first(|session| is_meant(session) && is_free(session));
            let is_skipped = first != due.first(&is_meant);
            let mut left = is_skipped.then_some(LOOK);
            if let Some((session, at)) = first {
                let until = at.as_millis().saturating_sub(clock.now().as_millis());
                let Some(until) = u64::try_from(until).ok().filter(|until| *until > 0) else {
                    return Ok(session);
                };
                let until = Duration::from_millis(until);
                left = Some(left.map_or(until, |left| left.min(until)));
            }
            let Some(left) = left else {
                changed.await;
                continue;
            };
            match select(clock.sleep(left), changed).await {
                Either::Left(_) | Either::Right(_) => {}
            }
        }
    }

    /// Learns of the timers that other processes have set.
    pub(crate) async fn reread_timers(&self) -> Result<(), SessionError> {
        let states = self.store.list().await?;
        let mut times = self.sessions.due.times.lock();
        for (session, state) in states {
            if let Some(at) = state.next_due() {
                // A time that is known is corrected when the session is read.
                times.entry(session).or_insert(at);
            }
        }
        drop(times);
        self.sessions.due.changed.notify_waiters();
        Ok(())
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
        self.note_due(session, &kept.state);
        Ok(None)
    }

    /// Reads a session, and the due time of its next timer, which another process may have fired.
    pub(crate) async fn load(&self, session: &str) -> Result<Session, SessionError> {
        let kept = self.store.load(session).await?;
        self.note_due(session, &kept.state);
        Ok(kept)
    }

    fn note_due(&self, session: &str, state: &SessionState) {
        let mut times = self.sessions.due.times.lock();
        let before = times.get(session).copied();
        let next = state.next_due();
        match next {
            Some(at) => times.insert(session.to_owned(), at),
            None => times.remove(session),
        };
        drop(times);
        if before != next {
            self.sessions.due.changed.notify_waiters();
        }
    }
}

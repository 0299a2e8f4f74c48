//! Connections: how many there are at once, and how many of them have shown no token yet.
//!
//! A client that shows none costs as much as another, so such clients have a small limit of their own: beyond it, those go
//! that have shown nothing for a while. Many that come at once have the time to show theirs.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// Share of the connections that may show no token.
const SHARE: usize = 8;

/// Fewest and most of them.
const STRANGERS: (usize, usize) = (8, 64);

/// Time that each of them has in any case.
const PATIENCE: Duration = Duration::from_secs(5);

/// All connections of a server.
#[derive(Debug)]
pub(crate) struct Connections {
    permits: Arc<Semaphore>,
    strangers: Arc<Strangers>,
}

/// Connections that have shown no token, the oldest first.
#[derive(Debug)]
struct Strangers {
    limit: usize,
    waiting: Mutex<VecDeque<(CancellationToken, Duration)>>,
}

/// One connection, until it is dropped: its socket keeps it when it becomes one.
#[derive(Debug)]
pub(crate) struct Connection {
    evicted: CancellationToken,
    strangers: Arc<Strangers>,
    _permit: OwnedSemaphorePermit,
}

impl Connections {
    pub(crate) fn new(limit: usize) -> Self {
        let limit = limit.max(1);
        let strangers = (limit / SHARE).clamp(STRANGERS.0, STRANGERS.1).min(limit);
        let strangers = Arc::new(Strangers { limit: strangers, waiting: Mutex::default() });
        Self { permits: Arc::new(Semaphore::new(limit)), strangers }
    }

    /// Takes a connection in at this time of a clock; `None` when the limit is reached.
    pub(crate) fn enter(&self, now: Duration) -> Option<Arc<Connection>> {
        let permit = Arc::clone(&self.permits).try_acquire_owned().ok()?;
        let evicted = CancellationToken::new();
        self.strangers.take(evicted.clone(), now);
        Some(Arc::new(Connection { evicted, strangers: Arc::clone(&self.strangers), _permit: permit }))
    }
}

impl Connection {
    /// Notes that the client has shown the token.
    pub(crate) fn is_known(&self) {
        self.strangers.forget(&self.evicted);
    }

    /// Resolves when it must make room for another.
    pub(crate) async fn evicted(&self) {
        self.evicted.cancelled().await;
    }
}

impl Strangers {
    /// Adds the newest; those that are too many and have had their time go.
    fn take(&self, newest: CancellationToken, now: Duration) {
        let mut waiting = self.waiting.lock();
        waiting.push_back((newest, now));
        while waiting.len() > self.limit
            && let Some((_, since)) = waiting.front()
            && now.saturating_sub(*since) >= PATIENCE
            && let Some((oldest, _)) = waiting.pop_front()
        {
            oldest.cancel();
        }
    }

    fn forget(&self, connection: &CancellationToken) {
        self.waiting.lock().retain(|(waiting, _)| waiting != connection);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.strangers.forget(&self.evicted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n15_clients_without_a_token_have_a_limit_of_their_own() {
        let connections = Connections::new(100);
        let (start, later) = (Duration::from_secs(1), Duration::from_secs(10));
        let known = connections.enter(start).unwrap();
        known.is_known();
        let strangers: Vec<_> = (0..40).map(|_| connections.enter(start).unwrap()).collect();
        let evicted = || strangers.iter().filter(|one| one.evicted.is_cancelled()).count();
        assert_eq!(evicted(), 0, "those that come at once have the time to show their token");
        strangers[0].is_known();
        let newest = connections.enter(later).unwrap();
        assert_eq!(evicted(), 28, "12 may stay");
        assert!([&known, &strangers[0], &newest].iter().all(|one| !one.evicted.is_cancelled()));
        drop((strangers, newest));
        assert!(connections.strangers.waiting.lock().is_empty());
        let all: Vec<_> = (0..99).map(|_| connections.enter(later).unwrap()).collect();
        assert!(connections.enter(later).is_none(), "the limit of all holds");
        drop(all);
        assert!(connections.enter(later).is_some());
    }
}

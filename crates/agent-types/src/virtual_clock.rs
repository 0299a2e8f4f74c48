//! A clock that moves only when a test advances it.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;

use crate::{Clock, Sleep, Timestamp};

/// A clock that moves only when a test advances it. Clones share the same time.
///
/// [`advance`](Self::advance) moves it by hand; a test runtime calls [`advance_to_next`](Self::advance_to_next) whenever it has nothing else to do
/// (with tokio: from `on_thread_park` of a current-thread runtime), so that every wait ends at once and in order.
/// Work that virtual time must wait for (a blocking thread, a commit, a socket) takes a [`hold`](Self::hold).
#[derive(Debug, Clone)]
pub struct VirtualClock {
    shared: Arc<Mutex<State>>,
    epoch: Timestamp,
}

type Key = (Duration, u64);

#[derive(Debug, Default)]
struct State {
    now: Duration,
    next_id: u64,
    holds: usize,
    wakers: BTreeMap<Key, Waker>,
}

/// While this lives, [`VirtualClock::advance_to_next`] does nothing.
#[derive(Debug)]
#[must_use = "time is held only while this lives"]
pub struct ClockHold(Arc<Mutex<State>>);

impl VirtualClock {
    /// A clock that says `epoch` until it is moved.
    #[must_use]
    pub fn new(epoch: Timestamp) -> Self {
        Self { shared: Arc::default(), epoch }
    }

    /// Moves the clock and wakes every sleep that is due.
    pub fn advance(&self, by: Duration) {
        let target = self.shared.lock().now + by;
        self.move_to(target);
    }

    /// Moves to the next deadline and wakes its sleeps; false when nothing sleeps or time is held.
    pub fn advance_to_next(&self) -> bool {
        let next = {
            let state = self.shared.lock();
            if state.holds > 0 {
                return false;
            }
            state.wakers.first_key_value().map(|(&(deadline, _), _)| deadline)
        };
        next.map(|deadline| self.move_to(deadline)).is_some()
    }

    /// Keeps time from moving by itself until the guard is dropped.
    pub fn hold(&self) -> ClockHold {
        self.shared.lock().holds += 1;
        ClockHold(Arc::clone(&self.shared))
    }

    fn move_to(&self, target: Duration) {
        let due = {
            let mut state = self.shared.lock();
            let now = state.now.max(target);
            state.now = now;
            let later = state.wakers.split_off(&(now, u64::MAX));
            std::mem::replace(&mut state.wakers, later)
        };
        due.into_values().for_each(Waker::wake);
    }
}

impl Drop for ClockHold {
    fn drop(&mut self) {
        let sleeper = {
            let mut state = self.0.lock();
            state.holds -= 1;
            if state.holds > 0 {
                return;
            }
            state.wakers.first_key_value().map(|(_, waker)| waker.clone())
        };
        // Whoever waits looks again, so that a runtime that parked meanwhile parks once more and time moves on.
        sleeper.into_iter().for_each(Waker::wake);
    }
}

impl Clock for VirtualClock {
    fn busy(&self) -> Option<ClockHold> {
        Some(self.hold())
    }

    fn now(&self) -> Timestamp {
        self.epoch.plus(self.elapsed())
    }

    fn elapsed(&self) -> Duration {
        self.shared.lock().now
    }

    fn sleep(&self, duration: Duration) -> Sleep {
        let deadline = self.elapsed().saturating_add(duration);
        Box::pin(VirtualSleep { shared: Arc::clone(&self.shared), deadline, key: None })
    }
}

struct VirtualSleep {
    shared: Arc<Mutex<State>>,
    deadline: Duration,
    key: Option<Key>,
}

impl Future for VirtualSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let shared = Arc::clone(&self.shared);
        let mut state = shared.lock();
        if state.now >= self.deadline {
            return Poll::Ready(());
        }
        let deadline = self.deadline;
        let key = *self.key.get_or_insert_with(|| {
            state.next_id += 1;
            (deadline, state.next_id)
        });
        state.wakers.insert(key, cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for VirtualSleep {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.shared.lock().wakers.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poll(sleep: &mut Sleep) -> bool {
        sleep.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn time_moves_to_the_next_sleep_only() {
        let clock = VirtualClock::new(Timestamp::from_millis(1000));
        let mut early = clock.sleep(Duration::from_millis(10));
        let mut late = clock.sleep(Duration::from_millis(30));
        assert!(!poll(&mut early) && !poll(&mut late));
        assert!(clock.advance_to_next());
        assert!(poll(&mut early) && !poll(&mut late));
        assert_eq!(clock.now(), Timestamp::from_millis(1010));
        assert!(clock.advance_to_next());
        assert!(poll(&mut late));
        assert!(!clock.advance_to_next());
    }

    #[test]
    fn held_time_stands_still() {
        let clock = VirtualClock::new(Timestamp::default());
        let mut sleep = clock.sleep(Duration::from_secs(1));
        assert!(!poll(&mut sleep));
        let hold = clock.hold();
        assert!(!clock.advance_to_next());
        drop(hold);
        assert!(clock.advance_to_next());
    }

    #[test]
    fn a_dropped_sleep_is_forgotten() {
        let clock = VirtualClock::new(Timestamp::default());
        let mut sleep = clock.sleep(Duration::from_secs(1));
        assert!(!poll(&mut sleep));
        drop(sleep);
        assert!(!clock.advance_to_next());
    }
}

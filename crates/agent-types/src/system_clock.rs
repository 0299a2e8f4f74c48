//! The real clock: one timer thread for the process, no runtime.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::OnceLock;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::{Clock, Sleep, Timestamp};

/// The machine's clock.
///
/// Waits are kept by one thread, started with the first of them and shared by the whole process, so that the clock works under any runtime.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_system()
    }

    fn elapsed(&self) -> Duration {
        Timer::get().started.elapsed()
    }

    fn sleep(&self, duration: Duration) -> Sleep {
        // A wait beyond what an instant can hold is a wait of a century.
        let now = Instant::now();
        let deadline = now.checked_add(duration).unwrap_or(now + Duration::from_hours(876_000));
        Box::pin(TimerSleep { deadline, key: None })
    }
}

type Key = (Instant, u64);

#[derive(Debug, Default)]
struct Waiting {
    next_id: u64,
    wakers: BTreeMap<Key, Waker>,
}

#[derive(Debug)]
struct Timer {
    started: Instant,
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

impl Timer {
    fn get() -> &'static Self {
        static TIMER: OnceLock<Timer> = OnceLock::new();
        static THREAD: OnceLock<()> = OnceLock::new();
        let timer = TIMER.get_or_init(|| Self {
            started: Instant::now(),
            waiting: Mutex::default(),
            changed: Condvar::new(),
        });
        THREAD.get_or_init(|| {
            std::thread::Builder::new()
                .name("weft-timer".into())
                .spawn(|| timer.run())
                .expect("the process can start its one timer thread");
        });
        timer
    }

    fn run(&self) {
        let mut waiting = self.waiting.lock();
        loop {
            let now = Instant::now();
            let later = waiting.wakers.split_off(&(now, u64::MAX));
            let due = std::mem::replace(&mut waiting.wakers, later);
            if !due.is_empty() {
                drop(waiting);
                due.into_values().for_each(Waker::wake);
                waiting = self.waiting.lock();
                continue;
            }
            match waiting.wakers.first_key_value() {
                Some((&(deadline, _), _)) => {
                    self.changed.wait_until(&mut waiting, deadline);
                }
                None => self.changed.wait(&mut waiting),
            }
        }
    }
}

struct TimerSleep {
    deadline: Instant,
    key: Option<Key>,
}

impl Future for TimerSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if Instant::now() >= self.deadline {
            return Poll::Ready(());
        }
        let timer = Timer::get();
        let mut waiting = timer.waiting.lock();
        let deadline = self.deadline;
        let key = *self.key.get_or_insert_with(|| {
            waiting.next_id += 1;
            (deadline, waiting.next_id)
        });
        waiting.wakers.insert(key, cx.waker().clone());
        let is_next = waiting.wakers.first_key_value().is_some_and(|(first, _)| *first == key);
        drop(waiting);
        if is_next {
            timer.changed.notify_one();
        }
        Poll::Pending
    }
}

impl Drop for TimerSleep {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            Timer::get().waiting.lock().wakers.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc;
    use std::task::Wake;

    use super::*;

    struct Signal(mpsc::Sender<()>);

    impl Wake for Signal {
        fn wake(self: Arc<Self>) {
            // The receiver may be gone when the test is over.
            let _ = self.0.send(());
        }
    }

    #[test]
    fn a_sleep_wakes_after_its_deadline_and_not_before() {
        let (sender, receiver) = mpsc::channel();
        let waker = Waker::from(Arc::new(Signal(sender)));
        let mut cx = Context::from_waker(&waker);
        let started = Instant::now();
        let mut long = SystemClock.sleep(Duration::from_hours(1));
        let mut sleep = SystemClock.sleep(Duration::from_millis(20));
        assert!(long.as_mut().poll(&mut cx).is_pending());
        assert!(sleep.as_mut().poll(&mut cx).is_pending());
        receiver.recv_timeout(Duration::from_secs(10)).unwrap();
        assert!(started.elapsed() >= Duration::from_millis(20));
        assert!(sleep.as_mut().poll(&mut cx).is_ready());
    }

    #[test]
    fn a_dropped_sleep_leaves_nothing_behind() {
        let mut cx = Context::from_waker(Waker::noop());
        let deadline = Instant::now() + Duration::from_hours(2);
        let mut sleep = Box::pin(TimerSleep { deadline, key: None });
        assert!(sleep.as_mut().poll(&mut cx).is_pending());
        let key = sleep.key.unwrap();
        assert!(Timer::get().waiting.lock().wakers.contains_key(&key));
        drop(sleep);
        assert!(!Timer::get().waiting.lock().wakers.contains_key(&key));
    }
}

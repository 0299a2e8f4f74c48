//! Clocks, the only source of time.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use crate::{ClockHold, Timestamp};

/// A wait that ends by itself. Dropping it forgets it.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Source of time, replaceable in tests. [`SystemClock`](crate::SystemClock) is the real one;
/// [`VirtualClock`](crate::VirtualClock) moves only when a test advances it.
pub trait Clock: Send + Sync + fmt::Debug {
    /// The time of day, for trace events. It may jump when the operator sets the machine's clock.
    fn now(&self) -> Timestamp;

    /// Time since some fixed moment, for measuring. Never goes back.
    fn elapsed(&self) -> Duration;

    /// Waits for `duration`; at least one poll ends pending unless the duration is zero.
    ///
    /// # Cancel safety
    /// Dropping the future leaves nothing behind.
    fn sleep(&self, duration: Duration) -> Sleep;

    /// Holds the clock for work outside of the runtime's tasks: a commit, a blocking thread, a socket.
    /// A virtual clock stands still while the guard lives; a real one knows no such thing.
    fn busy(&self) -> Option<ClockHold> {
        None
    }
}

//! The clock of the project as the timer of connections.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use agent_types::Clock;
use hyper::rt;
use parking_lot::Mutex;

/// Lets connections wait by the project's clock.
#[derive(Debug, Clone)]
pub(crate) struct ClockTimer(pub(crate) Arc<dyn Clock>);

/// A wait that may be shared, which those of the clock may not.
struct Wait(Mutex<agent_types::Sleep>);

impl Future for Wait {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.0.get_mut().as_mut().poll(cx)
    }
}

impl rt::Sleep for Wait {}

impl rt::Timer for ClockTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn rt::Sleep>> {
        Box::pin(Wait(Mutex::new(self.0.sleep(duration))))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn rt::Sleep>> {
        self.sleep(deadline.saturating_duration_since(Instant::now()))
    }
}

//! A runtime on one thread in virtual time.

use std::sync::Arc;

use agent_types::{Clock, Timestamp, VirtualClock};
use tokio::runtime::{Builder, Runtime};

/// Runtime on one thread whose clock advances to the next deadline when every task waits.
#[derive(Debug)]
pub struct VirtualTime {
    clock: VirtualClock,
    runtime: Runtime,
}

impl Default for VirtualTime {
    fn default() -> Self {
        let clock = VirtualClock::new(Timestamp::default());
        let parked = clock.clone();
        let runtime = Builder::new_current_thread()
            .on_thread_park(move || {
                parked.advance_to_next();
            })
            .build()
            .unwrap();
        Self { clock, runtime }
    }
}

impl VirtualTime {
    /// The clock that advances.
    #[must_use]
    pub fn clock(&self) -> VirtualClock {
        self.clock.clone()
    }

    /// The clock as options take it.
    #[must_use]
    pub fn shared_clock(&self) -> Arc<dyn Clock> {
        Arc::new(self.clock())
    }

    /// Runs a future to its end.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }
}

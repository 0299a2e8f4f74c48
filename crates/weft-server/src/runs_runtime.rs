//! Threads that execute runs.

use tokio::runtime::{Builder, Handle, Runtime};

/// Runtime of the runs, apart from that of the requests: whatever a run does, requests and signals are served.
#[derive(Debug)]
pub(crate) struct RunsRuntime(Option<Runtime>);

impl RunsRuntime {
    /// Starts the threads.
    ///
    /// # Errors
    /// The system gives no threads.
    pub(crate) fn start() -> std::io::Result<Self> {
        Builder::new_multi_thread()
            .thread_name("weft-runs")
            .enable_all()
            .build()
            .map(|runtime| Self(Some(runtime)))
    }

    /// The way to give it work.
    pub(crate) fn handle(&self) -> Handle {
        self.0.as_ref().map_or_else(Handle::current, |runtime| runtime.handle().clone())
    }
}

impl Drop for RunsRuntime {
    fn drop(&mut self) {
        // A thread that is still busy does not hold the server.
        self.0.take().into_iter().for_each(Runtime::shutdown_background);
    }
}

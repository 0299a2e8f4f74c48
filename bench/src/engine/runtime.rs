//! Where engines run.

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

/// How many threads drive the tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Threads {
    /// The one that waits.
    One,
    /// Two workers, as the program has them here.
    Two,
}

impl Threads {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::One => "one thread",
            Self::Two => "two threads",
        }
    }

    pub(crate) fn runtime(self) -> std::io::Result<Runtime> {
        match self {
            Self::One => Builder::new_current_thread().build(),
            Self::Two => Builder::new_multi_thread().worker_threads(2).build(),
        }
    }
}

/// Drives a future as a task of the runtime, so that what it spawns stays on its workers.
pub(crate) fn drive<T: Send + 'static>(
    runtime: &Runtime,
    work: impl Future<Output = T> + Send + 'static,
) -> T {
    let mut tasks = JoinSet::new();
    tasks.spawn_on(work, runtime.handle());
    let done = runtime.block_on(tasks.join_next());
    done.and_then(Result::ok).expect("the work neither panics nor is cancelled")
}

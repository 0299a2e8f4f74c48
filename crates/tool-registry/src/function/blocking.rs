//! Functions that are not async, on threads of their own.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Semaphore;

use crate::output::{INTERNAL_ERROR, ToolError, ToolErrorKind, ToolOutput};

/// Threads that functions may hold at once. Further calls wait, within their own time.
const MAX_THREADS: usize = 64;

static PERMITS: Semaphore = Semaphore::const_new(MAX_THREADS);

/// Threads that still run after their call was given up.
static STUCK: AtomicUsize = AtomicUsize::new(0);

/// Returns the number of threads that still run a function whose call is over. A blocked thread cannot be stopped; each
/// holds one of 64 permits until it returns.
#[must_use]
pub fn stuck_threads() -> usize {
    STUCK.load(Ordering::Relaxed)
}

/// Counts the thread as stuck from when the call is given up until it is free.
struct Watch {
    state: std::sync::Arc<AtomicUsize>,
}

const RUNNING: usize = 0;
const GIVEN_UP: usize = 1;
const DONE: usize = 2;

impl Drop for Watch {
    fn drop(&mut self) {
        if self.state.compare_exchange(RUNNING, GIVEN_UP, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            STUCK.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Runs a function on a thread where it may block. A panic resumes in the caller.
///
/// # Errors
/// Those of the function.
///
/// # Cancel safety
/// Dropping the future leaves the thread running until the function returns; its permit is released only then.
#[doc(hidden)]
pub async fn on_a_thread(
    function: impl FnOnce() -> Result<ToolOutput, ToolError> + Send + 'static,
) -> Result<ToolOutput, ToolError> {
    let permit = PERMITS.acquire().await;
    let state = std::sync::Arc::new(AtomicUsize::new(RUNNING));
    let done = std::sync::Arc::clone(&state);
    let work = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        let result = catch_unwind(AssertUnwindSafe(function));
        if done.swap(DONE, Ordering::Relaxed) == GIVEN_UP {
            STUCK.fetch_sub(1, Ordering::Relaxed);
        }
        result
    });
    let watch = Watch { state };
    let joined = work.await;
    drop(watch);
    match joined {
        Ok(Ok(result)) => result,
        Ok(Err(panic)) => resume_unwind(panic),
        Err(error) => {
            Err(ToolError::new(ToolErrorKind::Failed, INTERNAL_ERROR).with_detail(error.to_string()))
        }
    }
}

//! Ctrl-C: once asks the run to end, twice ends the program.

use futures::future::{Either, select};
use tokio_util::sync::CancellationToken;

use crate::failure::Exit;

/// Drives a run; an interrupt cancels it, and the run then says so itself.
pub(crate) async fn run<F: Future>(run: F, cancel: &CancellationToken) -> F::Output {
    let run = std::pin::pin!(run);
    match select(run, std::pin::pin!(interrupted())).await {
        Either::Left((output, _)) => output,
        Either::Right(((), run)) => {
            note!("interrupted; again to quit at once");
            cancel.cancel();
            match select(run, std::pin::pin!(interrupted())).await {
                Either::Left((output, _)) => output,
                Either::Right(_) => std::process::exit(Exit::Interrupted as i32),
            }
        }
    }
}

/// Resolves at the next Ctrl-C.
pub(crate) async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        // Without signals there is nothing to wait for.
        std::future::pending::<()>().await;
    }
}

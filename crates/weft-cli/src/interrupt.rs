//! Ctrl-C: once asks the run to end, twice ends the program.

use futures::future::{Either, select};

use crate::failure::Exit;

/// Drives a run; an interrupt cancels it, and the run then emits its end itself.
pub(crate) async fn run<F: Future>(run: F, cancel: impl AsyncFnOnce()) -> F::Output {
    let run = std::pin::pin!(run);
    match select(run, std::pin::pin!(interrupted())).await {
        Either::Left((output, _)) => output,
        Either::Right(((), run)) => {
            note!("interrupted; again to quit at once");
            let ending = async {
                cancel().await;
                run.await
            };
            match select(std::pin::pin!(ending), std::pin::pin!(interrupted())).await {
                Either::Left((output, _)) => output,
                Either::Right(_) => {
                    weft_project::kill_programs();
                    std::process::exit(Exit::Interrupted as i32)
                }
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

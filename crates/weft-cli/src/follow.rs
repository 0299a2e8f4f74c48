//! Following a run: its events are told as they come, Ctrl-C ends it, and so does somebody elsewhere.

use std::time::Duration;

use agent_types::{EventSubscription, RunId, Watched};
use tokio_util::sync::CancellationToken;
use weft_project::Project;

use crate::arguments::Output;
use crate::failure::Failure;
use crate::output;
use crate::timeline::Timeline;

/// Events that the printer may be behind: none is lost, however slow the reader of stdout is.
pub(crate) const BEHIND: usize = usize::MAX;
/// How often a run looks whether somebody elsewhere wants it to end.
const LOOK: Duration = Duration::from_millis(300);

/// Tells events until the run has ended. A reader of stdout that goes away ends the run.
pub(crate) async fn tell(
    form: Output,
    mut watcher: EventSubscription,
    cancel: &CancellationToken,
) -> Result<(), Failure> {
    let mut timeline = Timeline::new();
    while let Some(watched) = watcher.next().await {
        let Watched::Events(batch) = watched else { continue };
        for event in batch.iter() {
            match form {
                Output::Text => timeline.show(event),
                Output::Jsonl => output::json(event)?,
                Output::Json => {}
            }
        }
        if output::is_closed() {
            cancel.cancel();
        }
    }
    Ok(())
}

/// Name under which the wish to end a run is left for the process that works on it.
pub(crate) fn cancel_key(run: &RunId) -> String {
    format!("cancel:{run}")
}

/// Cancels when another process wishes so; never resolves.
pub(crate) async fn poll_cancel_requests(project: &Project, run: &RunId, cancel: &CancellationToken) {
    let Ok(Some(store)) = project.store() else { return std::future::pending().await };
    let key = cancel_key(run);
    loop {
        project.clock().sleep(LOOK).await;
        if matches!(store.value(&key), Ok(Some(_))) {
            store.put(&key, None);
            cancel.cancel();
            return std::future::pending().await;
        }
    }
}

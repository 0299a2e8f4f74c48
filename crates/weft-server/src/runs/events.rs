//! All events of a run for one reader that may be slow: what is lost on the way is read from the store.

use std::sync::Arc;

use agent_types::{EventSubscription, RunId, TraceEvent, Watched};

use crate::app::App;
use crate::problem::Problem;

/// The events of a run from its first one on, none missing.
#[derive(Debug)]
pub(crate) struct RunEvents {
    app: Arc<App>,
    run: RunId,
    watcher: EventSubscription,
    last: u64,
    /// Something is missing that the store has.
    is_behind: bool,
    is_over: bool,
}

impl RunEvents {
    pub(crate) fn new(app: &Arc<App>, run: RunId, watcher: EventSubscription) -> Self {
        Self { app: Arc::clone(app), run, watcher, last: 0, is_behind: false, is_over: false }
    }

    /// The next events; none when the run has ended.
    ///
    /// # Errors
    /// The store cannot be read.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<TraceEvent>>, Problem> {
        loop {
            if self.is_behind {
                let (store, run, last) = (self.app.store.clone(), self.run.clone(), self.last);
                let group = self.app.blocking(move || Ok(store.next_group(&run, last)?)).await?;
                if let Some(end) = group.last() {
                    self.last = end.event.seq;
                    return Ok(Some(group.into_iter().map(|kept| kept.event).collect()));
                }
                self.is_behind = false;
            }
            if self.is_over {
                return Ok(None);
            }
            match self.watcher.next().await {
                Some(Watched::Events(batch)) => {
                    let fresh: Vec<TraceEvent> =
                        batch.iter().filter(|event| event.seq > self.last).cloned().collect();
                    let Some(end) = fresh.last() else { continue };
                    if fresh.first().is_some_and(|first| first.seq == self.last + 1) {
                        self.last = end.seq;
                        return Ok(Some(fresh));
                    }
                    self.is_behind = true;
                }
                Some(Watched::Lagged(_)) => self.is_behind = true,
                None => (self.is_behind, self.is_over) = (true, true),
            }
        }
    }
}

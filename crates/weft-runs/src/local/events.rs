//! The events of a run for one subscriber that may be slow: what is lost on the way is read from the store.

use agent_types::{Delivery, EventSubscription, RunId, TraceEvent};
use run_store::Store;

use super::LocalRuns;
use crate::error::RunsError;
use crate::handle::RunEvents;
use crate::sink::RunSink;

struct Reader {
    store: Option<Store>,
    run: RunId,
    live: EventSubscription,
    last: u64,
    /// The store has something that the subscription has not.
    is_behind: bool,
    is_over: bool,
}

/// The events of a run from here on.
pub(super) fn new(run: &RunId, sink: &RunSink, live: EventSubscription) -> RunEvents {
    let reader = Reader {
        store: sink.store().cloned(),
        run: run.clone(),
        live,
        last: sink.last_seq(),
        is_behind: false,
        is_over: false,
    };
    RunEvents::new(futures::stream::unfold(reader, |mut reader| async move {
        let group = reader.next().await.transpose()?;
        Some((group, reader))
    }))
}

impl Reader {
    async fn next(&mut self) -> Result<Option<Vec<TraceEvent>>, RunsError> {
        loop {
            if self.is_behind
                && let Some(group) = self.stored().await?
            {
                return Ok(Some(group));
            }
            self.is_behind = false;
            if self.is_over {
                return Ok(None);
            }
            match self.live.next().await {
                Some(Delivery::Events(batch)) => {
                    let fresh: Vec<TraceEvent> =
                        batch.iter().filter(|event| event.seq > self.last).cloned().collect();
                    let Some(end) = fresh.last() else { continue };
                    if self.store.is_none() || fresh.first().is_some_and(|first| first.seq == self.last + 1) {
                        self.last = end.seq;
                        return Ok(Some(fresh));
                    }
                    self.is_behind = true;
                }
                Some(Delivery::Lagged(_)) => self.is_behind = true,
                None => (self.is_behind, self.is_over) = (true, true),
            }
        }
    }

    async fn stored(&mut self) -> Result<Option<Vec<TraceEvent>>, RunsError> {
        let Some(store) = self.store.clone() else { return Ok(None) };
        let (run, last) = (self.run.clone(), self.last);
        let group = LocalRuns::blocking(move || Ok(store.next_group(&run, last)?)).await?;
        let Some(end) = group.last() else { return Ok(None) };
        self.last = end.event.seq;
        Ok(Some(group.into_iter().map(|kept| kept.event).collect()))
    }
}

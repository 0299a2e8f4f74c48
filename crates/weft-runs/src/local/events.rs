//! The events of a run for one subscriber that may be slow: what is lost on the way is read from the store.

use agent_types::{Delivery, EventSubscription, RunId, TraceEvent};
use run_store::Store;

use super::known::{executes, wait_a_moment};
use super::{BEHIND, LocalRuns};
use crate::error::RunsError;
use crate::handle::RunEvents;
use crate::sink::RunSink;

struct Reader {
    /// The service, if another process may execute the run.
    elsewhere: Option<LocalRuns>,
    store: Option<Store>,
    run: RunId,
    live: Option<EventSubscription>,
    last: u64,
    /// The store has something that the subscription has not.
    is_behind: bool,
    is_over: bool,
}

/// The events of a run from here on.
pub(super) fn new(run: &RunId, sink: &RunSink, live: EventSubscription) -> RunEvents {
    let (store, last) = (sink.store().cloned(), sink.last_seq());
    let (run, live) = (run.clone(), Some(live));
    read(Reader { elsewhere: None, store, run, live, last, is_behind: false, is_over: false })
}

/// The events of a run that executes here, from the first on.
pub(super) fn from_start(run: &RunId, sink: &RunSink) -> RunEvents {
    let (store, live) = (sink.store().cloned(), Some(sink.subscribe(BEHIND)));
    let run = run.clone();
    read(Reader { elsewhere: None, store, run, live, last: 0, is_behind: true, is_over: false })
}

/// The events of a run that another process may execute, from the first on.
pub(super) fn followed(runs: &LocalRuns, run: &RunId, store: Store) -> RunEvents {
    let (elsewhere, store, run) = (Some(runs.clone()), Some(store), run.clone());
    read(Reader { elsewhere, store, run, live: None, last: 0, is_behind: true, is_over: false })
}

fn read(reader: Reader) -> RunEvents {
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
            let Some(live) = &mut self.live else {
                self.is_over = !self.wait_elsewhere().await?;
                self.is_behind = true;
                continue;
            };
            match live.next().await {
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

    /// Waits a moment for a run of another process; `false` when no more events follow than the store has.
    async fn wait_elsewhere(&self) -> Result<bool, RunsError> {
        let Some(runs) = &self.elsewhere else { return Ok(false) };
        Ok(executes(runs, &self.run).await? && wait_a_moment(runs).await)
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

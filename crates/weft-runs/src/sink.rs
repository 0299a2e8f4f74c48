//! Sink of a run's events.

use std::sync::Arc;

use agent_types::{Clock, EventBroadcast, EventSink, EventSubscription, Recorder, RunId};
use run_store::{Store, StoreError, StoredRun};

use crate::recording::ReplaySink;

/// Events that a subscription holds of a run that is not stored; a reader that is slower loses the oldest.
const UNKEPT: usize = 4096;

/// Sink of a run's events.
#[derive(Debug, Clone)]
pub(crate) enum RunSink {
    /// To subscribers only.
    Memory(Arc<Recorder>),
    /// Into the store, so that the run can be resumed.
    Stored(Arc<StoredRun>, Store),
    /// Compared with the recording that is replayed.
    Replayed(Arc<ReplaySink>),
}

impl RunSink {
    pub(crate) fn memory(run: RunId, clock: Arc<dyn Clock>) -> Self {
        Self::Memory(Recorder::new(run, clock))
    }

    pub(crate) fn sink(&self) -> Arc<dyn EventSink> {
        match self {
            Self::Memory(recorder) => Arc::clone(recorder) as Arc<dyn EventSink>,
            Self::Stored(run, _) => Arc::clone(run) as Arc<dyn EventSink>,
            Self::Replayed(replayed) => Arc::clone(replayed) as Arc<dyn EventSink>,
        }
    }

    /// A subscription that holds `capacity` events where the store has what is lost, else [`UNKEPT`] of them.
    pub(crate) fn subscribe(&self, capacity: usize) -> EventSubscription {
        match self {
            Self::Memory(recorder) => recorder.subscribe(capacity.max(UNKEPT)),
            Self::Stored(run, _) => run.subscribe(capacity),
            Self::Replayed(_) => EventBroadcast::new().subscribe(capacity),
        }
    }

    /// The number of the last event.
    pub(crate) fn last_seq(&self) -> u64 {
        match self {
            Self::Memory(_) | Self::Replayed(_) => 0,
            Self::Stored(run, _) => run.last_seq(),
        }
    }

    pub(crate) fn store(&self) -> Option<&Store> {
        match self {
            Self::Memory(_) | Self::Replayed(_) => None,
            Self::Stored(_, store) => Some(store),
        }
    }

    /// Leaves the run as it stands, as the end of the process would.
    pub(crate) fn leave(&self) {
        if let Self::Stored(run, _) = self {
            run.leave();
        }
    }

    /// Waits until all events are safe, and ends the subscriptions.
    pub(crate) async fn close(&self) -> Result<(), StoreError> {
        match self {
            Self::Memory(recorder) => {
                recorder.close();
                Ok(())
            }
            Self::Stored(run, _) => run.close().await,
            Self::Replayed(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use agent_types::{Delivery, EventBody, EventLocation, SystemClock, UnsequencedEvent};
    use futures::FutureExt;

    use super::*;

    #[test]
    fn events_of_a_run_that_is_not_stored_are_held_within_bounds() {
        let sink = RunSink::memory(RunId::new("r"), Arc::new(SystemClock));
        let mut reader = sink.subscribe(8);
        for at in 0..3 * UNKEPT {
            let body = EventBody::LogLine { level: "info".into(), message: at.to_string() };
            sink.sink().record(&mut vec![UnsequencedEvent::new(EventLocation::default(), body)]);
        }
        let (mut held, mut lost) = (0_u64, 0);
        while let Some(Some(delivery)) = reader.next().now_or_never() {
            match delivery {
                Delivery::Events(batch) => held += batch.iter().count() as u64,
                Delivery::Lagged(count) => lost += count,
            }
        }
        assert!(held <= UNKEPT as u64 && held > 0, "{held}");
        assert_eq!(held + lost, 3 * UNKEPT as u64);
    }
}

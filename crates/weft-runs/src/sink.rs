//! Sink of a run's events.

use std::sync::Arc;

use agent_types::{Clock, EventSink, EventSubscription, Recorder, RunId};
use run_store::{Store, StoreError, StoredRun};

/// Sink of a run's events.
#[derive(Debug, Clone)]
pub(crate) enum RunSink {
    /// To subscribers only.
    Memory(Arc<Recorder>),
    /// Into the store, so that the run can be resumed.
    Stored(Arc<StoredRun>, Store),
}

impl RunSink {
    pub(crate) fn memory(run: RunId, clock: Arc<dyn Clock>) -> Self {
        Self::Memory(Recorder::new(run, clock))
    }

    pub(crate) fn sink(&self) -> Arc<dyn EventSink> {
        match self {
            Self::Memory(recorder) => Arc::clone(recorder) as Arc<dyn EventSink>,
            Self::Stored(run, _) => Arc::clone(run) as Arc<dyn EventSink>,
        }
    }

    /// A subscription that holds `capacity` events where the store has what is lost, else all of them.
    pub(crate) fn subscribe(&self, capacity: usize) -> EventSubscription {
        match self {
            Self::Memory(recorder) => recorder.subscribe(usize::MAX),
            Self::Stored(run, _) => run.subscribe(capacity),
        }
    }

    /// The number of the last event.
    pub(crate) fn last_seq(&self) -> u64 {
        match self {
            Self::Memory(_) => 0,
            Self::Stored(run, _) => run.last_seq(),
        }
    }

    pub(crate) fn store(&self) -> Option<&Store> {
        match self {
            Self::Memory(_) => None,
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
        }
    }
}

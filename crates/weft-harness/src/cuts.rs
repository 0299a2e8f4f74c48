//! A recorded run, cut behind each of its events.

use std::collections::HashMap;
use std::sync::Arc;

use agent_types::{EventBody, ResumeLog, RunId, SystemClock};
use run_store::{NewRun, Store, StoredRun};

/// Copies of a recorded run, each cut behind another event, as a process that ended there leaves it.
#[derive(Debug)]
pub struct Cuts<'s> {
    store: &'s Store,
    run: RunId,
    upto: u64,
    length: u64,
}

/// Copy of a run that ends behind an event.
#[derive(Debug)]
pub struct Cut {
    /// The number of its last event.
    pub upto: u64,
    /// The id of the copy.
    pub id: RunId,
    /// The copy, to be continued.
    pub run: Arc<StoredRun>,
    /// The log from which it is resumed.
    pub log: ResumeLog,
}

impl<'s> Cuts<'s> {
    /// Cuts a run of a store; the run is closed.
    ///
    /// # Panics
    /// Panics when the store does not know the run.
    #[must_use]
    pub fn new(store: &'s Store, run: &str) -> Self {
        let run = RunId::new(run);
        let length = store.known(&run).unwrap().last_seq;
        Self { store, run, upto: 0, length }
    }
}

impl Iterator for Cuts<'_> {
    type Item = Cut;

    fn next(&mut self) -> Option<Cut> {
        let upto = self.upto + 1;
        if upto >= self.length {
            return None;
        }
        self.upto = upto;
        let id = RunId::new(format!("{}-{upto}", self.run));
        let new = NewRun::new(id.clone());
        let forked = self.store.fork(&self.run, new, upto, &HashMap::new(), |_| true, Arc::new(SystemClock));
        let (run, log) = forked.unwrap();
        Some(Cut { upto, id, run, log })
    }
}

/// Counts the replies of the model that a log has.
#[must_use]
pub fn replies(log: &ResumeLog) -> usize {
    let is_reply = |body: &EventBody| matches!(body, EventBody::AgentLlmFinished { .. });
    log.events.iter().filter(|stored| is_reply(&stored.event.body)).count()
}

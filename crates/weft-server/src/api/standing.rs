//! State of a run, as lists show it.

use std::borrow::Cow;

use run_store::{RunPhase, RunRecord, Store};

/// Present state of a run and its name: a run that has not ended and that no process executes was interrupted.
pub(super) fn standing<'r>(store: &Store, record: &'r RunRecord) -> (Cow<'r, RunRecord>, &'static str) {
    let run = &record.new.run;
    if record.state.phase != RunPhase::Running || store.is_at_work(run) {
        return (Cow::Borrowed(record), record.state.phase.as_str());
    }
    // It may have ended since it was read: who worked on it has written its end before he left it.
    let now = store.known(run).map_or(Cow::Borrowed(record), Cow::Owned);
    let word = if now.state.phase == RunPhase::Running { "interrupted" } else { now.state.phase.as_str() };
    (now, word)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use agent_types::{EventBody, EventLocation, EventSink, RunId, RunStatus, SystemClock, UnsequencedEvent};
    use run_store::NewRun;

    use super::*;

    #[test]
    fn a_run_that_ended_since_it_was_read_is_no_interrupted_one() {
        let store = Store::memory().unwrap();
        let begin = |id: &str| store.begin(NewRun::new(RunId::new(id)), Arc::new(SystemClock)).unwrap();
        let (ended, left) = (begin("ended"), begin("left"));
        let record = |id: &str| store.known(&RunId::new(id)).unwrap();
        let (of_ended, of_left) = (record("ended"), record("left"));
        let word = |record: &RunRecord| standing(&store, record).1;
        assert_eq!((word(&of_ended), word(&of_left)), ("running", "running"));
        let body = EventBody::RunFinished {
            status: RunStatus::Ok,
            exit: None,
            kind: None,
            partial: None,
            message: None,
        };
        ended.record(&mut vec![UnsequencedEvent::new(EventLocation::default(), body)]);
        drop((ended, left));
        assert_eq!((word(&of_ended), word(&of_left)), ("ok", "interrupted"));
        assert_eq!(standing(&store, &of_ended).0.last_seq, 1);
    }
}

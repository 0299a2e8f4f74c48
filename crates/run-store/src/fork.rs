//! Runs that begin with what another one did.

use std::collections::HashMap;
use std::sync::Arc;

use agent_types::{Clock, EventBody, EventPersister, ResumeLog, RunId, StoredEvent, nearest};
use serde_json::Value;

use crate::held::held;
use crate::{NewRun, Store, StoreError, StoredRun};

/// Last end events of the nodes of some paths, and the last event before the end of the run.
struct Ends<'c> {
    by_path: HashMap<&'c str, u64>,
    last: u64,
}

impl Store {
    /// The event up to which a fork has what another run did: `upto`, where it is given; else that with which the last of
    /// the nodes in `changes` ended, so that what hangs on them runs anew; without changes the last one before the end.
    ///
    /// # Errors
    /// The run is unknown, one of the nodes has not ended by then, or the store cannot be read.
    pub fn place_to_fork(
        &self,
        of: &RunId,
        upto: Option<u64>,
        changes: &HashMap<String, Value>,
    ) -> Result<u64, StoreError> {
        self.known(of)?;
        if changes.is_empty()
            && let Some(upto) = upto
        {
            return Ok(upto);
        }
        let ends = self.ends(of, upto, changes)?;
        Ok(upto.or(ends.by_path.into_values().max()).unwrap_or(ends.last))
    }

    /// Begins a run that has the events of another one up to and including `upto`, and the answers whose effects are
    /// among them: what was allowed once is asked again.
    /// Values of `changes` take the place of what the nodes of these paths gave, whichever of their outputs it was.
    /// It resumes from a checkpoint that `fits`, else from all events.
    ///
    /// # Errors
    /// The run is unknown, its events up to there are no longer stored, or one of the nodes has not ended by then.
    pub fn fork(
        &self,
        of: &RunId,
        new: NewRun,
        upto: u64,
        changes: &HashMap<String, Value>,
        fits: impl Fn(&str) -> bool,
        clock: Arc<dyn Clock>,
    ) -> Result<(Arc<StoredRun>, ResumeLog), StoreError> {
        let record = self.known(of)?;
        if upto == 0 || upto > record.last_seq {
            return Err(StoreError::NotKept { run: of.to_string(), seq: upto });
        }
        // A later snapshot has the values that were.
        let first = if changes.is_empty() {
            None
        } else {
            self.ends(of, Some(upto), changes)?.by_path.into_values().min()
        };
        let asks = self.asks(of)?;
        let oldest = asks.iter().filter_map(|ask| Some(ask.answer.as_ref()?.1)).min();
        let mut later = oldest.map_or(Ok(Vec::new()), |seq| self.events(of, seq, usize::MAX))?;
        later.retain(|kept| kept.event.seq <= upto);
        let (held, others) = held(asks, upto, &later);
        // A snapshot behind an answer may have it.
        let before = others.iter().map(|answer| answer.seq).chain(first.map(|seq| seq - 1)).min();
        let mut log = self.log_where(&record, before.unwrap_or(upto), fits, upto)?;
        let run = new.run.clone();
        let parent = Some(of.clone());
        let stored = self.begin(NewRun { parent, ..new }, clock)?;
        for kept in &mut log.events {
            change(kept, changes);
            kept.event.run = run.clone();
        }
        stored.copy(&log, record.last_span);
        stored.take_answers(&mut log, held);
        Ok((stored, log))
    }

    /// Begins a run with what stands of another one that has ended: `standing` takes its events and gives those that the new run has.
    /// They are numbered anew, without holes. It continues from a snapshot that `fits` where the first events are no longer kept.
    ///
    /// # Errors
    /// The run is unknown, or its first events are no longer kept and no snapshot fits.
    pub fn retry(
        &self,
        of: &RunId,
        new: NewRun,
        fits: impl Fn(&str) -> bool,
        standing: impl FnOnce(Vec<StoredEvent>) -> Vec<StoredEvent>,
        clock: Arc<dyn Clock>,
    ) -> Result<(Arc<StoredRun>, ResumeLog), StoreError> {
        let record = self.known(of)?;
        let newest = if record.first_seq > 1 { u64::MAX } else { 0 };
        let mut log = self.log_where(&record, newest, fits, u64::MAX)?;
        log.events = standing(log.events);
        let before = log.snapshot.as_ref().map_or(0, |(seq, _)| *seq);
        let (mut held, others) = held(self.asks(of)?, u64::MAX, &log.events);
        held.extend(others.into_iter().filter(|answer| answer.seq < before));
        for answer in &mut held {
            let earlier = log.events.iter().filter(|kept| kept.event.seq <= answer.seq).count() as u64;
            answer.seq = if answer.seq < before { answer.seq } else { before + earlier };
        }
        for (seq, kept) in (before + 1..).zip(&mut log.events) {
            kept.event.seq = seq;
            kept.event.run = new.run.clone();
        }
        let stored = self.begin(NewRun { parent: Some(of.clone()), ..new }, clock)?;
        stored.copy(&log, record.last_span);
        stored.take_answers(&mut log, held);
        Ok((stored, log))
    }

    /// Begins a run with events and answers from elsewhere, which must be those of this run from its first event on.
    ///
    /// # Errors
    /// A run of that id is executing.
    pub fn import(
        &self,
        new: NewRun,
        log: &ResumeLog,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<StoredRun>, StoreError> {
        let places = log.events.iter().map(|kept| &kept.event.place);
        let last_span = places.map(|place| place.span).max().unwrap_or_default();
        let stored = self.begin(new, clock)?;
        stored.copy(log, last_span);
        for (ask, value) in &log.answers {
            stored.answered(ask, value);
        }
        Ok(stored)
    }

    fn ends<'c>(
        &self,
        of: &RunId,
        upto: Option<u64>,
        changes: &'c HashMap<String, Value>,
    ) -> Result<Ends<'c>, StoreError> {
        let mut ends = Ends { by_path: HashMap::new(), last: 0 };
        'run: for group in self.groups(of) {
            for StoredEvent { event, .. } in group? {
                if upto.is_some_and(|upto| event.seq > upto) {
                    break 'run;
                }
                if !matches!(event.body, EventBody::RunFinished { .. }) {
                    ends.last = event.seq;
                }
                if let Some(path) = ended(&event.body, event.place.path.as_deref())
                    && let Some((path, _)) = changes.get_key_value(path)
                {
                    ends.by_path.insert(path, event.seq);
                }
            }
        }
        match changes.keys().find(|path| !ends.by_path.contains_key(path.as_str())) {
            Some(path) => Err(self.unknown_node(of, upto, path)?),
            None => Ok(ends),
        }
    }

    fn unknown_node(&self, of: &RunId, upto: Option<u64>, path: &str) -> Result<StoreError, StoreError> {
        let mut paths = Vec::new();
        for group in self.groups(of) {
            let kept = group?.into_iter().map(|kept| kept.event);
            let kept = kept.filter(|event| upto.is_none_or(|upto| event.seq <= upto));
            paths.extend(
                kept.filter_map(|event| ended(&event.body, event.place.path.as_deref()).map(str::to_owned)),
            );
        }
        let near = nearest(path, paths.iter().map(String::as_str)).map(str::to_owned);
        Ok(StoreError::UnknownNode { run: of.to_string(), path: path.to_owned(), near })
    }
}

/// The path of a node that has given its outputs.
fn ended<'p>(body: &EventBody, path: Option<&'p str>) -> Option<&'p str> {
    path.filter(|_| matches!(body, EventBody::NodeFinished { .. } | EventBody::NodeCached { .. }))
}

/// Puts another value in the place of what a node gave.
fn change(kept: &mut StoredEvent, changes: &HashMap<String, Value>) {
    let Some(value) = kept.event.place.path.as_deref().and_then(|path| changes.get(path)) else { return };
    if let EventBody::NodeFinished { value: given, outputs, .. }
    | EventBody::NodeCached { value: given, outputs, .. } = &mut kept.event.body
    {
        *given = Some(Arc::new(value.clone()));
        // What the other outputs gave, and how it came about, belongs to the value that was.
        *outputs = None;
        kept.record = None;
    }
}

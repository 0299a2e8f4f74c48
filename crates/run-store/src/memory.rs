//! A store that is gone with the process, for tests and for programs that keep nothing.

use std::collections::{BTreeMap, HashMap};

use agent_types::RunId;
use parking_lot::Mutex;
use serde_json::Value;

use crate::{
    AskRecord, Backend, Change, Events, Footprint, RunFilter, RunPhase, RunRecord, RunState, StoreError,
    Update,
};

/// A store that is gone with the process.
#[derive(Debug, Default)]
pub struct Memory {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    order: Vec<RunId>,
    /// Runs that were begun so far.
    begun: u64,
    runs: HashMap<RunId, Run>,
    blobs: HashMap<String, Vec<u8>>,
    threads: HashMap<String, Vec<Value>>,
    values: BTreeMap<String, Value>,
}

#[derive(Debug)]
struct Run {
    record: RunRecord,
    groups: Vec<(u64, Vec<u8>)>,
    snapshots: BTreeMap<u64, Vec<u8>>,
    asks: Vec<AskRecord>,
}

impl State {
    fn apply(&mut self, change: &Change) {
        match change {
            Change::Begin { new, started } => {
                let state = RunState { phase: RunPhase::Running, exit: None, kind: None, finished: None };
                self.begun += 1;
                let record = RunRecord {
                    new: (**new).clone(),
                    order: self.begun,
                    started: *started,
                    state,
                    last_seq: 0,
                    first_seq: 1,
                    last_span: 0,
                };
                self.order.push(new.run.clone());
                self.runs.insert(
                    new.run.clone(),
                    Run { record, groups: Vec::new(), snapshots: BTreeMap::new(), asks: Vec::new() },
                );
            }
            Change::Events(events) => {
                if let Some(run) = self.runs.get_mut(&events.run) {
                    run.add(events);
                }
            }
            Change::Blob { sha, data } => {
                self.blobs.insert(sha.clone(), data.clone());
            }
            Change::Snapshot { run, seq, state } => {
                if let Some(run) = self.runs.get_mut(run) {
                    run.snapshots.insert(*seq, state.clone());
                }
            }
            Change::Trim { run, seq, keep } => {
                if let Some(run) = self.runs.get_mut(run) {
                    run.trim(*seq, *keep);
                }
            }
            Change::Answer { run, ask, value, seq } => {
                let asks = self.runs.get_mut(run).map(|run| &mut run.asks);
                let open = asks.into_iter().flatten().find(|own| *own.summary.ask == **ask);
                if let Some(open) = open {
                    open.answer = Some((value.clone(), *seq));
                }
            }
            Change::Remove { run } => {
                self.runs.remove(run);
                self.order.retain(|own| own != run);
            }
            Change::Messages { thread, messages } => {
                self.threads.entry(thread.clone()).or_default().extend(messages.iter().cloned());
            }
            Change::CutThread { thread, keep } => {
                if let Some(messages) = self.threads.get_mut(thread) {
                    messages.truncate(*keep);
                }
            }
            Change::Put { key, value: Some(value) } => {
                self.values.insert(key.clone(), value.clone());
            }
            Change::Put { key, value: None } => {
                self.values.remove(key);
            }
        }
    }
}

impl Run {
    fn add(&mut self, events: &Events) {
        if self.groups.is_empty() && self.snapshots.is_empty() {
            self.record.first_seq = events.first;
        }
        self.groups.push((events.last, events.lines.clone()));
        self.record.last_seq = events.last;
        self.record.last_span = self.record.last_span.max(events.last_span);
        if let Some(state) = &events.state {
            self.record.state = state.clone();
        }
        for ask in &events.asks {
            match self.asks.iter_mut().find(|own| own.summary.ask == ask.summary.ask) {
                // Told again with the run's other questions: nothing new unless it had been answered.
                Some(own) if own.answer.is_none() => own.summary = ask.summary.clone(),
                Some(_) => {}
                None => self.asks.push(ask.clone()),
            }
        }
    }

    fn trim(&mut self, seq: u64, keep: u64) {
        let old = self.groups.partition_point(|(last, _)| *last <= seq);
        let mut bytes: u64 = self.groups[..old].iter().map(|(_, lines)| lines.len() as u64).sum();
        let mut drop = 0;
        while bytes > keep && drop < old {
            bytes -= self.groups[drop].1.len() as u64;
            drop += 1;
        }
        if let Some((last, _)) = drop.checked_sub(1).and_then(|at| self.groups.get(at)) {
            self.record.first_seq = last + 1;
        }
        self.groups.drain(..drop);
        let first = self.record.first_seq;
        self.snapshots.retain(|own, _| *own >= seq || *own + 1 >= first);
    }
}

impl Backend for Memory {
    fn commit(&self, changes: &[Change]) -> Result<(), StoreError> {
        let mut state = self.state.lock();
        changes.iter().for_each(|change| state.apply(change));
        Ok(())
    }

    fn is_lasting(&self) -> bool {
        false
    }

    fn run(&self, run: &RunId) -> Result<Option<RunRecord>, StoreError> {
        Ok(self.state.lock().runs.get(run).map(|run| run.record.clone()))
    }

    fn runs(&self, filter: &RunFilter) -> Result<Vec<RunRecord>, StoreError> {
        let state = self.state.lock();
        let newest = state.order.iter().rev().filter_map(|run| state.runs.get(run));
        let wanted = newest.map(|run| &run.record).filter(|record| filter.accepts(record));
        Ok(wanted.take(filter.limit.unwrap_or(usize::MAX)).cloned().collect())
    }

    fn lines(&self, run: &RunId, after: u64, limit: usize) -> Result<Vec<Vec<u8>>, StoreError> {
        let state = self.state.lock();
        let Some(run) = state.runs.get(run) else { return Ok(Vec::new()) };
        let from = run.groups.partition_point(|(last, _)| *last <= after);
        Ok(run.groups[from..].iter().take(limit).map(|(_, lines)| lines.clone()).collect())
    }

    fn snapshot(&self, run: &RunId, at_most: u64) -> Result<Option<(u64, Vec<u8>)>, StoreError> {
        let state = self.state.lock();
        let newest = state.runs.get(run).and_then(|run| run.snapshots.range(..=at_most).next_back());
        Ok(newest.map(|(seq, state)| (*seq, state.clone())))
    }

    fn blob(&self, sha: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.state.lock().blobs.get(sha).cloned())
    }

    fn asks(&self, run: &RunId) -> Result<Vec<AskRecord>, StoreError> {
        Ok(self.state.lock().runs.get(run).map(|run| run.asks.clone()).unwrap_or_default())
    }

    fn messages(&self, thread: &str) -> Result<Vec<Value>, StoreError> {
        Ok(self.state.lock().threads.get(thread).cloned().unwrap_or_default())
    }

    fn update(&self, key: &str, change: Update<'_>) -> Result<(), StoreError> {
        // One thread writes, so nothing changes while the lock is open.
        if let Some(value) = change(self.value(key)?) {
            self.state.lock().values.insert(key.to_owned(), value);
        }
        Ok(())
    }

    fn value(&self, key: &str) -> Result<Option<Value>, StoreError> {
        Ok(self.state.lock().values.get(key).cloned())
    }

    fn values(&self, prefix: &str) -> Result<Vec<(String, Value)>, StoreError> {
        let state = self.state.lock();
        let found = state.values.iter().filter(|(key, _)| key.starts_with(prefix));
        let mut found: Vec<_> = found.map(|(key, value)| (key.clone(), value.clone())).collect();
        found.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(found)
    }

    fn footprint(&self) -> Result<Footprint, StoreError> {
        Ok(Footprint { runs: self.state.lock().runs.len() as u64, bytes: 0 })
    }
}

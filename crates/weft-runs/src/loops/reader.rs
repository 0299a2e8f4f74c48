//! Reader of the loops of a run.

use std::collections::BTreeMap;

use agent_types::{
    CallId, EventBody, EventLocation, LoopEnd, PassDecision, RunId, StoredEvent, Timestamp, Usage,
};
use run_store::Store;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::pass::add_usage;
use super::record::{LoopEntry, LoopRecord, PassRecord};
use super::short::{short, short_state};
use crate::error::RunsError;

/// Events that are read for one page, at most.
const EVENTS: usize = 50_000;
/// Longest state of a reader that a cursor holds.
const CURSOR: usize = 8_000;

/// A page of records.
#[derive(Debug)]
pub struct LoopPage {
    /// The records, in the order of their last events.
    pub entries: Vec<LoopEntry>,
    /// The reader has seen the last event.
    pub is_last: bool,
}

/// A loop that has not ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct OpenLoop {
    mode: String,
    started: Timestamp,
    first: Map<String, Value>,
    state: Map<String, Value>,
    usage: Option<Usage>,
}

/// Reader of the loops of a run: events go in, records come out.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct LoopReader {
    /// The last event that was read.
    after: u64,
    /// Records up to this event have been given.
    #[serde(default)]
    given: u64,
    loops: BTreeMap<String, OpenLoop>,
    passes: BTreeMap<String, PassRecord>,
}

impl LoopReader {
    /// Reads on from a cursor.
    ///
    /// # Errors
    /// It is not one that [`cursor`](Self::cursor) gave.
    pub fn from_cursor(cursor: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(cursor)
    }

    /// State from which the next page is read. Where much is open at once, the log is read from its begin again.
    #[must_use]
    pub fn cursor(&self) -> String {
        let whole = serde_json::to_string(self).unwrap_or_default();
        let given = self.given.max(self.after);
        let short = || json!({"after": 0, "given": given, "loops": {}, "passes": {}}).to_string();
        if (1..=CURSOR).contains(&whole.len()) { whole } else { short() }
    }

    /// Reads records of a run, about `limit` of those that `wanted` takes.
    ///
    /// # Errors
    /// The run does not exist, or the store cannot be read.
    pub fn read(
        &mut self,
        store: &Store,
        run: &RunId,
        limit: usize,
        wanted: impl Fn(&LoopEntry) -> bool,
    ) -> Result<LoopPage, RunsError> {
        store.known(run)?;
        let (mut entries, mut count) = (Vec::new(), 0);
        while entries.len() < limit && count < EVENTS {
            let group = store.next_group(run, self.after)?;
            if group.is_empty() {
                entries.extend(self.open().filter(&wanted));
                return Ok(LoopPage { entries, is_last: true });
            }
            for kept in &group {
                count += usize::from(kept.event.seq > self.given);
                entries.extend(self.add(kept).filter(&wanted));
            }
        }
        Ok(LoopPage { entries, is_last: false })
    }

    /// Records of the passes that are open.
    pub fn open(&self) -> impl Iterator<Item = LoopEntry> {
        self.passes.values().cloned().map(LoopEntry::Pass)
    }

    /// Takes the next event; gives the record of the pass or loop that it ends.
    pub fn add(&mut self, kept: &StoredEvent) -> Option<LoopEntry> {
        let event = &kept.event;
        self.after = event.seq;
        let path = event.place.path.as_deref();
        let entry = match (&event.body, path) {
            (EventBody::LoopEntered { mode, state }, Some(path)) => {
                let state = short_state(state.as_ref());
                let open = OpenLoop {
                    mode: mode.to_string(),
                    started: event.ts,
                    first: state.clone(),
                    state,
                    usage: None,
                };
                self.loops.insert(loop_key(&event.place, path), open);
                None
            }
            (EventBody::LoopIterStarted { item }, Some(path)) => {
                self.start_pass(kept, path, item.as_deref());
                None
            }
            (EventBody::LoopIterFinished { changed, values, decision }, Some(path)) => {
                let values = values.iter().map(|value| short(value));
                let changed = changed.iter().map(ToString::to_string).collect();
                self.finish_pass(kept, path, changed, values, *decision)
            }
            (EventBody::LoopExited { passes, why }, Some(path)) => self.exit(kept, path, *passes, *why),
            _ => {
                if let Some(pass) = self.pass_of(&event.place) {
                    pass.learn(kept);
                }
                None
            }
        };
        entry.filter(|_| event.seq > self.given)
    }

    fn start_pass(&mut self, kept: &StoredEvent, path: &str, item: Option<&Value>) {
        let place = &kept.event.place;
        let number = place.iteration.unwrap_or_default();
        let before = self.loops.get(&loop_key(place, path)).map(|open| open.state.clone());
        let record = PassRecord {
            r#loop: path.to_owned(),
            call: place.call.as_ref().map(ToString::to_string),
            pass: number,
            seq: kept.event.seq,
            started: kept.event.ts,
            item: item.map(short),
            before: before.unwrap_or_default(),
            ..PassRecord::default()
        };
        self.passes.insert(pass_key(place, path, number), record);
    }

    fn finish_pass(
        &mut self,
        kept: &StoredEvent,
        path: &str,
        changed: Vec<String>,
        values: impl Iterator<Item = Value>,
        decision: Option<PassDecision>,
    ) -> Option<LoopEntry> {
        let place = &kept.event.place;
        let mut record = self.passes.remove(&pass_key(place, path, place.iteration.unwrap_or_default()))?;
        if let Some(open) = self.loops.get_mut(&loop_key(place, path)) {
            open.state.extend(changed.iter().cloned().zip(values));
            record.after = Some(open.state.clone());
            add_usage(&mut open.usage, record.usage);
        }
        // Tokens of a loop inside a pass are those of the pass as well.
        if let Some(around) = self.pass_of(place) {
            add_usage(&mut around.usage, record.usage);
            around.nodes += record.nodes;
        }
        record.seq = kept.event.seq;
        record.ms = Some(millis(record.started, kept.event.ts));
        (record.changed, record.decision) = (changed, decision);
        Some(LoopEntry::Pass(record))
    }

    fn exit(&mut self, kept: &StoredEvent, path: &str, passes: u64, why: LoopEnd) -> Option<LoopEntry> {
        let place = &kept.event.place;
        let OpenLoop { mode, started, first, state, usage } = self.loops.remove(&loop_key(place, path))?;
        Some(LoopEntry::Loop(LoopRecord {
            r#loop: path.to_owned(),
            call: place.call.as_ref().map(ToString::to_string),
            seq: kept.event.seq,
            mode,
            before: first,
            after: state,
            passes,
            why,
            ms: millis(started, kept.event.ts),
            usage,
        }))
    }

    /// The innermost open pass that an event lies in: by its path, in the call of the event or in one around it.
    fn pass_of(&mut self, place: &EventLocation) -> Option<&mut PassRecord> {
        if self.passes.is_empty() {
            return None;
        }
        let path = place.path.as_deref()?;
        let (pass, _) = path.rsplit_once("]/")?;
        let own = place.call.as_ref().map_or("", CallId::as_str);
        let around = own.rmatch_indices('.').map(|(at, _)| &own[..at]);
        let parent = place.parent_call.as_ref().map(CallId::as_str);
        let calls = [own].into_iter().chain(around).chain(parent).chain([""]);
        let mut keys = calls.map(|call| format!("{call}:{pass}]"));
        let key = keys.find(|key| self.passes.contains_key(key))?;
        self.passes.get_mut(&key)
    }
}

fn millis(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.as_millis() - from.as_millis()).unwrap_or_default()
}

fn loop_key(place: &EventLocation, path: &str) -> String {
    format!("{}:{path}", place.call.as_ref().map_or("", CallId::as_str))
}

fn pass_key(place: &EventLocation, path: &str, number: u64) -> String {
    format!("{}[{number}]", loop_key(place, path))
}

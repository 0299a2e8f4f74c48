//! A store whose process ends with a certain event.

use agent_types::RunId;
use parking_lot::Mutex;
use run_store::{
    AskRecord, Backend, Change, Footprint, RunFilter, RunRecord, Sqlite, StoreError, Update, cut_lines,
};
use serde_json::Value;

use weft_scenarios::Pattern;

/// Writes everything up to and including a certain event and nothing after it, as a process that dies there.
#[derive(Debug)]
pub(crate) struct Mortal {
    file: Sqlite,
    life: Mutex<Life>,
}

#[derive(Debug, Default)]
enum Life {
    #[default]
    Long,
    Until(Pattern),
    Over,
}

impl Mortal {
    pub(crate) fn new(file: Sqlite) -> Self {
        Self { file, life: Mutex::default() }
    }

    pub(crate) fn die_with(&self, pattern: Option<Pattern>) {
        let life = pattern.map_or(Life::Long, Life::Until);
        *self.life.lock() = life;
    }

    /// The changes up to the fatal event, if it is among them.
    fn last_words(pattern: &Pattern, changes: &[Change]) -> Result<Option<Vec<Change>>, StoreError> {
        let matches = |event: &agent_types::TraceEvent| {
            serde_json::to_value(event).is_ok_and(|event| pattern.matches(&event))
        };
        for (at, change) in changes.iter().enumerate() {
            let Change::Events(events) = change else { continue };
            let Some((lines, last)) = cut_lines(&events.lines, matches)? else { continue };
            let mut cut = events.clone();
            if last < events.last {
                // How the run stood later is not known.
                cut.state = None;
            }
            cut.asks.retain(|ask| ask.opened <= last);
            (cut.lines, cut.last) = (lines, last);
            let mut words = changes[..at].to_vec();
            words.push(Change::Events(cut));
            return Ok(Some(words));
        }
        Ok(None)
    }
}

impl Backend for Mortal {
    fn commit(&self, changes: &[Change]) -> Result<(), StoreError> {
        let mut life = self.life.lock();
        let words = match &*life {
            Life::Long => None,
            Life::Over => return Ok(()),
            Life::Until(pattern) => Self::last_words(pattern, changes)?,
        };
        match words {
            None => self.file.commit(changes),
            Some(words) => {
                *life = Life::Over;
                self.file.commit(&words)
            }
        }
    }

    fn update(&self, key: &str, change: Update<'_>) -> Result<(), StoreError> {
        let life = self.life.lock();
        if matches!(*life, Life::Over) { Ok(()) } else { self.file.update(key, change) }
    }

    fn run(&self, run: &RunId) -> Result<Option<RunRecord>, StoreError> {
        self.file.run(run)
    }

    fn runs(&self, filter: &RunFilter) -> Result<Vec<RunRecord>, StoreError> {
        self.file.runs(filter)
    }

    fn lines(&self, run: &RunId, after: u64, limit: usize) -> Result<Vec<Vec<u8>>, StoreError> {
        self.file.lines(run, after, limit)
    }

    fn snapshot(&self, run: &RunId, at_most: u64) -> Result<Option<(u64, Vec<u8>)>, StoreError> {
        self.file.snapshot(run, at_most)
    }

    fn blob(&self, sha: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.file.blob(sha)
    }

    fn asks(&self, run: &RunId) -> Result<Vec<AskRecord>, StoreError> {
        self.file.asks(run)
    }

    fn messages(&self, thread: &str) -> Result<Vec<Value>, StoreError> {
        self.file.messages(thread)
    }

    fn value(&self, key: &str) -> Result<Option<Value>, StoreError> {
        self.file.value(key)
    }

    fn values(&self, prefix: &str) -> Result<Vec<(String, Value)>, StoreError> {
        self.file.values(prefix)
    }

    fn footprint(&self) -> Result<Footprint, StoreError> {
        self.file.footprint()
    }
}

//! Encoding of a group of events in the store: a head, then one line for each event.
//!
//! The head has the fields that all events of a group share: the run, the first number, the first time. A line has the
//! rest, in the words of the wire; one that begins with `+` is the record of the event before it.

use agent_types::{EventBody, EventLocation, ReplayData, RunId, StoredEvent, Timestamp, TraceEvent};
use serde::{Deserialize, Serialize};

use crate::StoreError;
use crate::json::read;

/// Marks a line as the record of the event before it.
const RECORD_MARK: u8 = b'+';

/// Fields that all events of a group share.
#[derive(Serialize, Deserialize)]
struct Head {
    run: RunId,
    first: u64,
    /// Milliseconds since 1970.
    ts: i64,
}

/// A line as it is read.
#[derive(Deserialize)]
struct Line {
    /// Milliseconds after the time of the head; may be negative, clocks jump.
    #[serde(default)]
    t: i64,
    #[serde(flatten)]
    place: EventLocation,
    #[serde(flatten)]
    body: EventBody,
}

/// Writes a group.
pub(crate) struct Writing {
    lines: Vec<u8>,
    ts: i64,
}

impl Writing {
    pub(crate) fn new(run: &RunId, first: &TraceEvent, events: usize) -> Result<Self, StoreError> {
        let mut lines = Vec::with_capacity(64 + events * 144);
        let head = Head { run: run.clone(), first: first.seq, ts: first.ts.as_millis() };
        serde_json::to_writer(&mut lines, &head).map_err(StoreError::io)?;
        lines.push(b'\n');
        Ok(Self { lines, ts: first.ts.as_millis() })
    }

    /// Writes an event; gives where its line begins.
    pub(crate) fn event(&mut self, event: &TraceEvent) -> Result<usize, StoreError> {
        let start = self.lines.len();
        self.lines.push(b'{');
        let later = event.ts.as_millis() - self.ts;
        if later != 0 {
            self.member("t", &later)?;
        }
        let EventLocation { path, iteration, attempt, turn, call, parent_call, depth, span, parent } =
            &event.place;
        self.optional("path", path.as_ref())?;
        self.optional("iteration", iteration.as_ref())?;
        self.optional("attempt", attempt.as_ref())?;
        self.optional("turn", turn.as_ref())?;
        self.optional("call", call.as_ref())?;
        self.optional("parent_call", parent_call.as_ref())?;
        self.optional("depth", depth.as_ref())?;
        self.member("span", span)?;
        self.optional("parent", parent.as_ref())?;
        // The body is an object of its own; its members continue this one.
        let comma = self.lines.len() - 1;
        self.lines.truncate(comma);
        serde_json::to_writer(&mut self.lines, &event.body).map_err(StoreError::io)?;
        self.lines[comma] = b',';
        self.lines.push(b'\n');
        Ok(start)
    }

    fn optional(&mut self, name: &str, value: Option<&impl Serialize>) -> Result<(), StoreError> {
        value.map_or(Ok(()), |value| self.member(name, value))
    }

    fn member(&mut self, name: &str, value: &impl Serialize) -> Result<(), StoreError> {
        self.lines.push(b'"');
        self.lines.extend_from_slice(name.as_bytes());
        self.lines.extend_from_slice(b"\":");
        serde_json::to_writer(&mut self.lines, value).map_err(StoreError::io)?;
        self.lines.push(b',');
        Ok(())
    }

    /// The last line, without its end.
    pub(crate) fn line(&self, start: usize) -> &[u8] {
        &self.lines[start..self.lines.len() - 1]
    }

    /// Puts another text in the place of the last line.
    pub(crate) fn replace(&mut self, start: usize, line: &str) {
        self.lines.truncate(start);
        self.lines.extend_from_slice(line.as_bytes());
        self.lines.push(b'\n');
    }

    /// Writes the record of the event before.
    pub(crate) fn record(&mut self, text: &str) {
        self.lines.push(RECORD_MARK);
        self.lines.extend_from_slice(text.as_bytes());
        self.lines.push(b'\n');
    }

    pub(crate) fn done(self) -> Vec<u8> {
        self.lines
    }
}

/// An event as its line has it, with what the envelope adds.
pub(crate) fn read_event(line: &[u8], run: &RunId, seq: u64, ts: i64) -> Result<TraceEvent, StoreError> {
    let Line { t, place, body } = read(line).map_err(corrupt)?;
    Ok(TraceEvent::new(run.clone(), seq, Timestamp::from_millis(ts + t), place, body))
}

#[expect(clippy::needless_pass_by_value, reason = "so that `map_err` takes it by its name")]
fn corrupt(error: serde_json::Error) -> StoreError {
    StoreError::Corrupt { message: format!("an event: {error}") }
}

/// The lines behind the head of a group, and what the head says.
fn parts(lines: &[u8]) -> Result<(Head, impl Iterator<Item = &[u8]>), StoreError> {
    let mut all = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let none = || StoreError::Corrupt { message: "a group without a head".to_owned() };
    let head = read(all.next().ok_or_else(none)?).map_err(corrupt)?;
    Ok((head, all))
}

/// The events in a group of lines.
///
/// # Errors
/// A line is not an event: the store is damaged.
pub fn read_lines(lines: &[u8]) -> Result<Vec<StoredEvent>, StoreError> {
    let (head, lines) = parts(lines)?;
    let mut kept: Vec<StoredEvent> = Vec::new();
    let mut seq = head.first;
    for line in lines {
        match (line.strip_prefix(&[RECORD_MARK]), kept.last_mut()) {
            (Some(record), Some(last)) => {
                let record: ReplayData = read(record).map_err(corrupt)?;
                last.record = Some(record);
            }
            (Some(_), None) => {
                return Err(StoreError::Corrupt { message: "a record without an event".to_owned() });
            }
            (None, _) => {
                kept.push(StoredEvent { event: read_event(line, &head.run, seq, head.ts)?, record: None });
                seq += 1;
            }
        }
    }
    Ok(kept)
}

/// The first of a group of lines, up to and including the first event that `is_last` accepts, with its number.
///
/// # Errors
/// A line is not an event.
pub fn cut_lines(
    lines: &[u8],
    mut is_last: impl FnMut(&TraceEvent) -> bool,
) -> Result<Option<(Vec<u8>, u64)>, StoreError> {
    let kept = read_lines(lines)?;
    let Some(at) = kept.iter().position(|kept| is_last(&kept.event)) else { return Ok(None) };
    // The head is not an event.
    let mut events = 0;
    let is_within = |line: &&[u8]| {
        events += usize::from(!line.is_empty() && line.first() != Some(&RECORD_MARK));
        events <= at + 2
    };
    let first: Vec<&[u8]> = lines.split_inclusive(|byte| *byte == b'\n').take_while(is_within).collect();
    Ok(Some((first.concat(), kept[at].event.seq)))
}

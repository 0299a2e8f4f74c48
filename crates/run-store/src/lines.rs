//! Encoding of a group of events in the store: a head, then one line for each event.
//!
//! The head has the fields that all events of a group share: the run, the first number, the first time. A line has the
//! rest. Of the location it has, under names of one letter, only what differs from the line before; the body stands in
//! the words of the wire. A line that begins with `+` is the record of the event before it.
//!
//! Groups of earlier versions have the whole location in each line, in the words of the wire.

use std::sync::Arc;

use agent_types::{CallId, EventBody, EventLocation, ReplayData, RunId, StoredEvent, Timestamp, TraceEvent};
use serde::{Deserialize, Deserializer, Serialize};

use crate::StoreError;
use crate::json::read;

/// Marks a line as the record of the event before it.
const RECORD_MARK: u8 = b'+';

/// Fields that all events of a group share.
#[derive(Serialize, Deserialize)]
struct Head {
    run: RunId,
    first: u64,
    /// Milliseconds since 1970. Earlier versions call it `ts`, and refuse a group that has none: a process of one that has
    /// the store open would read its lines without their locations.
    #[serde(rename = "at", alias = "ts")]
    ts: i64,
    /// Lines leave out what the line before says of its location.
    #[serde(default)]
    relative: bool,
}

/// A line as it is read. The long names are those of earlier versions.
#[derive(Deserialize)]
struct Line {
    /// Milliseconds after the time of the head; may be negative, clocks jump.
    #[serde(default)]
    t: i64,
    #[serde(default, alias = "path")]
    p: Part<Option<Arc<str>>>,
    #[serde(default, alias = "iteration")]
    i: Part<Option<u64>>,
    #[serde(default, alias = "attempt")]
    a: Part<Option<u32>>,
    #[serde(default, alias = "turn")]
    n: Part<Option<u32>>,
    #[serde(default, alias = "call")]
    c: Part<Option<CallId>>,
    #[serde(default, alias = "parent_call")]
    o: Part<Option<CallId>>,
    #[serde(default, alias = "depth")]
    d: Part<Option<u32>>,
    #[serde(default, alias = "span")]
    s: Part<u64>,
    #[serde(default, alias = "parent")]
    u: Part<Option<u64>>,
    #[serde(flatten)]
    body: EventBody,
}

/// Part of a location: that of the line before, or another.
#[derive(Default)]
enum Part<T> {
    #[default]
    Same,
    New(T),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Part<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        T::deserialize(from).map(Self::New)
    }
}

impl<T> Part<T> {
    fn put(self, place: &mut T) {
        if let Self::New(part) = self {
            *place = part;
        }
    }
}

impl Line {
    /// The event of the line; `place` is the location of the line before, and then that of this one.
    fn into_event(self, run: &RunId, seq: u64, ts: i64, place: &mut EventLocation) -> TraceEvent {
        let Self { t, p, i, a, n, c, o, d, s, u, body } = self;
        p.put(&mut place.path);
        i.put(&mut place.iteration);
        a.put(&mut place.attempt);
        n.put(&mut place.turn);
        c.put(&mut place.call);
        o.put(&mut place.parent_call);
        d.put(&mut place.depth);
        s.put(&mut place.span);
        u.put(&mut place.parent);
        TraceEvent::new(run.clone(), seq, Timestamp::from_millis(ts + t), place.clone(), body)
    }
}

/// Writes a group.
pub(crate) struct Writing {
    lines: Vec<u8>,
    ts: i64,
    /// Location of the last line.
    place: EventLocation,
}

impl Writing {
    pub(crate) fn new(run: &RunId, first: &TraceEvent, events: usize) -> Result<Self, StoreError> {
        let mut lines = Vec::with_capacity(64 + events * 144);
        let head = Head { run: run.clone(), first: first.seq, ts: first.ts.as_millis(), relative: true };
        serde_json::to_writer(&mut lines, &head).map_err(StoreError::io)?;
        lines.push(b'\n');
        Ok(Self { lines, ts: first.ts.as_millis(), place: EventLocation::default() })
    }

    /// Writes an event; gives where its line begins.
    pub(crate) fn event(&mut self, event: &TraceEvent) -> Result<usize, StoreError> {
        let start = self.lines.len();
        self.lines.push(b'{');
        let later = event.ts.as_millis() - self.ts;
        if later != 0 {
            self.member("t", &later)?;
        }
        let before = std::mem::replace(&mut self.place, event.place.clone());
        let EventLocation { path, iteration, attempt, turn, call, parent_call, depth, span, parent } =
            &event.place;
        self.changed("p", &before.path, path)?;
        self.changed("i", &before.iteration, iteration)?;
        self.changed("a", &before.attempt, attempt)?;
        self.changed("n", &before.turn, turn)?;
        self.changed("c", &before.call, call)?;
        self.changed("o", &before.parent_call, parent_call)?;
        self.changed("d", &before.depth, depth)?;
        self.changed("s", &before.span, span)?;
        self.changed("u", &before.parent, parent)?;
        // The body is an object of its own; its members continue this one.
        let joint = self.lines.len() - 1;
        self.lines.truncate(joint);
        serde_json::to_writer(&mut self.lines, &event.body).map_err(StoreError::io)?;
        if joint > start {
            self.lines[joint] = b',';
        }
        self.lines.push(b'\n');
        Ok(start)
    }

    fn changed<T: Serialize + PartialEq>(
        &mut self,
        name: &str,
        before: &T,
        value: &T,
    ) -> Result<(), StoreError> {
        if before == value { Ok(()) } else { self.member(name, value) }
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

    /// Puts the masked text of the last line in its place; gives the event as it is then.
    pub(crate) fn mask(
        &mut self,
        start: usize,
        masked: &str,
        event: &TraceEvent,
    ) -> Result<TraceEvent, StoreError> {
        self.lines.truncate(start);
        self.lines.extend_from_slice(masked.as_bytes());
        self.lines.push(b'\n');
        // What the line leaves out is as in the event.
        let line: Line = read(masked.as_bytes()).map_err(corrupt)?;
        Ok(line.into_event(&event.run, event.seq, self.ts, &mut self.place))
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
    let mut place = EventLocation::default();
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
                if !head.relative {
                    place = EventLocation::default();
                }
                let line: Line = read(line).map_err(corrupt)?;
                let event = line.into_event(&head.run, seq, head.ts, &mut place);
                kept.push(StoredEvent { event, record: None });
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

#[cfg(test)]
mod tests {
    use super::*;

    fn place(path: &str, iteration: Option<u64>, span: u64) -> EventLocation {
        let (path, parent) = (Some(Arc::from(path)), Some(span - 1));
        EventLocation { path, iteration, span, parent, ..EventLocation::default() }
    }

    fn events(places: Vec<EventLocation>) -> Vec<TraceEvent> {
        let event = |(seq, place)| {
            let ts = Timestamp::from_millis(1000 + i64::try_from(seq).unwrap() / 3);
            TraceEvent::new(RunId::new("r"), seq, ts, place, EventBody::LoopIterStarted { item: None })
        };
        (7..).zip(places).map(event).collect()
    }

    #[test]
    fn lines_leave_out_what_the_line_before_says() {
        let inner =
            EventLocation { attempt: Some(1), call: Some(CallId::new("c")), ..place("L[0]/a", Some(0), 3) };
        let places = vec![place("L", Some(0), 2), inner.clone(), inner, place("L", None, 2)];
        let events = events(places);
        let mut writing = Writing::new(&RunId::new("r"), &events[0], events.len()).unwrap();
        for event in &events {
            writing.event(event).unwrap();
        }
        let lines = writing.done();
        let text = std::str::from_utf8(&lines).unwrap();
        assert_eq!(
            text.lines().skip(1).collect::<Vec<_>>(),
            [
                r#"{"p":"L","i":0,"s":2,"u":1,"type":"loop.iter.started","data":{}}"#,
                r#"{"p":"L[0]/a","a":1,"c":"c","s":3,"u":2,"type":"loop.iter.started","data":{}}"#,
                r#"{"t":1,"type":"loop.iter.started","data":{}}"#,
                r#"{"t":1,"p":"L","i":null,"a":null,"c":null,"s":2,"u":1,"type":"loop.iter.started","data":{}}"#,
            ]
        );
        let read: Vec<TraceEvent> = read_lines(&lines).unwrap().into_iter().map(|kept| kept.event).collect();
        assert_eq!(read, events);
    }

    #[test]
    fn groups_of_earlier_versions_are_read() {
        let lines = br#"{"run":"r","first":7,"ts":1002}
{"path":"L","iteration":0,"attempt":1,"turn":2,"call":"c","parent_call":"o","depth":1,"span":2,"parent":1,"type":"loop.iter.started","data":{}}
{"t":1,"path":"L","span":3,"type":"loop.iter.started","data":{}}
"#;
        let read = read_lines(lines).unwrap();
        let all = EventLocation {
            attempt: Some(1),
            turn: Some(2),
            call: Some(CallId::new("c")),
            parent_call: Some(CallId::new("o")),
            depth: Some(1),
            ..place("L", Some(0), 2)
        };
        assert_eq!(read[0].event.place, all);
        assert_eq!(read[1].event.place, EventLocation { parent: None, ..place("L", None, 3) });
        assert_eq!(read[1].event.ts, Timestamp::from_millis(1003));
    }
}

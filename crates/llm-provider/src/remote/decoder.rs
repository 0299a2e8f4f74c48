//! Bytes of a body to its events: server-sent events by the WHATWG rules, and newline-delimited JSON.

use std::collections::VecDeque;

/// Longest line and longest event, in bytes.
const MAX_BYTES: usize = 16 << 20;

/// The way in which a body holds events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// Server-sent events.
    Events,
    /// One JSON value a line.
    Lines,
}

/// A part of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Frame {
    /// An event; its name is empty where none was given.
    Data { event: String, data: String },
    /// A comment: a sign of life.
    Comment,
    /// A line that means nothing in server-sent events: the body may be something else.
    Stray(String),
}

/// A line or an event that is longer than any answer needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooLong;

/// Incremental decoder: the result does not depend on how the bytes are cut, and the memory it needs is bounded.
#[derive(Debug)]
pub(super) struct Decoder {
    framing: Framing,
    line: Vec<u8>,
    /// The last byte was a CR, so that a following LF belongs to the same line end.
    after_cr: bool,
    /// A byte-order mark may still come.
    at_start: bool,
    event: String,
    data: Option<String>,
    frames: VecDeque<Frame>,
}

impl Decoder {
    pub(super) fn new(framing: Framing) -> Self {
        let (line, event, frames) = (Vec::new(), String::new(), VecDeque::new());
        Self { framing, line, after_cr: false, at_start: true, event, data: None, frames }
    }

    /// Takes more bytes. The events that they complete are taken with [`next`](Self::next).
    pub(super) fn push(&mut self, mut bytes: &[u8]) -> Result<(), TooLong> {
        while !bytes.is_empty() {
            if std::mem::take(&mut self.after_cr) && bytes[0] == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let (piece, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
            if self.line.len() + piece.len() > MAX_BYTES {
                return Err(TooLong);
            }
            self.line.extend_from_slice(piece);
            let Some(byte) = rest.first() else { break };
            self.after_cr = *byte == b'\r';
            self.end_line()?;
            bytes = &rest[1..];
        }
        Ok(())
    }

    /// Takes the end of the body: the last line and the last event need no end of their own.
    pub(super) fn end(&mut self) -> Result<(), TooLong> {
        if !self.line.is_empty() {
            self.end_line()?;
        }
        self.dispatch();
        Ok(())
    }

    /// The next part of the body, once it is whole.
    pub(super) fn next(&mut self) -> Option<Frame> {
        self.frames.pop_front()
    }

    fn end_line(&mut self) -> Result<(), TooLong> {
        let bytes = std::mem::take(&mut self.line);
        let is_first = std::mem::take(&mut self.at_start);
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").filter(|_| is_first).unwrap_or(&bytes);
        let line = String::from_utf8_lossy(bytes);
        match self.framing {
            Framing::Lines if line.trim().is_empty() => Ok(()),
            Framing::Lines => {
                let data = line.into_owned();
                self.frames.push_back(Frame::Data { event: String::new(), data });
                Ok(())
            }
            Framing::Events => self.field(&line),
        }
    }

    /// Reads a line of server-sent events.
    fn field(&mut self, line: &str) -> Result<(), TooLong> {
        if line.is_empty() {
            self.dispatch();
            return Ok(());
        }
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "" if self.frames.back() != Some(&Frame::Comment) => self.frames.push_back(Frame::Comment),
            "" | "id" | "retry" => {}
            "event" => value.clone_into(&mut self.event),
            "data" => {
                let length = self.data.as_ref().map_or(0, String::len) + value.len();
                if length > MAX_BYTES {
                    return Err(TooLong);
                }
                match &mut self.data {
                    None => self.data = Some(value.to_owned()),
                    Some(data) => data.extend(["\n", value]),
                }
            }
            _ if line.trim().is_empty() => {}
            _ => self.frames.push_back(Frame::Stray(line.to_owned())),
        }
        Ok(())
    }

    fn dispatch(&mut self) {
        let event = std::mem::take(&mut self.event);
        match self.data.take() {
            // A name alone is an event for those who have to hear it.
            None if event.is_empty() => {}
            data => self.frames.push_back(Frame::Data { event, data: data.unwrap_or_default() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frames(framing: Framing, pieces: &[&[u8]]) -> Vec<Frame> {
        let mut decoder = Decoder::new(framing);
        let mut frames = Vec::new();
        for piece in pieces {
            decoder.push(piece).expect("it is short");
            frames.extend(std::iter::from_fn(|| decoder.next()));
        }
        decoder.end().expect("it is short");
        frames.extend(std::iter::from_fn(|| decoder.next()));
        frames
    }

    fn data(event: &str, data: &str) -> Frame {
        Frame::Data { event: event.into(), data: data.into() }
    }

    #[track_caller]
    fn check(body: &str, expected: &[Frame]) {
        assert_eq!(frames(Framing::Events, &[body.as_bytes()]), expected, "{body:?}");
        let bytes: Vec<&[u8]> = body.as_bytes().chunks(1).collect();
        let mut cut = frames(Framing::Events, &bytes);
        cut.dedup_by(|later, first| *later == Frame::Comment && *first == Frame::Comment);
        assert_eq!(cut, expected, "{body:?} in single bytes");
    }

    #[test]
    fn events_are_read_by_the_standard() {
        check("data: a\n\ndata:b\n\n", &[data("", "a"), data("", "b")]);
        check("event: x\ndata: a\ndata:  b\n\n", &[data("x", "a\n b")]);
        check("data: a\r\n\r\ndata: b\r\rdata: c\n\n", &[data("", "a"), data("", "b"), data("", "c")]);
        check("data: a\nevent: x\nid: 7\nretry: 9\n\n", &[data("x", "a")]);
        check("\u{feff}data: a\n\n", &[data("", "a")]);
        check("data: \u{feff}a\u{2028}b\u{85}c\n\n", &[data("", "\u{feff}a\u{2028}b\u{85}c")]);
        check(": hi\n:\n\ndata: a\n\n", &[Frame::Comment, data("", "a")]);
        check("data\n\ndata:\n\n", &[data("", ""), data("", "")]);
        check("event: error\n\n\n\n", &[data("error", "")]);
        check("data: a", &[data("", "a")]);
        check("", &[]);
    }

    #[test]
    fn what_is_no_event_is_stray() {
        let line = r#"{"error": "data: no"}"#;
        check(&format!("{line}\n \n"), &[Frame::Stray(line.into())]);
        check("<html>\ndata : a\n", &[Frame::Stray("<html>".into()), Frame::Stray("data : a".into())]);
    }

    #[test]
    fn lines_may_be_empty_and_end_in_any_way() {
        let expected = [data("", "{}"), data("", "[1]"), data("", "2")];
        assert_eq!(frames(Framing::Lines, &[b"\xef\xbb\xbf{}\r\n\r\n  \n[1]\n\n2"]), expected);
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced() {
        assert_eq!(frames(Framing::Events, &[b"data: \xff\xf0\n\n"]), [data("", "\u{fffd}\u{fffd}")]);
    }

    #[test]
    fn memory_is_bounded() {
        let block = vec![b'x'; 1 << 20];
        let mut decoder = Decoder::new(Framing::Events);
        let taken = (0..100).take_while(|_| decoder.push(&block).is_ok()).count();
        assert_eq!(taken, MAX_BYTES >> 20);
        assert!(decoder.line.capacity() <= 2 * MAX_BYTES);
        // One event of very many lines.
        let mut decoder = Decoder::new(Framing::Events);
        let line = [b"data:", &block[..], b"\n"].concat();
        assert!((0..100).any(|_| decoder.push(&line).is_err()));
        // Comments without end leave nothing behind.
        let mut decoder = Decoder::new(Framing::Events);
        for _ in 0..1_000 {
            decoder.push(b":\n:\n\n:\n").expect("a comment is short");
            assert_eq!((decoder.next(), decoder.next()), (Some(Frame::Comment), None));
        }
    }

    fn body() -> impl Strategy<Value = Vec<u8>> {
        let part = prop_oneof![
            "data: ?[a-z\"{}\u{e9}\u{1f332}]{0,6}".prop_map(String::into_bytes),
            "(event|id|retry|odd)?:? ?[a-z]{0,4}".prop_map(String::into_bytes),
            prop::sample::select(vec![&b"\n"[..], b"\r", b"\r\n", b"\xef\xbb\xbf", b"\xff", b""])
                .prop_map(<[u8]>::to_vec),
        ];
        prop::collection::vec(part, 0..24).prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn cuts_mean_nothing(body in body(), size in 1_usize..9, lines in any::<bool>()) {
            let framing = if lines { Framing::Lines } else { Framing::Events };
            let pieces: Vec<&[u8]> = body.chunks(size).collect();
            let without_comments = |pieces: &[&[u8]]| {
                let mut frames = frames(framing, pieces);
                frames.retain(|frame| *frame != Frame::Comment);
                frames
            };
            prop_assert_eq!(without_comments(&pieces), without_comments(&[&body]));
        }
    }
}

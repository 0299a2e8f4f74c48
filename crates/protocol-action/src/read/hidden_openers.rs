//! Line structures that hide openers: fences, inline code, quotations, and replies in JSON.

use crate::SegmentKind;

use super::json_openers::{JsonReply, Step};
use super::lenient_tags::starts_name;
use super::openers::{LONGEST_TICKS, Mode};
use super::source::{Found, Probe, Source, is_blank};
use super::{Flow, Machine};

/// Longer fence markers are text.
const LONGEST_MARKER: usize = 128;

impl Machine {
    pub(super) fn line_start(&mut self, src: Source<'_>) -> Flow {
        if self.at == 0 {
            match src.begins(0, "\u{feff}".as_bytes()) {
                None => return Flow::Wait,
                Some(true) => {
                    self.at = 3;
                    self.out.segment(SegmentKind::ByteOrderMark, 3);
                }
                Some(false) => {}
            }
        }
        self.at = src.skip_blanks(self.at);
        let Some(byte) = src.byte(self.at) else { return Flow::Wait };
        let at = self.at;
        self.prose.line_text = at;
        let mode = match byte {
            b'{' | b'[' if !self.prose.begun => Some(Mode::Json(JsonReply::new())),
            b'>' => Some(Mode::Quoted),
            b'o' | b'O' => match src.begins(at, b"observation:") {
                None => return Flow::Wait,
                Some(quoted) => quoted.then_some(Mode::Quoted),
            },
            b'`' | b'~' => match self.fence_start(src, byte) {
                Found::NotBefore(_) => return Flow::Wait,
                Found::At(len) => Some(Mode::Fence { mark: byte, len, line_start: false }),
                Found::Never => None,
            },
            _other => None,
        };
        self.prose.begun = true;
        self.prose.line_start = false;
        self.prose.ticks.complete = false;
        self.prose.ticks.last.fill(0);
        if let Some(mode) = mode {
            self.prose.mode = mode;
        }
        Flow::Go
    }

    /// A fence is a run of three marks or more; the rest of a line of backticks holds none. Found is
    /// the length of the run.
    fn fence_start(&mut self, src: Source<'_>, mark: u8) -> Found {
        let start = self.at;
        let Some(len) = self.run_of(src, start, mark) else { return Found::NotBefore(start) };
        if len < 3 || mark == b'~' {
            return if len < 3 { Found::Never } else { Found::At(len) };
        }
        let from = self.probe.resume(start).max(start + len);
        let rest = &src.bytes()[from..];
        match memchr::memchr2(b'\n', b'`', rest) {
            Some(found) if rest[found] == b'`' => Found::Never,
            None if !src.ended() => {
                self.probe.keep(start, src.len());
                Found::NotBefore(start)
            }
            Some(_) | None => Found::At(len),
        }
    }

    pub(super) fn fence(&mut self, src: Source<'_>) -> Flow {
        let Mode::Fence { mark, len, line_start } = self.prose.mode else { return Flow::Go };
        let in_line = Mode::Fence { mark, len, line_start: false };
        if !line_start {
            let Some(newline) = memchr::memchr(b'\n', &src.bytes()[self.at..]) else {
                self.at = src.len();
                return Flow::Wait;
            };
            self.prose.mode = Mode::Fence { mark, len, line_start: true };
            return self.pass(self.at + newline + 1);
        }
        let indent = src.bytes()[self.at..].iter().take_while(|&&byte| byte == b' ' || byte == b'\t').count();
        self.at += indent;
        if src.byte(self.at).is_none() {
            return Flow::Wait;
        }
        let Some(marks) = self.run_of(src, self.at, mark) else { return Flow::Wait };
        let ends = if marks < len { Some(false) } else { self.ends_line(src, self.at + marks) };
        match ends {
            None => return Flow::Wait,
            Some(true) => {
                self.at += marks;
                self.prose.mode = Mode::Plain;
            }
            Some(false) => self.prose.mode = in_line,
        }
        Flow::Go
    }

    pub(super) fn quoted(&mut self, src: Source<'_>) -> Flow {
        let Some(newline) = memchr::memchr(b'\n', &src.bytes()[self.at..]) else {
            self.at = src.len();
            return Flow::Wait;
        };
        self.prose.mode = Mode::Plain;
        self.pass(self.at + newline)
    }

    pub(super) fn json(&mut self, src: Source<'_>) -> Flow {
        let Mode::Json(reply) = &mut self.prose.mode else { return Flow::Go };
        for (offset, &byte) in src.bytes()[self.at..].iter().enumerate() {
            let after = match reply.step(byte) {
                Step::Inside => continue,
                Step::Broken => self.at + offset,
                Step::Done => self.at + offset + 1,
            };
            self.at = after;
            let line = &src.text[..after];
            let line = &line[line.rfind('\n').map_or(0, |newline| newline + 1)..];
            if line.bytes().all(is_blank) {
                self.prose.line_text = after;
            }
            self.prose.mode = Mode::Plain;
            return Flow::Go;
        }
        self.at = src.len();
        Flow::Wait
    }

    /// Skips inline code: up to an equal run of backticks on the same line.
    pub(super) fn inline_code(&mut self, src: Source<'_>) -> Flow {
        let Some(len) = self.run_of(src, self.at, b'`') else { return Flow::Wait };
        let after = self.at + len;
        let known = self.prose.ticks.last[len.min(LONGEST_TICKS)];
        if len > LONGEST_TICKS || (self.prose.ticks.complete && known <= self.at) {
            self.at = after;
            return Flow::Go;
        }
        let mut at = self.probe.resume(after);
        loop {
            let rest = &src.bytes()[at..];
            let Some(found) = memchr::memchr2(b'`', b'\n', rest) else {
                at = src.len();
                break;
            };
            at += found;
            if rest[found] == b'\n' {
                break;
            }
            let Some(other) = count_run(&mut self.closing_probe, &mut self.work, src, at, b'`') else {
                break;
            };
            self.prose.ticks.last[other.min(LONGEST_TICKS)] = at;
            at += other;
            if other == len {
                self.at = at;
                return Flow::Go;
            }
        }
        self.probe.keep(after, at);
        if src.byte(at) != Some(b'\n') && !src.ended() {
            return Flow::Wait;
        }
        self.prose.ticks.complete = true;
        self.at = after;
        Flow::Go
    }

    /// Returns `true` when only blanks stand between `at` and the end of the line.
    pub(super) fn ends_line(&mut self, src: Source<'_>, at: usize) -> Option<bool> {
        let from = self.probe.resume(at);
        let blanks =
            src.bytes()[from..].iter().take_while(|&&byte| matches!(byte, b' ' | b'\t' | b'\r')).count();
        self.work += blanks;
        self.probe.keep(at, from + blanks);
        match src.byte(from + blanks) {
            Some(byte) => Some(byte == b'\n'),
            None => src.ended().then_some(true),
        }
    }

    /// The first byte after blanks that begin at `at`, without going over them again and again.
    pub(super) fn blanks_from(&mut self, src: Source<'_>, at: usize) -> usize {
        let from = self.probe.resume(at);
        let end = src.skip_blanks(from);
        self.work += end - from;
        self.probe.keep(at, end);
        end
    }

    /// The length of a run of one byte; `None` while it may grow.
    pub(super) fn run_of(&mut self, src: Source<'_>, at: usize, mark: u8) -> Option<usize> {
        count_run(&mut self.run_probe, &mut self.work, src, at, mark)
    }
}

/// The length of a run of one byte; `None` while it may grow. The probe remembers how far it was counted.
fn count_run(probe: &mut Probe, work: &mut usize, src: Source<'_>, at: usize, mark: u8) -> Option<usize> {
    let from = probe.resume(at);
    let more = src.bytes()[from..].iter().take_while(|&&byte| byte == mark).count();
    *work += more;
    let end = from + more;
    probe.keep(at, end);
    (end < src.len() || src.ended()).then_some(end - at)
}

/// Finds the end of a fence marker: three marks or more and a word.
pub(super) fn fence_marker(src: Source<'_>, at: usize) -> Found {
    let Some(mark) = src.byte(at).filter(|&byte| byte == b'`' || byte == b'~') else { return Found::Never };
    let rest = &src.bytes()[at..src.len().min(at + LONGEST_MARKER)];
    let marks = rest.iter().take_while(|&&byte| byte == mark).count();
    let word = rest[marks..].iter().take_while(|&&byte| starts_name(byte) || b"+-.".contains(&byte)).count();
    let len = marks + word;
    if len == LONGEST_MARKER || (marks < 3 && marks < rest.len()) {
        return Found::Never;
    }
    if at + len == src.len() && !src.ended() {
        return Found::NotBefore(at);
    }
    if marks < 3 { Found::Never } else { Found::At(at + len) }
}

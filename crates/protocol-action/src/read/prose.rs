//! Text outside of blocks (reading rules 1 and 2).
//!
//! An opener counts unless something hides it: a code fence, inline code, a quoted line, a comment,
//! reasoning, a JSON string, or an element that begins a line and closes after the block. All but the
//! last are known when the opener is reached. For the last the block is read on probation: its events
//! are held back until the close tag comes, and the block was text, or the input ends.

use std::collections::HashMap;

use crate::{SegmentKind, Span};

use super::json_reply::{JsonReply, Step};
use super::lex::{Lex, Scanned, TagScan, is_cut, lex, starts_name};
use super::output::{Item, Mark};
use super::source::{Found, Source};
use super::{Flow, Machine, State};

/// Open tags longer than this open no block.
const LONGEST_OPENER: usize = 1024;
/// Inline code between longer runs of backticks is not looked for.
const LONGEST_TICKS: usize = 64;
const JSON_MARKER: &str = "<<<TOOL_CALL>>>";

#[derive(Debug)]
pub(crate) struct Prose {
    /// Only blanks so far on this line.
    line_start: bool,
    /// The first byte of this line that is not blank.
    line_text: usize,
    /// Something that is not blank was read.
    begun: bool,
    mode: Mode,
    /// How far a search beyond the cursor got, and where it began.
    probe: Probe,
    ticks: Ticks,
    /// Elements that begin a line and are still open.
    elements: HashMap<String, usize>,
    probation: Option<Probation>,
    think_closes: ThinkCloses,
    /// Where reasoning that never closed begins.
    pub(super) unclosed_think: Option<usize>,
}

#[derive(Debug)]
enum Mode {
    Plain,
    /// In a fence, somewhere in a line, or at the start of one.
    Fence {
        mark: u8,
        len: usize,
        line_start: bool,
    },
    /// In a line that quotes.
    Quoted,
    Think {
        inner: usize,
    },
    Json(JsonReply),
}

/// A search beyond the cursor, so that it goes on where it stood when more text arrives.
#[derive(Debug, Default)]
struct Probe {
    start: usize,
    at: usize,
}

impl Probe {
    /// Where the search from `start` stands.
    fn resume(&self, start: usize) -> usize {
        if self.start == start { self.at.max(start) } else { start }
    }

    fn keep(&mut self, start: usize, at: usize) {
        *self = Self { start, at };
    }
}

/// Runs of backticks on the current line, by length.
#[derive(Debug)]
struct Ticks {
    /// The line was searched up to its end.
    complete: bool,
    last: [usize; LONGEST_TICKS + 1],
}

/// A block that is text if one of the open elements closes after it.
#[derive(Debug)]
struct Probation {
    mark: Mark,
    /// Elements opened since.
    opened: HashMap<String, usize>,
}

/// Close tags of reasoning, found once.
#[derive(Debug, Default)]
struct ThinkCloses {
    scanned: usize,
    hits: Vec<Span>,
}

impl Default for Prose {
    fn default() -> Self {
        Self {
            line_start: true,
            line_text: 0,
            begun: false,
            mode: Mode::Plain,
            probe: Probe::default(),
            ticks: Ticks { complete: false, last: [0; LONGEST_TICKS + 1] },
            elements: HashMap::new(),
            probation: None,
            think_closes: ThinkCloses::default(),
            unclosed_think: None,
        }
    }
}

impl Machine {
    pub(super) fn prose_step(&mut self, src: Source<'_>) -> Flow {
        let flow = match &mut self.prose.mode {
            Mode::Plain if self.prose.line_start => self.line_start(src),
            Mode::Plain => self.plain(src),
            Mode::Fence { .. } => self.fence(src),
            Mode::Quoted => self.quoted(src),
            Mode::Think { inner } => {
                let inner = *inner;
                return self.think(src, inner);
            }
            Mode::Json(_) => self.json(src),
        };
        if flow == Flow::Wait {
            self.flush_text();
            if src.ended() {
                self.prose.probation = None;
                self.out.release();
            }
        }
        flow
    }

    /// Everything up to the cursor is text.
    pub(super) fn flush_text(&mut self) {
        let start = self.out.segment_end();
        if self.at > start {
            self.out.segment(SegmentKind::Text, self.at);
            self.out.push(Item::Text(Span::new(start, self.at)));
        }
    }

    fn line_start(&mut self, src: Source<'_>) -> Flow {
        if self.at == 0 {
            match src.begins(0, "\u{feff}".as_bytes()) {
                None => return Flow::Wait,
                Some(true) => self.at = 3,
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
                None => return Flow::Wait,
                Some(mode) => mode,
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

    /// A fence is a run of three marks or more; the rest of a line of backticks holds none.
    fn fence_start(&mut self, src: Source<'_>, mark: u8) -> Option<Option<Mode>> {
        let len = run(src, self.at, mark)?;
        if len < 3 {
            return Some(None);
        }
        let fence = Mode::Fence { mark, len, line_start: false };
        if mark == b'~' {
            return Some(Some(fence));
        }
        let start = self.at;
        let from = self.prose.probe.resume(start).max(start + len);
        let rest = &src.bytes()[from..];
        match memchr::memchr2(b'\n', b'`', rest) {
            Some(found) if rest[found] == b'`' => Some(None),
            Some(_newline) => Some(Some(fence)),
            None if src.ended() => Some(Some(fence)),
            None => {
                self.prose.probe.keep(start, src.len());
                None
            }
        }
    }

    fn fence(&mut self, src: Source<'_>) -> Flow {
        let Mode::Fence { mark, len, line_start } = &mut self.prose.mode else { return Flow::Go };
        if !*line_start {
            return match memchr::memchr(b'\n', &src.bytes()[self.at..]) {
                Some(newline) => {
                    self.at += newline + 1;
                    *line_start = true;
                    Flow::Go
                }
                None => {
                    self.at = src.len();
                    Flow::Wait
                }
            };
        }
        let indent = src.bytes()[self.at..].iter().take_while(|&&byte| byte == b' ' || byte == b'\t').count();
        self.at += indent;
        if src.byte(self.at).is_none() {
            return Flow::Wait;
        }
        let Some(marks) = run(src, self.at, *mark) else { return Flow::Wait };
        if marks < *len {
            *line_start = false;
            return Flow::Go;
        }
        let from = self.prose.probe.resume(self.at).max(self.at + marks);
        let blanks =
            src.bytes()[from..].iter().take_while(|&&byte| matches!(byte, b' ' | b'\t' | b'\r')).count();
        match src.byte(from + blanks) {
            None if !src.ended() => {
                self.prose.probe.keep(self.at, from + blanks);
                return Flow::Wait;
            }
            None | Some(b'\n') => {
                self.at = from + blanks;
                self.prose.mode = Mode::Plain;
            }
            Some(_text) => *line_start = false,
        }
        Flow::Go
    }

    fn quoted(&mut self, src: Source<'_>) -> Flow {
        match memchr::memchr(b'\n', &src.bytes()[self.at..]) {
            Some(newline) => {
                self.at += newline;
                self.prose.mode = Mode::Plain;
                Flow::Go
            }
            None => {
                self.at = src.len();
                Flow::Wait
            }
        }
    }

    fn json(&mut self, src: Source<'_>) -> Flow {
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
            if line.bytes().all(super::source::is_blank) {
                self.prose.line_text = after;
            }
            self.prose.mode = Mode::Plain;
            return Flow::Go;
        }
        self.at = src.len();
        Flow::Wait
    }

    fn plain(&mut self, src: Source<'_>) -> Flow {
        let rest = &src.bytes()[self.at..];
        let Some(found) = memchr::memchr3(b'\n', b'`', b'<', rest) else {
            self.at = src.len();
            return Flow::Wait;
        };
        self.at += found;
        match rest[found] {
            b'\n' => {
                self.at += 1;
                self.prose.line_start = true;
                Flow::Go
            }
            b'`' => self.inline_code(src),
            _angle => self.angle(src),
        }
    }

    /// Skips inline code: up to an equal run of backticks on the same line.
    fn inline_code(&mut self, src: Source<'_>) -> Flow {
        let Some(len) = run(src, self.at, b'`') else { return Flow::Wait };
        let after = self.at + len;
        let known = self.prose.ticks.last[len.min(LONGEST_TICKS)];
        if len > LONGEST_TICKS || (self.prose.ticks.complete && known <= self.at) {
            self.at = after;
            return Flow::Go;
        }
        let mut at = self.prose.probe.resume(after);
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
            let Some(other) = run(src, at, b'`') else { break };
            self.prose.ticks.last[other.min(LONGEST_TICKS)] = at;
            at += other;
            if other == len {
                self.at = at;
                return Flow::Go;
            }
        }
        self.prose.probe.keep(after, at);
        if src.byte(at) != Some(b'\n') && !src.ended() {
            return Flow::Wait;
        }
        self.prose.ticks.complete = true;
        self.at = after;
        Flow::Go
    }

    fn angle(&mut self, src: Source<'_>) -> Flow {
        match src.begins(self.at, JSON_MARKER.as_bytes()) {
            None => return Flow::Wait,
            Some(true) => return self.opener(src, self.at + JSON_MARKER.len(), true),
            Some(false) => {}
        }
        match lex(src, self.at) {
            Lex::More => Flow::Wait,
            Lex::Comment => self.skip_comment(src),
            Lex::Open { name, after } => self.open_tag(src, name, after),
            Lex::Close { name, after } => self.close_tag(src, name, after),
            Lex::Data | Lex::CutClose { .. } | Lex::Section | Lex::Instruction | Lex::Declaration => {
                self.at += 1;
                Flow::Go
            }
        }
    }

    /// A comment holds no call; one that never ends is text.
    fn skip_comment(&mut self, src: Source<'_>) -> Flow {
        match self.comments.next(src, self.at + 4) {
            Found::At(end) => self.at = end + 3,
            Found::NotBefore(_) => return Flow::Wait,
            Found::Never => self.at += 4,
        }
        Flow::Go
    }

    fn open_tag(&mut self, src: Source<'_>, name: &str, after: usize) -> Flow {
        let action = name.eq_ignore_ascii_case("action");
        if action || name == "tool_call" || name == "tool_use" {
            let window = src.clipped(self.at + LONGEST_OPENER);
            return match TagScan::new(self.at, after).scan(window, name.len()) {
                Scanned::More if window.len() == src.len() => Flow::Wait,
                Scanned::Tag(tag) if tag.self_closed && !action => self.begin_block(true, self.at),
                Scanned::Tag(tag) if !tag.self_closed => self.opener(src, tag.after, !action),
                Scanned::Tag(_) | Scanned::More | Scanned::Cut | Scanned::Broken(_) => self.pass(after),
            };
        }
        if is_think(name) && !self.ignore_reasoning {
            return self.think_tag(src, after);
        }
        if self.at == self.prose.line_text {
            let window = src.clipped(self.at + LONGEST_OPENER);
            match TagScan::new(self.at, after).scan(window, name.len()) {
                Scanned::More if window.len() == src.len() => return Flow::Wait,
                Scanned::Tag(tag) if !tag.self_closed => self.element_opens(name),
                Scanned::Tag(_) | Scanned::More | Scanned::Cut | Scanned::Broken(_) => {}
            }
        }
        self.pass(after)
    }

    fn pass(&mut self, after: usize) -> Flow {
        self.at = after;
        Flow::Go
    }

    fn element_opens(&mut self, name: &str) {
        let elements = match &mut self.prose.probation {
            Some(probation) => &mut probation.opened,
            None => &mut self.prose.elements,
        };
        *elements.entry(name.to_owned()).or_default() += 1;
    }

    fn close_tag(&mut self, src: Source<'_>, name: &str, after: usize) -> Flow {
        if is_think(name) && !self.ignore_reasoning {
            return self.think_without_open(src, after);
        }
        if let Some(probation) = &mut self.prose.probation {
            if !closes(&mut probation.opened, name) && closes(&mut self.prose.elements, name) {
                let mark = probation.mark;
                self.prose.probation = None;
                self.out.roll_back(mark);
                self.out.mute = false;
                self.blocks = 0;
            }
        } else {
            closes(&mut self.prose.elements, name);
        }
        self.pass(after)
    }

    /// An opener whose tag ends at `after`.
    fn opener(&mut self, src: Source<'_>, after: usize, bare: bool) -> Flow {
        match self.leads_to_call(src, after) {
            None => Flow::Wait,
            Some(true) => self.begin_block(bare, if bare { self.at } else { after }),
            Some(false) => self.pass(after),
        }
    }

    /// Whether a tag or a JSON object is next after blanks, comments, instructions and fence markers.
    pub(super) fn leads_to_call(&mut self, src: Source<'_>, from: usize) -> Option<bool> {
        let mut at = self.prose.probe.resume(from);
        let answer = loop {
            at = src.skip_blanks(at);
            let skipped = match src.byte(at) {
                None => break src.ended().then_some(false),
                Some(b'{') => break Some(true),
                Some(b'`' | b'~') => match fence_marker(src, at) {
                    None => break None,
                    Some(None) => break Some(false),
                    Some(Some(after)) => Found::At(after),
                },
                Some(b'<') => match lex(src, at) {
                    Lex::More => break None,
                    Lex::Open { .. } | Lex::Close { .. } | Lex::CutClose { .. } | Lex::Declaration => {
                        break Some(true);
                    }
                    Lex::Comment => plus(self.comments.next(src, at + 4), 3),
                    Lex::Instruction => plus(self.instructions.next(src, at + 2), 2),
                    Lex::Section => break Some(false),
                    Lex::Data if is_cut(src, at) => break Some(true),
                    Lex::Data => break src.begins(at, JSON_MARKER.as_bytes()),
                },
                Some(_text) => break Some(false),
            };
            match skipped {
                Found::At(after) => at = after,
                Found::NotBefore(_) => break None,
                Found::Never => break Some(false),
            }
        };
        self.prose.probe.keep(from, at);
        answer
    }

    fn begin_block(&mut self, bare: bool, inner: usize) -> Flow {
        let start = self.at;
        self.flush_text();
        if self.blocks == 0 {
            if !self.prose.elements.is_empty() {
                let mark = self.out.mark();
                self.out.hold();
                self.prose.probation = Some(Probation { mark, opened: HashMap::new() });
            }
            self.out.push(Item::BlockStart);
        } else {
            self.out.mute = true;
        }
        self.block = super::block::Block::new(start, bare);
        self.at = inner;
        self.state = State::Between;
        Flow::Go
    }

    /// Text goes on after a block.
    pub(super) fn resume_prose(&mut self, at: usize) {
        self.at = at;
        self.state = State::Prose;
        self.prose.mode = Mode::Plain;
        self.prose.line_start = false;
        self.prose.line_text = usize::MAX;
    }

    fn think_tag(&mut self, src: Source<'_>, after: usize) -> Flow {
        let end = src.skip_blanks(after);
        match src.byte(end) {
            None if !src.ended() => return Flow::Wait,
            Some(b'>') => {}
            None | Some(_) => return self.pass(after),
        }
        let inner = end + 1;
        if self.at != self.prose.line_text {
            match self.prose.think_closes.next(src, inner) {
                Closed::At(_) => {}
                Closed::NotBefore(_) => return Flow::Wait,
                Closed::Never => return self.pass(inner),
            }
        }
        self.flush_text();
        self.at = inner;
        self.out.segment(SegmentKind::Reasoning, inner);
        self.prose.mode = Mode::Think { inner };
        Flow::Go
    }

    fn think(&mut self, src: Source<'_>, inner: usize) -> Flow {
        let (to, after) = match self.prose.think_closes.next(src, inner) {
            Closed::At(tag) => (tag.start, Some(tag.end)),
            Closed::NotBefore(at) => (at.max(inner), None),
            Closed::Never => (src.len(), None),
        };
        if to > self.at {
            self.out.push(Item::Reasoning(Span::new(self.at, to)));
            self.out.segment(SegmentKind::Reasoning, to);
            self.at = to;
        }
        match after {
            Some(after) => {
                self.out.reasoning.push(Span::new(inner, to));
                self.out.segment(SegmentKind::Reasoning, after);
                self.at = after;
                self.prose.mode = Mode::Plain;
                self.prose.line_start = true;
                Flow::Go
            }
            None => {
                if src.ended() {
                    self.out.reasoning.push(Span::new(inner, to));
                    self.prose.unclosed_think = Some(inner);
                    self.prose.probation = None;
                    self.out.release();
                    self.prose.mode = Mode::Plain;
                }
                Flow::Wait
            }
        }
    }

    /// A close tag without an open one ends reasoning only at the end of a line.
    fn think_without_open(&mut self, src: Source<'_>, after: usize) -> Flow {
        match ends_line(src, after) {
            None => Flow::Wait,
            Some(false) => self.pass(after),
            Some(true) => self.all_was_reasoning(after),
        }
    }

    /// Takes back everything: it was reasoning that ends at the close tag at the cursor.
    pub(super) fn all_was_reasoning(&mut self, after: usize) -> Flow {
        let inner = self.at;
        self.out.mute = false;
        self.out.retract(inner, after);
        self.blocks = 0;
        self.prose.elements.clear();
        self.prose.probation = None;
        self.resume_prose(after);
        self.prose.line_start = true;
        self.prose.begun = false;
        Flow::Go
    }
}

/// Whether only blanks stand between `at` and the end of the line.
pub(super) fn ends_line(src: Source<'_>, at: usize) -> Option<bool> {
    let blanks = src.bytes()[at..].iter().take_while(|&&byte| matches!(byte, b' ' | b'\t' | b'\r')).count();
    match src.byte(at + blanks) {
        Some(byte) => Some(byte == b'\n'),
        None => src.ended().then_some(true),
    }
}

pub(super) fn is_think(name: &str) -> bool {
    name.eq_ignore_ascii_case("think") || name.eq_ignore_ascii_case("thinking")
}

fn closes(open: &mut HashMap<String, usize>, name: &str) -> bool {
    let Some(count) = open.get_mut(name) else { return false };
    *count -= 1;
    if *count == 0 {
        open.remove(name);
    }
    true
}

fn plus(found: Found, len: usize) -> Found {
    match found {
        Found::At(at) => Found::At(at + len),
        Found::NotBefore(_) | Found::Never => found,
    }
}

/// The length of a run of one byte; `None` while it may grow.
fn run(src: Source<'_>, at: usize, mark: u8) -> Option<usize> {
    let len = src.bytes()[at..].iter().take_while(|&&byte| byte == mark).count();
    (at + len < src.len() || src.ended()).then_some(len)
}

/// Where a fence marker ends: three marks or more and a word. `None` while it may grow.
pub(super) fn fence_marker(src: Source<'_>, at: usize) -> Option<Option<usize>> {
    let Some(mark) = src.byte(at).filter(|&byte| byte == b'`' || byte == b'~') else { return Some(None) };
    let len = run(src, at, mark)?;
    if len < 3 {
        return Some(None);
    }
    let word = src.bytes()[at + len..]
        .iter()
        .take_while(|&&byte| starts_name(byte) || b"+-.".contains(&byte))
        .count();
    let after = at + len + word;
    (after < src.len() || src.ended()).then_some(Some(after))
}

enum Closed {
    At(Span),
    NotBefore(usize),
    Never,
}

impl ThinkCloses {
    fn next(&mut self, src: Source<'_>, from: usize) -> Closed {
        loop {
            let index = self.hits.partition_point(|hit| hit.start < from);
            if let Some(&hit) = self.hits.get(index) {
                return Closed::At(hit);
            }
            let start = self.scanned.min(src.len());
            let Some(found) = memchr::memchr(b'<', &src.bytes()[start..]) else {
                self.scanned = src.len();
                break;
            };
            let at = start + found;
            match lex(src, at) {
                Lex::More => {
                    self.scanned = at;
                    break;
                }
                Lex::Close { name, after } => {
                    if is_think(name) {
                        self.hits.push(Span::new(at, after));
                    }
                    self.scanned = after;
                }
                Lex::Open { .. }
                | Lex::Data
                | Lex::CutClose { .. }
                | Lex::Comment
                | Lex::Section
                | Lex::Instruction
                | Lex::Declaration => self.scanned = at + 1,
            }
        }
        if src.ended() { Closed::Never } else { Closed::NotBefore(self.scanned.max(from)) }
    }
}

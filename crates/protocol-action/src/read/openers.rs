//! Text outside of blocks (reading rules 1 and 2).
//!
//! An opener counts unless something hides it: a code fence, inline code, a quoted line, a comment,
//! reasoning, a JSON string, or an element that begins a line and closes after the block. All but the
//! last are known when the opener is reached. For the last the block is read on probation: its events
//! are held back until the close tag comes, and the block was text, or the input ends.

use std::collections::HashMap;

use crate::{SegmentKind, Span};

use super::dialects::is_bare_call;
use super::hidden_openers::fence_marker;
use super::json_openers::JsonReply;
use super::lenient_tags::{Lex, Scanned, TagScan, is_cut, lex};
use super::output::{Item, Mark};
use super::reasoning::{ThinkCloses, is_think};
use super::source::{Found, Source};
use super::{Flow, Machine, State};

/// Open tags longer than this open no block.
pub(super) const LONGEST_OPENER: usize = 512;
/// Inline code between longer runs of backticks is not looked for.
pub(super) const LONGEST_TICKS: usize = 64;
const JSON_MARKER: &str = "<<<TOOL_CALL>>>";

#[derive(Debug)]
pub(crate) struct Prose {
    /// Only blanks so far on this line.
    pub(super) line_start: bool,
    /// The first byte of this line that is not blank.
    pub(super) line_text: usize,
    /// Something that is not blank was read.
    pub(super) begun: bool,
    pub(super) mode: Mode,
    pub(super) ticks: Ticks,
    /// Elements that begin a line and are still open.
    pub(super) elements: HashMap<String, usize>,
    pub(super) probation: Option<Probation>,
    pub(super) think_closes: ThinkCloses,
    /// Start of reasoning that never closed.
    pub(super) unclosed_think: Option<usize>,
}

#[derive(Debug)]
pub(super) enum Mode {
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

/// Runs of backticks on the current line, by length.
#[derive(Debug)]
pub(super) struct Ticks {
    /// The line was searched up to its end.
    pub(super) complete: bool,
    pub(super) last: [usize; LONGEST_TICKS + 1],
}

/// A block that is text if one of the open elements closes after it.
#[derive(Debug)]
pub(super) struct Probation {
    pub(super) mark: Mark,
    /// Elements opened since.
    pub(super) opened: HashMap<String, usize>,
}

impl Default for Prose {
    fn default() -> Self {
        Self {
            line_start: true,
            line_text: 0,
            begun: false,
            mode: Mode::Plain,
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
        if action || is_bare_call(name) {
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

    pub(super) fn pass(&mut self, after: usize) -> Flow {
        self.at = after;
        Flow::Go
    }

    pub(super) fn element_opens(&mut self, name: &str) {
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

    /// Returns `true` when a tag or a JSON object is next after blanks, comments, instructions and fence markers.
    pub(super) fn leads_to_call(&mut self, src: Source<'_>, from: usize) -> Option<bool> {
        let mut at = self.probe.resume(from);
        self.work += 1;
        let answer = loop {
            at = src.skip_blanks(at);
            let skipped = match src.byte(at) {
                None => break src.ended().then_some(false),
                Some(b'{') => break Some(true),
                Some(b'`' | b'~') => match fence_marker(src, at) {
                    Found::NotBefore(_) => break None,
                    Found::Never => break Some(false),
                    Found::At(after) => Found::At(after),
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
        self.probe.keep(from, at);
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
        self.block = super::between_calls::Block::new(start, bare);
        self.at = inner;
        self.state = State::Between;
        Flow::Go
    }

    /// Continues with text after a block.
    pub(super) fn resume_prose(&mut self, at: usize) {
        self.at = at;
        self.state = State::Prose;
        self.prose.mode = Mode::Plain;
        self.prose.line_start = false;
        self.prose.line_text = usize::MAX;
    }
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
